"""Rendering: templates with the words and forms that all pages share, tagged so that an unchanged page is not sent."""

import functools
import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flask import Flask, Response, current_app, g, render_template, request, send_from_directory
from markupsafe import Markup, escape
from werkzeug.exceptions import HTTPException

from lib.web.page import filters, session, shown

# The pages of the menu; each session has those that its token may see.
_MENU = (
    ("Now", "/"),
    ("Orders", "/orders"),
    ("Jobs", "/jobs"),
    ("Errors", "/errors"),
    ("Stages", "/stages"),
    ("Schedules", "/schedules"),
    ("Webhooks", "/webhooks"),
    ("Reports", "/reports"),
    ("Money", "/reconciliation"),
    ("Tokens", "/tokens"),
    ("Audit", "/audit"),
    ("Doctor", "/doctor"),
)
# A time with its zone, in a text of the database: "until 2026-11-29 14:19:45Z".
_WRITTEN = re.compile(
    r"(?<![\w.:-])(\d{4}-\d\d-\d\d[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z| UTC|[+-]\d\d(?::?\d\d)?))(?![\w:])",
    re.ASCII,
)
# Pages that are not in the menu, and the page of the menu that leads to each.
_BELOW = {"/limits": "/stages", "/batches": "/jobs", "/operations": "/jobs"}
_STATIC = Path(__file__).parent / "static"
# Stands for the tag in the text that the tag is made of. No other text of a page can be the same: that is escaped.
_TAG = Markup("<ptag>")


def page(template: str, *, status: int = 200, **context: Any) -> Response:
    """Render a page; 304 if the poll that asks for it has the same already."""
    html = render_template(template, ptag=_TAG, **context)
    tag = hashlib.sha256(html.encode()).hexdigest()[:16]
    if status == 200 and request.headers.get("HX-PTag") == tag:
        return Response(status=304)
    response = Response(html.replace(_TAG, tag), status, content_type="text/html; charset=utf-8")
    response.headers["HX-PTag"] = tag
    return response


def configure(app: Flask) -> None:
    """Give templates the filters and functions of this file."""
    app.jinja_env.trim_blocks = app.jinja_env.lstrip_blocks = True
    app.jinja_env.filters.update(time=time, money=money, number=number, duration=duration, counted=counted)
    app.jinja_env.filters.update(plain=shown.plain, json=shown.json_shown, words=words, moments=moments)
    app.jinja_env.globals.update(
        flow_address=shown.flow_address,
        list_address=filters.address,
        asset=asset,
        can=session.can,
        csrf=session.csrf,
        here=filters.here,
        is_current=_is_current,
        is_of_one_tenant=session.is_of_one_tenant,
        navigation=navigation,
    )


def time(value: str | datetime | None, show: str = "") -> Markup:
    """Return a moment as HTML. It reads as UTC; scripts make it local.

    `show`: "minute" without its seconds, of today; with "ago" scripts make it the distance from now, with "left" the
    time that is left. None, and what is no time, is a dash.
    """
    moment = _moment(value)
    if moment is None:
        return Markup("–")
    if show == "minute":
        return Markup('<time datetime="{}">{}</time>').format(f"{moment:%Y-%m-%dT%H:%MZ}", f"{moment:%H:%M} UTC")
    iso, text = moment.strftime("%Y-%m-%dT%H:%M:%SZ"), f"{moment.day} {moment:%b %H:%M:%S} UTC"
    kind = Markup(' data-show="{}"').format(show) if show else ""
    return Markup('<time datetime="{}"{}>{}</time>').format(iso, kind, text)


def moments(text: str | None) -> Markup:
    """Return a text as HTML, isolated as `plain` does; each time in it, as the database writes them, as `time` does."""
    return Markup("<bdi>{}</bdi>").format("–" if text is None else with_times(text))


def with_times(text: str) -> Markup:
    """Return a text as HTML, each time in it as `time` does."""
    parts = _WRITTEN.split(text)
    found = [_written(part) if place % 2 else escape(shown.visible(part)) for place, part in enumerate(parts)]
    return Markup("").join(found)


def _written(text: str) -> Markup:
    moment = _moment(text.replace(" UTC", "Z"))
    return escape(text) if moment is None else time(moment)  # None: the 31st of February


def money(amount: int | None, currency: str) -> Markup:
    """Return an amount in minor units as people read it: $25.00."""
    from lib.giftcards.money import format_money  # Babel, which few pages need

    text = "–" if amount is None else format_money(amount, currency)
    return Markup('<bdi class="money">{}</bdi>').format(text)


def number(value: float | None) -> str:
    """Return a number with its thousands separated; None is a dash."""
    if value is None:
        return "–"
    return f"{value:,.1f}" if value != int(value) else f"{int(value):,}"


def counted(value: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun: 1 job, 2 jobs."""
    return f"{number(value)} {one if value == 1 else many or f'{one}s'}"


def duration(ms: float | None) -> str:
    """Return milliseconds as people read them: 410 ms, 1.9 s, 2 min 5 s."""
    if ms is None:
        return "–"
    if ms < 1000:
        return f"{round(ms)} ms"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:,} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def words(name: str) -> str:
    """Return a name of the code as words: paid_twice is paid twice."""
    return name.replace("_", " ")


def asset(name: str) -> str:
    """Return the address of a static file, which changes with its content: browsers keep it for good."""
    return f"/static/{name}?v={_hash(name)}"


@functools.cache
def _hash(name: str) -> str:
    return hashlib.sha256((_STATIC / name).read_bytes()).hexdigest()[:12]


def static(name: str) -> Response:
    """Return a static file."""
    response = send_from_directory(_STATIC, name)
    if request.args.get("v") == _hash(name):
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
    return response


def navigation() -> list[tuple[str, str]]:
    """Return the pages that the session's token may see; none without a session."""
    if not session.csrf() or "caller" not in g:
        return []
    return [(name, path) for name, path in _MENU if _is_open(path)]


def first_page() -> tuple[str, str]:
    """Return the first page of the menu, by name and address: a token of one tenant does not see the first screen."""
    return next(iter(navigation()), _MENU[0])


def _is_open(path: str) -> bool:
    """Return whether a page exists, and the session's token may see it."""
    try:
        endpoint, _ = current_app.url_map.bind("").match(path, method="GET")
    except HTTPException:
        return False
    declared = vars(current_app.view_functions[endpoint])
    return session.can(declared["scope"]) and not (declared["all_tenants"] and session.is_of_one_tenant())


def _is_current(address: str) -> bool:
    """Return whether the present page is this one of the menu, or below it."""
    path = f"{request.path}/"
    below = (address, *(page for page, menu in _BELOW.items() if menu == address))
    return request.path == address or (address != "/" and any(path.startswith(f"{page}/") for page in below))


def _moment(value: str | datetime | None) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        return moment and moment.astimezone(UTC)
    except (ValueError, OverflowError):  # infinity, and times that Python does not have
        return None

"""Rendering: templates with the words and forms that all pages share, tagged so that an unchanged page is not sent."""

import functools
import hashlib
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flask import Flask, Response, current_app, g, render_template, request, send_from_directory
from markupsafe import Markup
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
_STATIC = Path(__file__).parent / "static"
# A time as the database writes it in its sentences; nothing in it is escaped in HTML.
_TIME = re.compile(r"(?<![\w:.+-])\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ(?!\w)", re.ASCII)
# Stands for the tag in the text that the tag is made of.
_TAG = "{ptag}"


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
    app.jinja_env.filters.update(time=time, timed=timed, money=money, number=number, duration=duration, counted=counted)
    app.jinja_env.filters.update(plain=shown.plain, json=shown.json_shown, words=words)
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


def time(value: str | datetime | None, show: str = "time") -> Markup:
    """Return a moment as HTML. It reads as UTC; scripts make it local, or with `show` "ago" a distance from now.

    None, and what is no time, is a dash.
    """
    moment = _moment(value)
    if moment is None:
        return Markup("–")
    moment = moment.astimezone(UTC)
    iso, text = moment.strftime("%Y-%m-%dT%H:%M:%SZ"), f"{moment.day} {moment:%b %H:%M:%S} UTC"
    return Markup('<time datetime="{}" data-show="{}">{}</time>').format(iso, show, text)


def timed(text: str) -> Markup:
    """Return a text of others as HTML like `shown.plain`, its times as pages show them."""
    escaped = shown.plain(text)
    return Markup(_TIME.sub(lambda found: time(found[0]), escaped))  # noqa: S704 - times alone are replaced


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
    return request.path == address or (address != "/" and request.path.startswith(f"{address}/"))


def _moment(value: str | datetime | None) -> datetime | None:
    if isinstance(value, datetime):
        return value
    try:
        return datetime.fromisoformat(value) if value else None
    except ValueError:  # infinity
        return None

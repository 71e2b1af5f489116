"""The group of limits, and its tables."""

import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, get_args

import click
from flask.cli import with_appcontext

from lib.cli.group import BadInput, command_line, jobs, json_option, output
from lib.cli.known import Word, suggesting
from lib.cli.options import NAME, TEXT, build, option_name, options_of, reason_option, typed_fields
from lib.cli.services import limit_service
from lib.cli.tables import Part, Table, moment
from lib.config import rates
from lib.errors import Invalid, Refused
from lib.jobs.limits import described, label, rate
from lib.jobs.schemas import LimitKind, LimitPage, LimitRemoval, LimitRequest

Json = dict[str, Any]

_SECONDS = {"s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
# Fields of the API whose options have other names, as errors have them.
_FIELDS = {"--per-second": "--rate", "per_second": "--rate", "--for-seconds": "--for", "tenant_id": "--tenant"}
_HELP = {
    "kind": "stage, circuit, tenant or key.",
    "limit": "Maximum number of rows.",
    "older": "Page after this cursor, from the page before.",
    "runs": "The most at once in the whole fleet; 0: none starts.",
    "burst": "With --rate: the most starts at once after a pause.",
    "until": "When it ends by itself, like 2026-01-31T12:00:00Z.",
}

_kind = click.argument("limit_kind", metavar="KIND", type=Word(get_args(LimitKind)))
_name = click.argument("limit_name", metavar="NAME", type=NAME)
_tenant = click.option(
    *("--tenant", "--tenant-id", "tenant_id"),
    type=TEXT,
    help="Of the kinds tenant ('*': each tenant) and key.",
)


@jobs.group()
@with_appcontext
def limits() -> None:
    """Limit how many jobs run at once, and how many start a second: of a stage, a circuit, a tenant in a stage, or a
    concurrency key."""


@limits.command("list")
@options_of(LimitPage, help_texts=_HELP)
@json_option
def list_limits(*, as_json: bool, **options: Any) -> None:
    """List limits with what is in force, also those of the settings, a page at a time."""
    page = build(LimitPage, typed_fields(LimitPage, options))
    output(limit_service().find(page), as_json=as_json, view=lambda found: _page_view(found, page))


@limits.command("set")
@_kind
@_name
@_tenant
@options_of(LimitRequest, skip=("kind", "name", "tenant_id", "reason", "per_second", "for_seconds"), help_texts=_HELP)
@click.option(
    "--rate", "starts", type=TEXT, metavar="10/s", help="The most starts a second (/s), minute (/m), hour (/h)."
)
@click.option("--for", "duration", type=TEXT, metavar="2h", help="How long it holds, like 90s, 30m, 2h or 1d.")
@reason_option
@json_option
def set_limit(
    limit_kind: str, limit_name: str, *, starts: str | None, duration: str | None, as_json: bool, **options: Any
) -> None:
    """Set a limit of a stage, a circuit, a tenant (NAME is the stage) or a concurrency key. What is left out is the
    default; a limit that was set before is replaced."""
    values = options | {"kind": limit_kind, "name": limit_name}
    values |= _rate(starts, burst=options["burst"]) | {"for_seconds": _seconds(duration)}
    given = {name: value for name, value in values.items() if value is not None}
    with _naming_options(), nullcontext() if limit_kind == "key" else suggesting("stage", limit_name):
        done = limit_service().set(build(LimitRequest, given))
    output(done, as_json=as_json, view=_set_view)


@limits.command()
@_kind
@_name
@_tenant
@reason_option
@json_option
def remove(limit_kind: str, limit_name: str, *, as_json: bool, **options: Any) -> None:
    """Remove a limit: the default is in force again."""
    values = {"kind": limit_kind, "name": limit_name} | options
    given = {name: value for name, value in values.items() if value is not None}
    with _naming_options():
        removed = limit_service().remove(build(LimitRemoval, given))
    output(removed, as_json=as_json, view=_removed_view)


@contextmanager
def _naming_options() -> Iterator[None]:
    """Name the options in an error where it has the fields of the API."""
    try:
        yield
    except (BadInput, Invalid, Refused) as error:
        text = str(error)
        named = re.sub("|".join(_FIELDS), lambda found: _FIELDS[found[0]], text)
        if named == text:
            raise
        raise BadInput(named) from error


def _rate(text: str | None, *, burst: int | None) -> dict[str, Any]:
    """Return the rate of a limit: written as in the settings, with a burst of its own or that of --burst."""
    if text is None:
        return {}
    try:
        given = rates.rate(text)
    except ValueError:
        raise BadInput(
            f"--rate: {text[:30]!r} is not a number of starts a second, minute or hour, like 10/s or 30/m"
        ) from None
    if given.burst is not None and burst is not None:
        raise BadInput("--burst: the rate has a burst already")
    return {"per_second": given.per_second, "burst": given.burst if burst is None else burst}


def _seconds(text: str | None) -> int | None:
    if text is None:
        return None
    found = re.fullmatch(r"([0-9]{1,9})(s|m|min|h|d)", text)
    if found is None:
        raise BadInput(f"--for: {text[:30]!r} is not a time like 90s, 30m, 2h or 1d")
    return int(found[1]) * _SECONDS[found[2]]


def _set_view(limit: Json) -> Iterator[Part]:
    until = f" until {moment(limit['until'])}" if limit["until"] else ""
    yield f"{label(limit)}: {described(limit)}{until}; to remove the limit: {_removing(limit)}"
    if limit["runs"] == 0 and not limit["until"]:
        yield "It has no end: give --for or --until for a limit that ends by itself."


def _removed_view(limit: Json) -> Iterator[Part]:
    yield f"{label(limit)}: the limit ({described(limit)}) is removed; what is in force now: flask jobs limits list"


def _removing(limit: Json) -> str:
    words = ["flask", "jobs", "limits", "remove", limit["kind"], limit["name"]]
    return shlex.join(words + (["--tenant", limit["tenant_id"]] if limit["tenant_id"] else []))


def _page_view(found: Json, page: LimitPage) -> Iterator[Part]:
    if not found["limits"]:
        yield "No limit: as many jobs run at once as ticks have room for."
        return
    yield limit_table(found["limits"])
    if found["older"]:
        words = command_line("limits", "list")
        for name, value in page.model_dump(exclude_none=True, exclude={"older"}).items():
            words += [option_name(name), str(value)]
        yield "older: " + shlex.join([*words, "--older", found["older"]])


def limit_table(limits: list[Json]) -> Table:
    """Return the table of limits with what is in force."""
    columns = ("limit", "running", "rate", "left", "until", "by", "reason")
    return Table("Limits that are in force", columns, [_row(limit) for limit in limits])


def _row(limit: Json) -> tuple[Any, ...]:
    force = limit["in_force"]
    most = "any" if force["runs"] is None else force["runs"]
    held = limit["held_until"] and f"held until {moment(limit['held_until'])}"
    left = held or ("" if limit["tokens"] is None else f"{limit['tokens']:g}")
    until = "ended" if limit["state"] == "ended" else moment(limit["until"])
    by = "settings" if limit["state"] == "default" else limit["set_by"]
    return (label(limit), f"{limit['running']} of {most}", rate(force), left, until, by, limit["reason"])

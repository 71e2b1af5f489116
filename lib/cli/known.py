"""Names that must exist: suggestions for the ones that do not, and completion in the shell.

What exists is what the code or the database knows, or the deployment that --url names. A name is looked up only after
it led to nothing. Tenants are not looked up: any name is one.
"""

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click
from click.shell_completion import CompletionItem
from flask.cli import ScriptInfo

from lib.cli.group import BadInput, app_services, deployment_url, use_deployment
from lib.errors import GiftcardError, Invalid, Refused
from lib.jobs.schemas import Filter, Page
from lib.validation.predicates import closest

_MOST = 10
# How long a shell waits for the words of a completion.
_SECONDS = 3.0


def suggestion(name: str, names: Iterable[str]) -> str:
    """Return the closest names as the end of a sentence; without any, the first names."""
    known = sorted(set(names))
    if close := closest(name, known):
        return close
    more = ", …" if len(known) > _MOST else ""
    return f"; known: {', '.join(known[:_MOST])}{more}" if known else ""


class Word(click.Choice[str]):
    """One of a few words, the closest of which the error names."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value not in self.choices:
            self.fail(f"it must be one of {', '.join(self.choices)}{closest(str(value), self.choices)}", param, ctx)
        return str(value)


def require(kind: str, name: str | None, *, option: str) -> None:
    """Refuse a name that does not exist. A token that may not list the names accepts any.

    Raises:
        BadInput: with the closest names.
    """
    if name is None:
        return
    try:
        names = _NAMES[kind]()
    except Refused:  # 403 of the deployment
        return
    if name not in names:
        raise BadInput(f"{option}: there is no {kind} {name}{suggestion(name, names)}")


def require_names(wanted: Filter) -> None:
    """Refuse a filter that matches nothing because no stage or circuit has its name.

    Raises:
        BadInput: with the closest names.
    """
    from lib.cli.services import job_service

    for kind in ("stage", "circuit"):
        name = getattr(wanted, kind)
        if name and not job_service().list_jobs(Filter(**{kind: name}), Page(limit=1))["jobs"]:
            require(kind, name, option=f"--{kind}")


@contextmanager
def suggesting(kind: str, name: str) -> Iterator[None]:
    """Add the closest names to the refusal of a name that does not exist."""
    try:
        yield
    except (Invalid, Refused) as error:
        names: list[str] = []
        with suppress(GiftcardError):
            names = _NAMES[kind]()
        if not names or name in names:
            raise
        raise BadInput(f"{error}{suggestion(name, names)}") from error


def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the completion of a name. It prints nothing, whatever fails, and ends after three seconds."""
    group = ctx.parent.info_name if ctx.parent else ""
    kind = _KINDS.get(f"{group} {param.name}") or _KINDS.get(param.name or "")
    if kind is None:
        return []
    found: list[CompletionItem] = []

    def look() -> None:
        with suppress(BaseException), ctx.scope(cleanup=False):
            use_deployment(ctx)
            with ctx.ensure_object(ScriptInfo).load_app().app_context():
                found.extend(CompletionItem(name) for name in _NAMES[kind]() if name.startswith(incomplete))

    logging.disable()
    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(_SECONDS)
    return found


def _stages() -> list[str]:
    from lib.cli.services import job_service

    names = set(app_services().registry().stages) if deployment_url() is None else set()
    try:
        service = job_service()
        names |= {stage["stage"] for stage in service.stages()["stages"]} | set(service.status()["counts"])
    except GiftcardError:
        if not names:
            raise
    return sorted(names)


def _circuits() -> list[str]:
    """Return the circuits with failures, and those of the stages."""
    from lib.cli.services import job_service
    from lib.jobs.schemas import CircuitPage

    return [row["circuit"] for row in job_service().circuits(CircuitPage(limit=200))["circuits"]] + _stages()


def _schedules(field: str) -> list[str]:
    from lib.cli.services import schedule_service
    from lib.schedules.schemas import ScheduleFilter

    found = schedule_service().find(ScheduleFilter(limit=200))["schedules"]
    return [str(row[field]) for row in found if row[field]]


def _endpoints() -> list[str]:
    from lib.cli.services import webhook_service
    from lib.webhooks.schemas import EndpointPage

    return [str(row["id"]) for row in webhook_service().find(EndpointPage(limit=200))["endpoints"]]


def _tokens() -> list[str]:
    from lib.cli.services import token_service
    from lib.tokens.schemas import TokenPage

    return [row["name"] for row in token_service().find(TokenPage(limit=200))["tokens"]]


def _days() -> list[str]:
    from lib.cli.services import report_service

    return [row["day"] for row in report_service().list_reports(tenant_id=None, older=None, limit=200)["reports"]]


def _actions() -> list[str]:
    from lib.jobs.audit import ACTIONS

    return list(ACTIONS)


_NAMES: dict[str, Callable[[], list[str]]] = {
    "stage": _stages,
    "circuit": _circuits,
    "schedule": lambda: _schedules("name"),
    "schedule id": lambda: _schedules("id"),
    "webhook endpoint": _endpoints,
    "token": _tokens,
    "day": _days,
    "action": _actions,
}

# The kind of name that an option or an argument takes, by its name, or by group and name if that has several meanings.
_KINDS = {
    "stage": "stage",
    "only_stage": "stage",
    "circuit": "circuit",
    "circuits name": "circuit",
    "schedules name": "schedule",
    "schedule_id": "schedule id",
    "endpoint_id": "webhook endpoint",
    "tokens name": "token",
    "day": "day",
    "action": "action",
}

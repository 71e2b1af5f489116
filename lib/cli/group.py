"""The group: where commands work, how they fail, how they answer."""

import getpass
import importlib
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import click
from flask import current_app
from flask.cli import AppGroup

from lib.errors import Conflict, Failure, GiftcardError, Invalid, Refused
from lib.operations import Operations
from lib.telemetry.redact import clean
from lib.web.services import Giftcards, giftcards, operations

if TYPE_CHECKING:
    from lib.api_client.jobs import JobsClient
    from lib.api_client.reports import ReportsClient
    from lib.api_client.schedules import SchedulesClient
    from lib.api_client.transport import Transport
    from lib.api_client.webhooks import WebhooksClient
    from lib.cli.tables import Part
    from lib.schedules.service import Scheduling
    from lib.store.store import Store
    from lib.webhooks.service import Endpoints

L = TypeVar("L")
R = TypeVar("R")

_URL = "lib.cli.url"
# Names that people may try: group and command → the command's name.
_HINTS = {
    ("jobs", "schedule"): "schedules",
    ("jobs", "report"): "reports",
    ("jobs", "webhook"): "webhooks",
    ("schedules", "add"): "create",
    ("schedules", "change"): "update",
    ("reports", "make"): "create",
    ("webhooks", "add"): "create",
    ("webhooks", "set"): "update",
}


class BadInput(click.ClickException):
    """Ends the command with exit code 2."""

    exit_code = 2


class Failed(click.ClickException):
    """Ends the command with exit code 1."""


@contextmanager
def _one_sentence() -> Iterator[None]:
    """What goes wrong inside ends the command with one sentence and an exit code, never with a traceback."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        raise BadInput(_said(_usage(error))) from error
    except (Invalid, Refused, Conflict) as error:
        raise BadInput(_said(error)) from error
    except Failure:
        raise  # a handler's, under GIFTCARD_INLINE: its traceback is what is wanted
    except GiftcardError as error:
        raise Failed(_said(error)) from error


def _load() -> None:
    for name in ("inspect", "manage", "run", "customers", "archive", "schedules", "reports", "webhooks"):
        importlib.import_module(f"lib.cli.{name}")


def _usage(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption) and error.option_name == "--url":
        return "--url belongs to the group: flask jobs --url https://… COMMAND"
    if isinstance(error, click.NoSuchCommand) and error.ctx:
        hint = _HINTS.get((error.ctx.info_name or "", error.command_name))
        if hint:
            return f"there is no command {error.command_name}: use {error.ctx.command_path} {hint}"
    help_of = f" ({error.ctx.command_path} --help tells what there is)" if error.ctx else ""
    return error.format_message().rstrip(".") + help_of


def _said(error: Exception | str) -> str:
    return clean(str(error), secrets=[], limit=1000)


class _Jobs(AppGroup):
    """Its commands are imported when one is asked for: the web application, which has the group too, never does."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        _load()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        _load()
        return super().list_commands(ctx)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _one_sentence():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _one_sentence():
            return super().invoke(ctx)


@click.group("jobs", cls=_Jobs, help="Find, run and mend jobs.")
@click.option(
    "--url",
    envvar="GIFTCARD_URL",
    show_envvar=True,
    metavar="https://…",
    help="Work through the API of this deployment, with the token in GIFTCARD_ADMIN_TOKEN, not on the database.",
)
@click.pass_context
def jobs(ctx: click.Context, *, url: str | None) -> None:
    """See `lib.cli`."""
    # A terminal that knows no arrows and no umlauts is shown something in their place.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    ctx.meta[_URL] = url or None


def url() -> str | None:
    """The deployment to work through; None: directly on the database."""
    found: str | None = click.get_current_context().meta[_URL]
    return found


def parts() -> Giftcards:
    """The application's parts, for what is done here and not through an API."""
    return giftcards(current_app)


def select(local: Callable[[Giftcards], L], remote: "Callable[[Transport], R]") -> L | R:
    """Return the local service, or the client of the deployment that --url names."""
    address, own = url(), parts()
    if address is None:
        return local(own)
    from lib.api_client.transport import Transport

    transport = Transport(address, token=own.settings.giftcard_admin_token)
    click.get_current_context().call_on_close(transport.close)
    return remote(transport)


def job_service() -> "Operations | JobsClient":
    """Return the service for jobs, flows, stages and circuits."""
    from lib.api_client.jobs import JobsClient

    return select(lambda own: operations(current_app, by=person()), JobsClient)


def schedule_service() -> "Scheduling | SchedulesClient":
    """Return the service for schedules and precision."""
    from lib.api_client.schedules import SchedulesClient
    from lib.schedules.service import Scheduling

    return select(lambda own: Scheduling(own.store, own.registry, own.settings, by=person()), SchedulesClient)


def report_service() -> "Store | ReportsClient":
    """Return the service for reports of days."""
    from lib.api_client.reports import ReportsClient

    return select(lambda own: own.store, ReportsClient)


def webhook_service() -> "Endpoints | WebhooksClient":
    """Return the service for webhook endpoints."""
    from lib.api_client.webhooks import WebhooksClient
    from lib.webhooks.service import Endpoints

    return select(lambda own: Endpoints(own.store, own.settings), WebhooksClient)


def here(command: str) -> Operations:
    """Ourselves on the database, for what the API has no door for."""
    if url() is not None:
        raise BadInput(f"{command} works on the database only: leave --url and GIFTCARD_URL out and set DATABASE_URL")
    return operations(current_app, by=person())


def person() -> str:
    """Who types, for the traces that are kept."""
    try:
        return clean(getpass.getuser(), secrets=[], limit=100) or "operator"
    except (OSError, KeyError, ImportError):  # a container's user may have no name
        return "operator"


def as_json(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --json."""
    return click.option("--json", "as_json", is_flag=True, help="For programs: one JSON value and nothing else.")(
        command
    )


def answer(value: Any, *, as_json: bool, view: "Callable[[Any], Iterable[Part]]") -> None:
    """Shows a result: as JSON, or as its view says."""
    if not as_json:
        from lib.cli.tables import show

        show(view(value))
        return
    plain = (sys.stdout.encoding or "ascii").lower().replace("-", "") != "utf8"
    click.echo(json.dumps(value, indent=2, ensure_ascii=plain))

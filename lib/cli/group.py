"""The command group: local services or API clients, errors as one sentence, output."""

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

from lib.errors import Conflict, Failure, Forbidden, GiftcardError, Invalid, Refused
from lib.operations import Operations
from lib.telemetry.redact import clean
from lib.web.services import Services, decisions, operations, services

if TYPE_CHECKING:
    from lib.api_client.jobs import JobsClient
    from lib.api_client.orders import OrdersClient
    from lib.api_client.reports import ReportsClient
    from lib.api_client.schedules import SchedulesClient
    from lib.api_client.transport import Transport
    from lib.api_client.webhooks import WebhooksClient
    from lib.cli.tables import Part
    from lib.giftcards.decisions import Decisions
    from lib.schedules.service import Scheduling
    from lib.store.store import Store
    from lib.webhooks.service import Endpoints

L = TypeVar("L")
R = TypeVar("R")

_MODULES = (
    "inspect",
    "manage",
    "run",
    "orders",
    "customers",
    "archive",
    "schedules",
    "reports",
    "webhooks",
    "channels",
)
_URL = "lib.cli.url"
# Names that people may try: group and command → the command's name.
_HINTS = {
    ("jobs", "schedule"): "schedules",
    ("jobs", "report"): "reports",
    ("jobs", "order"): "orders",
    ("jobs", "reconcile"): "orders reconcile",
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
def _errors_as_sentences() -> Iterator[None]:
    """End the command with one sentence and an exit code instead of a traceback."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except click.UsageError as error:
        raise BadInput(_cleaned(_usage_message(error))) from error
    except (Invalid, Forbidden, Refused, Conflict) as error:
        raise BadInput(_cleaned(error)) from error
    except Failure:
        raise  # of a handler in inline mode: the traceback is wanted
    except GiftcardError as error:
        raise Failed(_cleaned(error)) from error


def _usage_message(error: click.UsageError) -> str:
    if isinstance(error, click.NoSuchOption) and error.option_name == "--url":
        return "--url belongs to the group: flask jobs --url https://… COMMAND"
    if isinstance(error, click.NoSuchCommand) and error.ctx:
        hint = _HINTS.get((error.ctx.info_name or "", error.command_name))
        if hint:
            return f"there is no command {error.command_name}: use {error.ctx.command_path} {hint}"
    see_help = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
    return error.format_message().rstrip(".") + see_help


def _cleaned(error: Exception | str) -> str:
    return clean(str(error), secrets=[], limit=1000)


class _Jobs(AppGroup):
    """Imports its commands when one is used. The web application has the group too and must not pay for them."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        _import_commands()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        _import_commands()
        return super().list_commands(ctx)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _errors_as_sentences():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _errors_as_sentences():
            return super().invoke(ctx)


def _import_commands() -> None:
    for name in _MODULES:
        importlib.import_module(f"lib.cli.{name}")


@click.group("jobs", cls=_Jobs, help="Inspect, run and manage jobs.")
@click.option(
    "--url",
    envvar="GIFTCARD_URL",
    show_envvar=True,
    metavar="https://…",
    help="Use the API of this deployment, with the token in GIFTCARD_ADMIN_TOKEN, instead of the database.",
)
@click.pass_context
def jobs(ctx: click.Context, *, url: str | None) -> None:
    """See `lib.cli`."""
    # Replace what the terminal's encoding lacks, such as arrows and umlauts.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    ctx.meta[_URL] = url or None


def deployment_url() -> str | None:
    """Return the address of the deployment to use; None: the database."""
    url: str | None = click.get_current_context().meta[_URL]
    return url


def command_line(*words: str) -> list[str]:
    """Return the words of a `flask jobs …` command with the same --url."""
    url = deployment_url()
    return ["flask", "jobs", *(["--url", url] if url else []), *words]


def app_services() -> Services:
    """Return the services of the local application."""
    return services(current_app)


def select(local: Callable[[Services], L], remote: "Callable[[Transport], R]") -> L | R:
    """Return the local service, or the client of the deployment that --url names."""
    url, own = deployment_url(), app_services()
    if url is None:
        return local(own)
    from lib.api_client.transport import Transport

    transport = Transport(url, token=own.settings.giftcard_admin_token)
    click.get_current_context().call_on_close(transport.close)
    return remote(transport)


def job_service() -> "Operations | JobsClient":
    """Return the service for jobs, flows, stages and circuits."""
    from lib.api_client.jobs import JobsClient

    return select(lambda own: operations(current_app, by=current_user()), JobsClient)


def order_service() -> "Decisions | OrdersClient":
    """Return the service for decisions about orders."""
    from lib.api_client.orders import OrdersClient

    return select(lambda own: decisions(current_app, by=current_user()), OrdersClient)


def schedule_service() -> "Scheduling | SchedulesClient":
    """Return the service for schedules and precision."""
    from lib.api_client.schedules import SchedulesClient
    from lib.schedules.service import Scheduling

    return select(lambda own: Scheduling(own.store, own.registry, own.settings, by=current_user()), SchedulesClient)


def report_service() -> "Store | ReportsClient":
    """Return the service for reports of days."""
    from lib.api_client.reports import ReportsClient

    return select(lambda own: own.store, ReportsClient)


def webhook_service() -> "Endpoints | WebhooksClient":
    """Return the service for webhook endpoints."""
    from lib.api_client.webhooks import WebhooksClient
    from lib.webhooks.service import Endpoints

    return select(lambda own: Endpoints(own.store, own.settings), WebhooksClient)


def local_service(command: str) -> Operations:
    """Return the service on the database, for a command that the API does not have."""
    if deployment_url() is not None:
        raise BadInput(f"{command} works on the database only: remove --url and GIFTCARD_URL, and set DATABASE_URL")
    return operations(current_app, by=current_user())


def current_user() -> str:
    """Return the name of the operator for audit entries and pauses."""
    try:
        return clean(getpass.getuser(), secrets=[], limit=100) or "operator"
    except (OSError, KeyError, ImportError):  # a container's user may have no name
        return "operator"


def json_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print one JSON value and nothing else.")(command)


def output(value: Any, *, as_json: bool, view: "Callable[[Any], Iterable[Part]]") -> None:
    """Print a result as JSON, or as its view renders it."""
    if not as_json:
        from lib.cli.tables import print_parts

        print_parts(view(value))
        return
    ascii_only = (sys.stdout.encoding or "ascii").lower().replace("-", "") != "utf8"
    click.echo(json.dumps(value, indent=2, ensure_ascii=ascii_only))

"""The command group: --url, errors as one sentence, output."""

import importlib
import io
import json
import os
import platform
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

import click
from flask import current_app
from flask.cli import AppGroup, ScriptInfo

from lib.errors import Conflict, Failure, Forbidden, GiftcardError, Invalid, Refused, SettingsError
from lib.telemetry.redact import clean
from lib.web.services import Services, services

if TYPE_CHECKING:
    from lib.cli.tables import Part

_MODULES = (
    "inspect top manage operations batches run import_orders orders stories customers archive audit keys limits "
    "schedules reports tokens webhooks channels"
).split()
_URL = "lib.cli.url"
_TYPED_URL = "lib.cli.typed_url"


class _Error(click.ClickException):
    """Ends the command with a sentence."""

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the error to standard error; on a terminal, it wraps at words."""
        text, stream = f"Error: {self.message}", file or sys.stderr
        if stream.isatty():
            from lib.cli.layout import columns_of, wrap

            text = "\n".join(wrap(text, columns_of(stream)))
        click.echo(text, file=stream)


class BadInput(_Error):
    """Ends the command with exit code 2."""

    exit_code = 2


class Failed(_Error):
    """Ends the command with exit code 1."""


@contextmanager
def _errors_as_sentences() -> Iterator[None]:
    """End the command with one sentence and an exit code instead of a traceback."""
    try:
        yield
    except click.exceptions.NoArgsIsHelpError:
        raise
    except _Error as error:
        raise type(error)(with_url(cleaned(error.message))) from error.__cause__
    except click.UsageError as error:
        from lib.cli.hints import usage_message

        raise BadInput(cleaned(usage_message(error))) from error
    except (Invalid, Forbidden, Refused, Conflict) as error:
        raise BadInput(with_url(cleaned(error))) from error
    except Failure:
        raise  # of a handler in inline mode: the traceback is wanted
    except SettingsError as error:
        # Of this machine, whatever --url is. It repeats no value, and its examples of URLs are not to be covered.
        raise Failed(str(error)) from error
    except GiftcardError as error:
        raise Failed(with_url(cleaned(error))) from error


def cleaned(error: Exception | str) -> str:
    """Return the sentence of an error, without secrets and personal data."""
    return clean(str(error), secrets=_secrets(), limit=1000)


def _secrets() -> list[str]:
    """Return what no message may repeat: an operator may have pasted it into the wrong place."""
    context = click.get_current_context(silent=True)
    script = context.find_object(ScriptInfo) if context else None
    try:
        return services(script.load_app()).settings.secrets() if script else []
    except Exception:  # noqa: BLE001 - the application does not start, and its own error repeats no value
        return []


class _Help(click.HelpFormatter):
    """Puts descriptions below the names of options where a second column would be too narrow for sentences."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        super().write_dl(rows, col_max if self.width > 60 else 4, col_spacing)


class _Context(click.Context):
    formatter_class = _Help


class _Jobs(AppGroup):
    """Imports its commands when one is used. The web application has the group too and must not pay for them."""

    context_class = _Context

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        _import_commands()
        return super().get_command(ctx, cmd_name)

    def list_commands(self, ctx: click.Context) -> list[str]:
        _import_commands()
        return super().list_commands(ctx)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if "COLUMNS" in os.environ or sys.stdout.isatty():
            from lib.cli.layout import columns_of

            # Click's own width has at least 50 columns, whatever the terminal has. Contexts of commands inherit it.
            extra.setdefault("terminal_width", min(columns_of(sys.stdout), 80) - 2)
        with _errors_as_sentences():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _errors_as_sentences():
            return super().invoke(ctx)


def _import_commands() -> None:
    for name in _MODULES:
        importlib.import_module(f"lib.cli.{name}")
    _set_context_class(jobs)


def _set_context_class(group: click.Group) -> None:
    for command in group.commands.values():
        command.context_class = _Context
        # The whole first sentence: Click would cut it to one line.
        command.short_help = command.short_help or (command.help or "").split("\n\n")[0].partition(". ")[0]
        if isinstance(command, click.Group):
            _set_context_class(command)


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from lib.store.store import CODE_VERSION, OLDEST_SCHEMA, VERSION

        schema = f"code version {CODE_VERSION}, for schemas from version {OLDEST_SCHEMA} on"
        click.echo(f"gift-card jobs {VERSION}: {schema}; Python {platform.python_version()}")
        ctx.exit()


@click.group("jobs", cls=_Jobs, help="Inspect, run and manage jobs.")
@click.option(
    "--url",
    envvar="GIFTCARD_URL",
    show_envvar=True,
    metavar="https://…",
    help="Use the API of this deployment, with the token in GIFTCARD_ADMIN_TOKEN, instead of the database.",
)
@click.option(
    *("--version", "is_version"),
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the versions of this code, without a database, and exit.",
)
@click.pass_context
def jobs(ctx: click.Context, *, url: str | None) -> None:
    """See `lib.cli`."""
    # Replace what the terminal's encoding lacks, such as arrows and umlauts.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    ctx.meta[_URL] = url or None
    ctx.meta[_TYPED_URL] = url if ctx.get_parameter_source("url") is click.core.ParameterSource.COMMANDLINE else None


def deployment_url() -> str | None:
    """Return the address of the deployment to use; None: the database."""
    url: str | None = click.get_current_context().meta[_URL]
    return url


def use_deployment(ctx: click.Context) -> None:
    """Set the deployment where no command is invoked, as in the completion of a shell."""
    while ctx.command is not jobs and ctx.parent:
        ctx = ctx.parent
    ctx.meta[_URL] = ctx.params.get("url") or None


def with_url(text: str) -> str:
    """Return a text whose `flask jobs …` commands have the --url that was typed. GIFTCARD_URL needs no repetition."""
    context = click.get_current_context(silent=True)
    url = context.meta.get(_TYPED_URL) if context else None
    return re.sub(r"\bflask jobs (?!--url)", lambda _: f"flask jobs --url {shlex.quote(url)} ", text) if url else text


def command_line(*words: str) -> list[str]:
    """Return the words of a `flask jobs …` command. What prints it adds --url."""
    return ["flask", "jobs", *words]


def app_services() -> Services:
    """Return the services of the local application."""
    return services(current_app)


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

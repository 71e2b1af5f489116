"""The group of tokens, and its tables. A token is only ever printed, once: a command line is seen by others."""

import re
import shlex
from collections.abc import Iterator
from typing import Any, get_args

import click
from flask.cli import with_appcontext

from lib.cli.group import BadInput, Failed, command_line, jobs, json_option, output
from lib.cli.known import suggesting, suggestion
from lib.cli.options import NAME, TEXT, build, options_of, typed_fields, yes_option
from lib.cli.prompts import confirm
from lib.cli.services import token_service
from lib.cli.tables import Part, Table, moment
from lib.errors import Unavailable
from lib.tokens.schemas import Scope, TokenPage, TokenRequest

Json = dict[str, Any]

_SECONDS = {"d": 86_400, "h": 3_600}
_SCOPES = get_args(Scope)
_name = click.argument("name", type=NAME)


@jobs.group()
@with_appcontext
def tokens() -> None:
    """Manage the tokens of the API. docs/api.md lists what each scope allows."""


@tokens.command()
@_name
@click.option(
    *("--scope", "--scopes", "scopes"),
    type=TEXT,
    multiple=True,
    help=f"One of {', '.join(_SCOPES)}; repeat it for each scope.",
)
@click.option("--tenant", "--tenant-id", "tenant_id", type=TEXT, help="Its only tenant (default: all tenants).")
@click.option("--expires", type=TEXT, metavar="90d", help="Days or hours until it expires (default: never).")
@json_option
def create(name: str, *, scopes: tuple[str, ...], tenant_id: str | None, expires: str | None, as_json: bool) -> None:
    """Create a token and print it, this once."""
    unknown = [scope for scope in scopes if scope not in _SCOPES]
    if unknown or not scopes:
        close = suggestion(unknown[0], _SCOPES) if unknown else ""
        raise BadInput(f"--scope must be one of {', '.join(_SCOPES)}, or several of these{close}")
    values = {"name": name, "scopes": list(scopes), "tenant_id": tenant_id, "expires_seconds": _seconds(expires)}
    wanted = build(TokenRequest, values)
    try:
        created = token_service().create(wanted)
    except Unavailable as error:
        raise Failed(f"{error}; if it is listed, revoke it and create another one: flask jobs tokens list") from error
    output(created, as_json=as_json, view=_token_view)


@tokens.command("list")
@options_of(TokenPage, skip=("older",))
@click.option("--older", type=TEXT, help="Page after this id, from the page before.")
@json_option
def list_tokens(*, as_json: bool, **options: Any) -> None:
    """List tokens, the newest first, a page at a time."""
    page = build(TokenPage, typed_fields(TokenPage, options))
    output(token_service().find(page), as_json=as_json, view=lambda found: _page_view(found, page))


@tokens.command()
@_name
@yes_option
@json_option
def revoke(name: str, *, yes: bool, as_json: bool) -> None:
    """Revoke a token for good."""
    confirm(f"Revoke the token {name}? Its clients are rejected at once.", yes=yes)
    with suggesting("token", name):
        done = token_service().revoke(name)
    output(done, as_json=as_json, view=lambda done: [f"token {done['name']} is revoked"])


def _seconds(expires: str | None) -> int | None:
    if expires is None:
        return None
    if not re.fullmatch("[0-9]{1,6}[dh]", expires):
        raise BadInput(f"--expires: {expires[:30]!r} is not a number of days or hours, like 90d or 12h")
    return int(expires[:-1]) * _SECONDS[expires[-1]]


def _page_view(found: Json, page: TokenPage) -> Iterator[Part]:
    if not found["tokens"]:
        yield "No token; those of the environment are not listed."
        return
    columns = ("id", "name", "token", "tenant", "scopes", "state", "expires at", "last used at")
    rows = [
        (
            *(token["id"], token["name"], f"{token['prefix']}…", _tenant(token), " ".join(token["scopes"])),
            *(token["state"], moment(token["expires_at"]), moment(token["last_used_at"])),
        )
        for token in found["tokens"]
    ]
    yield Table("Tokens, the newest first", columns, rows)
    if found["older"]:
        words = command_line("tokens", "list", "--limit", str(page.limit), "--older", str(found["older"]))
        yield f"older: {shlex.join(words)}"


def _tenant(token: Json) -> str:
    return "all tenants" if token["tenant_id"] is None else str(token["tenant_id"])


def _token_view(token: Json) -> Iterator[Part]:
    rows = [("tenant", _tenant(token)), ("scopes", " ".join(token["scopes"]))]
    rows += [("expires at", moment(token["expires_at"]) or "never")]
    yield Table(f"Token {token['name']}", ("", ""), rows)
    yield f"Token, store it now, it is not printed again: {token['token']}"

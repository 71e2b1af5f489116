"""Webhook endpoints: addresses of tenants that are told of events."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from flask.cli import with_appcontext

from lib.cli.group import BadInput, answer, as_json, jobs, url, webhook_service
from lib.cli.options import ID, TEXT, given, made, options_of
from lib.cli.prompts import sure
from lib.cli.tables import Part, Table, moment
from lib.webhooks.schemas import EndpointPage, EndpointPatch, EndpointRequest, RotateRequest

Json = dict[str, Any]

_PATH = "/api/v1/webhook-endpoints"


_endpoint = click.argument("endpoint_id", metavar="ID", type=ID)
_events = click.option(
    "--event", "--events", "events", type=TEXT, multiple=True, help="Tell it of this; give it for each event."
)


@contextmanager
def _named(address: str) -> Iterator[None]:
    """What is wrong with an address is said of the word that it was typed as: --url is the group's."""
    try:
        yield
    except BadInput as error:
        raise BadInput(error.message.replace("--url:", f"{address}:", 1)) from None


@jobs.group()
@with_appcontext
def webhooks() -> None:
    """Addresses of tenants that are told of events. docs/webhooks.md lists the events."""


@webhooks.command("list")
@options_of(EndpointPage, skip=("older",))
@click.option("--older", type=TEXT, help="The page behind this id, which the page before it gave.")
@as_json
def list_endpoints(*, as_json: bool, **typed: Any) -> None:
    """Endpoints, the newest first. A page at a time."""
    page = made(EndpointPage, given(EndpointPage, typed))
    answer(webhook_service().find(page), as_json=as_json, view=lambda found: _list(found, page))


@webhooks.command()
@_endpoint
@as_json
def show(endpoint_id: int, *, as_json: bool) -> None:
    """One endpoint. Its secret is never shown again."""
    answer(webhook_service().show(endpoint_id), as_json=as_json, view=_shown)


@webhooks.command()
@click.argument("address", metavar="URL", type=TEXT)
@_events
@click.option("--tenant", "--tenant-id", "tenant_id", type=TEXT, help="Of this tenant.")
@click.option("--off", is_flag=True, help="Not told of anything until it is turned on.")
@as_json
def create(address: str, *, events: tuple[str, ...], tenant_id: str | None, off: bool, as_json: bool) -> None:
    """Add an endpoint. Its secret is shown once, now."""
    typed = {"url": address, "events": list(events), "enabled": not off}
    with _named("URL"):
        wanted = made(EndpointRequest, typed | ({} if tenant_id is None else {"tenant_id": tenant_id}))
    answer(webhook_service().create(wanted), as_json=as_json, view=_shown)


@webhooks.command()
@_endpoint
@click.option("--address", "address", metavar="URL", type=TEXT, help="Tell it at this address from now on.")
@_events
@click.option("--on/--off", "enabled", default=None, help="Whether it is told of anything.")
@as_json
def update(
    endpoint_id: int, *, address: str | None, events: tuple[str, ...], enabled: bool | None, as_json: bool
) -> None:
    """Change an endpoint: its address, the events it is told of, on or off."""
    with _named("--address"):
        wanted = made(EndpointPatch, {"url": address, "events": list(events) or None, "enabled": enabled})
    answer(webhook_service().change(endpoint_id, wanted), as_json=as_json, view=_shown)


@webhooks.command("rotate-secret")
@_endpoint
@click.option("--former-hours", type=TEXT, help="So long the secret before it signs too (24).")
@as_json
def rotate(endpoint_id: int, *, former_hours: str | None, as_json: bool) -> None:
    """Give an endpoint another secret. It is shown once, now."""
    wanted = made(RotateRequest, {} if former_hours is None else {"former_hours": former_hours})
    answer(webhook_service().rotate(endpoint_id, wanted), as_json=as_json, view=_shown)


@webhooks.command("test")
@_endpoint
@as_json
def send_test(endpoint_id: int, *, as_json: bool) -> None:
    """Send an endpoint a test event with the next tick."""
    answer(webhook_service().test(endpoint_id), as_json=as_json, view=_sent)


@webhooks.command()
@_endpoint
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
def delete(endpoint_id: int, *, yes: bool, as_json: bool) -> None:
    """Remove an endpoint for good."""
    with_ = webhook_service()
    sure(f"Remove the webhook endpoint {with_.show(endpoint_id)['url']}?", yes=yes)
    answer(with_.delete(endpoint_id), as_json=as_json, view=_deleted)


def _list(found: Json, page: EndpointPage) -> Iterator[Part]:
    if not found["endpoints"]:
        yield "No webhook endpoint."
        return
    rows = [
        (e["id"], e["tenant_id"], e["url"], " ".join(e["events"]), _on(e), moment(e["created_at"]))
        for e in found["endpoints"]
    ]
    yield Table("Webhook endpoints, the newest first", ("id", "tenant", "address", "events", "", "made at"), rows)
    if found["older"]:
        where = url()
        words = ["flask", "jobs", *(["--url", where] if where else []), "webhooks", "list"]
        words += ["--limit", str(page.limit), "--older", str(found["older"])]
        yield "older: " + shlex.join(words + (["--tenant", page.tenant_id] if page.tenant_id else []))


def _on(endpoint: Json) -> str:
    return "on" if endpoint["enabled"] else f"off: {endpoint['disabled_reason']}"


def _shown(endpoint: Json) -> Iterator[Part]:
    rows = [(name, endpoint[name]) for name in ("tenant_id", "url")]
    rows += [("events", " ".join(endpoint["events"])), ("told", _on(endpoint))]
    rows += [(name, moment(endpoint[name])) for name in ("created_at", "updated_at")]
    yield Table(f"Webhook endpoint {endpoint['id']}", ("", ""), rows)
    if endpoint["previous_secret_until"]:
        yield f"The secret before this one signs too until {moment(endpoint['previous_secret_until'])}."
    if "secret" in endpoint:
        yield f"Its secret, which is never shown again: {endpoint['secret']}"
        yield f"To try it: flask jobs webhooks test {endpoint['id']}"


def _sent(done: Json) -> Iterator[Part]:
    yield f"job {done['job_id']} tells it of {done['event_id']} with the next tick: flask jobs show {done['job_id']}"


def _deleted(done: Json) -> Iterator[Part]:
    yield f"webhook endpoint {done['id']} is gone; webhooks that wait for it are cancelled when their turn comes"

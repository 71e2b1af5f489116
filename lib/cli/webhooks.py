"""The group of webhook endpoints, and its tables."""

import shlex
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click
from flask.cli import with_appcontext

from lib.cli import messages
from lib.cli.group import BadInput, Failed, command_line, jobs, json_option, output
from lib.cli.options import ID, NAME, TEXT, build, options_of, typed_fields, yes_option
from lib.cli.prompts import confirm
from lib.cli.services import webhook_service
from lib.cli.tables import Part, Table, moment
from lib.errors import Unavailable
from lib.web.request_data import IDEMPOTENCY_KEY
from lib.webhooks.schemas import EndpointPage, EndpointPatch, EndpointRequest, RotateRequest

Json = dict[str, Any]

_endpoint_id = click.argument("endpoint_id", metavar="ID", type=ID)
_events_option = click.option(
    "--event", "--events", "events", type=TEXT, multiple=True, help="Event to send; repeat it for each event."
)


_key_option = click.option(
    "--idempotency-key", "key", type=NAME, help="Key of an earlier call whose response was lost: returns its result."
)


@contextmanager
def _repeatable(key: str | None) -> Iterator[str]:
    """Yield the key of a call. If its response is lost, the error has the key: with it, the same command is safe."""
    key = str(uuid.uuid4()) if key is None else key
    if not IDEMPOTENCY_KEY.fullmatch(key):
        raise BadInput("--idempotency-key: 1 to 255 visible ASCII characters")
    try:
        yield key
    except Unavailable as error:
        raise Failed(f"{error}; to get the result, add --idempotency-key {key} to the same command") from error


@contextmanager
def _url_errors_as(name: str) -> Iterator[None]:
    """Name the address as it was typed in errors: --url is the group's option."""
    try:
        yield
    except BadInput as error:
        raise BadInput(error.message.replace("--url ", f"{name} ", 1)) from None


@jobs.group()
@with_appcontext
def webhooks() -> None:
    """Manage the endpoints of tenants that receive events. docs/webhooks.md lists the events."""


@webhooks.command("list")
@options_of(EndpointPage, skip=("older",))
@click.option("--older", type=TEXT, help="Page after this id, from the page before.")
@json_option
def list_endpoints(*, as_json: bool, **options: Any) -> None:
    """List endpoints, the newest first, a page at a time."""
    page = build(EndpointPage, typed_fields(EndpointPage, options))
    output(webhook_service().find(page), as_json=as_json, view=lambda found: _page_view(found, page))


@webhooks.command()
@_endpoint_id
@json_option
def show(endpoint_id: int, *, as_json: bool) -> None:
    """Show an endpoint, without its secret."""
    output(webhook_service().show(endpoint_id), as_json=as_json, view=_endpoint_view)


@webhooks.command()
@click.argument("address", metavar="URL", type=TEXT)
@_events_option
@click.option("--tenant", "--tenant-id", "tenant_id", type=TEXT, help="Tenant (default).")
@click.option("--off", is_flag=True, help="Send no events until it is turned on.")
@_key_option
@json_option
def create(
    address: str, *, events: tuple[str, ...], tenant_id: str | None, off: bool, key: str | None, as_json: bool
) -> None:
    """Create an endpoint and print its secret, this once."""
    values = {"url": address, "events": list(events), "enabled": not off}
    with _url_errors_as("URL"):
        wanted = build(EndpointRequest, values | ({} if tenant_id is None else {"tenant_id": tenant_id}))
    with _repeatable(key) as key:
        created = webhook_service().create(wanted, idempotency_key=key)
    output(created, as_json=as_json, view=_endpoint_view)


@webhooks.command()
@_endpoint_id
@click.option("--address", "address", metavar="URL", type=TEXT, help="New address.")
@_events_option
@click.option("--on/--off", "enabled", default=None, help="Whether events are sent.")
@json_option
def update(
    endpoint_id: int, *, address: str | None, events: tuple[str, ...], enabled: bool | None, as_json: bool
) -> None:
    """Update an endpoint: its address, its events, on or off."""
    with _url_errors_as("--address"):
        patch = build(EndpointPatch, {"url": address, "events": list(events) or None, "enabled": enabled})
    output(webhook_service().update(endpoint_id, patch), as_json=as_json, view=_endpoint_view)


@webhooks.command("rotate-secret")
@_endpoint_id
@click.option("--former-hours", type=TEXT, help="Hours in which the previous secret also signs (24).")
@_key_option
@json_option
def rotate_secret(endpoint_id: int, *, former_hours: str | None, key: str | None, as_json: bool) -> None:
    """Replace the secret of an endpoint and print the new one, this once."""
    wanted = build(RotateRequest, {} if former_hours is None else {"former_hours": former_hours})
    with _repeatable(key) as key:
        rotated = webhook_service().rotate(endpoint_id, wanted, idempotency_key=key)
    output(rotated, as_json=as_json, view=_endpoint_view)


@webhooks.command("test")
@_endpoint_id
@json_option
def send_test(endpoint_id: int, *, as_json: bool) -> None:
    """Send a test event with the next tick."""
    output(webhook_service().test(endpoint_id), as_json=as_json, view=messages.test_event_enqueued)


@webhooks.command()
@_endpoint_id
@yes_option
@json_option
def delete(endpoint_id: int, *, yes: bool, as_json: bool) -> None:
    """Delete an endpoint for good."""
    service = webhook_service()
    confirm(f"Delete the webhook endpoint {service.show(endpoint_id)['url']}?", yes=yes)
    output(service.delete(endpoint_id), as_json=as_json, view=messages.endpoint_deleted)


def _page_view(found: Json, page: EndpointPage) -> Iterator[Part]:
    if not found["endpoints"]:
        yield "No webhook endpoint."
        return
    rows = [
        (e["id"], e["tenant_id"], e["url"], " ".join(e["events"]), _state(e), moment(e["created_at"]))
        for e in found["endpoints"]
    ]
    yield Table(
        "Webhook endpoints, the newest first", ("id", "tenant", "address", "events", "state", "created at"), rows
    )
    if found["older"]:
        words = command_line("webhooks", "list", "--limit", str(page.limit), "--older", str(found["older"]))
        yield "older: " + shlex.join(words + (["--tenant", page.tenant_id] if page.tenant_id else []))


def _state(endpoint: Json) -> str:
    return "on" if endpoint["enabled"] else f"off: {endpoint['disabled_reason']}"


def _endpoint_view(endpoint: Json) -> Iterator[Part]:
    rows = [(name, endpoint[name]) for name in ("tenant_id", "url")]
    rows += [("events", " ".join(endpoint["events"])), ("state", _state(endpoint))]
    rows += [(name, moment(endpoint[name])) for name in ("created_at", "updated_at")]
    yield Table(f"Webhook endpoint {endpoint['id']}", ("", ""), rows)
    if endpoint["previous_secret_until"]:
        yield f"The previous secret also signs until {moment(endpoint['previous_secret_until'])}."
    if "secret" in endpoint:
        yield f"Secret, store it now, it is not printed again: {endpoint['secret']}"
        yield f"to test it: flask jobs webhooks test {endpoint['id']}"

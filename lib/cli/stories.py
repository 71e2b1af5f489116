"""find and story, of the group of orders."""

import shlex
from collections.abc import Iterator
from typing import Any

import click

from lib.cli import books
from lib.cli.group import command_line, json_option, output
from lib.cli.options import NAME, build, options_of, reveal_option, typed_fields
from lib.cli.orders import order_argument, order_ids, orders
from lib.cli.services import story_service
from lib.cli.tables import Part, Table, moment
from lib.giftcards.schemas import OrderSearch

Json = dict[str, Any]

_HELP = {"tenant_id": "Only this tenant.", "limit": "Maximum number of orders (50)."}
_MASKED = "Recipients are masked: --reveal shows them and records the access in the audit log."


@orders.command()
@click.argument("text", type=NAME)
@options_of(OrderSearch, skip=("text", "reveal"), help_texts=_HELP)
@reveal_option
@json_option
def find(*, reveal: bool, as_json: bool, **options: Any) -> None:
    """Find orders, the newest first.

    TEXT is a correlation id or its beginning, a mail address, a personal code, the last four digits of a card, or the
    reference of a payment. A search that finds orders by an address is recorded in the audit log.
    """
    wanted = build(OrderSearch, typed_fields(OrderSearch, options | {"reveal": reveal}))
    output(story_service().find(wanted), as_json=as_json, view=lambda found: _found(found, reveal=reveal))


@orders.command()
@order_argument
@reveal_option
@json_option
def story(correlation_id: str, *, tenant_id: str, reveal: bool, as_json: bool) -> None:
    """Show everything that happened to an order, by time, and what it waits for."""
    found = story_service().story(*order_ids(tenant_id, correlation_id), reveal=reveal)
    output(found, as_json=as_json, view=lambda found: _story(found, reveal=reveal))


def _found(found: Json, *, reveal: bool) -> Iterator[Part]:
    if not found["orders"]:
        yield "No order matches."
        return
    columns = ("order", "tenant", "taken in", "amount", "state", "card", "recipient", "found by")
    rows = [
        (
            order["correlation_id"],
            order["tenant_id"],
            moment(order["created_at"]),
            books.money(order["amount"], order["currency"]),
            order["state"],
            f"…{order['card']['last4']} {order['card']['state']}" if order["card"] else "none",
            _recipient(order["recipient"]),
            ", ".join(order["matched"]),
        )
        for order in found["orders"]
    ]
    yield Table(f"Orders, the newest first ({len(rows)})", columns, rows)
    if found["more"]:
        yield "There are more: give more of what you know."
    if not reveal:
        yield _MASKED
    first = found["orders"][0]
    words = ["orders", "story", first["correlation_id"], "--tenant", first["tenant_id"]]
    yield f"the story of one: {shlex.join(command_line(*words))}"


def _recipient(recipient: Json | None) -> str:
    if recipient is None:
        return "erased"
    return " ".join(filter(None, (recipient["given_name"], recipient["family_name"], recipient["email"])))


def _story(found: Json, *, reveal: bool) -> Iterator[Part]:
    title = f"Order {found['correlation_id']} (tenant {found['tenant_id']})"
    if found["order"]:
        yield f"{title}, recipient: {_recipient(found['recipient'])}"
    else:
        yield f"{title}: no order was taken in"
    rows = [(moment(event["at"]), event["level"], event["text"]) for event in found["events"]]
    yield Table("What happened, and what it waits for", ("at", "level", "event"), rows)
    if found["more"]:
        yield f"only the newest are listed: there are more {' and '.join(found['more'])}"
    if not reveal:
        yield _MASKED

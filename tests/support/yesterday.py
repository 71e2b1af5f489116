"""Yesterday, for tests of its report: orders, payments and cards in a tenant's books."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from tests.support import books
from tests.support.factory import NOON, World

TODAY = NOON.date()
YESTERDAY = TODAY - timedelta(days=1)
MIDNIGHT = datetime(TODAY.year, TODAY.month, TODAY.day, tzinfo=UTC)
MOMENT = timedelta(microseconds=1)


@pytest.fixture
def world(world: World) -> World:
    """It is yesterday noon, and somebody's session is far from UTC."""
    world.run("set local time zone 'Pacific/Auckland'")
    world.now = NOON - timedelta(days=1)
    return world


def order(world: World, flow: str = "order-1", *, at: datetime | None = None, **more: Any) -> None:
    row = {"tenant_id": "default", "amount": 2500, "currency": "USD", "created_at": at or world.now} | more
    world.run(
        "insert into giftcard_orders (tenant_id, correlation_id, body_hash, amount, currency, created_at)"
        " values (%s, %s, 'hash', %s, %s, %s)",
        *(row["tenant_id"], flow, row["amount"], row["currency"], row["created_at"]),
    )


def pay(world: World, flow: str = "order-1", *, amount: int = 2500, tenant_id: str = "default") -> None:
    """Pays an order: the one that is there, or one over this amount."""
    books.take(world, flow, amount=amount, tenant=tenant_id)
    books.pay(world, flow, tenant=tenant_id)


def issue(world: World, flow: str = "order-1", *, amount: int = 2500, tenant_id: str = "default") -> None:
    """Issues the card of an order, which is paid before that."""
    pay(world, flow, amount=amount, tenant_id=tenant_id)
    books.issue(world, flow, tenant=tenant_id)


def report(world: World, day: date | None = YESTERDAY, *, tenant_id: str = "default", at: datetime = NOON) -> Any:
    world.now = at
    return world.call("make_report", tenant_id=tenant_id, day=day)

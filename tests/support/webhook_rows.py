"""Endpoints and cards, put straight into the database; webhooks, read there."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, get_args

import psycopg

from lib.webhooks.schemas import Event
from tests.support import books
from tests.support.factory import World


def endpoint(world: World, *events: str, tenant_id: str = "default", enabled: bool = True) -> int:
    """An endpoint that is told of these, or of everything."""
    made = world.call(
        "create_webhook_endpoint",
        tenant_id=tenant_id,
        url=f"https://example.com/{len(world.rows('select from giftcard_webhook_endpoints'))}",
        events=events or get_args(Event),
        enabled=enabled,
        secret_encrypted="sealed",
    )
    return int(made["id"])


def a_card(world: World, correlation_id: str) -> None:
    """The card of an order that is taken in and paid."""
    books.take(world, correlation_id)
    books.pay(world, correlation_id)
    books.issue(world, correlation_id)


def told(world: World) -> list[tuple[str, str]]:
    """Event and endpoint of each webhook, in order."""
    return [
        (json.loads(row["payload"]["body"])["type"], row["circuit"])
        for row in world.rows(
            "select * from giftcard_jobs where stage = 'webhook' and trigger_type = 'event' order by id"
        )
    ]


def body(world: World, event: str) -> dict[str, Any]:
    """The one message of this kind."""
    rows = world.rows("select payload ->> 'body' as body from giftcard_jobs where stage = 'webhook'")
    (found,) = [message for row in rows if (message := json.loads(row["body"]))["type"] == event]
    return dict(found)


@contextmanager
def seen_waiting(what: Callable[[], Any], *, at: World, holder: World, url: str) -> Iterator[None]:
    """Starts it on a thread; goes on once it is seen waiting for a lock of the holder, and ends with it."""
    thread = threading.Thread(target=what)
    thread.start()
    pids = (holder.connection.info.backend_pid, at.connection.info.backend_pid)
    ends = time.monotonic() + 10
    with psycopg.connect(url, autocommit=True) as watcher:
        while not watcher.execute("select 1 where %s = any(pg_blocking_pids(%s))", pids).fetchone():
            assert thread.is_alive(), "it did not wait"
            assert time.monotonic() < ends, "it never waited"
            time.sleep(0.005)
    yield
    thread.join()

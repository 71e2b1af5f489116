"""Orders below the least amount of their currency are refused, whichever way they come in."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from lib.giftcards.order_files.file import open_orders
from lib.giftcards.order_files.importing import Importer
from lib.giftcards.order_files.own import OwnColumns
from tests.support.queues import Queues
from tests.support.world import World, an_order

Make = Callable[..., World]

LEAST = {"GIFTCARD_LEAST_AMOUNTS": "USD:500,EUR:1000", "GIFTCARD_PGMQ_QUEUES": "orders:customer_ingest"}
TOO_LITTLE = "$4.99 is too little: an order has at least $5.00"


def money(amount: int, currency: str = "USD") -> dict[str, Any]:
    return {"amount": {"amount": amount, "currency": currency}}


def orders(world: World) -> list[int]:
    return [row["amount"] for row in world.sql("select amount from giftcard_orders order by amount")]


def test_the_api_refuses_the_field_and_takes_the_least_amount(make_world: Make) -> None:
    world = make_world(**LEAST)
    refused = world.submit(an_order(**money(499)))
    assert refused.status_code == 422
    assert refused.json is not None
    assert (refused.json["field"], refused.json["detail"]) == ("amount.amount", TOO_LITTLE)
    assert world.submit(an_order(**money(999, "EUR"))).status_code == 422
    for least in (money(500), money(1000, "EUR"), money(1, "JPY")):
        assert world.submit(an_order(**least)).status_code == 202
    assert orders(world) == [1, 500, 1000]


def test_by_default_there_is_no_least_amount(world: World) -> None:
    assert world.submit(an_order(**money(1))).status_code == 202


def test_an_order_that_was_taken_in_before_is_still_the_same_order(make_world: Make) -> None:
    before = make_world()
    body = an_order(**money(1), correlation_id="order-1")
    assert before.submit(body).status_code == 202
    world = make_world(**LEAST)
    assert world.submit(body).status_code == 202
    world.drain()
    assert set(world.statuses()) == {"completed"}


def test_a_line_of_a_file_is_refused_and_the_others_are_taken(make_world: Make) -> None:
    world = make_world(**LEAST)
    lines = [
        "correlation_id,external_id,given_name,family_name,email,amount,currency,message,deliver_at\n",
        "a,1,Kate,,kate@example.com,4.99,USD,,\n",
        "b,2,Ben,,ben@example.com,5.00,USD,,\n",
    ]
    importer = Importer(store=world.store, registry=world.registry, settings=world.settings)
    outcome = importer.run(open_orders("".join(lines).encode(), OwnColumns()))
    too_little = "amount is too little: an order has at least $5.00"
    assert (outcome.created, outcome.wrong) == (1, [{"line": 2, "problem": too_little}])
    assert orders(world) == [500]


@pytest.mark.parametrize("stage", ["customer_ingest", "payment"])
def test_a_flow_by_plain_sql_is_refused_where_its_order_would_be_taken_in(make_world: Make, stage: str) -> None:
    world = make_world(**LEAST)
    job = world.run_job(stage, an_order(**money(499)))
    assert (job["status"], job["last_error"]) == ("error", f"PermanentError: {TOO_LITTLE}")
    assert orders(world) == []


def test_a_message_is_refused_in_the_same_way(make_world: Make, connection: psycopg.Connection[Any]) -> None:
    queues = Queues(connection)
    queues.create("orders")
    queues.send("orders", an_order(**money(499)))
    world = make_world(**LEAST)
    world.drain()
    assert world.job()["last_error"] == f"PermanentError: {TOO_LITTLE}"
    assert orders(world) == []

"""docs/webhooks.md tells every event with a body as it is sent."""

import json
from typing import Any, get_args

import psycopg
import pytest

from lib.job import Complete
from lib.webhooks.schemas import Event
from tests.support.cases import CASES
from tests.support.factory import World
from tests.support.pages import fenced, named, rows
from tests.support.webhook_rows import a_card, endpoint

EXAMPLES = {body["type"]: body for body in map(json.loads, fenced("webhooks", language="json"))}


def test_every_event_is_told_with_an_example() -> None:
    told = {
        named(cells[0])[0] for cells in rows("webhooks", columns=2) if named(cells[0]) and "." in named(cells[0])[0]
    }
    assert set(get_args(Event)) == {
        name for name in told if not name.startswith(("customer.", "payment.", "gift_card"))
    }
    assert set(EXAMPLES) == {*get_args(Event), "webhook.test"}


def test_events_of_the_api_are_those_of_the_table(connection: psycopg.Connection[Any]) -> None:
    query = "select pg_get_constraintdef(oid) from pg_constraint where conname = %s"
    row = connection.execute(query, ["giftcard_webhook_endpoints_events_are_known"]).fetchone()
    assert row
    assert set(get_args(Event)) == {word for word in row[0].split("'") if "." in word}


@pytest.fixture
def sent(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    """Each kind of body, as it is made."""
    world = World(connection)
    world.call("test_webhook_endpoint", endpoint_id=endpoint(world))
    a_card(world, "order-4711")
    for stage in ("issue_card", "email"):
        world.completed(stage, correlation_id="order-4711")
    world.dead_letter("payment", correlation_id="order-4711", revive=60)
    world.call("make_report", tenant_id="default", day="2034-12-31")
    world.settled(Complete(context={"day": "2034-12-31"}), "report")
    found = world.rows("select payload ->> 'body' as body from giftcard_jobs where stage = 'webhook'")
    return {body["type"]: body for body in (json.loads(row["body"]) for row in found)}


def shape(value: Any) -> Any:
    """Names and kinds, without what is in them; null may stand for anything."""
    if isinstance(value, dict):
        return {name: shape(inner) for name, inner in value.items()}
    return "time" if isinstance(value, str) and value[:2] == "20" and "T" in value else type(value).__name__


def test_bodies_are_as_the_page_shows_them(sent: dict[str, Any]) -> None:
    for name, example in EXAMPLES.items():
        body = sent[name]
        assert list(body) == list(example)
        assert list(body["data"]) == list(example["data"]), name
        assert shape(body) == shape(example), name


def test_page_tells_which_answers_are_permanent() -> None:
    (told,) = (cells[0] for cells in rows("webhooks", columns=2) if cells[1] == "a dead letter at once, not revived")
    assert {*map(int, told.split(", ")), 410} == set(CASES["http_status"]["permanent"])

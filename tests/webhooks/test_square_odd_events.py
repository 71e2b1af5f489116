"""A signed event is 202 and kept, whatever stands in any of its fields: Square would send it again for a day."""

import copy
import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support import square
from tests.support.world import World

pytestmark = pytest.mark.slow

ODD: list[Any] = [None, [], [None], {}, {"a": None}, "", "5", "x\x00", "\u2028", 0, -1, 10**30, 1.5, True, [[[]]]]
EVENTS = {
    "customer": square.customer(),
    "payment": square.payment(),
    "refund": square.refund(),
    "dispute": square.dispute(),
    "card": square.gift_card(5),
    "activity": square.activity(5),
    "unknown": square.event("catalog.version.updated", object={"catalog": {"a": 1}}),
}
BODIES = [b"", b"{}", b"null", b"[]", b"5", b"{", b"\xff", b'{"a": 1, "a": 2}', b"[" * 5000, b'{"data": null}', b"NaN"]


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world(**square.SETTINGS)


def paths(value: Any, *above: str) -> Iterator[tuple[str, ...]]:
    """Where the fields of an event are."""
    for name, inner in value.items():
        yield (*above, name)
        if isinstance(inner, dict):
            yield from paths(inner, *above, name)


def changed(event: Any, path: tuple[str, ...], *value: Any) -> Any:
    """The event with another value there, or without that field."""
    event = copy.deepcopy(event) | {"event_id": str(uuid.uuid4())}
    part = event
    for name in path[:-1]:
        part = part[name]
    del part[path[-1]]
    return event if not value else (part.update({path[-1]: value[0]}) or event)


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_any_field_may_be_anything(world: World, event: Any) -> None:
    sent = 0
    for path in paths(event):
        for value in [(), *((odd,) for odd in ODD)]:
            answer = square.send(world, changed(event, path, *value))
            assert answer.status_code == 202, (path, value, answer.text)
            sent += not answer.json["repeated"]
    kept = square.events_of(world)
    assert len(kept) == sent
    assert "kate@example.com" not in json.dumps(kept, default=str)


@pytest.mark.parametrize("body", BODIES, ids=lambda body: body[:12].decode(errors="replace"))
def test_any_body_is_kept_once_with_the_reason(
    world: World, log: Callable[[], list[dict[str, Any]]], body: bytes
) -> None:
    assert [square.send(world, body).json["repeated"] for _ in range(2)] == [False, True]
    ((kind, why),) = square.became(world)
    assert kind == "ignored"
    assert why is not None
    assert why.startswith("not as expected: ")
    (line,) = [line for line in log() if line["event"] == "webhook_refused"]
    assert line["error"] == why


def test_id_and_type_of_an_odd_event_are_kept_and_its_content_is_not(world: World) -> None:
    event = square.customer() | {"data": None}
    square.send(world, event)
    (kept,) = square.events_of(world)
    assert (kept["event_id"], kept["type"]) == (event["event_id"], "customer.created")
    assert square.became(world) == [("ignored", "not as expected: data")]

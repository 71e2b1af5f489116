"""The door that Square sends to: its signature, once for good, one call of the database."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest

from lib.store.postgres import PostgresWire
from tests.support.square import KEY, SETTINGS, URL, customer, event, events_of, payment, send, signature, taken
from tests.support.world import World, a_world

Make = Callable[..., World]


@pytest.fixture
def world(make_world: Make) -> World:
    return make_world(**SETTINGS)


def nothing_was_done(world: World) -> bool:
    return events_of(world) == [] and world.statuses() == {}


def test_signature_that_square_made_fits(make_world: Make) -> None:
    """An event of theirs, with the key that it was signed with: what their own libraries are tested with."""
    url = "https://webhook.site/679a4f3a-dcfa-49ee-bac5-9d0edad886b9"
    body = b'{"merchant_id":"MLEFBHHSJGVHD","type":"webhooks.test_notification",'
    body += b'"event_id":"ac3ac95b-f97d-458c-a6e6-18981597e05f","created_at":"2022-07-13T20:30:59.037339943Z",'
    body += b'"data":{"type":"webhooks","id":"bc368e64-01aa-407e-b46e-3231809b1129"}}'
    theirs = {"SQUARE_WEBHOOK_SIGNATURE_KEY": "Ibxx_5AKakO-3qeNVR61Dw", "SQUARE_MERCHANT_ID": "MLEFBHHSJGVHD"}
    world = make_world(SQUARE_WEBHOOK_URL=url, **theirs)
    answer = send(world, body, signed="GF4YkrJgGBDZ9NIYbNXBnMzqb2HoL4RW/S6vkZ9/2N4=")
    assert (answer.status_code, answer.json["kind"]) == (202, "unknown")


@pytest.mark.parametrize(
    "signed",
    [
        "",
        "nonsense",
        "é\x80ü",
        signature(json.dumps(customer()).encode()),
        "A" * 5_000,
    ],
    ids=["none", "nonsense", "not ascii", "of another body", "long"],
)  # fmt: skip
def test_signature_that_does_not_fit_is_refused(world: World, signed: str) -> None:
    answer = send(world, customer(), signed=signed)
    assert (answer.status_code, answer.json["title"]) == (403, "the signature does not match")
    assert nothing_was_done(world)


def test_each_changed_byte_of_a_body_is_noticed(world: World) -> None:
    body = json.dumps(payment()).encode()
    fits = signature(body)
    for place in range(len(body)):
        changed = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
        assert send(world, changed, signed=fits).status_code in (403, 429), place
    assert send(world, body + b" ", signed=fits).status_code in (403, 429)
    assert nothing_was_done(world)


@pytest.mark.parametrize(("key", "url"), [(f"{KEY}x", URL), (KEY, f"{URL}/"), (KEY, URL.replace("https", "http"))])
def test_signature_for_another_address_or_by_another_key_does_not_fit(world: World, key: str, url: str) -> None:
    body = json.dumps(customer()).encode()
    assert send(world, body, signed=signature(body, key=key, url=url)).status_code == 403


@pytest.mark.parametrize("missing", SETTINGS)
def test_door_without_its_setting_is_shut(make_world: Make, missing: str) -> None:
    world = make_world(GIFTCARD_PAYMENT_PROVIDER="square", **SETTINGS | {missing: None})
    answer = send(world, customer())
    assert (answer.status_code, answer.json["title"]) == (503, "endpoint disabled")
    assert missing in answer.json["detail"]
    assert nothing_was_done(world)


@pytest.mark.parametrize("missing", ["SQUARE_MERCHANT_ID", "SQUARE_LOCATION_ID"])
def test_door_is_open_without_them_while_no_order_waits_for_square(make_world: Make, missing: str) -> None:
    world = make_world(**SETTINGS | {missing: None})
    assert taken(world, payment())["kind"] == "payment"


def test_replay_does_nothing(world: World) -> None:
    sent = customer()
    assert taken(world, sent) == {"kind": "job", "repeated": False}
    for _ in range(2):
        assert taken(world, sent) == {"kind": "job", "repeated": True}
    assert (len(events_of(world)), world.statuses()) == (1, {"queued": 1})
    # Not after years either, when its job has long been pruned.
    world.sql("delete from giftcard_jobs")
    world.sql("update giftcard_inbound_events set received_at = '2020-01-01Z'")
    assert taken(world, sent)["repeated"]
    assert world.statuses() == {}


def test_two_deliveries_at_once_are_one(world: World) -> None:
    sent = customer()
    for _ in range(5):
        sent["event_id"] = customer()["event_id"]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: taken(world, dict(sent)), range(4)))
        assert sorted(one["repeated"] for one in found) == [False, True, True, True]
    assert world.statuses() == {"queued": 5}


def test_event_of_an_unknown_type_is_answered_and_counted(world: World, log: Callable[[], list[Any]]) -> None:
    sent = event("invoice.paid", object={"invoice": {"id": "inv:1"}})
    assert taken(world, sent) == {"kind": "unknown", "repeated": False}
    (kept,) = events_of(world)
    assert (kept["type"], kept["kind"], kept["facts"]) == ("invoice.paid", "unknown", {})
    (line,) = [line for line in log() if line["event"] == "webhook_received"]
    assert (line["source"], line["type"], line["kind"], line["repeated"]) == (
        "square",
        "invoice.paid",
        "unknown",
        False,
    )
    assert world.statuses() == {}


class Counting(PostgresWire):
    """The wire, with the names of what was called."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.called: list[str] = []

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        self.called.append(function)
        return super().call(function, repeat=repeat, **arguments)


@pytest.mark.parametrize("sent", [customer(), payment(), event("a.b", object={})], ids=lambda sent: str(sent["type"]))
def test_event_takes_one_call_of_the_database(database_url: str, sent: dict[str, Any]) -> None:
    wire = Counting(database_url)
    with a_world(database_url, wire=wire, **SETTINGS) as world:
        taken(world, sent)
    assert wire.called == ["giftcard_receive_event"]


def test_body_that_is_too_large_is_refused_also_when_it_is_signed(world: World) -> None:
    answer = send(world, b" " * 300_000)
    assert (answer.status_code, answer.content_type) == (413, "application/problem+json")
    assert nothing_was_done(world)


def test_nothing_is_taken_in_while_the_database_is_away(make_world: Make) -> None:
    world = make_world(**SETTINGS | {"DATABASE_URL": "postgresql://nobody@127.0.0.1:1/none"})
    assert send(world, customer()).status_code == 503


def test_what_is_kept_of_events_holds_nothing_of_the_person(world: World, log: Callable[[], list[Any]]) -> None:
    for sent in (customer(), payment(), customer(email_address=None), customer(given_name="Kate\x00")):
        taken(world, sent)
    kept = str(events_of(world)) + str(log())
    assert not any(text in kept for text in ("kate@", "Kate", "Rodgers"))


def test_event_id_is_each_sources_own(connection: psycopg.Connection[Any]) -> None:
    take = "select giftcard_receive_event(%s, 'id-1', 'x', 'default', '{}') ->> 'repeated'"
    assert [connection.execute(take, [source]).fetchone() for source in ("square", "other", "square")] == [
        ("false",), ("false",), ("true",),
    ]  # fmt: skip

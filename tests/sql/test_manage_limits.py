"""Limits as rows: set, removed, and gone by themselves after their end."""

from datetime import timedelta

import psycopg
import pytest

from lib.job import Complete
from tests.support.factory import Row, World
from tests.support.race import Race

HOUR = 3600.0
PAYMENT = {"kind": "stage", "name": "payment"}


def limits(world: World) -> list[Row]:
    found: list[Row] = world.call("list_limits")["limits"]
    return found


# Set


def test_a_limit_is_set_and_set_anew(world: World) -> None:
    first = world.call("set_limit", **PAYMENT, runs=2, reason="the vendor asked", by="kim")
    kept = ("kind", "name", "tenant_id", "runs", "per_second", "burst", "until", "set_by", "reason")
    assert tuple(first[n] for n in kept) == ("stage", "payment", None, 2, None, None, None, "kim", "the vendor asked")
    world.later(60)
    again = world.call("set_limit", **PAYMENT, per_second=0.5, burst=3, by="lee", for_seconds=HOUR)
    assert tuple(again[name] for name in ("runs", "per_second", "burst", "set_by", "reason")) == (
        *(None, 0.5, 3, "lee"),
        None,
    )
    assert world.now is not None
    (row,) = world.rows("select until, updated_at from giftcard_limits")
    assert row == {"until": world.now + timedelta(hours=1), "updated_at": world.now}
    acts = world.rows("select by, action, subject, details from giftcard_audit order by id")
    assert [(act["by"], act["action"], act["subject"]) for act in acts] == [
        ("kim", "set_limit", "limit stage payment"),
        ("lee", "set_limit", "limit stage payment"),
    ]
    assert acts[1]["details"]["was"] == {"runs": 2}


def test_names_are_cleaned_as_identifiers_are(world: World) -> None:
    world.call("set_limit", kind="key", name=" customer-7 ", tenant_id=" acme ", runs=3)
    (row,) = world.rows("select name, tenant_id from giftcard_limits")
    assert row == {"name": "customer-7", "tenant_id": "acme"}
    (act,) = world.rows("select tenant_id, subject from giftcard_audit")
    assert act == {"tenant_id": "acme", "subject": "limit key acme customer-7"}


WRONG = [
    ({"kind": "colour"}, "kind"),
    ({"kind": None}, "kind"),
    ({"name": ""}, "name"),
    ({"name": "  "}, "name"),
    ({"name": "x" * 301}, "name"),
    ({"name": "pay\x07ment"}, "name"),
    ({"tenant_id": "acme"}, "tenant_id"),
    ({"kind": "circuit", "tenant_id": "acme"}, "tenant_id"),
    ({"kind": "tenant"}, "tenant_id"),
    ({"kind": "tenant", "tenant_id": "x" * 201}, "tenant_id"),
    ({"kind": "tenant", "tenant_id": "a\u2028b"}, "tenant_id"),
    ({"kind": "key"}, "tenant_id"),
    ({"kind": "key", "tenant_id": "*"}, "tenant_id"),
    ({"runs": None}, "runs"),
    ({"runs": -1}, "runs"),
    ({"runs": 10_001}, "runs"),
    ({"per_second": 0}, "per_second"),
    ({"per_second": -1}, "per_second"),
    ({"per_second": 1e-300}, "per_second"),
    ({"per_second": float("nan")}, "per_second"),
    ({"per_second": float("inf")}, "per_second"),
    ({"burst": 5}, "burst"),
    ({"per_second": 1, "burst": 0}, "burst"),
    ({"per_second": 1, "burst": 100_001}, "burst"),
    ({"until": "2035-01-01T12:00:00Z"}, "until"),
    ({"until": "infinity"}, "until"),
    ({"until": "2036-01-01T12:00:00Z", "for_seconds": 60}, "for_seconds"),
    ({"for_seconds": 0}, "for_seconds"),
    ({"for_seconds": 1e300}, "for_seconds"),
]


@pytest.mark.parametrize(("change", "field"), WRONG, ids=str)
def test_what_no_limit_is_is_refused_with_its_field(world: World, change: Row, field: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        world.call("set_limit", **(PAYMENT | {"runs": 2} | change))
    assert (caught.value.sqlstate, caught.value.diag.message_detail) == ("GC400", field)
    assert world.rows("select from giftcard_limits union all select from giftcard_audit") == []


# Remove


def test_a_limit_is_removed_once(world: World) -> None:
    world.call("set_limit", **PAYMENT, runs=0)
    assert world.call("remove_limit", **PAYMENT, reason="all is well", by="kim")["runs"] == 0
    assert limits(world) == []
    (act,) = world.rows("select by, action, subject, details from giftcard_audit where action = 'remove_limit'")
    assert (act["by"], act["subject"], act["details"]) == (
        *("kim", "limit stage payment"),
        {"runs": 0, "reason": "all is well"},
    )
    with pytest.raises(psycopg.Error, match="there is no limit stage payment") as caught:
        world.call("remove_limit", **PAYMENT)
    assert (caught.value.sqlstate, caught.value.diag.message_detail) == ("GC404", "name")
    with pytest.raises(psycopg.Error) as caught:
        world.call("remove_limit", kind="tenant", name="payment")
    assert (caught.value.sqlstate, caught.value.diag.message_detail) == ("GC400", "tenant_id")


# Their end


def test_ended_limits_leave_and_others_stay(world: World) -> None:
    world.call("set_limit", **PAYMENT, runs=0, for_seconds=60)
    world.call("set_limit", kind="stage", name="email", runs=1)
    world.later(59)
    prune(world)
    assert [row["name"] for row in limits(world)] == ["email", "payment"]
    world.later(1)
    prune(world)
    assert [row["name"] for row in limits(world)] == ["email"]
    # To end by itself is no act.
    assert len(world.rows("select from giftcard_audit")) == 2


def test_free_places_of_keys_without_a_limit_leave(world: World) -> None:
    job = world.claimed(tenant_id="acme")
    ended = world.claimed(tenant_id="acme")
    world.settle(ended, Complete())
    world.call("set_limit", kind="tenant", name="email", tenant_id="acme", runs=2)
    slots = {
        ("key acme running", 1): job,
        ("key acme ended", 1): ended,
        ("tenant email acme", 2): ended,
        ("tenant email blue", 1): ended,
        ("circuit http_call:a", 1): ended,
        ("stage email", 1): ended,
    }
    for (key, number), of in slots.items():
        world.run("insert into giftcard_slots values (%s, %s, %s, %s)", key, number, of.id, of.lease_id)
    prune(world)
    left = [row["key"] for row in world.rows("select key from giftcard_slots order by key")]
    assert left == ["key acme running", "stage email", "tenant email acme"]


def test_rates_leave_an_hour_after_they_are_whole(world: World) -> None:
    assert world.now is not None
    hour = timedelta(hours=1)
    for key, full, held in (("a", -hour, -hour), ("b", -hour, hour), ("c", hour, -hour), ("d", -hour / 2, -hour)):
        world.run("insert into giftcard_rates values (%s, %s, %s)", key, world.now + full, world.now + held)
    prune(world)
    assert [row["key"] for row in world.rows("select key from giftcard_rates order by key")] == ["b", "c", "d"]


def test_pruning_goes_on_while_there_is_more(world: World) -> None:
    world.run("insert into giftcard_slots select 'key acme ' || i, 1 from generate_series(1, 5) i")
    assert [prune(world, limit=2)["done"] for _ in range(3)] == [False, False, True]
    assert world.rows("select from giftcard_slots") == []


def prune(world: World, *, limit: int = 500) -> Row:
    answer: Row = world.call("prune", limit=limit, dry_run=False)
    return answer


def test_a_slot_that_a_claim_holds_meanwhile_stays(world: World, race: Race) -> None:
    """Its row is locked while the claim is open: pruning passes over it and does not wait."""
    world.run("insert into giftcard_slots values ('tenant email acme', 1)")
    world.connection.commit()
    with race.first.connection.transaction():
        race.first.run("select from giftcard_slots where n = 1 for update")
        assert race.second.call("prune", limit=500, dry_run=False)["done"] is True
        assert race.second.rows("select n from giftcard_slots") == [{"n": 1}]
    assert race.second.call("prune", limit=500, dry_run=False)["done"] is True
    assert race.second.rows("select n from giftcard_slots") == []


@pytest.mark.parametrize(("key", "kept"), [("kate@example.com", "[email]"), ("4111111111111111", "[number]")])
def test_the_audit_keeps_no_address_that_is_a_key(world: World, key: str, kept: str) -> None:
    named = {"kind": "key", "name": key, "tenant_id": "acme"}
    world.call("set_limit", **named, runs=2)
    world.call("remove_limit", **named)
    subjects = [row["subject"] for row in world.rows("select subject from giftcard_audit")]
    assert subjects == [f"limit key acme {kept}"] * 2

"""What is shown of limits: what is in force, what runs, what a rate has left; pages, status, metrics, the doctor."""

from datetime import timedelta
from typing import Any

import psycopg
import pytest

from lib.job import Complete
from tests.support.factory import Row, World

PAYMENT = {"kind": "stage", "name": "payment"}


def limits(world: World, **page: Any) -> list[Row]:
    found: list[Row] = world.call("list_limits", **page)["limits"]
    return found


def in_force(row: Row) -> tuple[Any, ...]:
    return tuple(row["in_force"][name] for name in ("runs", "per_second", "burst"))


def test_a_limit_is_above_the_default_of_the_settings(world: World) -> None:
    world.begin(limits={"email": 4, "payment": {"runs": 2, "per_second": 10, "burst": 20}})
    world.call("set_limit", **PAYMENT, runs=1)
    email, payment = limits(world)
    assert (email["name"], email["state"], email["runs"], in_force(email)) == (
        "email",
        "default",
        None,
        (4, None, None),
    )
    assert (payment["state"], payment["runs"], payment["default"]["runs"]) == ("active", 1, 2)
    assert in_force(payment) == (1, 10, 20)
    world.call("set_limit", **PAYMENT, per_second=2.5)
    assert in_force(limits(world)[1]) == (2, 2.5, 3)


def test_an_ended_limit_is_shown_as_ended_with_the_default_in_force(world: World) -> None:
    world.begin(limits={"payment": 2})
    world.call("set_limit", **PAYMENT, runs=0, for_seconds=60)
    assert in_force(limits(world)[0])[0] == 0
    world.later(60)
    (row,) = limits(world)
    assert (row["state"], in_force(row)[0]) == ("ended", 2)


def test_a_tenants_own_limit_is_instead_of_that_of_each_and_a_key_falls_back_to_one_run(world: World) -> None:
    world.call("set_limit", kind="tenant", name="email", tenant_id="*", runs=5)
    world.call("set_limit", kind="tenant", name="email", tenant_id="acme", per_second=2, burst=2)
    world.call("set_limit", kind="key", name="c-7", tenant_id="acme", per_second=1)
    key, each, acme = limits(world)
    assert (in_force(key), in_force(each), in_force(acme)) == ((1, 1, 1), (5, None, None), (None, 2, 2))
    assert (key["tokens"], each["tokens"], acme["tokens"]) == (1, None, 2)


def test_what_runs_is_counted_for_each_kind(world: World) -> None:
    for tenant, amount in (("acme", 2), ("blue", 1)):
        for number in range(amount):
            world.claimed("http_call", tenant_id=tenant, circuit="http_call:a.example", correlation_id=f"{number}")
    world.run("update giftcard_jobs set concurrency_key = 'c-7' where tenant_id = 'acme' and correlation_id = '1'")
    over = world.claimed("http_call", tenant_id="acme")
    world.settle(over, Complete())
    # Its function was killed: its place is free.
    late = world.claimed("http_call", tenant_id="acme")
    world.end_lease(late.id)
    for kind, name, tenant in (
        ("circuit", "http_call:a.example", ""),
        ("key", "c-7", "acme"),
        ("stage", "http_call", ""),
        ("tenant", "http_call", "*"),
        ("tenant", "http_call", "acme"),
        ("tenant", "http_call", "none"),
    ):
        world.call("set_limit", kind=kind, name=name, tenant_id=tenant, runs=9)
    assert [row["running"] for row in limits(world)] == [3, 1, 3, 2, 2, 0]


def test_the_state_of_a_rate_is_shown(world: World) -> None:
    assert world.now is not None
    world.call("set_limit", **PAYMENT, per_second=2, burst=10)
    world.run(
        "insert into giftcard_rates values ('stage payment', %s, %s)",
        *(world.now + timedelta(seconds=1.5), world.now + timedelta(seconds=30)),
    )
    (row,) = limits(world)
    assert (row["tokens"], row["held_until"]) == (7, "2035-01-01T12:00:30+00:00")
    world.later(30)
    (row,) = limits(world)
    assert (row["tokens"], row["held_until"]) == (10, None)


def test_pages_of_limits_are_the_list(world: World) -> None:
    world.begin(limits=dict.fromkeys(("email", "payment", "webhook"), 1))
    world.call("set_limit", **PAYMENT, runs=3)
    for tenant in ("*", "acme", "blue"):
        world.call("set_limit", kind="tenant", name="email", tenant_id=tenant, runs=3)
    world.call("set_limit", kind="circuit", name='http_call:a,b"]', runs=3)
    whole, older, pages = limits(world), None, []
    while True:
        page = world.call("list_limits", limit=2, older=older)
        pages += page["limits"]
        older = page["older"]
        if older is None:
            break
        assert len(page["limits"]) == 2
    assert pages == whole
    names = [(row["kind"], row["name"], row["tenant_id"]) for row in whole]
    assert (len(names), names) == (7, sorted(names, key=lambda key: (key[0], key[1], key[2] or "")))
    assert [row["name"] for row in limits(world, kind="stage")] == ["email", "payment", "webhook"]


@pytest.mark.parametrize("older", ["x", "7", "[]", '["stage", "a"]', '["stage", "a", null]', "{}"])
def test_a_cursor_that_no_page_gave_is_refused(world: World, older: str) -> None:
    with pytest.raises(psycopg.Error) as caught:
        world.call("list_limits", older=older)
    assert (caught.value.sqlstate, caught.value.diag.message_detail) == ("GC400", "older")


@pytest.mark.parametrize("odd", ['"x"', "[1]", '{"payment": "x"}', '{"payment": {"runs": "x"}}', '{"payment": 1e300}'])
def test_limits_of_a_tick_that_are_none_hang_no_list(world: World, odd: str) -> None:
    world.begin()
    world.run("update giftcard_ticks set limits = %s::jsonb", odd)
    assert all(in_force(row)[0] in (None, 10_000) for row in limits(world))


# Status, metrics, doctor


def test_status_metrics_and_the_doctor_have_limits(world: World) -> None:
    world.begin(limits={"email": 4})
    world.call("set_limit", **PAYMENT, runs=0, by="kim", reason="a pause")
    world.call("set_limit", kind="key", name="c-7", tenant_id="acme", runs=2)
    world.call("set_limit", kind="tenant", name="emial", tenant_id="acme", runs=0, for_seconds=60)
    assert [row["name"] for row in world.call("status")["limits"]] == ["c-7", "email", "payment", "emial"]
    found = [(row["kind"], row["name"], row["tenant"], row["runs"]) for row in world.call("metrics")["limits"]]
    assert found == [("stage", "email", "", 4), ("stage", "payment", "", 0), ("tenant", "emial", "acme", 0)]
    facts = world.call("doctor")["limits"]
    assert facts["stages"] == {"payment": "stage payment", "emial": "tenant emial acme"}
    assert [(row["name"], row["by"], row["reason"]) for row in facts["stopped"]] == [("payment", "kim", "a pause")]

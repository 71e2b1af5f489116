"""A vendor that decides later: the job waits, uses no attempt, and nothing happens twice."""

from collections.abc import Callable
from typing import Any

import pytest

from dev.testing.vendors import Vendor
from tests.support.world import World, an_order

Make = Callable[..., World]

NUMBER = "9911000000000008"
PENDING = (202, {"id": "x_1", "status": "pending"})
HOUR = 3600


@pytest.fixture(params=["payment", "issue_card"])
def stage(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def done(stage: str) -> tuple[int, dict[str, Any]]:
    """What the vendor of this stage answers in the end."""
    return 200, {"id": "x_1", "status": "succeeded"} | ({"number": NUMBER} if stage == "issue_card" else {})


@pytest.fixture
def make(make_world: Make, vendor: Vendor, stage: str) -> Make:
    """Makes a world in which this stage calls the vendor, with or without lookups."""
    kind = "PAYMENT" if stage == "payment" else "CARD"

    def world(*, lookup: bool) -> World:
        named = {"PROVIDER": "http", "URL": f"{vendor.url}/things?account=1", "LOOKUP": int(lookup)}
        world = make_world(GIFTCARD_CIRCUIT_THRESHOLD=1, **{f"GIFTCARD_{kind}_{n}": v for n, v in named.items()})
        assert world.submit(an_order(correlation_id="order-1")).status_code == 202
        return world

    return world


def tick(world: World, stage: str) -> dict[str, Any]:
    world.tick()
    return world.job(stage=stage)


def waits(job: dict[str, Any]) -> bool:
    """It is queued, and neither failed nor lost an attempt."""
    shown = (job["status"], job["attempts"], job["last_error"].endswith("service to decide"))
    return shown == ("queued", 0, True)


def keys(vendor: Vendor) -> set[str]:
    return {request.headers["Idempotency-Key"] for request in vendor.requests if request.method == "POST"}


def asked(vendor: Vendor) -> list[str]:
    return [request.method for request in vendor.requests]


def lines(world: World) -> list[str]:
    return [row["kind"] for row in world.sql("select kind from giftcard_reconcile(p_verify => true) order by kind")]


@pytest.mark.parametrize("status", ["pending", "Processing", "AUTHORIZED", "approved"])
def test_without_lookups_the_request_is_repeated_under_its_key(
    make: Make, vendor: Vendor, stage: str, done: Any, status: str
) -> None:
    world = make(lookup=False)
    vendor.respond(*[(202, {"status": status})] * 7, done)
    for _ in range(7):  # more often than a job has attempts
        assert waits(tick(world, stage))
        world.move(61)
    assert tick(world, stage)["status"] == "completed"
    assert (asked(vendor), len(keys(vendor))) == (["POST"] * 8, 1)
    assert lines(world) == []


def test_with_lookups_the_present_decision_is_asked_for(make: Make, vendor: Vendor, stage: str, done: Any) -> None:
    world = make(lookup=True)
    vendor.respond(PENDING, PENDING, PENDING, 404, PENDING, done)
    for _ in range(2):
        assert waits(tick(world, stage))
        world.move(61)
    assert tick(world, stage)["status"] == "completed"
    assert asked(vendor) == ["POST", "GET"] * 3
    assert len(keys(vendor)) == 1
    (key,) = keys(vendor)
    # The address keeps its own query.
    assert {r.path for r in vendor.requests} == {"/things?account=1", f"/things?account=1&idempotency_key={key}"}


@pytest.mark.parametrize("hours", [19, 21, 500])
def test_what_is_pending_for_long_is_looked_up_and_completes_without_a_second_request(
    make: Make, vendor: Vendor, stage: str, done: Any, hours: int
) -> None:
    world = make(lookup=True)
    vendor.default = PENDING
    assert waits(tick(world, stage))
    world.move(hours * HOUR)
    assert waits(tick(world, stage))
    world.move(61)
    vendor.default = done
    assert tick(world, stage)["status"] == "completed"
    assert len(keys(vendor)) == 1
    assert asked(vendor).count("POST") == (1 if hours > 20 else 3)


def test_what_is_pending_for_long_without_lookups_is_decided_by_an_operator(
    make: Make, vendor: Vendor, stage: str
) -> None:
    world = make(lookup=False)
    vendor.default = PENDING
    assert waits(tick(world, stage))
    world.move(21 * HOUR)
    job = tick(world, stage)
    assert (job["status"], job["last_error"].startswith("Outcome unknown: ")) == ("error", True)
    assert asked(vendor) == ["POST"]
    unknown = "charge_unknown" if stage == "payment" else "issue_unknown"
    assert unknown in lines(world)


@pytest.mark.parametrize("found", ["by the next request", "by the first", "after the key has expired"])
def test_a_refusal_after_the_wait_is_a_decline(make: Make, vendor: Vendor, stage: str, done: Any, found: str) -> None:
    world = make(lookup=True)
    refused = (200, {"id": "x_1", "status": "declined"})
    vendor.respond(PENDING, refused if found == "by the first" else PENDING)
    vendor.default = refused
    if found != "by the first":
        assert waits(tick(world, stage))
        world.move(61 if found == "by the next request" else 21 * HOUR)
    job = tick(world, stage)
    assert job["last_error"].startswith("Declined: ")
    vendor.default = done
    world.requeue(job["id"])
    assert tick(world, stage)["status"] == "completed"
    assert len(keys(vendor)) == 2


def test_a_lookup_that_is_refused_decides_nothing(make: Make, vendor: Vendor, stage: str, done: Any) -> None:
    world = make(lookup=True)
    vendor.respond(PENDING, 400)
    job = tick(world, stage)
    assert (job["status"], job["attempts"]) == ("queued", 1)
    assert job["last_error"].endswith("answered 400 to a lookup")


# A request that is rejected: whether an earlier one had an effect


def test_a_request_that_is_rejected_at_once_had_no_effect(make: Make, vendor: Vendor, stage: str, done: Any) -> None:
    world = make(lookup=False)
    vendor.respond(422)
    job = tick(world, stage)
    assert (job["status"], job["last_error"].endswith("answered 422")) == ("error", True)
    assert not {"charge_unknown", "issue_unknown"} & set(lines(world))
    vendor.default = done
    world.requeue(job["id"])
    assert tick(world, stage)["status"] == "completed"
    assert len(keys(vendor)) == 2


@pytest.mark.parametrize("happened", [True, False])
def test_a_repeated_request_that_is_rejected_is_looked_up(
    make: Make, vendor: Vendor, stage: str, done: Any, happened: bool
) -> None:
    world = make(lookup=True)
    vendor.respond("cut", 400, done if happened else 404)
    assert tick(world, stage)["status"] == "queued"
    world.move(61)
    assert tick(world, stage)["status"] == ("completed" if happened else "error")
    assert not {"charge_unknown", "issue_unknown"} & set(lines(world))


def test_a_repeated_request_that_is_rejected_is_unknown_without_lookups(make: Make, vendor: Vendor, stage: str) -> None:
    world = make(lookup=False)
    vendor.respond("cut", 400)
    tick(world, stage)
    world.move(61)
    job = tick(world, stage)
    assert (job["status"], job["last_error"].startswith("Outcome unknown: ")) == ("error", True)
    assert {"charge_unknown", "issue_unknown"} & set(lines(world))

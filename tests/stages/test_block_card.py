"""A card that is not paid for any more is blocked where it was issued, once, whatever comes in between."""

from collections.abc import Callable
from typing import Any

import pytest

from dev.testing.vendors import Vendor
from tests.support.world import World, an_order

Make = Callable[..., World]

NUMBER = "9911000000000008"
ISSUED = (201, {"id": "card/1", "number": NUMBER})
BLOCK = "/cards/card%2F1/block"
REFUND_MEANWHILE = """
    create function refund_meanwhile() returns trigger language plpgsql as $$ begin
      perform public.giftcard_record_payment_event('default', provider, provider_ref, 're_1', 'refunded', 2500, 'USD',
                                                   p_as_of => '2026-01-01T12:00Z')
         from public.giftcard_payments;
      return null;
    end $$;
    create trigger refund_meanwhile after insert on public.giftcard_effects for each row when (new.name = 'issue')
        execute function refund_meanwhile()
"""


@pytest.fixture
def make(make_world: Make, vendor: Vendor) -> Make:
    def world(address: str = "/cards", **environ: Any) -> World:
        return make_world(
            GIFTCARD_CARD_PROVIDER="http",
            GIFTCARD_CARD_URL=f"{vendor.url}{address}",
            GIFTCARD_CIRCUIT_THRESHOLD=0,
            GIFTCARD_MAX_ATTEMPTS=2,
            **environ,
        )

    return world


@pytest.fixture
def issued(make: Make, vendor: Vendor) -> World:
    return issue(make(), vendor)


def issue(world: World, vendor: Vendor) -> World:
    """An order of 25 dollars, with its card."""
    vendor.respond(ISSUED)
    world.submit(an_order(correlation_id="order-1"))
    world.drain()
    return world


def change(world: World, kind: str, amount: int, *, at: str, event: str = "re_1") -> None:
    """What the payment's provider reports of it at a time of its clock."""
    (paid,) = world.sql("select provider, provider_ref from giftcard_payments")
    named = {"tenant_id": "default", "provider": paid["provider"], "provider_ref": paid["provider_ref"]}
    what = {"event_id": event, "kind": kind, "amount": amount, "currency": "USD", "as_of": f"2026-01-01T{at}Z"}
    world.store.record_payment_event(**named, **what)


def refund(world: World) -> dict[str, Any]:
    """The job that blocks the card, after a tick."""
    change(world, "refunded", 2500, at="12:00")
    world.tick()
    return world.job(stage="block_card")


def card(world: World) -> tuple[str, int]:
    (row,) = world.sql("select state, balance from giftcard_cards")
    return row["state"], row["balance"]


def blocks(vendor: Vendor) -> list[str]:
    return [request.path for request in vendor.requests if request.path.split("?")[0].endswith("/block")]


def lines(world: World) -> list[str]:
    return [row["kind"] for row in world.sql("select kind from giftcard_reconcile(p_verify => true) order by kind")]


@pytest.mark.parametrize(
    ("answer", "after", "spent"),
    [
        ((200, {}), 2500, 0),
        ((200, {"balance": 2500, "status": "BLOCKED", "id": "card/1", "reference": "order-1"}), 2500, 0),
        ((200, {"balance": 1000}), 1000, 1500),
        ((200, {"balance": 0}), 0, 2500),
        ((200, {"balance": "1000"}), 2500, 0),
        ((200, {"balance": -1}), 2500, 0),
        ((200, {"balance": True}), 2500, 0),
    ],
)
def test_a_refunded_card_is_blocked_and_what_was_spent_is_known(
    issued: World, vendor: Vendor, answer: Any, after: int, spent: int
) -> None:
    vendor.default = answer
    job = refund(issued)
    assert job["status"] == "completed"
    assert issued.history(job["id"])[-1]["detail"] == {"blocked": True, "spent": spent}
    assert (card(issued), blocks(vendor)) == (("blocked", after), [BLOCK])
    assert lines(issued) == (["refunded_after_issue"] if spent else [])
    assert vendor.requests[-1].headers["Idempotency-Key"].startswith("gc_")


@pytest.mark.parametrize(
    ("address", "path"),
    [
        ("/cards/", BLOCK),
        ("/cards?account=1", f"{BLOCK}?account=1"),
        ("/cards/?account=1&x=%2F", f"{BLOCK}?account=1&x=%2F"),
        ("", BLOCK.removeprefix("/cards")),
        ("/", BLOCK.removeprefix("/cards")),
    ],
)
def test_the_address_may_have_a_query_and_a_slash(make: Make, vendor: Vendor, address: str, path: str) -> None:
    world = issue(make(address), vendor)
    assert refund(world)["status"] == "completed"
    assert blocks(vendor) == [path]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (404, "PermanentError: the card service answered 404"),
        (405, "PermanentError: the card service cannot block cards (405): block it there"),
        (501, "PermanentError: the card service cannot block cards (501): block it there"),
        ((200, {"status": "failed"}), "Declined: the card service answered with the status failed"),
    ],
)
def test_a_card_that_cannot_be_blocked_stays_a_difference(
    issued: World, vendor: Vendor, answer: Any, error: str
) -> None:
    vendor.default = answer
    job = refund(issued)
    assert (job["status"], job["last_error"]) == ("error", error)
    assert (card(issued), lines(issued)) == (("active", 2500), ["refunded_after_issue"])


@pytest.mark.parametrize(
    "answer",
    [
        500,
        409,
        "cut",
        (200, "<html>"),
        (200, []),
        (200, {"status": "active"}),
        (200, {"status": ["blocked"]}),
        (200, {"id": "card/2"}),
        (200, {"reference": "order-2"}),
    ],
)
def test_an_answer_that_is_no_block_is_asked_for_again_under_the_same_key(
    issued: World, vendor: Vendor, answer: Any
) -> None:
    vendor.respond(answer)
    job = refund(issued)
    assert (job["status"], job["attempts"], card(issued)) == ("queued", 1, ("active", 2500))
    issued.move(10)
    assert issued.run(only_stage="block_card").completed == 1
    assert card(issued) == ("blocked", 2500)
    assert len({r.headers["Idempotency-Key"] for r in vendor.requests if r.path == BLOCK}) == 1


def test_a_vendor_that_does_not_answer_is_asked_again(make: Make, vendor: Vendor) -> None:
    world = issue(make(GIFTCARD_STAGE_BLOCK_CARD_TTR_SECONDS=1), vendor)
    vendor.respond("silent")
    job = refund(world)
    assert (job["status"], "ReadTimeout" in job["last_error"]) == ("queued", True)
    world.move(10)
    world.tick()
    assert (card(world), len(blocks(vendor))) == (("blocked", 2500), 2)


def test_a_block_that_is_pending_waits(issued: World, vendor: Vendor) -> None:
    vendor.respond((202, {"status": "pending"}))
    job = refund(issued)
    assert (job["status"], job["attempts"], card(issued)) == ("queued", 0, ("active", 2500))
    issued.move(61)
    issued.tick()
    assert card(issued) == ("blocked", 2500)


@pytest.mark.parametrize("result", ["kept", "lost"])
def test_killed_between_the_block_and_its_record(issued: World, vendor: Vendor, result: str) -> None:
    vendor.default = (200, {"balance": 1000})
    job = refund(issued)
    # As if the function had been killed there.
    issued.sql("update giftcard_cards set state = 'active', balance = 2500, state_as_of = null")
    if result == "lost":
        issued.sql("update giftcard_effects set result = null, finished_at = null where name = 'block'")
    issued.sql(
        "update giftcard_jobs set status = 'running', finished_at = null, lease_id = gen_random_uuid(), "
        "lease_expires_at = now() - interval '1 second' where id = %s",
        job["id"],
    )
    issued.tick()
    issued.move(10)
    issued.tick()
    assert (issued.job(job["id"])["status"], card(issued)) == ("completed", ("blocked", 1000))
    assert len(blocks(vendor)) == (2 if result == "lost" else 1)
    assert len({r.headers["Idempotency-Key"] for r in vendor.requests if r.path == BLOCK}) == 1


def test_refunded_while_it_is_issued_the_card_is_blocked_and_not_sent(make: Make, vendor: Vendor) -> None:
    world = make()
    world.sql(REFUND_MEANWHILE)
    issue(world, vendor)
    assert (card(world), blocks(vendor)) == (("blocked", 2500), [BLOCK])
    assert world.job(stage="email")["last_error"] == "PermanentError: the card of the order is blocked: it is not sent"
    assert lines(world) == []


def test_a_refund_that_fails_before_the_block_leaves_a_card_that_can_be_sent(make: Make, vendor: Vendor) -> None:
    world = make()
    world.sql(REFUND_MEANWHILE)
    world.sql("select public.giftcard_pause('block_card', 'test')")
    issue(world, vendor)
    assert card(world) == ("blocked", 2500)
    change(world, "refunded", 0, at="12:01")
    world.sql("select public.giftcard_resume('block_card', 'test')")
    world.requeue(world.job(stage="email")["id"])
    world.drain()
    assert (card(world), blocks(vendor), lines(world)) == (("active", 2500), [], [])
    assert world.job(stage="email")["status"] == "completed"


def test_a_dispute_that_is_won_before_the_block_blocks_nothing(issued: World, vendor: Vendor) -> None:
    issued.sql("select public.giftcard_pause('block_card', 'test')")
    change(issued, "disputed", 2500, at="12:00", event="dp_1")
    issued.tick()
    assert lines(issued) == ["disputed_after_issue"]
    change(issued, "disputed", 0, at="12:01", event="dp_1")
    issued.sql("select public.giftcard_resume('block_card', 'test')")
    issued.tick()
    job = issued.job(stage="block_card")
    assert issued.history(job["id"])[-1]["detail"] == {"blocked": False, "reason": "the order is paid"}
    assert (card(issued), blocks(vendor), lines(issued)) == (("active", 2500), [], [])

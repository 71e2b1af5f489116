"""The mail of an order is sent again: once for each request, and only where there is something to send."""

from collections.abc import Callable

import psycopg
import pytest

from lib.job import Complete, Error
from tests.support.acts import FLOW, a_card, an_order
from tests.support.factory import Row, World

REASON = {"reason": "it did not arrive", "by": "kim"}


def resend(world: World, **more: object) -> Row:
    answer: Row = world.call("resend_mail", **FLOW, **REASON, **more)
    return answer


def mailed(world: World, *, result: bool = True) -> int:
    """An order whose mail was sent. `result`: the mail server has accepted it."""
    a_card(world)
    world.run("update giftcard_jobs set status = 'completed', finished_at = now()")
    job = world.claimed("email", **FLOW)
    effect = world.call("begin_effect", job_id=job.id, lease_id=job.lease_id, name="send")
    if result:
        world.call("finish_effect", vendor_key=effect["vendor_key"], result={"message_id": "m"})
    world.settle(job, Complete() if result else Error(error="PermanentError: the recipient is refused (550)"))
    return job.id


def keys(world: World) -> list[str]:
    return [r["dedup_key"] for r in world.rows("select dedup_key from giftcard_jobs where stage = 'email' order by id")]


def sent(world: World, job_id: int) -> None:
    """The job runs, and its mail is accepted."""
    job = world.claim_one(job_id)
    effect = world.call("begin_effect", job_id=job.id, lease_id=job.lease_id, name="send")
    assert effect["state"] == "new"
    world.call("finish_effect", vendor_key=effect["vendor_key"], result={"message_id": "m"})
    world.settle(job, Complete())


def test_each_request_has_a_job_and_an_effect_of_its_own(world: World) -> None:
    mailed(world)
    for number in (1, 2):
        answer = resend(world, job={"payload": {"n": number}, "trigger_type": "operator", "source": "app"})
        assert (answer["done"], answer["changed"]) == ("created", [])
        assert world.job(answer["job_id"])["payload"] == {"n": number}
        sent(world, answer["job_id"])
    assert keys(world) == ["", "resend:1", "resend:2"]


def test_a_request_that_waits_is_not_made_twice(world: World) -> None:
    mailed(world)
    first = resend(world)
    assert resend(world) == first | {"done": "waiting"}
    world.claim_one(first["job_id"])
    assert resend(world) == first | {"done": "waiting"}
    # The run has read the old address.
    assert resend(world, email="anna@example.com")["done"] == "created"
    assert keys(world) == ["", "resend:1", "resend:2"]


def test_a_mail_that_failed_is_requeued_and_gets_the_right_address(world: World) -> None:
    job_id = mailed(world, result=False)
    answer = resend(world, email="anna@example.com")
    assert (answer["job_id"], answer["done"], answer["changed"]) == (job_id, "requeued", ["email"])
    assert (world.job(job_id)["status"], keys(world)) == ("queued", [""])
    assert world.rows("select details #>> '{customer,email}' as e from giftcard_orders")[0]["e"] == "anna@example.com"
    acts = world.rows("select action, details from giftcard_audit order by id")
    assert [act["action"] for act in acts] == ["correct_recipient", "resend"]
    assert acts[1]["details"] == {"reason": "it did not arrive", "job_id": job_id, "done": "requeued"}


def test_a_job_that_failed_after_its_mail_was_sent_is_left_alone(world: World) -> None:
    job_id = mailed(world)
    world.run("update giftcard_jobs set status = 'error' where id = %s", job_id)
    assert resend(world)["done"] == "created"
    assert world.job(job_id)["status"] == "error"


def test_a_key_is_not_used_again_once_its_job_is_gone(world: World) -> None:
    mailed(world)
    sent(world, resend(world)["job_id"])
    world.run("delete from giftcard_jobs where dedup_key = 'resend:1'")
    answer = resend(world)
    assert keys(world) == ["", "resend:2"]
    sent(world, answer["job_id"])


def test_a_resent_card_is_not_delivered_twice_for_webhooks(world: World) -> None:
    mailed(world)
    sent(world, resend(world)["job_id"])
    found = world.rows("select event from giftcard_events_for(array(select id from giftcard_jobs), now())")
    assert [row["event"] for row in found].count("giftcard.delivered") == 1


def cancelled(world: World) -> None:
    mailed(world)
    world.call("cancel_flow", **FLOW)


def blocked(world: World) -> None:
    mailed(world)
    world.call("block_card", **FLOW)


def erased(world: World) -> None:
    mailed(world)
    world.run("update giftcard_orders set details = '{}'")


def under_way(world: World) -> None:
    """Its card is issued, its mail is not enqueued yet."""
    a_card(world)


REFUSALS: dict[str, tuple[Callable[[World], object], str]] = {
    "no card": (an_order, "order order-7 has no card to send"),
    "cancelled": (cancelled, "order order-7 is cancelled: its card is not sent"),
    "blocked": (blocked, "the card of order order-7 is blocked: it is not sent"),
    "erased": (erased, "the customer of order order-7 was erased: there is no address"),
    "under way": (under_way, "order order-7 is still under way: its mail follows"),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_what_must_not_be_sent_is_refused(world: World, case: str) -> None:
    before, sentence = REFUSALS[case]
    before(world)
    rows = world.rows("select * from giftcard_jobs order by id"), world.rows("select * from giftcard_orders")
    with pytest.raises(psycopg.Error) as caught:
        resend(world, email="anna@example.com")
    assert (caught.value.sqlstate, caught.value.diag.message_primary) == ("GC409", sentence)
    assert (world.rows("select * from giftcard_jobs order by id"), world.rows("select * from giftcard_orders")) == rows


def test_an_unknown_order_is_not_found(world: World) -> None:
    with pytest.raises(psycopg.Error) as caught:
        resend(world)
    assert caught.value.sqlstate == "GC404"

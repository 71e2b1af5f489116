"""The scripts of sql/ for orders: what does not match, and what operators decide about it."""

import pytest

from tests.sql.scripts.running import Script, ScriptError, dead_letter
from tests.support.books import issue, kinds, pay, take
from tests.support.factory import World

ORDER = {"p_tenant_id": "'default'", "p_correlation_id": "'order-7'", "p_by": "'kim'"}


def audited(world: World) -> list[tuple[str, str]]:
    return [(row["by"], row["action"]) for row in world.rows("select by, action from giftcard_audit order by id")]


def test_reconcile_lists_what_does_not_match_and_what_to_do(script: Script, world: World) -> None:
    for flow in ("order-1", "order-2"):
        take(world, flow)
        pay(world, flow)
    dead_letter(world, stage="issue_card", correlation_id="order-1")
    world.enqueue("issue_card", correlation_id="order-2")  # on its way
    (row,) = script("reconcile")
    assert (row["kind"], row["correlation_id"], row["amount"]) == ("paid_without_card", "order-1", "2500")
    assert row["action"] == "Requeue the job that failed, or refund what is left. A blocked card: unblock it."
    assert script("reconcile", p_tenant_id="'acme'") == []


def test_reconcile_verifies_the_books(script: Script, world: World) -> None:
    take(world)
    pay(world)
    issue(world)
    world.run("update giftcard_payments set worth = 99")
    assert [row["kind"] for row in script("reconcile")] == ["books_differ", "books_differ"]
    assert script("reconcile", p_verify="false") == []


def test_make_free_of_charge_waives_the_payment(script: Script, world: World) -> None:
    take(world)
    with pytest.raises(ScriptError, match="no order has the correlation id"):
        script("make_free_of_charge")
    script("make_free_of_charge", **ORDER, p_reason="'goodwill'")
    assert world.rows("select free_of_charge from giftcard_orders") == [{"free_of_charge": True}]
    assert audited(world) == [("kim", "free_of_charge")]


def test_correct_recipient_changes_what_is_given(script: Script, world: World) -> None:
    take(world)
    (row,) = script("correct_recipient", **ORDER, p_customer="""'{"given_name": "Eve"}'""")
    assert '"changed": ["given_name"]' in row["corrected"]
    assert world.rows("select details #>> '{customer,given_name}' as name from giftcard_orders") == [{"name": "Eve"}]
    assert audited(world) == [("kim", "correct_recipient")]


def test_record_payment_event_has_the_card_blocked(script: Script, world: World) -> None:
    take(world)
    pay(world)
    issue(world)
    values = ORDER | {"p_event_id": "'re_1'", "p_kind": "'refunded'"}
    for _ in range(2):
        (row,) = script("record_payment_event", **values, p_amount="700")
        assert '"worth": 1800' in row["recorded"]
    assert kinds(world) == ["refunded_after_issue"]
    assert world.rows("select stage, status from giftcard_jobs") == [{"stage": "block_card", "status": "queued"}]
    with pytest.raises(ScriptError, match="event re_1 is recorded with other content"):
        script("record_payment_event", **values, p_amount="800")
    assert audited(world) == [("kim", "payment_event")]


def test_accept_difference_leaves_it_out(script: Script, world: World) -> None:
    take(world)
    reference = pay(world)["reference"]
    accepted = {"p_kind": "'paid_without_card'", "p_tenant_id": "'default'", "p_item": f"'{reference}'"}
    script("accept_difference", **accepted, p_by="'kim'", p_reason="'refunded in cash'")
    assert kinds(world) == []
    assert audited(world) == [("kim", "accept_difference")]
    with pytest.raises(ScriptError, match="there is no difference"):
        script("accept_difference")


def test_block_card_blocks_also_what_is_paid(script: Script, world: World) -> None:
    with pytest.raises(ScriptError, match="has no card"):
        script("block_card")
    take(world)
    pay(world)
    issue(world)
    script("block_card", **ORDER)
    script("block_card", **ORDER)
    assert world.rows("select stage, payload from giftcard_jobs") == [
        {"stage": "block_card", "payload": {"force": True}}
    ]
    assert audited(world) == [("kim", "block_card")]

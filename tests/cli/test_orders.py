"""`flask jobs orders …`: what does not match, and decisions about it, on the database and through the API."""

import json
from typing import Any

import pytest

from tests.cli.conftest import NOT_A_TERMINAL, Door
from tests.support.differences import MAKE, one_of_each
from tests.support.factory import World as Rows
from tests.support.world import World, an_order

FLOW = "order 7 ü"


@pytest.fixture
def issued(world: World) -> World:
    """An order with its card."""
    world.add("customer_ingest", an_order(), correlation_id=FLOW)
    while world.tick()["started"]:
        pass
    assert world.value("select count(*) from giftcard_cards") == 1
    return world


def audit(world: World) -> list[str]:
    return [row["action"] for row in world.sql("select * from giftcard_audit order by id")]


def refund(door: Door, amount: int = 700, *more: Any) -> Any:
    return door.json("orders", "record-event", FLOW, "refunded", amount, "--event-id", "re_1", *more)


# Reconcile


def test_books_that_match_are_one_sentence_and_code_0(issued: World, door: Door) -> None:
    assert door.says("orders", "reconcile") == "Money and cards match.\n"
    assert door.says("orders", "reconcile", "--verify", "--tenant", "default") == "Money and cards match.\n"
    assert door.json("orders", "reconcile") == {"differences": [], "truncated": False}


def test_differences_end_it_with_1_each_with_what_to_do(issued: World, door: Door) -> None:
    refund(door)
    result = door.run("orders", "reconcile")
    assert (result.exit_code, result.stderr) == (1, "")
    for part in ("refunded_after_issue (1)", "$7.00", FLOW, "→ Block the card", "flask jobs orders accept KIND"):
        assert part in result.stdout, result.stdout
    found = door.run("orders", "reconcile", "--json")
    assert found.exit_code == 1
    assert [line["amount"] for line in json.loads(found.stdout)["differences"]] == [700]


def test_table_of_all_kinds_fits_80_columns(database_url: str, direct: Door) -> None:
    import psycopg

    with psycopg.connect(database_url, autocommit=True) as connection:
        one_of_each(Rows(connection))
    lines = direct.run("orders", "reconcile").stdout.splitlines()
    assert max(map(len, lines)) <= 80, max(lines, key=len)
    assert {kind for kind in MAKE if any(line.startswith(f"{kind} (") for line in lines)} == set(MAKE)
    shown = direct.says("status")
    assert "Money and cards do not match" in shown
    assert "flask jobs orders reconcile" in shown
    doctor = direct.run("doctor").stdout
    assert "money and cards do not match: card of cancelled order: 1, charge unknown: 1" in doctor


def test_difference_that_is_accepted_is_left_out(issued: World, door: Door) -> None:
    refund(door)
    reference = issued.value("select provider_ref from giftcard_cards")
    words = ["orders", "accept", "refunded_after_issue", reference]
    assert door.refuses(*words) == "--reason is required"
    text = door.says(*words, "--reason", "a loss of ours")
    assert text == f"refunded_after_issue of {reference} is accepted: it is listed again only if its amount changes\n"
    assert door.says("orders", "reconcile") == "Money and cards match.\n"
    assert "there is no difference" in door.refuses(*words, "--reason", "again")
    refusal = door.refuses("orders", "accept", "refunded_after_isue", reference, "--reason", "x")
    assert "'KIND': it must be one of paid_without_card, " in refusal
    assert "; did you mean refunded_after_issue" in refusal


# Show


def test_order_is_shown_with_what_it_costs_its_payment_and_its_card(issued: World, door: Door) -> None:
    text = door.says("orders", "show", FLOW)
    card = issued.sql("select last4 from giftcard_cards")[0]["last4"]
    for part in (f"Order {FLOW} (tenant default)", "costs    $25.00", f"…{card}, $25.00, active", "issue_card"):
        assert part in text, text
    assert "worth" not in text
    assert "unpaid" not in text
    refund(door)
    issued.tick()
    text = door.says("orders", "show", FLOW)
    assert "worth $18.00 now" in text
    assert "blocked, $7.00 unpaid" in text
    assert door.json("orders", "show", FLOW)["payment"]["worth"] == 1800


def test_order_that_is_free_and_cancelled_is_shown_so(world: World, door: Door) -> None:
    world.add("customer_ingest", an_order(), correlation_id=FLOW)
    world.store.take_order(tenant_id="default", correlation_id=FLOW, order=an_order(), body_hash="x")
    assert door.refuses("orders", "make-free", FLOW, "--reason", "goodwill") == NOT_A_TERMINAL
    assert "is free of charge" in door.says("orders", "make-free", FLOW, "--reason", "goodwill", "--yes")
    door.says("cancel", "--flow", FLOW, "--yes")
    text = door.says("orders", "show", FLOW)
    assert "$25.00, free of charge" in text
    job_id = world.job(stage="customer_ingest")["id"]
    assert f"to reopen it: flask jobs requeue {job_id}" in text
    door.says("requeue", job_id)
    assert "to reopen it" not in door.says("orders", "show", FLOW)
    assert audit(world) == ["free_of_charge", "cancel_flow", "requeue"]


def test_order_is_paged(issued: World, door: Door) -> None:
    first = door.json("orders", "show", FLOW, "--limit", 2)
    assert (len(first["jobs"]), first["older"]) == (2, first["jobs"][0]["id"])
    assert f"--older {first['older']}" in door.says("orders", "show", FLOW, "--limit", 2)
    assert len(door.json("orders", "show", FLOW, "--older", first["older"])["jobs"]) == 3


def test_order_that_nobody_has_placed_is_refused(door: Door) -> None:
    assert door.refuses("orders", "show", "none") == "no order has the correlation id none (tenant default)"


# Decide


def test_refund_by_hand_is_recorded_once(issued: World, door: Door) -> None:
    words = ["orders", "record-event", FLOW, "refunded", "700", "--event-id", "re_1"]
    reference = issued.value("select provider_ref from giftcard_payments")
    assert door.says(*words) == f"recorded: payment {reference} is worth $18.00 now\n"
    assert door.says(*words) == f"nothing was changed, it is recorded already: payment {reference} is worth $18.00\n"
    assert "event re_1 is recorded with other content" in door.refuses(*words[:4], "9", *words[5:])
    for amount in ("7.5", "1000000001"):
        refused = door.refuses(*words[:4], amount, *words[5:])
        assert f"'AMOUNT': '{amount}' is not a number of minor units from 0 to 1000000000, like 2500 for" in refused
    assert door.refuses(*words[:5]) == "--event-id is required"
    assert "is in USD, not in EUR" in door.refuses(*words[:5], "--event-id", "re_2", "--currency", "EUR")
    assert audit(issued) == ["payment_event"]


def test_money_of_another_payment_is_recorded_by_its_reference(issued: World, door: Door) -> None:
    taken = ["orders", "record-event", FLOW, "captured", 2500, "--event-id", "c2", "--reference", "ch_2"]
    assert door.json(*taken)["worth"] == 2500
    (line,) = json.loads(door.run("orders", "reconcile", "--json").stdout)["differences"]
    assert (line["kind"], line["reference"]) == ("paid_twice", "ch_2")
    back = ["orders", "record-event", FLOW, "refunded", 2500, "--event-id", "r2", "--reference", "ch_2", "--is-total"]
    assert door.json(*back)["worth"] == 0
    assert door.says("orders", "reconcile") == "Money and cards match.\n"


def test_recipient_is_corrected_and_never_repeated(issued: World, door: Door) -> None:
    words = ["orders", "correct-recipient", FLOW]
    result = door.run(*words, "--email", "eve.secret@example.com", "--given-name", "Evesecret")
    assert result.stdout == f"email, given_name of order {FLOW} changed: jobs that run later use it\n"
    again = door.says(*words, "--given-name", "Evesecret")
    assert again == f"order {FLOW} has these values already\n"
    assert "secret" not in door.refuses(*words, "--email", "eve.secret")
    assert "give at least one of email" in door.refuses(*words)
    assert audit(issued) == ["correct_recipient"]
    assert issued.value("select details #>> '{customer,given_name}' from giftcard_orders") == "Evesecret"


def test_order_that_is_done_is_cancelled_without_jobs_to_reopen_it(issued: World, door: Door) -> None:
    text = door.says("cancel", "--flow", FLOW, "--yes")
    assert text == (
        f"flow {FLOW} (tenant default): its order is cancelled. No job was left to cancel; money and card: "
        "flask jobs orders reconcile\n"
    )
    assert "to reopen it" not in door.says("orders", "show", FLOW)
    assert "card_of_cancelled_order (1)" in door.run("orders", "reconcile").stdout


def test_card_is_blocked_by_the_next_tick(issued: World, door: Door) -> None:
    assert door.refuses("orders", "block", FLOW) == NOT_A_TERMINAL
    job_id = door.json("orders", "block", FLOW, "--yes")["job_id"]
    assert door.says("orders", "block", FLOW, "--yes") == (
        f"job {job_id} already blocks the card with the next tick: see flask jobs show {job_id}\n"
    )
    issued.tick()
    assert issued.value("select state from giftcard_cards") == "blocked"
    assert door.refuses("orders", "block", "none", "--yes") == "order none has no card"


def test_operator_is_in_the_audit(issued: World, direct: Door, remote: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOGNAME", "kate")
    refund(direct)
    remote.json("orders", "block", FLOW, "--yes")
    assert [row["by"] for row in issued.sql("select by from giftcard_audit order by id")] == ["kate", "admin token"]


def test_order_of_another_tenant_is_not_touched(issued: World, door: Door) -> None:
    for command in (["show"], ["block", "--yes"], ["make-free", "--reason", "x", "--yes"]):
        assert "order" in door.refuses("orders", *command, FLOW, "--tenant", "acme")
    assert audit(issued) == []

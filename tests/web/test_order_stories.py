"""Orders are found by what a person knows of them, and their story is on one page, masked unless revealed."""

from collections.abc import Callable
from typing import Any

import pytest

from lib.cli import jobs as command_line
from tests.support.tenants import create_token
from tests.support.world import ADMIN, API, World, an_order, bearer

FLOW = "order-7"
SEARCH, STORY = "/api/v1/orders/search", f"/api/v1/giftcards/{FLOW}/story"
PERSONAL = ("kate@example.com", "Kate", "Rodgers")


def ask(world: World, method: str, path: str, body: Any = None, *, token: str = ADMIN, **query: Any) -> Any:
    return world.client.open(path, method=method, json=body, query_string=query, headers=bearer(token))


def find(world: World, text: str, **more: Any) -> list[dict[str, Any]]:
    answer = ask(world, "POST", SEARCH, {"text": text} | more)
    assert answer.status_code == 200, answer.text
    orders: list[dict[str, Any]] = answer.json["orders"]
    return orders


def acts(world: World) -> list[tuple[str, str]]:
    return [(row["action"], row["subject"]) for row in world.sql("select * from giftcard_audit order by id")]


@pytest.fixture
def issued(world: World) -> World:
    world.submit(an_order(correlation_id=FLOW, message="write to kate@example.com"))
    world.drain()
    return world


def known(world: World) -> dict[str, str]:
    """What a person may know of the order, by the way it is found."""
    return {
        "correlation_id": FLOW,
        "email": " KATE@Example.com ",
        "last4": world.value("select last4 from giftcard_cards"),
        "personal_code": world.value("select lower(personal_code) from giftcard_customers"),
        "reference": world.value("select provider_ref from giftcard_payments"),
    }


def test_an_order_is_found_in_each_way_and_masked(issued: World) -> None:
    for way, text in known(issued).items():
        (order,) = find(issued, text)
        assert (order["correlation_id"], order["matched"], order["state"]) == (FLOW, [way], "delivered"), way
        assert order["recipient"] == {"email": "[email]", "given_name": "K…", "family_name": "R…"}
    assert find(issued, "order") == find(issued, FLOW)
    assert find(issued, "order-8") == []


def test_only_a_search_by_address_and_a_reveal_are_recorded(issued: World) -> None:
    for text in (FLOW, "order", "nobody@example.com", "0000"):
        find(issued, text)
    assert acts(issued) == []
    find(issued, "kate@example.com")
    (order,) = find(issued, FLOW, reveal=True)
    assert order["recipient"]["email"] == "kate@example.com"
    issued.submit(an_order(correlation_id="order-8"))
    find(issued, "order", reveal=True)
    assert acts(issued) == [("reveal", "order order-7")] * 2 + [("reveal", "orders ['order-8', 'order-7']")]


def test_a_corrected_address_and_that_of_the_customer_both_find_the_order(issued: World) -> None:
    ask(issued, "PATCH", f"/api/v1/giftcards/{FLOW}/recipient", {"email": "Anna@Bücher.com"})
    for text in ("kate@example.com", "anna@bücher.com", "anna@xn--bcher-kva.com"):
        assert [order["matched"] for order in find(issued, text)] == [["email"]], text


def test_an_erased_customer_is_not_found_by_anything_of_theirs(issued: World) -> None:
    texts = known(issued)
    issued.sql("select giftcard_erase_customer(id) from giftcard_customers")
    erased = issued.value("select email from giftcard_customers")
    for text in (texts["email"], texts["personal_code"], erased):
        assert find(issued, text) == [], text
    (order,) = find(issued, FLOW)
    assert order["recipient"] is None
    story = ask(issued, "GET", STORY, reveal="true").json
    assert story["recipient"] is None
    assert ("act", "erase customer") in [(e["kind"], e["text"].split(", ")[0].split(": ")[1]) for e in story["events"]
                                         if "erase" in e["text"]]  # fmt: skip


def test_the_story_has_everything_in_order_and_nothing_personal(issued: World) -> None:
    issued.sql("update giftcard_jobs set last_error = 'E: kate@example.com' where stage = 'payment'")
    issued.sql("update giftcard_job_history set error = 'E: kate@example.com', result = 'FAILED' where job_id = 3")
    ask(issued, "POST", f"/api/v1/giftcards/{FLOW}/resend", {"reason": "lost, tell kate@example.com"})
    answer = ask(issued, "GET", STORY)
    assert [text for text in PERSONAL if text in answer.text] == []
    events = answer.json["events"]
    assert [event["kind"] for event in events] == [
        *("order", "run", "run", "payment", "run", "card", "run", "mail", "run", "act", "wait"),
    ]
    times = [event["at"] for event in events]
    assert times == sorted(times)
    assert events[-1]["text"] == "email (resend:1): due: the next tick takes it"
    assert events[-2]["text"] == "admin token: resend, order order-7: lost, tell [email]"
    assert [event["level"] for event in events if event["job_id"] == 3] == ["error"]
    shown = ask(issued, "GET", STORY, reveal="true")
    assert shown.json["recipient"] == {"email": "kate@example.com", "given_name": "Kate", "family_name": "Rodgers"}
    assert acts(issued)[-1] == ("reveal", "order order-7")


def test_an_id_that_looks_like_a_card_stays_an_id(world: World) -> None:
    world.submit(an_order(correlation_id="4111111111111111"))
    (order,) = find(world, "4111")
    story = ask(world, "GET", f"/api/v1/giftcards/{order['correlation_id']}/story").json
    assert story["correlation_id"] == order["correlation_id"] == "4111111111111111"


def test_a_story_shows_what_went_wrong_and_what_it_waits_for(issued: World) -> None:
    refund = {"event_id": "r1", "kind": "refunded", "amount": {"amount": 700, "currency": "USD"}}
    ask(issued, "POST", f"/api/v1/giftcards/{FLOW}/payment-events", refund)
    story = ask(issued, "GET", STORY).json
    by_kind = {event["kind"]: event for event in story["events"]}
    assert by_kind["payment"]["text"].endswith(": $7.00 refunded")
    assert by_kind["difference"]["text"].startswith("refunded after issue, $7.00: ")
    assert (by_kind["wait"]["level"], by_kind["wait"]["text"].split(" ")[0]) == ("info", "block_card")
    assert [line["kind"] for line in story["differences"]] == ["refunded_after_issue"]
    ask(issued, "POST", f"/api/v1/flows/{FLOW}/cancel")
    levels = {(e["kind"], e["level"]) for e in ask(issued, "GET", STORY).json["events"]}
    assert {("order", "warning"), ("job", "warning"), ("act", "info")} <= levels


def test_a_paused_house_is_why_jobs_wait(make_world: Callable[..., World]) -> None:
    world = make_world(GIFTCARD_PAUSED="1")
    world.submit(an_order(correlation_id=FLOW))
    (*_, wait) = ask(world, "GET", STORY).json["events"]
    assert wait["text"] == "customer_ingest: everything is paused by GIFTCARD_PAUSED"


def test_an_unknown_order_has_no_story(world: World) -> None:
    answer = ask(world, "GET", STORY)
    assert (answer.status_code, answer.json["field"]) == (404, "correlation_id")
    assert ask(world, "GET", "/api/v1/giftcards/a%00b/story").status_code == 400


@pytest.mark.parametrize("body", [{}, {"text": ""}, {"text": "  "}, {"text": "a\nb"}, {"text": "a", "limit": 51}])
def test_a_search_that_is_not_valid_is_refused(world: World, body: Any) -> None:
    answer = ask(world, "POST", SEARCH, body)
    assert (answer.status_code, answer.json["field"] in ("text", "limit")) == (422, True), answer.text


def test_recipients_in_clear_are_for_admins(issued: World) -> None:
    reader = create_token(issued, "reader", "jobs:read")
    assert ask(issued, "POST", SEARCH, {"text": FLOW}, token=reader).status_code == 200
    assert ask(issued, "GET", STORY, token=reader).status_code == 200
    assert ask(issued, "POST", SEARCH, {"text": FLOW, "reveal": True}, token=reader).status_code == 403
    assert ask(issued, "GET", STORY, token=reader, reveal="true").status_code == 403
    for token in (reader, API):
        assert ask(issued, "POST", f"/api/v1/giftcards/{FLOW}/resend", {"reason": "x"}, token=token).status_code == 403
    assert ask(issued, "POST", SEARCH, {"text": FLOW}, token=API).status_code == 403


def test_the_commands_print_the_same(issued: World) -> None:
    issued.app.cli.add_command(command_line)

    def run(*words: str) -> str:
        result = issued.app.test_cli_runner().invoke(args=["jobs", "orders", *words])
        assert result.exit_code == 0, result.output
        return str(result.output)

    assert "flask jobs orders story order-7 --tenant default" in run("find", "order")
    assert "No order matches." in run("find", "none")
    masked = run("story", FLOW)
    assert "K… R… [email]" in masked
    assert "the mail server has accepted the mail" in masked
    assert "Kate Rodgers kate@example.com" in run("story", FLOW, "--reveal")
    assert "sends the mail again with the next tick: see" in run("resend", FLOW, "--reason", "lost", "--yes")
    assert "waits or runs to send the mail already" in run("resend", FLOW, "--reason", "lost", "--yes")

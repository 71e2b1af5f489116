"""Orders come in once, whatever is repeated, and their flow can be seen."""

import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.world import API, World, an_order, bearer

Make = Callable[..., World]

KEY = "Idempotency-Key"


def submit(world: World, body: Any = None, key: str | None = None) -> Any:
    return world.submit(body or an_order(), **({KEY.replace("-", "_"): key} if key is not None else {}))


def counts(world: World) -> tuple[int, int]:
    rows = world.row_counts()
    return rows["giftcard_orders"], rows["giftcard_jobs"]


def test_order_without_an_id_gets_one(world: World) -> None:
    answer = submit(world)
    assert (answer.status_code, answer.json["tenant_id"]) == (202, "default")
    assert uuid.UUID(answer.json["correlation_id"])
    assert world.flow(answer.json["correlation_id"])["jobs"][0]["stage"] == "customer_ingest"


def test_orders_without_key_and_id_are_two_orders(world: World) -> None:
    assert submit(world).text != submit(world).text
    assert counts(world) == (2, 2)


def test_same_key_and_body_answer_the_same(world: World) -> None:
    first, second = submit(world, key="k1"), submit(world, key="k1")
    assert (first.status_code, first.json) == (second.status_code, second.json)
    assert counts(world) == (1, 1)


def test_same_body_in_another_spelling_is_the_same_body(world: World) -> None:
    body = an_order(deliver_at="2030-01-01T12:00:00Z")
    other = dict(reversed(body.items())) | {"deliver_at": "2030-01-01T13:00:00+01:00", "message": None}
    first, second = submit(world, body, "k1"), submit(world, other, "k1")
    assert (second.status_code, first.json) == (202, second.json)


def test_same_key_with_another_body_is_refused_and_changes_nothing(world: World) -> None:
    submit(world, key="k1")
    before = world.row_counts()
    for other in (
        an_order(amount={"amount": 2501, "currency": "USD"}),
        an_order(customer={"email": "ann@example.com"}),
        an_order(message="another"),
        an_order(correlation_id="order-2"),
    ):
        answer = submit(world, other, "k1")
        assert (answer.status_code, answer.content_type) == (422, "application/problem+json")
        assert answer.json["field"] == KEY
    assert world.row_counts() == before


def test_key_belongs_to_its_tenant(world: World) -> None:
    answers = [submit(world, an_order(tenant_id=tenant), "k1") for tenant in ("north", "south")]
    assert [answer.status_code for answer in answers] == [202, 202]
    assert counts(world) == (2, 2)


def test_key_is_remembered_after_the_order_is_done(world: World) -> None:
    first = submit(world, key="k1")
    world.tick()
    world.move(90 * 24 * 3600)
    assert submit(world, key="k1").json == first.json
    assert counts(world) == (1, 5)


def test_key_is_1_to_255_visible_ascii_characters(world: World) -> None:
    for key in ("", " ", "a b", "a\tb", "x" * 256, "schlüssel"):
        answer = submit(world, key=key)
        assert (answer.status_code, answer.json["field"]) == (400, KEY)
    assert counts(world) == (0, 0)
    for key in ("x", "x" * 255, "!\"#$%&'()*+,-./:;<=>?@[]^_`{|}~"):
        assert submit(world, key=key).status_code == 202


def test_same_correlation_id_and_body_answer_the_same(world: World) -> None:
    body = an_order(correlation_id="order-1")
    assert submit(world, body).json == submit(world, body).json
    assert counts(world) == (1, 1)


def test_correlation_id_of_another_order_is_refused(world: World) -> None:
    submit(world, an_order(correlation_id="order-1"))
    answer = submit(world, an_order(correlation_id="order-1", message="another"))
    assert (answer.status_code, answer.json["field"]) == (409, "correlation_id")
    assert counts(world) == (1, 1)


def test_order_sent_many_times_at_once_is_one_order(world: World) -> None:
    answers: list[Any] = []
    together = threading.Barrier(8, timeout=10)

    def send() -> None:
        together.wait()
        client = world.app.test_client()
        answers.append(client.post("/api/v1/giftcards", json=an_order(), headers=bearer(API) | {KEY: "k1"}))

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert {(answer.status_code, answer.json["correlation_id"]) for answer in answers} == {
        (202, answers[0].json["correlation_id"])
    }
    assert counts(world) == (1, 1)


def test_flow_shows_each_stage_as_it_stands(world: World) -> None:
    correlation_id = submit(world).json["correlation_id"]
    world.sql("select public.giftcard_pause('payment', 'test')")
    world.tick()
    flow = world.flow(correlation_id)
    assert [(step["stage"], step["status"]) for step in flow["jobs"]] == [
        ("customer_ingest", "completed"),
        ("personal_code", "completed"),
        ("payment", "queued"),
    ]
    assert (flow["payment"], flow["card"]) == (None, None)


def test_flow_of_an_order_that_nobody_sent_is_not_found(world: World) -> None:
    for name in ("nobody", "a%00b", "..%2f", "%ff", "x" * 2000, "'; drop table giftcard_jobs; --"):
        answer = world.client.get(f"/api/v1/giftcards/{name}", headers=bearer(API))
        assert answer.status_code in (400, 404), name
        assert answer.content_type == "application/problem+json"


def test_flow_belongs_to_its_tenant(world: World) -> None:
    submit(world, an_order(tenant_id="north", correlation_id="order-1"))
    assert world.flow("order-1", tenant_id="north")["tenant_id"] == "north"
    for tenant in ("default", "", "north\x00", "no%20rth"):
        answer = world.client.get("/api/v1/giftcards/order-1", headers=bearer(API), query_string={"tenant_id": tenant})
        assert answer.status_code in (400, 404)


def test_flow_tells_no_card_number_and_no_address(world: World) -> None:
    correlation_id = submit(world).json["correlation_id"]
    world.tick()
    shown = str(world.flow(correlation_id))
    assert "kate@example.com" not in shown
    assert "encrypted" not in shown


@pytest.mark.parametrize("tenant", ["default", "acme", "a:b@c.d-e_f"])
@pytest.mark.parametrize("correlation_id", [None, "order-1", "o:1@shop", "A.._--::@@", "x" * 200])
def test_the_status_url_leads_to_ones_own_order_with_the_same_token(
    world: World, tenant: str, correlation_id: str | None
) -> None:
    body = an_order(tenant_id=tenant) | ({"correlation_id": correlation_id} if correlation_id else {})
    others = an_order(tenant_id="other") | ({"correlation_id": correlation_id} if correlation_id else {})
    assert world.submit(others).status_code == 202
    submitted = world.submit(body).json
    found = world.client.get(submitted["status_url"], headers=bearer(API))
    assert (found.status_code, found.json["tenant_id"]) == (200, tenant), submitted
    assert found.json["correlation_id"] == submitted["correlation_id"]

"""Orders, customers and codes: each function is safe to repeat."""

from typing import Any

import psycopg
import pytest

from tests.support.factory import World

PAYLOAD = {"customer": {"given_name": "Kate"}, "amount": {"amount": 2500, "currency": "USD"}}


def submit(world: World, flow: str = "order-7", *, body: str = "b1", **more: Any) -> dict[str, Any]:
    arguments = {"tenant_id": "default", "payload": PAYLOAD} | more
    answer: dict[str, Any] = world.call("submit_order", correlation_id=flow, body_hash=body, **arguments)
    return answer


def refused(world: World, function: str, **arguments: Any) -> tuple[str | None, str | None]:
    """SQLSTATE and the field at fault."""
    with pytest.raises(psycopg.Error) as caught:
        world.call(function, **arguments)
    return caught.value.sqlstate, caught.value.diag.message_detail


def refused_order(
    world: World, flow: str = "order-7", *, body: str = "b1", **more: Any
) -> tuple[str | None, str | None]:
    arguments = {"tenant_id": "default", "payload": PAYLOAD, "correlation_id": flow, "body_hash": body} | more
    return refused(world, "submit_order", **arguments)


# Orders


def test_an_order_and_its_first_job_come_in_together(world: World) -> None:
    answer = submit(world, idempotency_key="k1")
    job = world.job(answer["job_id"])
    assert (answer["correlation_id"], answer["created"]) == ("order-7", True)
    assert (job["stage"], job["payload"], job["trigger_type"]) == ("customer_ingest", PAYLOAD, "api")
    (order,) = world.rows("select * from giftcard_orders")
    assert (order["amount"], order["currency"], order["created_at"]) == (2500, "USD", world.now)


@pytest.mark.parametrize("key", [None, "k1"])
def test_the_same_order_again_answers_the_same(world: World, key: str | None) -> None:
    first = submit(world, idempotency_key=key)
    before = world.snapshot(first["job_id"])
    world.later(1)
    assert submit(world, idempotency_key=key) == first | {"created": False}
    assert world.snapshot(first["job_id"]) == before
    assert len(world.rows("select * from giftcard_orders")) == 1


def test_the_same_key_answers_the_first_correlation_id(world: World) -> None:
    submit(world, "order-7", idempotency_key="k1")
    again = submit(world, "made-anew", idempotency_key="k1")
    assert (again["correlation_id"], again["created"]) == ("order-7", False)
    assert world.rows("select * from giftcard_jobs where correlation_id = 'made-anew'") == []


def test_the_same_key_with_another_body_is_refused(world: World) -> None:
    submit(world, idempotency_key="k1")
    assert refused_order(world, "order-8", body="b2", idempotency_key="k1") == ("GC422", "Idempotency-Key")
    assert refused_order(world, "order-7", body="b2", idempotency_key="k1") == ("GC422", "Idempotency-Key")
    assert len(world.rows("select * from giftcard_jobs")) == 1


@pytest.mark.parametrize("key", [None, "k2"])
def test_the_same_correlation_id_with_another_body_is_refused(world: World, key: str | None) -> None:
    submit(world, idempotency_key="k1")
    assert refused_order(world, body="b2", idempotency_key=key) == ("GC409", "correlation_id")


def test_each_tenant_has_keys_and_correlation_ids_of_its_own(world: World) -> None:
    first = submit(world, idempotency_key="k1")
    other = submit(world, body="b2", idempotency_key="k1", tenant_id="acme")
    assert other["created"]
    assert other["job_id"] != first["job_id"]
    assert submit(world, idempotency_key="k1")["job_id"] == first["job_id"]
    assert submit(world, body="b2", idempotency_key="k1", tenant_id="acme")["job_id"] == other["job_id"]


@pytest.mark.parametrize("amount", [0, -1])
def test_an_order_of_nothing_is_refused_whole(world: World, amount: int) -> None:
    payload = {"amount": {"amount": amount, "currency": "USD"}}
    with pytest.raises(psycopg.errors.CheckViolation, match="giftcard_orders_amount_is_positive"):
        submit(world, payload=payload)
    assert world.rows("select * from giftcard_jobs") == []


# Customers


def customer(world: World, external_id: str | None = "C-1", **more: Any) -> dict[str, Any]:
    arguments = {"tenant_id": "default", "email": "kate@example.org", "given_name": "Kate", "family_name": None} | more
    answer: dict[str, Any] = world.call("save_customer", external_id=external_id, **arguments)
    return answer


def test_a_customer_is_one_per_tenant_and_external_id(world: World) -> None:
    first = customer(world)
    again = customer(world, email="other@example.org", given_name="Katherine")
    assert again["id"] == first["id"]
    (row,) = world.rows("select * from giftcard_customers")
    assert (row["given_name"], row["email"]) == ("Katherine", "other@example.org")
    assert customer(world, "C-2")["id"] != first["id"]
    assert customer(world, tenant_id="acme")["id"] != first["id"]


def test_without_an_external_id_a_customer_is_one_per_lower_case_address(world: World) -> None:
    first = customer(world, None)
    assert customer(world, None, email="KATE@example.org")["id"] == first["id"]
    assert customer(world, None, email="otto@example.org")["id"] != first["id"]
    assert customer(world, None, tenant_id="acme")["id"] != first["id"]


def test_an_address_may_belong_to_one_with_and_one_without_external_id(world: World) -> None:
    assert len({customer(world)["id"], customer(world, "C-2")["id"], customer(world, None)["id"]}) == 3


# Codes


def assign(world: World, customer_id: int, *candidates: str) -> dict[str, Any]:
    answer: dict[str, Any] = world.call("assign_code", customer_id=customer_id, candidates=candidates)
    return answer


def test_the_first_free_candidate_is_taken(world: World) -> None:
    taken = customer(world, "C-1")["id"]
    assert assign(world, taken, "KATE0001", "KATE0002") == {"code": "KATE0001", "assigned": True}
    other = customer(world, "C-2")["id"]
    assert assign(world, other, "KATE0001", "KATE0003", "KATE0002")["code"] == "KATE0003"


def test_a_customer_that_has_a_code_keeps_it(world: World) -> None:
    one = customer(world)["id"]
    assign(world, one, "KATE0001")
    assert assign(world, one, "KATE0002") == {"code": "KATE0001", "assigned": False}
    assert customer(world)["personal_code"] == "KATE0001"


def test_when_all_are_taken_there_is_none(world: World) -> None:
    assign(world, customer(world, "C-1")["id"], "KATE0001")
    other = customer(world, "C-2")["id"]
    assert assign(world, other, "KATE0001") == {"code": None, "assigned": False}
    assert assign(world, other)["code"] is None
    assert world.rows("select personal_code from giftcard_customers where id = %s", other) == [{"personal_code": None}]


def test_each_tenant_has_codes_of_its_own(world: World) -> None:
    assign(world, customer(world)["id"], "KATE0001")
    assert assign(world, customer(world, tenant_id="acme")["id"], "KATE0001")["assigned"]


@pytest.mark.parametrize("code", ["kate0001", "KATE001", "KATE-0001", "0001", "BARTHOLOMEW0001"])
def test_a_code_of_another_form_is_refused_and_not_tried_again(world: World, code: str) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match="giftcard_customers_personal_code_is_plain"):
        assign(world, customer(world)["id"], code)


def test_a_collision_on_another_constraint_is_not_taken_for_a_taken_code(world: World) -> None:
    world.run("create unique index other_rule on giftcard_customers (tenant_id, left(personal_code, 4))")
    assign(world, customer(world, "C-1")["id"], "KATE0001")
    with pytest.raises(psycopg.errors.UniqueViolation, match="other_rule"):
        assign(world, customer(world, "C-2")["id"], "KATE0002")


def test_a_customer_that_does_not_exist_gets_no_code(world: World) -> None:
    assert refused(world, "assign_code", customer_id=404, candidates=("KATE0001",)) == ("GC404", "customer_id")

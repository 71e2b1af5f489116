"""Orders are found by an index, whatever is known of them: the newest first, bounded, and none of another tenant."""

import json
from typing import Any

import psycopg
import pytest

from tests.support.factory import World

MANY, CROWD = 300, 3000
FILL = """
insert into giftcard_customers (tenant_id, external_id, email, given_name, personal_code, created_at, updated_at)
select 'shop', n::text, 'K' || n || '@example.org', 'Kate', 'KATE' || to_char(n, 'FM0000'), now(), now()
  from generate_series(1, %(many)s) n;
insert into giftcard_orders (tenant_id, correlation_id, body_hash, amount, currency, details, customer_id, created_at)
select 'shop', 'order-' || to_char(n, 'FM00000'), 'x', 5, 'EUR',
       jsonb_build_object('customer', jsonb_build_object('email', 'R' || n || '@example.org', 'given_name', 'Rob')),
       c.id, timestamptz '2030-01-01' + make_interval(secs => n)
  from generate_series(1, %(many)s) n join giftcard_customers c on c.external_id = n::text;
insert into giftcard_payments (tenant_id, correlation_id, named_order, provider, provider_ref, amount, currency, worth,
                               created_at)
select 'shop', 'order-' || to_char(n, 'FM00000'), 'order-' || to_char(n, 'FM00000'), 'p', 'ch_' || n, 5, 'EUR', 5, now()
  from generate_series(1, %(many)s) n;
insert into giftcard_cards (tenant_id, correlation_id, payment_id, provider, provider_ref, number_encrypted,
                            number_hash, last4, amount, balance, currency, created_at)
select p.tenant_id, p.correlation_id, p.id, 'p', 'card-' || p.id, 'x', p.id::text, right(p.correlation_id, 4), 5, 5,
       'EUR', now()
  from giftcard_payments p;
"""
# By the way that it is found: a text, and the same of what is not there.
WAYS = {
    "correlation_id": ("order-00234", "order-x"),
    "email": ("r234@EXAMPLE.org", "none@example.org"),
    "of the customer": ("k234@EXAMPLE.org", "k0@example.org"),
    "personal_code": ("kate0234", "kate0"),
    "last4": ("0234", "9999"),
    "reference": ("ch_234", "ch_0"),
}


def fill(world: World, many: int) -> World:
    for statement in (FILL % {"many": many}).split(";\n"):
        world.run(statement)
    return world


@pytest.fixture
def full(world: World) -> World:
    return fill(world, MANY)


def found(world: World, text: str, **more: Any) -> list[str]:
    return [order["correlation_id"] for order in world.ask("find_orders", text=text, **more)["orders"]]


def test_each_way_leads_to_the_order(full: World) -> None:
    for way, (text, none) in WAYS.items():
        for tenant in (None, "shop"):
            assert found(full, text, tenant_id=tenant) == ["order-00234"], way
            assert found(full, none, tenant_id=tenant) == [], way
        assert found(full, text, tenant_id="other") == [], way


READ = (
    "select sum(seq_tup_read + idx_tup_fetch)::integer as n from pg_stat_xact_user_tables where relname like 'gift%%'"
)


@pytest.mark.slow
def test_no_way_reads_more_than_the_rows_that_fit(world: World) -> None:
    """Nobody has analyzed the tables. Dead letters of others are no reason to read them, either."""
    fill(world, CROWD)
    world.run("insert into giftcard_jobs (correlation_id, stage, status) select n, 'email', 'error'"
              " from generate_series(1, 2000) n")  # fmt: skip
    for text, tenant in [(text, tenant) for texts in WAYS.values() for text in texts for tenant in (None, "shop")]:
        for _ in range(7):  # until a plan would be kept
            before = world.rows(READ)[0]["n"]
            world.ask("find_orders", text=text, tenant_id=tenant)
            assert world.rows(READ)[0]["n"] - before < 20, (text, tenant)


def test_the_newest_come_first_and_more_are_announced(full: World) -> None:
    answer = full.ask("find_orders", text="order-")
    ids = [order["correlation_id"] for order in answer["orders"]]
    assert (ids, answer["more"]) == ([f"order-{n:05}" for n in range(MANY, MANY - 50, -1)], True)
    answer = full.ask("find_orders", text="order-0000", limit=1000)
    assert (len(answer["orders"]), answer["more"]) == (9, False)
    answer = full.ask("find_orders", text="order-0000", limit=2)
    assert ([order["correlation_id"] for order in answer["orders"]], answer["more"]) == (
        *(["order-00009", "order-00008"], True),
    )


def test_an_exact_id_is_found_among_many_that_begin_with_it(full: World) -> None:
    full.run(
        "insert into giftcard_orders (correlation_id, body_hash, amount, currency, created_at)"
        " values ('order-0', 'x', 1, 'EUR', '2040-01-01')"
    )
    answer = full.ask("find_orders", text="order-0")
    assert (answer["orders"][0]["correlation_id"], answer["more"]) == ("order-0", True)


def test_an_order_that_is_found_twice_is_listed_once(full: World) -> None:
    full.run("update giftcard_orders set details = jsonb_set(details, '{customer,email}', '\"K234@example.org\"')"
             " where correlation_id = 'order-00234'")  # fmt: skip
    full.run("update giftcard_payments set provider_ref = 'order-00234' where provider_ref = 'ch_234'")
    (order,) = full.ask("find_orders", text="order-00234")["orders"]
    assert order["matched"] == ["correlation_id", "reference"]
    assert found(full, "k234@example.org") == ["order-00234"]


def test_a_payment_that_is_not_accepted_leads_to_the_order_that_it_names(full: World) -> None:
    full.run(
        "insert into giftcard_payments (tenant_id, named_order, provider, provider_ref, worth, created_at)"
        " values ('shop', 'order-00007', 'p', 'ch_stray', 5, now()), ('shop', null, 'p', 'ch_lost', 5, now())"
    )
    assert found(full, "ch_stray") == ["order-00007"]
    assert found(full, "ch_lost") == []


def test_an_address_of_any_length_can_be_stored(world: World) -> None:
    long = {"customer": {"email": "é" * 10_000 + "@example.org"}}
    world.run(
        "insert into giftcard_orders (correlation_id, body_hash, amount, currency, details, created_at)"
        " values ('long', 'x', 1, 'EUR', %s::jsonb, now())",
        json.dumps(long),
    )
    (order,) = world.ask("find_orders", text="long")["orders"]
    assert len(order["recipient"]["email"]) == 254


def test_a_search_for_nothing_is_refused(world: World) -> None:
    with pytest.raises(psycopg.Error) as caught:
        world.ask("find_orders", text="")
    assert (caught.value.sqlstate, caught.value.diag.message_detail) == ("GC400", "text")

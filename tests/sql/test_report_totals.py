"""Sums of reports add up to the tables: thousands of random orders, counted once more by Python, row by row."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.factory import World

TENANTS = ("default", "acme", "Ünïcode/1", "z")
CURRENCIES = ("USD", "EUR", "JPY", "KWD", "XTS")
FIRST = date(2034, 12, 25)
DAYS = [FIRST + timedelta(days=n) for n in range(-1, 7)]
FIGURES = {"orders": "giftcard_orders", "payments": "giftcard_payments", "cards": "giftcard_cards"}

# Half of all at a midnight or a microsecond to either side of it; payments and cards later, some on another day.
DRAWN = """
create temporary table drawn on commit drop as
with seed as (select setseed(%(seed)s))
  select 'order-' || n as flow, 1 + floor(random() * 1000000000)::bigint as amount,
         (%(tenants)s::text[])[1 + floor(random() * 4)::int] as tenant,
         (%(currencies)s::text[])[1 + floor(random() * 5)::int] as currency,
         timestamptz '2034-12-25 00:00Z' + floor(random() * 5)::int * interval '1 day'
           + case when random() < 0.5 then (floor(random() * 3)::int - 1) * interval '1 microsecond'
                  else random() * interval '86399.999999 s' end as at,
         case when random() < 0.9 then floor(random() * 3)::int * interval '12 hours' end as paid_after,
         case when random() < 0.9 then floor(random() * 3)::int * interval '1 hour' end as issued_after,
         1 + floor(random() * 40)::int as customer
    from seed, generate_series(1, %(orders)s) n
"""
PEOPLE = """
insert into giftcard_customers (tenant_id, external_id, email, given_name, created_at, updated_at)
select t, 'C-' || c, 'c' || c || '@example.org', 'Kate', now(), now()
  from unnest(%(tenants)s::text[]) t, generate_series(1, 40) c
"""
ORDERS = """
insert into giftcard_orders (tenant_id, correlation_id, body_hash, amount, currency, customer_id, created_at)
select d.tenant, d.flow, 'hash', d.amount, d.currency, p.id, d.at
  from drawn d join giftcard_customers p on p.tenant_id = d.tenant and p.external_id = 'C-' || d.customer
"""
PAYMENTS = """
insert into giftcard_payments
  (tenant_id, correlation_id, idempotency_key, provider, provider_ref, amount, currency, created_at)
select tenant, flow, tenant || flow, 'ledger', flow, amount, currency, at + paid_after
  from drawn where paid_after is not null
"""
EVENTS = """
insert into giftcard_payment_events (tenant_id, provider, event_id, payment_id, kind, amount, recorded_at)
select tenant_id, provider, provider_ref, id, 'captured', amount, created_at from giftcard_payments
"""
CARDS = """
insert into giftcard_cards
  (tenant_id, correlation_id, customer_id, payment_id, provider, provider_ref, number_encrypted, number_hash, last4,
   amount, balance, currency, created_at)
select d.tenant, d.flow, o.customer_id, p.id, 'ledger', d.flow, 'x', d.tenant || d.flow, '4242', d.amount, d.amount,
       d.currency, d.at + d.paid_after + d.issued_after
  from drawn d
  join giftcard_orders o on o.tenant_id = d.tenant and o.correlation_id = d.flow
  join giftcard_payments p on p.tenant_id = d.tenant and p.correlation_id = d.flow
 where d.issued_after is not null
"""

Sums = Counter[tuple[Any, ...]]


def fill(world: World, *, orders: int, seed: float) -> None:
    values = {"tenants": list(TENANTS), "currencies": list(CURRENCIES), "orders": orders, "seed": seed}
    with world.connection.transaction():
        for statement in (DRAWN, PEOPLE, ORDERS, PAYMENTS, EVENTS, CARDS):
            world.connection.execute(statement.encode(), values)
        world.run("drop table drawn")


def in_the_tables(world: World) -> Sums:
    """What there is, each row put on its day by Python: counts and amounts by figure, tenant, day and currency."""
    sums: Sums = Counter()
    for figure, table in FIGURES.items():
        for row in world.rows(f"select tenant_id, currency, amount, created_at from {table}"):
            where = (figure, row["tenant_id"], str(row["created_at"].astimezone(UTC).date()), row["currency"])
            sums[(*where, "count")] += 1
            sums[(*where, "amount")] += row["amount"]
    return sums


def in_the_reports(world: World, days: list[date] = DAYS) -> Sums:
    sums: Sums = Counter()
    for tenant in TENANTS:
        for day in days:
            made = world.call("make_report", tenant_id=tenant, day=day)
            for money in made["currencies"]:
                for figure in FIGURES:
                    where = (figure, tenant, made["day"], money["currency"])
                    sums[(*where, "count")] += money[figure]
                    sums[(*where, "amount")] += money[f"{figure}_amount"]
            for figure in FIGURES:
                assert made["totals"][figure] == sum(money[figure] for money in made["currencies"])
    return +sums


@pytest.mark.parametrize("seed", [0.1, -0.7])
def test_reports_of_all_tenants_and_days_add_up_to_thousands_of_random_orders(world: World, seed: float) -> None:
    fill(world, orders=4000, seed=seed)
    world.run("set local time zone 'America/St_Johns'")
    there = in_the_tables(world)
    assert len(there) > 500
    assert in_the_reports(world) == there
    (total,) = world.rows("select sum(amount) as cards from giftcard_cards")
    assert sum(n for key, n in there.items() if key[0] == "cards" and key[-1] == "amount") == total["cards"]


def test_sums_stay_when_customers_are_erased(world: World) -> None:
    fill(world, orders=1500, seed=0.4)
    before = in_the_reports(world)
    for row in world.rows("select id from giftcard_customers where id % 3 = 0"):
        assert world.call("erase_customer", customer_id=row["id"], by="kim")["flows"] > 0
    assert before
    assert in_the_reports(world) == before


MIDNIGHT = datetime(2034, 12, 25, tzinfo=UTC)
microseconds = st.integers(-2, 2) | st.integers(-86_400_000_001, 86_400_000_001)
money = st.tuples(st.sampled_from(TENANTS), st.sampled_from(CURRENCIES), st.integers(1, 10**15), microseconds)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(money, min_size=1, max_size=30))
def test_any_orders_around_a_midnight_are_each_in_one_days_report(
    world: World, orders: list[tuple[str, str, int, int]]
) -> None:
    world.run("delete from giftcard_orders")
    for number, (tenant, currency, amount, moved) in enumerate(orders):
        world.run(
            "insert into giftcard_orders (tenant_id, correlation_id, body_hash, amount, currency, created_at)"
            " values (%s, %s, 'hash', %s, %s, %s)",
            *(tenant, f"order-{number}", amount, currency, MIDNIGHT + timedelta(microseconds=moved)),
        )
    there = in_the_tables(world)
    assert in_the_reports(world, [FIRST - timedelta(days=n) for n in (2, 1, 0, -1)]) == there
    assert sum(Decimal(n) for key, n in there.items() if key[-1] == "amount") == sum(row[2] for row in orders)

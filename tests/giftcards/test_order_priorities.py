"""The priority of an order is that of all its jobs."""

from typing import Any

import pytest

from lib.giftcards.order_files.file import open_orders
from lib.giftcards.order_files.importing import Importer
from lib.giftcards.order_files.own import OwnColumns
from tests.jobs.test_enqueue import CSV
from tests.support.world import World, an_order


@pytest.fixture
def shop(make_world: Any) -> World:
    made: World = make_world()
    return made


def test_all_jobs_of_an_order_have_its_priority(shop: World) -> None:
    first = shop.submit(an_order(correlation_id="o-1", priority=-7), idempotency_key="k-1")
    again = shop.submit(an_order(correlation_id="o-1", priority=3), idempotency_key="k-1")
    assert (first.status_code, again.status_code, again.json) == (202, 202, first.json)
    shop.submit(an_order(correlation_id="o-2"))
    shop.drain()
    rows = shop.sql("select correlation_id as flow, array_agg(distinct priority::integer) as of from giftcard_jobs"
                    " group by 1 order by 1")  # fmt: skip
    assert [(row["flow"], row["of"]) for row in rows] == [("o-1", [-7]), ("o-2", [0])]


def test_an_order_without_a_priority_has_the_hash_it_always_had(shop: World) -> None:
    shop.submit(an_order(correlation_id="o-1", priority=5))
    assert shop.submit(an_order(correlation_id="o-1")).status_code == 202
    assert shop.submit(an_order(correlation_id="o-1", priority=11)).json["field"] == "priority"


def test_a_bulk_import_may_be_of_low_priority(shop: World) -> None:
    importer = Importer(store=shop.store, registry=shop.registry, settings=shop.settings, priority=-10)
    assert importer.run(open_orders(CSV.format(name="Kate").encode(), OwnColumns())).created == 1
    assert shop.value("select priority from giftcard_jobs where stage = 'customer_ingest'") == -10


def test_erasing_a_customer_erases_the_keys_of_their_jobs(shop: World) -> None:
    shop.submit(an_order(correlation_id="o-1"))
    shop.drain()
    shop.sql("update giftcard_jobs set concurrency_key = 'CUST-1520' where id > 0 returning id")
    customer = shop.value("select id from giftcard_customers")
    shop.sql("select giftcard_erase_customer(%s)", customer)
    assert shop.value("select count(*) from giftcard_jobs where concurrency_key is not null") == 0

"""Sample data of `make dev`: the orders of data/orders.csv, a schedule, and a little trouble to look at and to fix."""

import psycopg

from dev import ROOT
from lib.caller import DEFAULT_TENANT, Caller
from lib.giftcards.order_files.file import open_orders
from lib.giftcards.order_files.importing import Importer
from lib.giftcards.order_files.own import OwnColumns
from lib.schedules.schemas import ScheduleRequest
from lib.schedules.service import Scheduling
from lib.web.services import Services

# A name that never resolves (RFC 2606), so that its circuit opens; and a payload that an operator can correct.
_TROUBLE = """
    insert into public.giftcard_jobs (correlation_id, stage, payload)
    select 'sample-call-' || n, 'http_call', '{"url": "https://shop.example/stock"}'::jsonb from generate_series(1, 3) n
    union all
    select 'sample-report', 'report', '{"day": "the day before yesterday"}'
    on conflict do nothing
"""


def plant(own: Services, url: str) -> int:
    """Add the sample data to the database at `url` unless it has orders. Return how many orders were added."""
    with psycopg.connect(url, autocommit=True) as connection:
        if connection.execute("select from public.giftcard_orders limit 1").fetchone() is not None:
            return 0
        orders = open_orders((ROOT / "data/orders.csv").read_bytes(), OwnColumns())
        connection.execute(_TROUBLE)
        schedules = Scheduling(own.store, own.registry, own.settings, caller=Caller("make dev"))
        schedules.create(ScheduleRequest(name="daily report", schedule="5 0 * * *", stage="report", payload={}))
        importer = Importer(store=own.store, registry=own.registry(), settings=own.settings, tenant_id=DEFAULT_TENANT)
        return importer.run(orders).created

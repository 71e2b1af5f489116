"""Real orders through the stages of the house: customer, personal code, payment and card by the ledger, mail by SMTP.

With an endpoint, each delivery is also announced by a webhook. With a circuit that is open, other jobs wait behind it.
"""

import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg

from bench.measure import Watch
from dev.migrate import migrate
from lib import stages
from lib.caller import Caller
from lib.config.load import load
from lib.config.settings import Settings
from lib.giftcards.orders import Customer, Money, Order, body_hash
from lib.giftcards.submit import submit_order
from lib.store.connect import connect
from lib.store.store import Store
from lib.telemetry import events
from lib.tick.tick import run_tick
from lib.webhooks.schemas import EndpointRequest
from lib.webhooks.service import Endpoints

Environ = Mapping[str, str]

_PAUSE = 0.01  # seconds, when the jobs of an order that are left run elsewhere
_LEFT = """
select exists (
  select from giftcard_jobs where status in ('queued', 'running') and circuit <> 'http_call:down.example')
"""
_DOWN = """
insert into giftcard_circuits (circuit, state, changed_at, open_until)
values ('http_call:down.example', 'open', now(), now() + interval '1 day');
insert into giftcard_jobs (correlation_id, stage, circuit, payload)
select 'down-' || n, 'http_call', 'http_call:down.example', '{"url": "https://down.example/"}'
  from generate_series(1, 1000) n
"""
_MAILED = "select count(*) from giftcard_jobs where stage = 'email' and status = 'completed' and run_no = 1"


def install(url: str) -> None:
    """Apply all migrations."""
    migrate(url)


def enqueue(
    url: str, *, count: int, environ: Environ, endpoint: str | None = None, circuit: bool = False, watch: Watch
) -> int:
    """Submit orders one by one, as the API does. `endpoint`: the URL of one that is created before."""
    settings = _settings(url, environ)
    registry = stages.load(settings)
    with closing(connect(settings)) as store:
        if endpoint:
            request = EndpointRequest(url=endpoint, events=["giftcard.delivered"])
            Endpoints(store, settings, caller=Caller("bench")).create(request)
        if circuit:
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(_DOWN)
        orders = [_order(number) for number in range(count)]
        watch.open()
        watch.start()
        for number, order in enumerate(orders):
            submit_order(
                order,
                store=store,
                registry=registry,
                settings=settings,
                tenant_id="default",
                correlation_id=f"bench-{number}",
                body_hash=body_hash(order),
                trigger_type="api",
            )
        watch.mark()
    return count


def drain(url: str, *, environ: Environ, ticks: int, log: bool, watch: Watch) -> int:
    """Run ticks until no job is left, perhaps together with other processes. Return how many jobs were run here."""
    settings = _settings(url, environ)
    registry = stages.load(settings)
    stores = [connect(settings) for _ in range(ticks)]
    for store in stores:
        store.check_health()
    if log:
        events.configure(readable=False)

    def work(store: Store) -> int:
        done = 0
        with psycopg.connect(url, autocommit=True) as connection:
            while True:
                report = run_tick(store, registry, settings, source="bench", limit=1_000, linger=False)
                done += report.completed
                if report.started:
                    watch.mark()
                elif _any(connection):
                    time.sleep(_PAUSE)
                else:
                    return done

    with ThreadPoolExecutor(ticks) as threads:
        watch.open()
        watch.start()
        done = sum(threads.map(work, stores))
    for store in stores:
        store.close()
    return done


def mailed(url: str) -> int:
    """Return how many orders have got their mail, at the first attempt."""
    with psycopg.connect(url, autocommit=True) as connection:
        return (connection.execute(_MAILED).fetchone() or (0,))[0]


def _any(connection: psycopg.Connection[tuple[bool]]) -> bool:
    return bool((connection.execute(_LEFT).fetchone() or (False,))[0])


def _order(number: int) -> Order:
    customer = Customer(
        external_id=f"C-{number}", given_name="Ada", family_name="Lovelace", email=f"ada.{number}@example.com"
    )
    return Order(customer=customer, amount=Money(amount=2_500, currency="USD"), message="Many happy returns")


def _settings(url: str, environ: Environ) -> Settings:
    for name in list(os.environ):
        if name.startswith(("GIFTCARD_", "SUPABASE_", "POSTGRES_", "SMTP_")):
            del os.environ[name]
    os.environ.update({"DATABASE_URL": url, "GIFTCARD_ENV": "development", **environ})
    return load()

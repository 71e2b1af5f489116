"""Measure how soon jobs start: python -m bench.waking [SECONDS]

One clock call a minute, without waking, with its own address, and with pg_net (whose worker is stood in for here, as in
the tests), at the same time: each a process with a database of its own. In the first half nothing else is going on, in
the second half jobs fail and are retried.
"""

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import httpx
import psycopg
from werkzeug.serving import make_server

from bench.server import bench_server, fresh
from bench.table import write
from dev import ROOT
from dev.clock import run_clock
from lib.config.load import load
from lib.errors import TransientError
from lib.job import Complete
from lib.jobs.registry import Registry
from lib.jobs.stage import stage
from lib.stages import load as load_stages
from lib.store.connect import connect
from lib.store.store import Store
from lib.tick.waking import WakingStore
from lib.validation import StrictModel
from lib.web.app import create_app
from lib.web.services import Services

_MODES = ("off", "url", "pg_net")
_SECRET = "clock-of-the-bench-8kq2Zr7w"  # noqa: S105
_API = "orders-of-the-bench-Tf9hWk3y"
_KEY = "dGhpcyBpcyBub3QgYSBzZWNyZXQsIGJ1dCBhIGtleSE="
# Seconds between two orders: on average, so that they come at any second of a minute.
_BETWEEN = 12.0
_DELAYS = [3.0, 8.0, 20.0]
_ORDER = {
    "customer": {"given_name": "Kate", "family_name": "Rodgers", "email": "kate@example.com"},
    "amount": {"amount": 2500, "currency": "USD"},
}
_LATE = """
    select extract(epoch from h.started_at - h.scheduled_at)::float8
      from giftcard_job_history h join giftcard_jobs j on j.id = h.job_id where {} order by 1
"""

_FIRST = "j.stage = 'customer_ingest' and h.run_no = 1"
_HALF = "select min(created_at) from giftcard_jobs where stage = 'failing'"


class _Nothing(StrictModel):
    """A payload without fields."""


@stage("failing", payload=_Nothing)
def _failing(_: _Nothing, context: Any) -> Complete:
    """Fail until the last attempt."""
    if context.job.attempts <= len(_DELAYS):
        raise TransientError("not yet")
    return Complete()


def main(seconds: float) -> None:
    """Measure all modes and print the table."""
    with bench_server() as server:
        urls = {mode: fresh(server) for mode in _MODES}
        for url in urls.values():
            _install(url)
        command = [sys.executable, "-m", "bench.waking", str(seconds)]
        running = {
            mode: subprocess.Popen([*command, mode, url], cwd=ROOT, stdout=subprocess.PIPE)  # noqa: S603
            for mode, url in urls.items()
        }
        for mode, process in running.items():
            found = json.loads(process.communicate()[0])
            write(f"{mode}: {json.dumps(found)}; load {os.getloadavg()[0]:.1f}")


def _install(url: str) -> None:
    from dev.migrate import migrate

    migrate(url)
    folder = ROOT / "tests/sql/supabase_cron"
    with psycopg.connect(url, autocommit=True) as connection:
        for name in ("net_and_vault.sql", "cron.sql"):
            connection.execute((folder / name).read_bytes())
        connection.execute("select vault.create_secret(%s, 'giftcard_cron_secret')", [_SECRET])


def measure(seconds: float, mode: str, url: str) -> None:
    """Run an application in one mode and print its figures as JSON."""
    listener = make_server("127.0.0.1", 0, lambda *_: [], threaded=True)
    address = f"http://127.0.0.1:{listener.server_port}"
    os.environ |= {"DATABASE_URL": url, "GIFTCARD_ENV": "test", "CRON_SECRET": _SECRET, "GIFTCARD_API_TOKEN": _API}
    os.environ |= {"GIFTCARD_ENCRYPTION_KEYS": _KEY, "GIFTCARD_LOOKUP_KEY": "a-lookup-key-of-more-than-32-characters"}
    os.environ |= {"GIFTCARD_WAKE": mode, "GIFTCARD_PUBLIC_URL": address, "SUPABASE_URL": ""}
    os.environ |= {"GIFTCARD_JOBS_PER_CRON_RUN": "1000", "GIFTCARD_CIRCUIT_THRESHOLD": "0"}
    settings = load()
    store = connect(settings)
    if mode == "url":
        store = WakingStore.over(store, settings)
    registry = Registry({**load_stages(settings).stages, "failing": _failing})
    listener.app = create_app(Services(settings, store, lambda: registry))
    stop = threading.Event()
    quiet: Callable[[str], None] = lambda line: None  # noqa: E731
    clock = {"stop": stop, "report": quiet}
    threads = [
        threading.Thread(target=listener.serve_forever, args=(0.05,), daemon=True),
        threading.Thread(target=run_clock, args=(address, _SECRET), kwargs=clock, daemon=True),
    ]
    with psycopg.connect(url, autocommit=True) as connection:
        if mode == "pg_net":
            connection.execute("select giftcard_start_waking(p_url => %s)", [address])
            threads.append(threading.Thread(target=_pg_net, args=(url, stop), daemon=True))
        for thread in threads:
            thread.start()
        posts = _load(address, store, seconds)
        time.sleep(62)  # the clock's next call, for those whose wake was lost
        stop.set()
        sys.stdout.write(json.dumps(_figures(connection) | {"post_ms": round(1000 * posts[len(posts) // 2], 1)}))


def _load(address: str, store: Store, seconds: float) -> list[float]:
    """Post orders; in the second half, also enqueue jobs that fail. Return how long each post took."""
    until, posts = time.monotonic() + seconds, []
    half = until - seconds / 2
    chance = random.Random(7)  # noqa: S311
    with httpx.Client(base_url=address, headers={"Authorization": f"Bearer {_API}"}, timeout=30) as client:
        while time.monotonic() < until:
            time.sleep(chance.uniform(0.5, 2 * _BETWEEN - 0.5))
            began = time.monotonic()
            client.post("/api/v1/giftcards", json=_ORDER).raise_for_status()
            posts.append(time.monotonic() - began)
            if len(posts) % 2 and time.monotonic() > half:
                job = {"correlation_id": f"failing-{len(posts)}", "stage": "failing", "retry_delays": _DELAYS}
                store.enqueue([job | {"max_attempts": 4}])
    return sorted(posts)


def _figures(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    waits = {
        "first job of an order, otherwise idle": f"{_FIRST} and j.created_at < ({_HALF})",
        "first job of an order, beside retries": f"{_FIRST} and j.created_at >= ({_HALF})",
        "retry": "j.stage = 'failing' and h.run_no > 1",
    }
    found: dict[str, Any] = {}
    for name, condition in waits.items():
        late = [row[0] for row in connection.execute(_LATE.format(condition).encode())]
        places = (len(late) // 2, int(len(late) * 0.95), len(late) - 1)
        found[name] = {"runs": len(late), "median, 95th, max": [round(late[place], 2) for place in places]}
    ticks = (
        "select source, count(*), sum(extract(epoch from ended_at - started_at))::int from giftcard_ticks group by 1"
    )
    found["ticks"] = {row[0]: [row[1], row[2]] for row in connection.execute(ticks.encode())}
    found["waking"] = connection.execute("select to_jsonb(w) - 'url' from giftcard_wakes w").fetchone()[0]  # type: ignore[index]
    return found


def _pg_net(url: str, stop: threading.Event) -> None:
    """Call what net.http_post has queued, and each second what pg_cron would."""
    with psycopg.connect(url, autocommit=True) as connection:
        for number in _numbers(stop):
            if number % 20 == 0:
                connection.execute("select giftcard_send_due_wake()")
            for target, headers in connection.execute(
                "delete from net.http_request_queue returning url, headers"
            ).fetchall():
                threading.Thread(target=_post, args=(target, headers), daemon=True).start()


def _numbers(stop: threading.Event) -> Iterator[int]:
    number = 0
    while not stop.wait(0.05):
        yield number
        number += 1


def _post(target: str, headers: dict[str, str]) -> None:
    with suppress(httpx.HTTPError):
        httpx.post(target, headers=headers, timeout=5)


if __name__ == "__main__":
    measure_for = float(sys.argv[1]) if sys.argv[1:] else 240.0
    if sys.argv[2:]:
        measure(measure_for, *sys.argv[2:4])
    else:
        main(measure_for)

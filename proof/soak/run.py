"""One soak, from its start to its results."""

import contextlib
import json
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from dev.keys import secrets_file
from lib.giftcards.cards import Vault
from proof.soak.clock import Clock
from proof.soak.customers import Customers
from proof.soak.database import Database, soak_database
from proof.soak.facts import Auditor, Tail
from proof.soak.faults import Faults
from proof.soak.instances import Instances
from proof.soak.operator import Operator
from proof.soak.orders import Orders
from proof.soak.outside import SoakMailServer, SoakVendor
from proof.soak.plan import Plan
from proof.soak.progress import Progress
from proof.soak.report import Results
from proof.soak.sampling import Sampler


@dataclass(slots=True, kw_only=True)
class _Parts:
    """All that takes part."""

    database: Database
    instances: Instances
    orders: Orders
    vendor: SoakVendor
    mail: SoakMailServer
    customers: Customers
    clock: Clock
    faults: Faults
    auditor: Auditor
    sampler: Sampler


class Soak:
    """`folder`: of this run's log, samples and report; `data`: of the database."""

    def __init__(self, plan: Plan, *, folder: Path, data: Path) -> None:
        self.results = Results(seconds=0, samples=[], faults=[], broken=[])
        self._plan, self._folder, self._data = plan, folder, data
        self._progress = Progress(plan.seconds)
        self._events: Counter[str] = Counter()
        self._tails: list[Tail] = []
        self._began = 0.0

    def run(self) -> Results:
        """Run until the time is over or Ctrl-C; return what was found."""
        with ExitStack() as stack:
            parts = stack.enter_context(self._parts())
            self._began = time.monotonic()
            parts.clock.start()
            parts.customers.start()
            parts.faults.start()
            try:
                self._watch(parts, until=self._began + self._plan.seconds)
            except KeyboardInterrupt:
                print("Ending: no more orders and faults; what is open gets done.", flush=True)
            self._drain(parts)
            parts.clock.stop()
            self._look(parts)
            self._conclude(parts)
        return self.results

    def _watch(self, parts: _Parts, *, until: float) -> None:
        """Measure and check at each interval."""
        due = time.monotonic()
        while time.monotonic() < until:
            self._look(parts)
            due += self._plan.every
            time.sleep(max(0.0, min(due, until) - time.monotonic()))

    def _look(self, parts: _Parts) -> None:
        for tail in self._tails:
            parts.auditor.follow(tail, self._events)
        with contextlib.suppress(psycopg.OperationalError):  # the next look catches up
            while parts.auditor.check():
                pass
        sample = parts.sampler.sample(time.monotonic() - self._began, parts.instances.pids())
        self.results.samples.append(sample)
        with (self._folder / "samples.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(sample, ensure_ascii=False) + "\n")
        self._progress.show(sample, faults=len(parts.faults.happened), broken=len(parts.auditor.broken))

    def _drain(self, parts: _Parts) -> None:
        """Let what is open get done, without faults."""
        self.results.seconds = time.monotonic() - self._began
        parts.customers.stop()
        parts.faults.stop()
        end = time.monotonic() + self._plan.drain
        if not parts.customers.finish(seconds=self._plan.drain):
            self.results.broken.append("orders were sent and never answered")
        while time.monotonic() < end and self._is_work_left(parts):
            parts.faults.requeue()
            for tail in self._tails:
                parts.auditor.follow(tail, self._events)
            with contextlib.suppress(psycopg.OperationalError):
                parts.auditor.check()
            time.sleep(1)

    def _is_work_left(self, parts: _Parts) -> bool:
        return any(not accepted.is_cancelled for accepted in parts.orders.snapshot().values())

    def _conclude(self, parts: _Parts) -> None:
        orders, results = parts.orders, self.results
        try:
            parts.auditor.finish()
        except psycopg.OperationalError as error:
            results.broken.append(f"the database is away in the end: {error}")
        results.broken += parts.auditor.broken + parts.customers.refused
        results.broken += [f"instance {number} ended by itself" for number in parts.instances.ended()]
        results.broken += [f"fault that could not be: {text}" for text in parts.faults.failed]
        results.faults = sorted(parts.faults.happened, key=lambda fault: fault[1])
        results.results = dict(parts.sampler.results)
        results.errors = dict(orders.errors + self._events)
        results.counts = {
            "orders accepted": orders.accepted,
            "orders checked": orders.checked - orders.cancelled,
            "orders that stayed cancelled": orders.cancelled,
            "orders checked without their oldest runs": parts.auditor.old,
            "mails": parts.mail.count,
            "charges and cards at the vendor": len(parts.vendor.made),
            "facts broken": len(results.broken),
            "processes killed": parts.instances.kills,
            "connections cut": parts.database.cuts,
            "acts of the operator": parts.faults.acts,
            "calls of the clock": parts.clock.calls,
            "calls delivered twice": parts.clock.doubled,
            "minutes missed": parts.clock.missed,
        }

    @contextmanager
    def _parts(self) -> Iterator[_Parts]:
        """Start everything, and end it."""
        plan = self._plan
        with soak_database(self._data, plan) as database, ExitStack() as stack:
            orders = Orders()
            vendor = SoakVendor(seed=plan.seed + 5, seconds=plan.ttr + 2)
            stack.callback(vendor.close)
            mail = SoakMailServer(orders)
            mail.up()
            stack.callback(mail.down)
            secrets = secrets_file(self._folder / "secrets.json")
            instances = Instances(plan, self._folder)
            outside = {
                "DATABASE_URL": database.url,
                "GIFTCARD_PUBLIC_URL": instances.url,
                "SMTP_URL": mail.url,
                "GIFTCARD_PAYMENT_PROVIDER": "http",
                "GIFTCARD_PAYMENT_URL": f"{vendor.url}/charges",
                "GIFTCARD_CARD_PROVIDER": "http",
                "GIFTCARD_CARD_URL": f"{vendor.url}/cards",
            }
            instances.start({**plan.environment(), **secrets, **outside})
            stack.callback(instances.close)
            self._tails = [Tail(log) for log in instances.logs]
            url = instances.url
            operator = Operator(orders, url=url, token=secrets["GIFTCARD_ADMIN_TOKEN"], seed=plan.seed)
            vault = Vault([secrets["GIFTCARD_ENCRYPTION_KEYS"]], lookup_key=secrets["GIFTCARD_LOOKUP_KEY"])
            yield _Parts(
                database=database,
                instances=instances,
                orders=orders,
                vendor=vendor,
                mail=mail,
                customers=Customers(plan, orders, url=url, token=secrets["GIFTCARD_API_TOKEN"]),
                clock=Clock(plan, orders, url=url, secret=secrets["CRON_SECRET"]),
                faults=Faults(
                    plan, database=database, instances=instances, vendor=vendor, mail=mail, operator=operator
                ),
                auditor=Auditor(database, orders, vendor, mail, vault, keeps=15 * plan.day),
                sampler=Sampler(database.other(), orders),  # the auditor's has tables of these names
            )

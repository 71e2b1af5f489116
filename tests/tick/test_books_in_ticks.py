"""Whatever jobs ask for, whenever ticks die: an order is charged once, has one card, and all money is accounted for.

Random sequences of orders, jobs that nobody needs, corrected payloads, refunds, disputes, decisions and ticks, some of
which lose their database after any call, as a killed function does. Charges are requests to a real HTTP vendor.
"""

import itertools
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from lib.errors import Refused, Unavailable
from lib.store.postgres import PostgresWire
from tests.support.acts import KIM
from tests.support.books import OPEN, on_lines
from tests.support.servers import Vendor, a_vendor
from tests.support.world import CRON, World, an_order, bearer

pytestmark = pytest.mark.slow

_numbers = itertools.count(1)
THIEF = "thief@example.net"


class Killed(BaseException):
    """Ends a tick as a kill does: nothing handles it."""


class Mortal(PostgresWire):
    """A wire whose process is killed after so many calls: the next one is carried out, and its reply is lost."""

    left: int | None = None

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        if self.left is None:
            return super().call(function, repeat=repeat, **arguments)
        self.left -= 1
        if self.left >= -1:
            answer = super().call(function, repeat=repeat, **arguments)
        if self.left >= 0:
            return answer
        if threading.current_thread() is threading.main_thread():
            raise Killed
        raise Unavailable("the process was killed")


@pytest.fixture
def vendor() -> Iterator[Vendor]:
    with a_vendor() as vendor:
        yield vendor


@pytest.fixture
def world(make_world: Callable[..., World], database_url: str, vendor: Vendor) -> World:
    return make_world(
        wire=Mortal(database_url),
        GIFTCARD_PAYMENT_PROVIDER="http",
        GIFTCARD_PAYMENT_URL=vendor.url,
        GIFTCARD_CIRCUIT_THRESHOLD=0,
        GIFTCARD_TICK_BUDGET_SECONDS=5,
    )


AMOUNTS = st.sampled_from((500, 500, 500, 9900))
_MONEY = ("payment", "payment", "issue_card", "issue_card")
STAGES = st.sampled_from(("customer_ingest", "personal_code", "email", "block_card", *_MONEY))
ORDERS = st.integers(0, 1)
STEPS = st.one_of(
    st.tuples(st.just("tick")),
    st.tuples(st.just("killed"), st.integers(0, 12)),
    st.tuples(st.just("job"), ORDERS, STAGES, AMOUNTS, st.sampled_from(("", "again", "once more"))),
    st.tuples(st.just("correct"), ORDERS, STAGES, AMOUNTS),
    st.tuples(st.just("back"), ORDERS, st.sampled_from(("refunded", "disputed")), AMOUNTS, st.integers(0, 2)),
    st.tuples(st.just("mood"), st.sampled_from(("cut", "gone", "garbage", 503))),
    st.tuples(st.just("cancel"), ORDERS),
    st.tuples(st.just("free"), ORDERS),
)

BEGINNINGS = st.sampled_from(
    (
        [],
        [("mood", "cut"), ("job", 0, "payment", 500, "again"), ("job", 1, "payment", 500, "again"), ("tick",)],
        [("job", 0, "payment", 500, "again"), ("mood", "cut"), ("killed", 5)],
    )
)


class Shop:
    """Two orders of a tenant of their own, and what happens to them."""

    def __init__(self, world: World, vendor: Vendor, amounts: tuple[int, int]) -> None:
        self.world, self.vendor = world, vendor
        self.tenant = f"tenant-{next(_numbers)}"
        self.flows = [f"{self.tenant}-order-{number}" for number in range(2)]
        for flow, amount in zip(self.flows, amounts, strict=True):
            assert world.submit(self.body(flow, amount)).status_code == 202

    def body(self, flow: str, amount: int) -> dict[str, Any]:
        money = {"amount": amount, "currency": "USD"}
        customer = {"external_id": flow, "email": f"{flow}@example.com"}
        return an_order(tenant_id=self.tenant, correlation_id=flow, amount=money, customer=customer)

    def payload(self, flow: str, amount: int) -> dict[str, Any]:
        body = self.body(flow, amount)
        return {"customer": body["customer"] | {"email": THIEF}, "amount": body["amount"]}

    def tick(self) -> None:
        self.world.move(60)
        self.world.tick()

    def killed(self, after: int) -> None:
        wire = self.world.store._wire
        assert isinstance(wire, Mortal)
        wire.left = after
        with suppress(Killed):
            self.world.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON))
        wire.left = None
        self.world.move(120)

    def job(self, order: int, stage: str, amount: int, dedup_key: str) -> None:
        flow = self.flows[order]
        payload = {} if stage == "block_card" else self.payload(flow, amount)
        flow_of = {"tenant_id": self.tenant, "correlation_id": flow, "dedup_key": dedup_key}
        self.world.store.enqueue([{"stage": stage, "payload": payload} | flow_of], replace=False)

    def correct(self, order: int, stage: str, amount: int) -> None:
        rows = self.world.sql(
            "select id from giftcard_jobs"
            " where (correlation_id, stage) = (%s, %s) and status in ('error', 'cancelled')",
            self.flows[order],
            stage,
        )
        for row in rows:
            payload = None if stage == "block_card" else self.payload(self.flows[order], amount)
            self.perhaps(self.world.store.requeue, row["id"], payload=payload, caller=KIM)

    def back(self, order: int, kind: str, amount: int, number: int) -> None:
        for row in self.world.sql(
            "select provider_ref from giftcard_payments where correlation_id = %s", self.flows[order]
        ):
            self.perhaps(
                self.world.store.record_payment_event,
                tenant_id=self.tenant,
                provider="http",
                provider_ref=row["provider_ref"],
                event_id=f"{kind} {self.flows[order]} {number}",
                kind=kind,
                amount=amount,
                currency="USD",
                as_of=datetime.now(UTC).isoformat(),
            )

    def mood(self, mood: Any) -> None:
        self.vendor.then(mood)

    def cancel(self, order: int) -> None:
        self.perhaps(self.world.store.cancel_flow, self.tenant, self.flows[order], caller=KIM)

    def free(self, order: int) -> None:
        self.perhaps(self.world.store.make_free_of_charge, self.tenant, self.flows[order], reason="test", caller=KIM)

    @staticmethod
    def perhaps(act: Callable[..., Any], *arguments: Any, **more: Any) -> None:
        """Acts, unless our own rules are against it."""
        try:
            act(*arguments, **more)
        except Refused as refused:
            if refused.sqlstate not in ("GC404", "GC409"):
                raise

    def come_to_rest(self) -> None:
        for _ in range(40):
            self.world.move(400)
            self.world.tick()
            left = self.world.value(
                "select count(*) from giftcard_jobs where tenant_id = %s and status in ('queued', 'running')",
                self.tenant,
            )
            if not left:
                return
        raise AssertionError("jobs of this tenant never end")

    def check(self) -> None:
        ours = {key for key, body in self.requests() if body["reference"] in self.flows}
        charged = {taken.reference: taken.amount for taken in self.vendor.taken if taken.key in ours}
        lines = self.world.sql("select * from giftcard_reconcile(%s)", self.tenant)
        # A run that was killed while it charged, and whose order was cancelled then: a line says so.
        unknown = {line["reference"] for line in lines if line["kind"] == "charge_unknown"}
        for taken in self.vendor.taken:
            if taken.key in unknown:
                del charged[taken.reference]
        known = self.world.sql("select * from giftcard_payments where tenant_id = %s", self.tenant)
        assert charged == {row["provider_ref"]: row["amount"] for row in known}
        named = [row["named_order"] for row in known]
        assert len(set(named)) == len(named), "an order is charged once"
        assert self.world.sql("select * from giftcard_verify_books() where tenant_id = %s", self.tenant) == []
        rows = self.world.sql(f"select * from ({OPEN}) o where tenant_id = %s", self.tenant)
        assert {row["currency"]: row["open"] for row in rows if row["open"]} == on_lines(lines)
        folder = Path(str(self.world.settings.giftcard_mail_dir))
        for mail in map(Path.read_text, folder.glob("*.eml")):
            assert THIEF not in mail

    def requests(self) -> Iterator[tuple[str, dict[str, Any]]]:
        yield from zip(self.vendor.keys, self.vendor.bodies, strict=True)


# Not shrunk: each example takes a second.
@settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(amounts=st.tuples(AMOUNTS, AMOUNTS), beginning=BEGINNINGS, steps=st.lists(STEPS, min_size=4, max_size=16))
def test_an_order_is_charged_once_and_all_money_is_accounted_for(
    world: World, vendor: Vendor, amounts: tuple[int, int], beginning: list[Any], steps: list[Any]
) -> None:
    vendor.calm()
    shop = Shop(world, vendor, amounts)
    # Most orders ask for payment at once, twice, and the vendor's first answers are lost.
    for what, *more in [*beginning, *steps]:
        getattr(shop, what)(*more)
    shop.come_to_rest()
    shop.check()

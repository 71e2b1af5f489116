"""Who acts in a night: the shop, the clock, programs that enqueue jobs; `operators`, and `square`."""

from random import Random
from typing import TYPE_CHECKING, Any

from lib.errors import GiftcardError
from lib.giftcards.orders import Order, body_hash
from lib.giftcards.submit import submit_order
from lib.jobs.enqueue import prepare
from lib.schedules.schemas import ScheduleRequest
from lib.schedules.service import Scheduling
from lib.store.store import Store
from lib.webhooks.schemas import EndpointRequest
from lib.webhooks.service import Endpoints
from proof.simulation import operators, square
from proof.simulation.operators import OPERATOR, TRIES, until_done
from proof.simulation.plan import RATE, RATE_BURST
from proof.simulation.stages import PAY

if TYPE_CHECKING:
    from proof.simulation.night import Night

NAMES = ("Quirina", "小明")


def enter(night: "Night") -> None:
    """Let all who take part act in their time."""
    rng = Random(f"cast {night.seed}")
    end = 60.0 * night.plan.minutes
    _prepare(night)
    for number in range(night.plan.orders):
        at = rng.uniform(0, end * 0.6)
        if night.faults.includes(f"order-{number}"):
            _spawn(night, f"shop {number}", lambda n=number: _submit(night, n), at)
    for number in range(rng.choice((0, 2, 5))):
        at = rng.uniform(0, end * 0.6)
        if night.faults.includes(f"program {number}"):
            _spawn(night, f"program {number}", lambda n=number: _enqueue(night, n), at)
    if rng.random() < 0.4 and night.faults.includes("scheduler"):
        _spawn(night, "scheduler", lambda: _schedule(night), rng.uniform(0, 30))
    for minute in range(night.plan.minutes):
        _call_of_clock(night, minute, rng)
    for number in range(rng.choice((0, 0, 1, 3))):
        act, at = rng.choice(sorted(operators.DEEDS)), rng.uniform(20, end)
        if night.faults.includes(f"operator {number} {act}"):
            _spawn(night, f"operator {number}", lambda a=act: operators.DEEDS[a](night), at)


def _spawn(night: "Night", name: str, act: Any, delay: float) -> None:
    def run() -> None:
        with night.expecting_errors():
            act()

    night.machine.spawn(night.process(name, ours=False), run, name=name, delay=delay)


def _prepare(night: "Night") -> None:
    """Do what was done on days before: limits, an endpoint, a function that settles may call."""
    night.database.run(f"insert into giftcard_settle_functions values ('{PAY}')", at=night.machine.moment)
    for stage, runs in night.plan.limits.items():
        limit = f"insert into giftcard_limits (kind, name, runs) values ('stage', '{stage}', {runs})"
        night.database.run(limit, at=night.machine.moment)
    if night.plan.has_rate:
        columns = "kind, name, per_second, burst"
        limit = f"insert into giftcard_limits ({columns}) values ('stage', 'draw', {RATE}, {RATE_BURST})"
        night.database.run(limit, at=night.machine.moment)

    def create() -> None:
        night.faults.active = False
        request = EndpointRequest(url="https://93.184.215.14/events", events=["giftcard.issued", "giftcard.delivered"])
        store = night.store(night.machine.thread().process)
        Endpoints(store, night.settings, caller=OPERATOR).create(request)
        night.faults.active = True

    _spawn(night, "setup", create, 0)
    night.machine.run(until=0.5)


def _call_of_clock(night: "Night", minute: int, rng: Random) -> None:
    """Call as the clock does once a minute: late, twice, overlapping, or never."""
    at = 60.0 * minute + rng.uniform(0, 3)
    options = {
        "source": "cron",
        "execution_id": f"{night.seed}-{minute}",
        "limit": rng.choice((1, 3, 10)),
        # Where ticks are woken, each waits for what is due soon, and hands over what is due within a minute.
        "budget": 30 if night.plan.wakes else rng.choice((4, 15, 50)),
        "linger": rng.random() < 0.2 or night.plan.wakes,
    }
    calls = [(at, f"tick {minute}")] if rng.random() > 0.1 else []
    if rng.random() < 0.15:
        calls.append((at + rng.uniform(0, 20), f"tick {minute} again"))
    for delay, name in calls:
        if night.faults.includes(name):
            night.function(name, delay=delay, **options)
    for number in range(rng.choice((0, 0, 1, 2))):
        night.function(
            f"trigger {minute}.{number}",
            delay=at + rng.uniform(0, 55),
            source="manual",
            limit=10,
            linger=night.plan.wakes,
        )


def order(number: int) -> Order:
    """Return an order. The first and the fourth have the same customer; the first and the third ask for one code."""
    customer = number % 3
    return Order.model_validate(
        {
            "customer": {
                "external_id": f"C{customer:03}-1520" if customer % 2 == 0 else None,
                "given_name": NAMES[customer % 2],
                "family_name": "Novotná",
                "email": f"recipient{customer}@mail.example",
            },
            "amount": {"amount": 1000 + number, "currency": "USD"},
        }
    )


def _submit(night: "Night", number: int) -> None:
    """Submit an order, again and again until it is accepted, with the same Idempotency-Key."""
    name, wanted = f"order-{number}", order(number)
    store = night.store(night.machine.thread().process)
    for _ in range(TRIES):
        try:
            submitted = submit_order(
                wanted,
                store=store,
                registry=night.registries[night.version()],
                settings=night.settings,
                tenant_id="default",
                # Made by the server, as where the shop names none: only the key tells that it is the same order.
                correlation_id=f"{name}-{night.machine.thread().process.rng.getrandbits(32):08x}",
                body_hash=body_hash(wanted),
                trigger_type="api",
                idempotency_key=name,
            )
        except GiftcardError as error:
            night.machine.note(f"{type(error).__name__}: {str(error)[:100]}")
            night.machine.pause(5)
            continue
        break
    else:
        return
    flow = submitted["correlation_id"]
    night.acknowledged[flow] = number
    if night.plan.provider == "square":
        process = night.process(f"square {number}", ours=False)
        night.machine.spawn(process, lambda: square.pay(night, flow, wanted), name=process.name)


def _enqueue(night: "Night", number: int) -> None:
    """Enqueue tasks of a program, with a dedup key, until it is done."""
    rng = Random(f"{night.seed} program {number}")
    rows = [_task(rng) | {"correlation_id": f"program-{number}-{row}"} for row in range(rng.randint(1, 4))]
    if until_done(night, lambda store: store.enqueue(prepare(rows, night.registries[1], night.settings))):
        night.enqueued |= {row["correlation_id"] for row in rows}


def _task(rng: Random) -> dict[str, Any]:
    stage = rng.choice(("task", "task", "draw"))
    payload = {
        "seconds": rng.choice((0.05, 1, 8, 25)),
        "fails": rng.choice((0, 0, 0, 1, 4, 9)),
        # A job that runs at most once cannot.
        "snoozes": rng.choice((0, 0, 0, 1)) if stage == "task" else 0,
        "beats": rng.random() < 0.3,
        "pays": rng.random() < 0.4,
        # Longer than its time to run, its effect outlives the run, and meets that of the next one.
        "deed_seconds": rng.choice((None, None, None, 0.1, 32)),
    }
    key, attempts = rng.choice((None, None, "customer-7")), rng.choice((None, 1, 2))
    of_job = {"stage": stage, "tenant_id": "default", "payload": payload}
    return of_job | {"concurrency_key": key, "max_attempts": attempts}


def _schedule(night: "Night") -> None:
    rng = Random(f"{night.seed} schedule")
    request = ScheduleRequest(
        name="every minute",
        schedule="* * * * *",
        stage="task",
        payload={"seconds": 0.05},
        missed_policy=rng.choice(("skip", "one", "all")),
        overlap_policy=rng.choice(("skip", "queue", "allow")),
    )

    def create(store: Store) -> None:
        Scheduling(store, lambda: night.registries[1], night.settings, caller=OPERATOR).create(request)

    until_done(night, create)

"""Workers are killed, at random moments and at named points, until so many are dead."""

import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random

from proof.crash import plants
from proof.crash.night import Night, Plan, Say, a_shop
from proof.crash.outcome import tell
from proof.crash.servers import own_server
from tests.crash.doom import PLACES, point
from tests.crash.shop import Shop

# Survives every death of this scenario, which are those of workers, and leaves the processors to them.
_FAST = {"fsync": "off", "full_page_writes": "off"}
_PAUSE_SECONDS = (0.02, 0.4)


def run(plan: Plan, say: Say) -> list[str]:
    """Kill `plan.kills` workers over a night's orders; return the facts that are broken."""
    say(f"{plan.kills:,} SIGKILLs of workers")
    with (
        tempfile.TemporaryDirectory(prefix="giftcards-kills-") as folder,
        own_server(settings=_FAST) as (_, url),
        a_shop(url, Path(folder), plan) as shop,
    ):
        plants.plant(plan.plant, shop)
        with Night(shop, lanes=plan.lanes, say=say) as night:
            _kill(night, plan)
        return tell(night)


def _kill(night: Night, plan: Plan) -> None:
    rng, house = Random(plan.seed), night.house
    night.on_order = _appointments(night.shop, Random(plan.seed + 2))
    while house.killed < plan.kills:
        time.sleep(rng.uniform(*_PAUSE_SECONDS))
        workers = [worker for worker in house.workers if worker.pid is not None]
        if workers:
            rng.choice(workers).signal(signal.SIGKILL)
        night.progress(f"{house.killed:,} of {plan.kills:,} kills", left=1 - house.killed / plan.kills)
    night.on_order = lambda order: None
    for name in house.appointments.left():
        with suppress(FileNotFoundError):  # it comes true now
            house.appointments.cancel(name)


def _appointments(shop: Shop, rng: Random) -> Callable[[str], None]:
    """Return what makes an appointment for every second order: at a place on its way, before or after a call."""
    places = [(stage, when) for stage, whens in PLACES.items() for when in whens]

    def make(order: str) -> None:
        if rng.random() < 0.5:
            shop.house.appointments.make(point(order, *rng.choice(places)))

    return make

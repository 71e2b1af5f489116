"""Others take every connection that the server allows, in the middle of a night, and give them back."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

import psycopg

from proof.crash import plants
from proof.crash.night import Night, Plan, Say, a_shop
from proof.crash.operator import Operator, an_operator
from proof.crash.outcome import tell
from proof.crash.server import await_recovery
from proof.crash.servers import own_server

TIMES = 3
TOO_MANY = "sorry, too many clients already"
_CONNECTIONS = {"max_connections": 40}
_END_SESSIONS = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'giftcard-jobs'"


def run(plan: Plan, say: Say) -> list[str]:
    """Take all connections `plan.times` times over a night's orders; return what is broken."""
    times = plan.times or TIMES
    say(f"{times} times without a free connection: others have all {_CONNECTIONS['max_connections']}")
    rng = Random(plan.seed)
    with (
        tempfile.TemporaryDirectory(prefix="giftcards-connections-") as folder,
        own_server(settings=_CONNECTIONS) as (_, url),
        a_shop(url, Path(folder), plan) as shop,
        an_operator(url) as operator,
    ):
        plants.plant(plan.plant, shop)
        with Night(shop, lanes=plan.lanes, say=say, budget=2.0 * plan.pace, patience=60.0) as night:
            for turn in range(times):
                night.wait(rng.uniform(1.0, 3.0) * plan.pace, f"{turn} times without connections")
                _take_all(night, operator, url)
        operator.check_log(shop.house)
        return operator.tell(say) + tell(night)


def _take_all(night: Night, operator: Operator, url: str) -> None:
    with _others(night, url) as take:
        since = len(night.ended)
        if not night.wait_until(
            lambda: take() and any(TOO_MANY in tick.words for tick in night.ended[since:]),
            seconds=60,
            what="no connection is free",
        ):
            operator.unmet.append("words: no tick failed although no connection was free")
        problem = operator.clock()
        operator.expect("health", operator.health(), "down")
        operator.expect("clock", f"{problem.get('title')}: {problem.get('detail')}", "nothing was lost")
        operator.expect("doctor", operator.doctor("database"), "red", TOO_MANY, "pooler")
    await_recovery(night, operator)


@contextmanager
def _others(night: Night, url: str) -> Iterator[Callable[[], bool]]:
    """Yield what takes every free connection; all are given back in the end."""
    with ExitStack() as held:

        def take() -> bool:
            night.house.execute(_END_SESSIONS)
            try:
                while True:
                    held.enter_context(psycopg.connect(url, application_name="others"))
            except psycopg.OperationalError:
                return True

        yield take

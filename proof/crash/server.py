"""The Postgres server itself dies, in three ways, in the middle of a night, and is started again."""

import os
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from random import Random

from dev.postgres import Embedded, Settings
from proof.crash import plants
from proof.crash.night import Night, Plan, Say, a_shop
from proof.crash.operator import AWAY, Operator, an_operator
from proof.crash.outcome import tell
from proof.crash.servers import own_server

TIMES = 6
_WAYS = ("pg_ctl -m immediate", "SIGKILL of the postmaster", "SIGKILL of a session")
# With the planted fault: a commit is answered up to this many milliseconds before it is durable.
_LAZY: Settings = {"synchronous_commit": "off", "wal_writer_delay": 10_000, "wal_writer_flush_after": 0}


def run(plan: Plan, say: Say) -> list[str]:
    """Kill the server `plan.times` times over a night's orders; return the facts and words that are broken."""
    times = plan.times or TIMES
    say(f"{times} deaths of the Postgres server: {', '.join(_WAYS)}")
    with (
        tempfile.TemporaryDirectory(prefix="giftcards-server-") as folder,
        own_server(settings=_LAZY if plan.plant == "commits" else {}) as (server, url),
        a_shop(url, Path(folder), plan) as shop,
        an_operator(url) as operator,
    ):
        plants.plant(plan.plant, shop)
        with Night(shop, lanes=plan.lanes, say=say, budget=2.0 * plan.pace, patience=60.0) as night:
            for turn in range(times):
                _die(night, server, operator, turn, plan)
        operator.check_log(shop.house)
        return operator.tell(say) + tell(night)


def _die(night: Night, server: Embedded, operator: Operator, turn: int, plan: Plan) -> None:
    """Let it work for a while, kill the server, look, and start it again."""
    rng, pace = Random(f"{plan.seed} {turn}"), plan.pace
    night.wait(rng.uniform(1.0, 3.0) * pace, f"{turn} deaths of the server")
    way = _WAYS[turn % len(_WAYS)]
    if way == "pg_ctl -m immediate":
        server.stop(mode="immediate")
    elif way == "SIGKILL of the postmaster":
        server.kill()
    else:
        _kill_a_session(night)
    if way != "SIGKILL of a session":
        if turn == 0:
            read_while_away(operator)
        night.wait(rng.uniform(0.2, 4.0) * pace, f"{way}: the server is down")
        server.start()
    await_recovery(night, operator)


def await_recovery(night: Night, operator: Operator) -> None:
    """Expect a tick to end well, and health to be up, within a minute."""
    since = len(night.ended)

    def works() -> bool:
        return any(not tick.words for tick in night.ended[since:]) and operator.health() == "up"

    if not night.wait_until(works, seconds=60, what="the server is back"):
        operator.unmet.append("words: within 60 s no tick ended well and health was not up")


def _kill_a_session(night: Night) -> None:
    pid = night.house.value("select pid from pg_stat_activity where application_name = 'giftcard-jobs' limit 1")
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def read_while_away(operator: Operator) -> None:
    """Read everything while the server is down."""
    problem = operator.clock()
    operator.expect("health", operator.health(), "down")
    operator.expect(
        "clock", f"{problem.get('title')}: {problem.get('detail')}", "the database is away", "nothing was lost"
    )
    operator.expect("doctor", operator.doctor("database"), "red", AWAY + "doctor", "check DATABASE_URL")

"""The line between workers and Postgres is bad all night, and silent for a while."""

import tempfile
from pathlib import Path
from random import Random
from urllib.parse import parse_qs, urlsplit

from proof.crash import plants
from proof.crash.night import Night, Plan, Say, a_shop
from proof.crash.operator import AWAY, Operator, an_operator
from proof.crash.outcome import tell
from proof.crash.server import await_recovery
from proof.crash.servers import DATABASE, own_server
from proof.crash.slow_line import SlowLine

TIMES = 2
# Seconds. A tick: its budget, its patience, and the longest call with its repeats (see docs/architecture.md), which a
# loaded machine may make longer.
_BUDGET = 2.0
_LONGEST_TICK = _BUDGET + 8 + 18 + 12
_SILENCE = 13.0
_BAD_SECONDS = 8.0


def run(plan: Plan, say: Say) -> list[str]:
    """Work over a bad line, which falls silent `plan.times` times; return what is broken."""
    times = plan.times if plan.times is not None else TIMES
    say(f"a line that drips, delays and cuts, and is silent {times} times for {_SILENCE:g} s")
    with (
        tempfile.TemporaryDirectory(prefix="giftcards-network-") as folder,
        own_server() as (_, url),
        a_shop(url, Path(folder), plan) as shop,
    ):
        socket = Path(parse_qs(urlsplit(url).query)["host"][0]) / ".s.PGSQL.5432"
        line = SlowLine(socket, Random(plan.seed))
        by_line = f"postgresql://postgres@127.0.0.1:{line.port}/{DATABASE}"
        shop.house.environment["DATABASE_URL"] = by_line
        plants.plant(plan.plant, shop)
        with an_operator(by_line) as operator:
            with Night(shop, lanes=plan.lanes, say=say, budget=_BUDGET) as night:
                _work(night, line, operator, times, plan.pace)
            line.close()
            say(f"  the line: {', '.join(f'{what} {count:,}' for what, count in line.did.most_common())}")
            operator.check_log(shop.house)
            operator.unmet += [
                f"deadline: a tick took {tick.seconds:.1f} s" for tick in night.ended if tick.seconds > _LONGEST_TICK
            ]
            return operator.tell(say) + tell(night)


def _work(night: Night, line: SlowLine, operator: Operator, times: int, pace: float) -> None:
    line.bad.set()
    night.wait(_BAD_SECONDS * pace, "a bad line")
    for turn in range(times):
        line.silent.set()
        night.wait(_SILENCE, f"silence {turn + 1}")
        _read_in_silence(operator)
        line.silent.clear()
        night.wait(_BAD_SECONDS * pace / 2, "a bad line")
    if not line.did:
        operator.unmet.append("the line carried everything")
    line.bad.clear()
    await_recovery(night, operator)


def _read_in_silence(operator: Operator) -> None:
    operator.expect("health", operator.health(), "down")
    operator.expect("doctor", operator.doctor("database"), "red", AWAY + "doctor")

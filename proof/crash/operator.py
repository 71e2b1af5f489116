"""What an operator of the deployment reads meanwhile: health, the clock's response, the doctor, the workers' log."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from lib.cli import jobs
from lib.web.clock import CRON_PATH, HEALTH_PATH
from proof.crash.night import Say
from tests.crash.house import House
from tests.support.world import CRON, World, bearer

AWAY = "the database cannot be reached or gave up during giftcard_"
# Characters of what is read, in the report.
_LONGEST = 400


class Operator:
    """The application over the same database, paused. `unmet`: the expectations that what it reads did not meet."""

    def __init__(self, world: World) -> None:
        self._world = world
        world.app.cli.add_command(jobs)
        self.unmet: list[str] = []
        self.read: dict[str, str] = {}

    def health(self) -> str:
        """Return the status that `/api/health` responds with."""
        return str(self._json(HEALTH_PATH)["status"])

    def clock(self) -> dict[str, Any]:
        """Call the clock's route; return the report, or the problem."""
        return self._json(CRON_PATH)

    def doctor(self, *checks: str) -> str:
        """Return what `flask jobs doctor` prints on these checks: level, message and what to do."""
        result = self._world.app.test_cli_runner().invoke(args=["jobs", "doctor", "--json"])
        lines = [line for line in json.loads(result.stdout)["checks"] if line["check"] in checks]
        return "; ".join(f"{line['check']} {line['level']}: {line['message']} → {line['fix']}" for line in lines)

    def expect(self, where: str, text: str, *words: str) -> None:
        """Note what is read there, and whether it has these words."""
        self.read[where] = text
        self.unmet += [f"words: {where} lacks {word!r}: {text[:2000]}" for word in words if word not in text]

    def check_log(self, house: House) -> None:
        """Expect each tick that failed to have logged that the database did it."""
        logged = failed_ticks(house)
        self.unmet += [f"words: a tick ended with {words!r}" for words in logged if not words.startswith(AWAY)]

    def tell(self, say: Say) -> list[str]:
        """Say what was read, each place once; return the expectations that were not met."""
        for where, text in self.read.items():
            say(f"  {where}: {' '.join(text.split())[:_LONGEST]}")
        for line in self.unmet:
            say(f"BROKEN  {line}")
        return self.unmet

    def _json(self, path: str) -> dict[str, Any]:
        return dict(self._world.client.get(path, headers=bearer(CRON)).json or {})


@contextmanager
def an_operator(url: str) -> Iterator[Operator]:
    """Yield an operator of this database."""
    # It takes no job: those are the workers', which know the shop's vendors.
    world = World(url, GIFTCARD_PAUSED="1")
    try:
        yield Operator(world)
    finally:
        world.close()


def failed_ticks(house: House) -> list[str]:
    """Return the errors of the events `tick_failed` in the workers' log."""
    lines = [line for worker in house.workers for line in worker.log.read_text().splitlines()]
    events = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    return [str(event["error"]) for event in events if event["event"] == "tick_failed"]

"""Calls over one wire, and what came of each, written down: the pages that a story is made of."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from dev import ROOT
from lib.errors import GiftcardError
from lib.store.wire import Wire

NOON = datetime(2035, 1, 1, 12, tzinfo=UTC)
# Ids are beyond 2^53, where numbers of JavaScript end.
FIRST_ID = 2**53 + 1
STAGES = {"email": 60, "payment": 30, "customer_ingest": 60}
NOBODY = 2**62
LEASES = [f"00000000-0000-4000-8000-00000000000{n}" for n in range(1, 8)]

# What depends on the server, its real clock or chance, wherever it stands in an answer.
_OF_THE_SERVER = {
    "clock",
    "pid",
    "age",
    "oldest_transaction",
    "dead_rows",
    "sees_all",
    "role",
    "prepared_statements",
    "page_id",
}

# The ids of events; the dedup keys of jobs that the books enqueue, which are times.
_RANDOM_ID = re.compile(r"msg_[0-9a-f]{32}|\b[0-9]{8}T[0-9]{6}\.[0-9]{6}\b")

Answer = tuple[str, Any]


def functions_of_the_store() -> set[str]:
    """What `lib/store` calls by name."""
    sources = [path.read_text(encoding="utf-8") for path in Path(ROOT / "lib/store").glob("*.py")]
    return {
        name for source in sources for name in re.findall(r'_(?:act|dict|rows|wire\.call)\(\s*"(giftcard_\w+)"', source)
    }


class Teller:
    """Calls, and writes down what was answered or how it was refused."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.now: datetime | None = NOON
        self.told: list[Answer] = []

    def ask(self, function: str, **arguments: Any) -> Any:
        """Without a time. Answers None where it was refused."""
        name = f"giftcard_{function}"
        try:
            answer = self._wire.call(name, **arguments)
        except GiftcardError as error:
            said = dict(vars(error))
            self.told.append((name, (type(error).__name__, str(error), said)))
            return None
        self.told.append((name, _without_the_server(answer)))
        return answer

    def do(self, function: str, **arguments: Any) -> Any:
        return self.ask(function, **arguments, now=self.now)

    def later(self, seconds: float) -> None:
        assert self.now
        self.now += timedelta(seconds=seconds)


def _without_the_server(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {key: "…" if key in _OF_THE_SERVER else _without_the_server(value) for key, value in answer.items()}
    if isinstance(answer, list):
        return [_without_the_server(item) for item in answer]
    return _RANDOM_ID.sub("…", answer) if isinstance(answer, str) else answer

"""What goes wrong in a database, so that pages show it; and a wire that counts its calls."""

from typing import Any

from lib.store.wire import Wire
from tests.support.world import World

# In every text that a row may hold.
HOSTILE = "\"><script>alert(1)</script>'{{ 7*7 }}"


class CountingWire:
    """A wire that counts calls. `now`: the time that the overview takes instead of its clock's."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.calls: list[str] = []
        self.now: str | None = None

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        self.calls.append(function)
        if function == "giftcard_overview" and self.now:
            arguments["now"] = self.now
        return self._wire.call(function, repeat=repeat, **arguments)

    def close(self) -> None:
        self._wire.close()


def counting(world: World) -> CountingWire:
    """Puts a counting wire between the world's store and its wire."""
    wire = CountingWire(world.store._wire)
    world.store._wire = wire
    return wire


def open_circuit(world: World, circuit: str = "payment", *, error: str = "answered 503", until: str = "2 min") -> None:
    """A circuit that opened three minutes ago, and jobs behind it."""
    world.sql(
        "insert into giftcard_circuits (circuit, state, failures, changed_at, open_until)"
        " values (%s, 'open', 3, now() - interval '3 min', now() + %s::interval)", circuit, until,
    )  # fmt: skip
    world.sql(
        "insert into giftcard_circuit_changes (circuit, from_state, to_state, changed_at, cause)"
        " values (%s, 'closed', 'open', now() - interval '3 min', '3 failures in a row, the last: ' || %s)",
        circuit, error,
    )  # fmt: skip
    world.enqueue("payment", count=2)


def kill(world: World, job_id: int, *, error: str = "PermanentError: the address does not exist") -> int:
    """Makes a job a dead letter."""
    world.sql("update giftcard_jobs set status = 'error', last_error = %s, finished_at = now(), attempts = 3"
              " where id = %s", error, job_id)  # fmt: skip
    return job_id


def ran(world: World) -> None:
    """A tick that has just ended well."""
    world.tick()

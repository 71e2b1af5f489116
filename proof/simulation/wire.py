"""The wire of a simulation: the real statements and the real replies, over a network that loses, delays and repeats."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

from lib.errors import Unavailable
from lib.store.deadline import CALL_SECONDS
from lib.store.exchange import Values
from lib.store.postgres import PostgresWire, _parsed, _translated
from lib.store.sqlstate import from_sqlstate
from lib.store.statements import encode, statement
from lib.store.wire import with_retries
from proof.simulation.database import Database
from proof.simulation.faults import Faults
from proof.simulation.machine import Machine, Process

# Errors of poolers and of servers that end, each with its words.
_POOLERS = (
    ("08P01", "query_wait_timeout"),
    ("53300", "remaining connection slots are reserved for roles with the SUPERUSER attribute"),
    ("XX000", "Max client connections reached"),
    ("57P01", "terminating connection due to administrator command"),
    ("40001", "could not serialize access due to concurrent update"),
)
_VOID = b'""'


Watch = Callable[[str, dict[str, Any], Any], None]
"""Gets each call that was carried out: the function, its arguments, its answer."""


class SimulatedWire(PostgresWire):
    """Calls of one process. What happens on the way is drawn from the seed."""

    def __init__(self, machine: Machine, process: Process, faults: Faults, database: Database, watch: Watch) -> None:
        self._machine, self._process, self._faults, self._database = machine, process, faults, database
        self._watch = watch

    def close(self) -> None:
        """Close nothing: the connection is the simulation's."""

    def call(self, function: str, /, *, repeat: bool = False, within: float | None = None, **arguments: Any) -> Any:
        """See `lib.store.wire.Wire`."""
        return with_retries(lambda: self._try(function, arguments, repeat=repeat), repeat=repeat, secrets=[])

    def _try(self, function: str, arguments: dict[str, Any], *, repeat: bool) -> Any:
        text, values = statement(function, tuple(arguments)), encode(arguments.values())

        def carry_out() -> Any:
            return self._carry_out(function, arguments, text, values)

        place(self._machine, self._faults, f"before {function}")
        self._be_away(function)
        if self._faults.strikes("request lost", self._faults.level / 4):
            return self._lose(function, "request")
        if self._faults.strikes("late request", self._faults.level / 8):
            # It waits on the way, or for a lock, longer than its caller: the server ends it before the caller's retry.
            seconds = self._faults.choose(0.5, 4, 9)
            self._machine.spawn(_network(self._machine), lambda: _quietly(carry_out), delay=seconds)
            self._machine.pause(CALL_SECONDS if seconds > 4 else 0.1)
            raise Unavailable(f"{function}: no response, and it is carried out later")
        reply = carry_out()
        if repeat and self._faults.strikes("delivered twice", self._faults.level / 8):
            reply = carry_out()
        place(self._machine, self._faults, f"after {function}")
        if self._faults.strikes("answer lost", self._faults.level / 4):
            return self._lose(function, "answer")
        return reply

    def _carry_out(self, function: str, arguments: dict[str, Any], text: bytes, values: Values) -> Any:
        try:
            read_only = self._machine.now < self._faults.read_only_until
            reply = self._database.call(text, values, at=self._machine.moment, read_only=read_only)
        except psycopg.Error as error:
            self._machine.note(f"{function} refused: {error.sqlstate} {error}".splitlines()[0][:160])
            raise _translated(error, function) from None
        answer = None if reply is None or reply == _VOID else _parsed(reply)
        self._machine.note(f"{function} {'' if reply is None else _short(reply)}")
        self._watch(function, arguments, answer)
        return answer

    def _be_away(self, function: str) -> None:
        """Raise while the database restarts, and as poolers do."""
        if self._machine.now < self._faults.away_until:
            self._machine.pause(0.01)
            raise Unavailable(f"{function}: connection refused", undone=True)
        if self._faults.strikes("pooler", self._faults.level / 6):
            state, message = _POOLERS[int(self._faults.choose(*range(len(_POOLERS))))]
            self._machine.note(f"{function} {state} {message}")
            raise from_sqlstate(state, message, detail=None, function=function, check="DATABASE_URL", fatal=True)
        if self._faults.strikes("restart", self._faults.level / 60):
            self._faults.away_until = self._machine.now + self._faults.choose(0.3, 3, 20)
            self._machine.note(f"the database restarts until {self._faults.away_until:.1f}")
            raise Unavailable(f"{function}: server closed the connection unexpectedly", sqlstate="57P01")
        if self._faults.strikes("read-only", self._faults.level / 80):
            self._faults.read_only_until = self._machine.now + self._faults.choose(2, 30, 120)
            self._machine.note(f"the database is read-only until {self._faults.read_only_until:.1f}")

    def _lose(self, function: str, what: str) -> Any:
        self._machine.note(f"{function}: {what} lost")
        self._machine.pause(self._faults.choose(0.01, 1, CALL_SECONDS))
        raise Unavailable(f"{function}: the {what} is lost")


def place(machine: Machine, faults: Faults, where: str) -> None:
    """Be somewhere on the way: others may go on, and the process may die or freeze here."""
    process = machine.thread().process
    if faults.strikes("kill", faults.level / 5):
        machine.note(f"KILLED {where}")
        if not process.ours:
            raise Unavailable("the function that was called is gone")
        process.kill()
        machine.pause(0)  # it does not come back
    if faults.strikes("freeze", faults.level / 6):
        seconds = faults.choose(2, 9, 16, 31, 75)
        machine.note(f"FROZEN for {seconds} s {where}")
        process.freeze(seconds)
    if faults.strikes("delay", faults.level):
        machine.pause(faults.choose(0.2, 2, 6))
    machine.pause(machine.thread().rng.random() * 0.01)


def _network(machine: Machine) -> Process:
    return Process(machine, f"network {next(machine.pids)}")


def _quietly(act: Any) -> None:
    with suppress(Exception):  # no one waits for the answer
        act()


def _short(reply: bytes) -> str:
    return reply.decode(errors="replace")[:200]

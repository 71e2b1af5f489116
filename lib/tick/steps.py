"""The calls of one tick: begin, advance, fail. Once a call has failed, its rows are worked on one by one.

A result that exists is kept until it is stored: whatever fails beside it, it is sent again with a later call, for as
long as the tick may live. Nothing here waits for a single result, so that none holds up the others.
"""

import itertools
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

from lib.config.settings import Settings
from lib.errors import Misconfigured, StoreError
from lib.store.codec import Result, Settle, Settled, Step
from lib.store.sqlstate import may_be_one_row
from lib.store.store import Store
from lib.telemetry import events
from lib.telemetry.redact import clean
from lib.tick.report import TickReport
from lib.tick.runner import Runner
from lib.tick.unsettled import Unsettled

# The seconds that a tick goes on trying to settle, after its deadline or after the last result. The last try may take
# as long again, within the margin that every function has (`MARGIN_SECONDS`).
PATIENCE_SECONDS = 8.0
# Seconds between tries, while nothing else runs here.
_PAUSES = (0.2, 1.0, 2.0)


class Steps:
    """The calls of one tick, and what they have done, in its report. `deadline` is a `time.monotonic()` value."""

    def __init__(
        self, store: Store, runner: Runner, settings: Settings, report: TickReport, *, deadline: float
    ) -> None:
        self.sent = time.monotonic()
        """When the last claim was first sent (`time.monotonic()`): a ttr later, the time of its runs is over."""
        self.unsettled = Unsettled(runner)
        self._store, self._runner, self._settings, self._report = store, runner, settings, report
        self._deadline = deadline
        self._keys = _claim_keys()
        self._key, self._owner = next(self._keys), f"{socket.gethostname()}:{os.getpid()}"
        self._id = 0
        self._claim_key: str | None = None
        self._one_by_one = False

    def begin(self, **arguments: Any) -> Step:
        """Begin the tick. Raises StoreError if the database is unavailable."""
        step = self._patiently(
            lambda: self._guarded(
                lambda: self._store.begin_tick(
                    key=self._key,
                    owner=self._owner,
                    paused=self._settings.giftcard_paused,
                    revives=self._settings.revives,
                    one_by_one=self._one_by_one,
                    **arguments,
                )
            ),
            # A wire repeats what is unavailable. A reply that makes no sense may come from a proxy on the way.
            wait=lambda error: isinstance(error, Misconfigured) and error.sqlstate is None,
            until=self.sent + PATIENCE_SECONDS / 2,
        )
        self._id = self._report.tick_id = self._runner.tick_id = step.tick_id
        self._report.duplicate, self._report.revived = step.duplicate, step.revived
        self._count_circuits(step)
        return step

    def advance(self, results: list[Result], *, busy: int, **arguments: Any) -> Step:
        """Settle results, claim more, or end the tick.

        `busy`: handlers that run here. While any does, a failure is raised at once; the results go with the next call.

        Raises:
            Exception: of whatever kind the call failed; the results are kept.
        """
        now = time.monotonic()
        until = max(self._deadline, now) + PATIENCE_SECONDS
        for result in results:
            if result.settle is not None:
                self._end_settled(result, result.settle)
        results = [result for result in results if result.settle is None]
        batch = self.unsettled.take(results, now=now, give_up_at=until)
        # A call that is repeated after a lost reply finds what the first one claimed.
        if self._claim_key is None:
            self._claim_key, self.sent = next(self._keys), now
        arguments |= {"claim_key": self._claim_key, "busy": busy + len(self.unsettled)}
        try:
            step = self._patiently(
                lambda: self._send(batch, **arguments),
                wait=lambda error: busy == 0 and bool(batch),
                until=until,
            )
        except Exception:
            self.unsettled.put_back(batch)
            raise
        self._claim_key = None
        self._report.revived += step.revived
        with events.batch():
            self._end(batch, step)
        self._count_circuits(step)
        return step

    def _end(self, batch: list[Result], step: Step) -> None:
        """Log and count the results of a call, and keep those that were refused."""
        by_id = {settled.id: settled for settled in step.settled}
        for result in batch:
            settled = by_id.get(result.job.id)
            if settled is not None and settled.settled == "refused":
                self.unsettled.refuse(result, settled)
                continue
            self._runner.log_end(result, settled)
            self._report.count(result.outcome, settled)

    def _end_settled(self, result: Result, settle: Settle) -> None:
        """Log and count a result that was settled on the thread of its run."""
        self._report.calls += 1
        self._runner.log_end(result, settle.settled)
        self._report.count(result.outcome, settle.settled)
        self._count_circuits(settle)

    def fail(self, error: BaseException, *, source: str) -> None:
        """Record that the tick has failed, if the database still answers and there is time."""
        text = self.text_of(error)
        events.emit("tick_failed", tick_id=self._report.tick_id, error=text)
        answers = not isinstance(error, StoreError) or error.sqlstate is not None
        if answers or time.monotonic() < self._deadline + PATIENCE_SECONDS:
            with suppress(Exception):
                self._store.fail_tick(key=self._key, owner=self._owner, source=source, error=text)

    def text_of(self, error: BaseException) -> str:
        """Return an error as logs and the tick's row hold it: the database's words may repeat a value."""
        text = str(error) if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
        return clean(text, secrets=self._settings.secrets())

    def _send(self, batch: list[Result], **arguments: Any) -> Step:
        """Send a batch; one by one, if it cannot be sent together: one may not be JSON as Postgres knows it."""
        try:
            return self._advance(batch, **arguments)
        except StoreError as error:
            if not batch or not may_be_one_row(error):
                raise
            if len(batch) == 1:
                refused = _refused(batch[0], error, text=self.text_of(error))
                return replace(self._advance([], **_busier(arguments)), settled=(refused,))
        settled: list[Settled] = []
        for result in batch:
            alone = {"claim_key": str(uuid.uuid4()), "limit": 0, "busy": 1}
            settled += self._send([result], **alone).settled
        return replace(self._advance([], **_busier(arguments)), settled=tuple(settled))

    def _advance(self, batch: list[Result], **arguments: Any) -> Step:
        return self._guarded(
            lambda: self._store.advance_tick(
                self._id,
                results=batch,
                owner=self._owner,
                one_by_one=self._one_by_one,
                cooldown_seconds=self._settings.giftcard_circuit_cooldown_seconds,
                **arguments,
            )
        )

    def _guarded(self, call: Callable[[], Step]) -> Step:
        """Call; if a row may be at fault, call again, one by one from now on."""
        self._report.calls += 1
        try:
            return call()
        except StoreError as error:
            if self._one_by_one or not may_be_one_row(error):
                raise
            events.emit("one_by_one", tick_id=self._report.tick_id, error=self.text_of(error))
        self._one_by_one = True
        self._report.calls += 1
        return call()

    @staticmethod
    def _patiently(call: Callable[[], Step], *, wait: Callable[[Exception], bool], until: float) -> Step:
        """Call until it succeeds; `wait` decides which failures are waited for, up to `until`."""
        pauses = iter(_PAUSES)
        while True:
            try:
                return call()
            except Exception as error:
                pause = next(pauses, _PAUSES[-1])
                if not wait(error) or time.monotonic() + pause > until:
                    raise
                time.sleep(pause)

    def _count_circuits(self, step: Step | Settle) -> None:
        self._report.circuits_opened += step.opened
        self._report.circuits_closed += step.closed
        for circuit in step.opened:
            events.emit("circuit_opened", circuit=circuit)
        for circuit in step.closed:
            events.emit("circuit_closed", circuit=circuit)


def _claim_keys() -> Iterator[str]:
    """Yield the keys of a tick's claims. Each is larger than those before it, so that a call that comes late is known.

    The first 80 bits are the tick's own, the last 48 bits count (`giftcard_is_older_key`).
    """
    own = uuid.uuid4().int >> 48 << 48
    return (str(uuid.UUID(int=own + number)) for number in itertools.count())


def _busier(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call that must not end the tick: a refused result waits."""
    return arguments | {"busy": arguments["busy"] + 1}


def _refused(result: Result, error: StoreError, *, text: str) -> Settled:
    return Settled(
        id=result.job.id,
        settled="refused",
        status="running",
        next_run_at=None,
        sqlstate=error.sqlstate,
        error=text,
    )

"""A tick, one bounded pass over due work: claim → run → settle, until the limit, the budget or the work ends."""

import random
import threading
import time
from typing import Any

from lib.config.settings import MARGIN_SECONDS, Settings
from lib.errors import Forbidden, Interrupted, TtrExceeded
from lib.job import Job, Release
from lib.jobs.registry import Registry
from lib.store.codec import Result, Step
from lib.store.store import Store
from lib.telemetry import events
from lib.tick import maintenance, waking
from lib.tick.pool import Pool
from lib.tick.report import TickReport
from lib.tick.runner import Runner
from lib.tick.steps import Steps

# Seconds: at least this often, a waiting tick scans for new work, and any tick checks for shutdown.
_SCAN_INTERVAL = 1.0
_STOP_CHECK_INTERVAL = 0.1


def run_tick(
    store: Store,
    registry: Registry,
    settings: Settings,
    *,
    source: str,
    execution_id: str | None = None,
    limit: int | None = None,
    budget: float | None = None,
    linger: bool | None = None,
    only_stage: str | None = None,
    only_job_id: int | None = None,
    stop: threading.Event | None = None,
) -> TickReport:
    """Run due jobs and return the report. None: the value of the settings; `budget`: seconds in which handlers start.

    `stop`, once set, starts nothing more and lets running handlers end (SIGTERM). Concurrent ticks are safe.

    Raises:
        Forbidden: this is a preview deployment, and `GIFTCARD_ALLOW_PREVIEW` is not set.
        StoreError: the database is unavailable. Runs are settled, or taken over by a later tick; nothing is lost.
    """
    check_allowed(settings)
    deadline = time.monotonic() + (settings.giftcard_tick_budget_seconds if budget is None else budget)
    tick = _Tick(store, registry, settings, deadline=deadline, stop=stop or threading.Event())
    tick.limit = settings.giftcard_jobs_per_cron_run if limit is None else limit
    tick.linger = settings.giftcard_tick_linger if linger is None else linger
    try:
        return tick.run(source=source, execution_id=execution_id, only_stage=only_stage, only_job_id=only_job_id)
    except Exception as error:
        tick.steps.fail(error, source=source)
        raise


def check_allowed(settings: Settings) -> None:
    """Raise Forbidden if no tick may run here."""
    if not settings.runs_ticks:
        raise Forbidden("a preview deployment runs no tick", fix="set GIFTCARD_ALLOW_PREVIEW=1 to allow it")


class _Tick:
    """The state of one tick, dropped at its end. `deadline` is a `time.monotonic()` value."""

    def __init__(
        self, store: Store, registry: Registry, settings: Settings, *, deadline: float, stop: threading.Event
    ) -> None:
        self.began = time.monotonic()
        self.limit = 0
        self.deadline = deadline
        self.linger = False
        self.report = TickReport(parked=registry.unready(settings))
        self._store = store
        self._settings = settings
        self._registry = registry
        self._runner = Runner(registry, settings, random.Random())  # noqa: S311 - jitter
        self.steps = Steps(store, self._runner, settings, self.report, deadline=deadline)
        self._stop = stop
        self._maintenance: tuple[str, ...] = ()
        self._plan_at = self.began
        self._wake: dict[str, Any] = {}
        self._pool = Pool(settings.giftcard_concurrency, run=self._runner.run)

    def run(self, *, source: str, **only: Any) -> TickReport:
        """Claim, run and settle until the tick stops, then run the due maintenance tasks."""
        try:
            step = self._begin(source=source, **only)
            while step.stopped_because is None:
                results = self._start(step.jobs)
                if not results and not self._plan(step.schedules):
                    results = self._wait(step.next_due_in)
                step = self._advance(results)
            self.report.stopped_because = step.stopped_because
            self.report.next_due_at, self.report.next_due_in = step.next_due_at, step.next_due_in
            self.report.paused = step.paused
            if not self._stop.is_set():
                self.report.maintenance = maintenance.run_due(
                    self._maintenance, self._store, self._registry, self._settings
                )
        finally:
            self._pool.close()
            self.report.duration_ms = int((time.monotonic() - self.began) * 1000)
        events.emit("tick_ended", source=source, **self.report.as_json())
        return self.report

    def _begin(self, *, source: str, execution_id: str | None, only_stage: str | None, only_job_id: int | None) -> Step:
        queues = self._settings.giftcard_pgmq_queues and not self._settings.giftcard_paused
        if queues and not only_stage and not only_job_id:
            from lib.tick.pgmq import import_pgmq

            self.report.pgmq, calls = import_pgmq(
                self._store, self._registry, self._settings, execution_id=execution_id
            )
            self.report.calls += calls
        if not only_stage and not only_job_id:
            left = max(0.0, self.deadline - time.monotonic())
            about = waking.about(self._settings, seconds=left, limit=self.limit, linger=self.linger)
            self._wake = {"wake": about} if about else {}
        step = self.steps.begin(
            source=source,
            execution_id=execution_id,
            stages=self._registry.ready(self._settings),
            limits=self._registry.limits(self._settings),
            **self._weights(),
            without_circuit=tuple(self._registry.without_circuit(self._settings)),
            limit=self._capacity(),
            live_seconds=self.deadline - self.began + self._registry.longest(self._settings) + MARGIN_SECONDS,
            linger_seconds=self._linger_seconds(),
            only_stage=only_stage,
            only_job_id=only_job_id,
            **self._wake,
        )
        self._maintenance = step.maintenance
        return step

    def _weights(self) -> dict[str, Any]:
        weights = dict(self._settings.giftcard_tenant_weights)
        return {"tenant_weights": weights} if weights else {}

    def _start(self, jobs: tuple[Job, ...]) -> list[Result]:
        """Start claimed jobs. Return the results that need no handler: of interrupted runs, and releases."""
        results, starting = [], []
        for job in map(self._runner.with_semantics, jobs):
            if job.interrupted:
                self.report.interrupted += 1
                failure = Interrupted("its function ended before it could settle the run")
                results.append(self._runner.failed(job, failure))
            elif self._stop.is_set() or time.monotonic() - self.steps.sent >= job.ttr:
                # Its time is over: the claim's answer was late, or the process was frozen since.
                results.append(Result(job=job, outcome=Release()))
            else:
                starting.append(job)
        # All are logged before the first starts: writing log lines beside threads at work slows both down.
        self._runner.log_starts(starting)
        for job in starting:
            self.report.started += 1
            self._pool.start(job, self._runner.context(job, self._store, since=self.steps.sent))
        return results

    def _plan(self, due: tuple[dict[str, Any], ...]) -> bool:
        """Enqueue the jobs of due schedules. Return whether any schedule has moved on. Never raises.

        Schedules that did not move, because another tick works on them or the call failed, are left for a second.
        """
        if not due:
            return False
        from lib.schedules.enqueue import enqueue_due  # most ticks have no schedule due

        jobs, calls, moved = 0, 1, False
        try:
            jobs, calls, moved = enqueue_due(due, self._store, self._registry, self._settings)
        except Exception as error:  # noqa: BLE001 - also a reply that makes no sense
            events.emit("planning_failed", tick_id=self.report.tick_id, error=self.steps.text_of(error))
        self.report.calls += calls
        self.report.scheduled += jobs
        self._plan_at = time.monotonic() + (0 if moved else _SCAN_INTERVAL)
        return moved

    def _wait(self, next_due_in: float | None) -> list[Result]:
        """Wait for results, or until the next scan for work is due. Return the results to settle."""
        # What is due already is held by others.
        due_in = _SCAN_INTERVAL if next_due_in is None or next_due_in <= 0 else next_due_in
        scan_in = min(_SCAN_INTERVAL, max(_STOP_CHECK_INTERVAL, due_in))
        unsettled_in = self.steps.unsettled.due_in()
        scan_at = time.monotonic() + (scan_in if unsettled_in is None else min(scan_in, unsettled_in))
        while True:
            to_scan = scan_at - time.monotonic()
            # A scan that is due while no thread is free must not turn the wait into a busy loop.
            pauses = [_STOP_CHECK_INTERVAL, self._pool.seconds_to_ttr(), to_scan if to_scan > 0 else None]
            results = self._pool.finished(within=min(pause for pause in pauses if pause is not None))
            results += [self._ttr_exceeded(job) for job in self._pool.expire()]
            idle = self._pool.busy == 0
            may_scan = time.monotonic() >= scan_at and (idle or self._capacity() > 0 or unsettled_in is not None)
            if results or may_scan or (idle and unsettled_in is None and self._stop_reason()):
                return results

    def _ttr_exceeded(self, job: Job) -> Result:
        return self._runner.failed(job, TtrExceeded(f"the attempt took longer than its ttr of {job.ttr:g} s"))

    def _advance(self, results: list[Result]) -> Step:
        """Settle, and claim more. While handlers run, an outage is waited for.

        Raises:
            Exception: the call has failed, and nothing runs here any more.
        """
        busy = self._pool.busy
        try:
            return self.steps.advance(
                results,
                limit=self._capacity(),
                busy=busy,
                linger_seconds=self._linger_seconds(),
                stop=self._stop_reason(),
                plan=time.monotonic() >= self._plan_at,
                **self._wake,
            )
        except Exception:
            if busy == 0:
                raise
            return Step(jobs=(), paused=False, next_due_at=None, next_due_in=None, stopped_because=None)

    def _capacity(self) -> int:
        """Return how many more jobs may start now."""
        if self._stop.is_set() or time.monotonic() >= self.deadline:
            return 0
        return max(0, min(self._pool.free, self.limit - self.report.started))

    def _linger_seconds(self) -> float:
        """Return how long this tick may wait for work, in seconds."""
        left = max(0.0, self.deadline - time.monotonic()) if self.linger else 0.0
        return waking.linger_seconds(self._settings, left) if self._wake else left

    def _stop_reason(self) -> str | None:
        if self._stop.is_set():
            return "shutdown"
        if self.report.started >= self.limit:
            return "limit"
        return "budget" if time.monotonic() >= self.deadline else None

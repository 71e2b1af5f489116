"""Waking (`GIFTCARD_WAKE`): a tick for what is due between two calls of the clock.

The database decides whether one is needed: `supabase/schemas/11_wakes.sql`. With `pg_net` it also calls. With `url`
this process calls its own address, and waits neither for the tick nor for long: a wake that is lost costs at most the
minute until the clock's next call.
"""

import atexit
import functools
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from lib.caller import Caller
from lib.config.settings import Settings
from lib.store.codec import Result, Step
from lib.store.store import Store
from lib.store.wire import Wire
from lib.telemetry import events

PATH = "/api/cron/giftcard-jobs"
HEADER = "X-Giftcard-Wake"
# Seconds that an enqueue waits until the call is sent: the platform may freeze the process once it has responded. The
# end of a tick or of a command keeps no customer waiting.
_WITHIN = 0.05
_WITHIN_AT_END = 1.0
# Seconds for the call. Most ticks take longer than that to respond, and go on.
_TIMEOUT = 5.0
# Calls that are under way at once; while an address does not answer, more would only add threads.
_MOST = 5
# Seconds. What is due within a minute needs a tick before the clock's next call: without a plan in the database one
# tick waits for it, hands over at the end of its budget, and the next one waits.
_HANDED_OVER = 60.0
# What an event of a vendor can become that gives a tick work: a job, or a payment that a job waits for.
_MAKE_DUE = ("job", "payment")
# The acts of operators that make a job due, or let one start.
ACTS = (
    *("requeue", "requeue_jobs", "resume", "reset_circuit", "run_schedule", "create_operation"),
    *("create_batch", "add_to_batch", "seal_batch", "set_limit", "remove_limit"),
    *("make_free_of_charge", "record_order_event", "request_block", "resend_mail", "test_webhook_endpoint"),
)


def about(settings: Settings, *, seconds: float, limit: int, linger: bool) -> dict[str, Any] | None:
    """Return what the database is to know of a tick for wakes; None: waking is off.

    `seconds` until its budget ends; `limit`: how many jobs it starts.
    """
    if settings.giftcard_wake == "off":
        return None
    ticks = settings.giftcard_fleet_ticks
    return {"mode": settings.giftcard_wake, "ticks": ticks, "seconds": seconds if linger else 0, "limit": limit}


def linger_seconds(settings: Settings, left: float) -> float:
    """Return how far ahead a tick looks for work to wait for. `left`: the seconds left of its budget."""
    if settings.giftcard_wake != "url" or left <= 0:
        return left
    return max(left, min(_HANDED_OVER, 2 * settings.giftcard_tick_budget_seconds))


class Waker:
    """Calls the own address of an application. Raises nothing: a failure is logged once, until a call succeeds."""

    def __init__(self, url: str, secret: str) -> None:
        self._url, self._secret = urlsplit(url), secret
        self._places = threading.BoundedSemaphore(_MOST)
        self._sent: list[threading.Event] = []
        self._has_failed = False
        atexit.register(self.finish)

    def send(self, *, within: float = _WITHIN) -> None:
        """Wake a tick. Wait at most `within` seconds until the call is sent."""
        if not self._places.acquire(blocking=False):
            return
        sent = threading.Event()
        self._sent = [*(event for event in self._sent if not event.is_set()), sent]
        threading.Thread(target=self._call, args=(sent,), name="wake", daemon=True).start()
        sent.wait(within)

    def finish(self) -> None:
        """Wait briefly until all calls are sent."""
        for sent in self._sent:
            sent.wait(_WITHIN_AT_END)

    def _call(self, sent: threading.Event) -> None:
        try:
            status = self._status(sent)
            self._note(None if status in (None, 200) else f"answered {status}")
        except Exception as error:  # noqa: BLE001 - whatever a network may do
            self._note(type(error).__name__)
        finally:
            sent.set()
            self._places.release()

    def _status(self, sent: threading.Event) -> int | None:
        """Call, and return the status; None: the tick took longer than a call waits."""
        import http.client  # only where waking is on

        from lib.safe_http.tls import tls

        host, port = self._url.hostname or "", self._url.port
        connection = (
            http.client.HTTPSConnection(host, port, timeout=_TIMEOUT, context=tls())
            if self._url.scheme == "https"
            else http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
        )
        try:
            headers = {"Authorization": f"Bearer {self._secret}", HEADER: "1", "Content-Length": "0"}
            connection.request("POST", self._url.path.rstrip("/") + PATH, headers=headers)
            sent.set()
            with suppress(TimeoutError):
                return connection.getresponse().status
            return None
        finally:
            connection.close()

    def _note(self, error: str | None) -> None:
        if error and not self._has_failed:
            events.emit("wake_failed", error=error)
        self._has_failed = error is not None


class WakingStore(Store):
    """A store that wakes a tick when the database decides so: for orders and jobs in the same call, else in another."""

    def __init__(self, wire: Wire, waker: Waker, *, ticks: int) -> None:
        super().__init__(wire)
        self._waker, self._ticks = waker, ticks

    @classmethod
    def over(cls, store: Store, settings: Settings) -> Store:
        """Return a waking store over the wire of another one; that store itself, where a wake would start no job.

        That is without an address and its secret, in a preview deployment, and while everything is paused.
        """
        if settings.public_url is None or settings.cron_secret is None:
            return store
        if not settings.runs_ticks or settings.giftcard_paused:
            return store
        waker = Waker(settings.public_url, settings.cron_secret.get_secret_value())
        return cls(store._wire, waker, ticks=settings.giftcard_fleet_ticks)

    def enqueue(
        self, jobs: list[dict[str, Any]], *, replace: bool = False, caller: Caller | None = None
    ) -> list[dict[str, Any]]:
        """Enqueue jobs, and wake a tick if none waits for them."""
        enqueued = self.enqueue_and_wake(jobs, replace=replace, caller=caller)
        if enqueued["wake"]:
            self._waker.send()
        jobs_: list[dict[str, Any]] = enqueued["jobs"]
        return jobs_

    def submit_order(self, **arguments: Any) -> dict[str, Any]:
        """Store an order, and wake a tick for its first job."""
        order = super().submit_order(wake=True, **arguments)
        if order.pop("wake", False):
            self._waker.send()
        return order

    def begin_tick(self, **arguments: Any) -> Step:
        """Begin a tick, and wake the next one if it leaves work."""
        return self._after(super().begin_tick(**arguments))

    def advance_tick(self, tick_id: int, *, results: list[Result], **arguments: Any) -> Step:
        """Advance a tick, and wake the next one if it leaves work."""
        return self._after(super().advance_tick(tick_id, results=results, **arguments))

    def _after(self, step: Step) -> Step:
        if step.wake_in == 0:
            self._waker.send(within=_WITHIN_AT_END if step.stopped_because else 0)
        elif step.wake_in is not None:
            # Another wake was less than a second ago. The work that is left is worth this tick's second. For what is
            # due later, one tick that waits is enough.
            time.sleep(step.wake_in)
            is_due = step.next_due_in is not None and step.next_due_in <= 0
            with suppress(Exception):
                if self.take_wake(ticks=self._ticks if is_due else 1, catches_up=True):
                    self._waker.send(within=_WITHIN_AT_END)
        return step

    def receive_event(self, **arguments: Any) -> dict[str, Any]:
        """Record an event of a vendor, and wake a tick for what it enqueues or makes due."""
        received = super().receive_event(**arguments)
        if received["kind"] in _MAKE_DUE and not received["repeated"]:
            self._wake()
        return received

    def _wake(self) -> None:
        """Ask the database whether to wake a tick, and do it. The work is there in any case: no failure is raised."""
        with suppress(Exception):
            if self.take_wake():
                self._waker.send()


def _waking(name: str) -> Callable[..., Any]:
    """Return a method that does what an operator decided, then wakes a tick: rare, so a call of its own."""
    act = getattr(Store, name)

    @functools.wraps(act)
    def do(self: WakingStore, *arguments: Any, **options: Any) -> Any:
        answer = act(self, *arguments, **options)
        self._wake()
        return answer

    return do


for _name in ACTS:
    setattr(WakingStore, _name, _waking(_name))

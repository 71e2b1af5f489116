"""The gateway to Postgres: one typed method per SQL function, documented in `supabase/schemas/`."""

from contextlib import suppress
from datetime import datetime
from typing import Any

from lib.errors import Unavailable
from lib.job import Job
from lib.store.batches import BatchCalls
from lib.store.codec import Effect, Result, Settle, Step, decode_settle, decode_step
from lib.store.encode import encode_completed, encode_result
from lib.store.jobs import OperatorCalls
from lib.store.keys import KeyCalls
from lib.store.limits import LimitCalls
from lib.store.monitoring import MonitoringCalls
from lib.store.orders import OrderCalls
from lib.store.reports import ReportCalls
from lib.store.schedules import ScheduleCalls
from lib.store.tokens import TokenCalls
from lib.store.webhooks import WebhookCalls

# The release, as CHANGELOG.md names it.
VERSION = "unreleased"
# A tick begins only if code and schema are compatible: each states the oldest version of the other that it supports.
CODE_VERSION = 1
OLDEST_SCHEMA = 1
# A call of a tick whose reply cannot be read is made so often.
_READS = 2
# Seconds after which the function of a settle with a call is ended, as giftcard_settle_with_call states it.
_CALL_TIMEOUT = 2.0


class Store(
    OperatorCalls,
    LimitCalls,
    BatchCalls,
    OrderCalls,
    ReportCalls,
    ScheduleCalls,
    TokenCalls,
    WebhookCalls,
    KeyCalls,
    MonitoringCalls,
):
    """All calls. Those defined here are documented in `supabase/schemas/`: 13, 16, 23 to 25, 30 and 72."""

    def close(self) -> None:
        """Close the wire's connections."""
        self._wire.close()

    # The tick

    def begin_tick(self, **arguments: Any) -> Step:
        """Record a tick, revive dead letters, take over killed runs and claim jobs."""
        versions = {"code_version": CODE_VERSION, "oldest_schema": OLDEST_SCHEMA}
        known = {"lease_id": arguments["key"], "owner": arguments["owner"]}
        return self._step("giftcard_begin_tick", known, **versions, **arguments)

    def advance_tick(self, tick_id: int, *, results: list[Result], owner: str = "", **arguments: Any) -> Step:
        """Settle results and claim more jobs, or end the tick when nothing is left to do. `owner`: as it began."""
        known: dict[str, Any] = {"lease_id": arguments["claim_key"], "owner": owner}
        if results and not arguments.get("one_by_one") and (completed := encode_completed(results)):
            arguments.pop("one_by_one", None)
            known["completed"] = completed["ids"]
            return self._step("giftcard_step", known, tick_id=tick_id, **completed, **arguments)
        encoded = [encode_result(result) for result in results]
        return self._step("giftcard_advance_tick", known, tick_id=tick_id, results=encoded, **arguments)

    def settle_with_call(self, tick_id: int, *, result: Result, cooldown_seconds: float) -> Settle:
        """Settle one result that is complete, and call its function in the same transaction (`Complete.then`)."""
        reply = self._dict(
            "giftcard_settle_with_call",
            repeat=True,
            within=_CALL_TIMEOUT,
            tick_id=tick_id,
            result=encode_result(result),
            cooldown_seconds=cooldown_seconds,
        )
        return decode_settle(reply)

    def _step(self, function: str, known: dict[str, Any], **arguments: Any) -> Step:
        """Call a function of the tick, which may be repeated; a reply that is none of its own counts as lost.

        `known`: what the reply leaves out (`decode_step`).
        """
        for _ in range(_READS):
            reply = self._wire.call(function, repeat=True, **arguments)
            with suppress(TypeError, LookupError, ValueError, AttributeError):
                return decode_step(reply, **known)
        raise Unavailable(f"the reply of {function} cannot be read: is there a proxy on the way?")

    def fail_tick(self, *, key: str, owner: str, source: str, error: str) -> None:
        """Record that a tick has failed, whether or not its begin was recorded. An ended one stays as it is."""
        self._wire.call("giftcard_fail_tick", repeat=True, key=key, owner=owner, source=source, error=error)

    def status(self, *, stages: dict[str, int]) -> dict[str, Any]:
        """Return the counts of jobs, the circuits, the pauses and the last ticks."""
        return self._dict("giftcard_status", repeat=True, stages=stages)

    def check_health(self) -> None:
        """Check with one cheap call that the database accepts writes.

        Raises:
            Unavailable: it does not: SQLSTATE 25006 read-only, 57P03 in recovery, 53100 its disk is full; any other: it
                cannot be reached.
        """
        self._wire.call("giftcard_health", repeat=True)

    def doctor(self, *, stages: dict[str, int], now: datetime | None = None) -> dict[str, Any]:
        """Return the facts that `lib.monitoring.doctor` checks, in one cheap call."""
        return self._dict("giftcard_doctor", repeat=True, stages=stages, now=now and now.isoformat())

    def heartbeat(self, job: Job, *, seconds: float) -> None:
        """Extend the lease. Raises LeaseLost if the job belongs to another run."""
        self._dict("giftcard_heartbeat", repeat=True, job_id=job.id, lease_id=job.lease_id, seconds=seconds)

    def continue_maintenance(self, task: str) -> None:
        """Make a task due for the next tick: it has more to do."""
        self._wire.call("giftcard_continue_maintenance", repeat=True, task=task)

    def begin_maintenance(self, task: str) -> bool:
        """Claim a maintenance task. Return True to exactly one of concurrent ticks, if the task is due."""
        return bool(self._wire.call("giftcard_begin_maintenance", task=task))

    # External effects

    def begin_effect(self, job: Job, *, name: str, of_flow: bool = False) -> Effect:
        """Record the intent of an effect. Raises LeaseLost if the job belongs to another run."""
        arguments = {"job_id": job.id, "lease_id": job.lease_id, "name": name, "of_flow": of_flow}
        effect = self._dict("giftcard_begin_effect", repeat=True, **arguments)
        return Effect(**effect)

    def finish_effect(self, vendor_key: str, *, result: dict[str, Any]) -> dict[str, Any]:
        """Record the result of an effect. Return the one that counts: the first recorded."""
        return self._dict("giftcard_finish_effect", repeat=True, vendor_key=vendor_key, result=result)

    def abandon_effect(self, effect: Effect, *, note: str) -> dict[str, Any]:
        """Record that an effect did not happen: the next attempt gets the next generation of the key.

        If another run has begun it since, which has the same key, it stays as it is.
        """
        arguments = {"vendor_key": effect.vendor_key, "note": note, "tries": effect.tries}
        return self._dict("giftcard_abandon_effect", repeat=True, **arguments)

"""One method per SQL function, typed. What each does is told where it is made: `supabase/schemas/`."""

from datetime import datetime
from typing import Any

from lib.job import Job
from lib.store.codec import Effect, Result, Step, settle, step
from lib.store.jobs import OperatorCalls
from lib.store.monitoring import WatchCalls
from lib.store.orders import OrderCalls
from lib.store.pruning import PruningCalls
from lib.store.reports import ReportCalls
from lib.store.schedules import ScheduleCalls
from lib.store.webhooks import WebhookCalls

# A tick begins only where code and schema fit: the schema says the oldest code that it serves, the code says the oldest
# schema that has all it calls.
CODE_VERSION = 1
OLDEST_SCHEMA = 1


class Store(OperatorCalls, OrderCalls, ReportCalls, PruningCalls, ScheduleCalls, WebhookCalls, WatchCalls):
    """The gateway. Calls that are harmless to repeat are repeated by the wire when a connection is lost."""

    def close(self) -> None:
        """Gives the wire's connections back."""
        self._wire.close()

    # The tick

    def begin_tick(self, **arguments: Any) -> Step:
        """Writes a tick down, revives, takes over, claims."""
        versions = {"code_version": CODE_VERSION, "oldest_schema": OLDEST_SCHEMA}
        return step(self._wire.call("giftcard_begin_tick", repeat=True, **versions, **arguments))

    def advance_tick(self, tick_id: int, *, results: list[Result], **arguments: Any) -> Step:
        """Settles, claims more, ends the tick when there is nothing left to do."""
        return step(
            self._wire.call(
                "giftcard_advance_tick",
                repeat=True,
                tick_id=tick_id,
                results=[settle(result) for result in results],
                **arguments,
            )
        )

    def status(self, *, stages: dict[str, int]) -> dict[str, Any]:
        """The whole picture in one call."""
        return self._dict("giftcard_status", repeat=True, stages=stages)

    def is_up(self) -> bool:
        """One cheap call; raises like every other when it fails."""
        return self.schema_version() is not None

    def schema_version(self) -> dict[str, Any]:
        """The schema's `version`, and the `oldest_code` that it serves."""
        return self._dict("giftcard_schema_version", repeat=True)

    def doctor(self, *, stages: dict[str, int], now: datetime | None = None) -> dict[str, Any]:
        """Facts for `lib.monitoring.doctor` to judge, in one cheap call."""
        return self._dict("giftcard_doctor", repeat=True, stages=stages, now=now and now.isoformat())

    def heartbeat(self, job: Job, *, seconds: float) -> None:
        """A longer lease; LeaseLost when the job is not ours any more."""
        self._dict("giftcard_heartbeat", repeat=True, job_id=job.id, lease_id=job.lease_id, seconds=seconds)

    def begin_maintenance(self, task: str) -> bool:
        """True for one of the ticks that see it due."""
        return bool(self._wire.call("giftcard_begin_maintenance", task=task))

    # Effects outside

    def begin_effect(self, job: Job, *, name: str) -> Effect:
        """The intent; LeaseLost when the job is not ours any more."""
        answer = self._dict("giftcard_begin_effect", repeat=True, job_id=job.id, lease_id=job.lease_id, name=name)
        return Effect(**answer)

    def finish_effect(self, vendor_key: str, *, result: dict[str, Any]) -> dict[str, Any]:
        """The result that wins: the first that was written."""
        return self._dict("giftcard_finish_effect", repeat=True, vendor_key=vendor_key, result=result)

    def abandon_effect(self, vendor_key: str, *, note: str) -> dict[str, Any]:
        """Nothing happened, for certain: the next try gets the next generation of the key."""
        return self._dict("giftcard_abandon_effect", repeat=True, vendor_key=vendor_key, note=note)

"""One method per SQL function, typed. What each does is told where it is made: `supabase/schemas/`."""

from typing import Any

from lib.job import Job
from lib.store.shapes import Effect, Result, Step, settle, step
from lib.store.wire import Wire

# The version of this code, for the schema to say whether it still serves it.
CODE_VERSION = 1


class Store:
    """The gateway. Calls that are harmless to repeat are repeated by the wire when a connection is lost."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    def close(self) -> None:
        """Gives the wire's connections back."""
        self._wire.close()

    # The tick

    def begin_tick(self, **arguments: Any) -> Step:
        """Writes a tick down, revives, takes over, claims."""
        return step(self._wire.call("giftcard_begin_tick", repeat=True, code_version=CODE_VERSION, **arguments))

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

    # Jobs

    def enqueue(self, jobs: list[dict[str, Any]], *, replace: bool = False) -> list[dict[str, Any]]:
        """Each is answered with its id, status and whether it was created."""
        answer: list[dict[str, Any]] = self._wire.call("giftcard_enqueue", repeat=True, jobs=jobs, replace=replace)
        return answer

    def requeue(self, job_id: int, *, payload: dict[str, Any] | None = None, force: bool = False) -> dict[str, Any]:
        """Not repeated on a lost connection: the second could meet the job running."""
        return self._dict("giftcard_requeue", job_id=job_id, payload=payload, force=force)

    def cancel(self, job_id: int) -> dict[str, Any]:
        """Queued and error at once, running by a wish."""
        return self._dict("giftcard_cancel", job_id=job_id)

    def job(self, job_id: int, *, stages: dict[str, int], missing: dict[str, str]) -> dict[str, Any]:
        """A job, with why it waits."""
        return self._dict("giftcard_show_job", repeat=True, job_id=job_id, stages=stages, missing=missing)

    def history(self, job_id: int, *, limit: int) -> list[dict[str, Any]]:
        """The job's runs, the newest first."""
        answer: list[dict[str, Any]] = self._wire.call("giftcard_history", repeat=True, job_id=job_id, limit=limit)
        return answer

    def list_jobs(self, **arguments: Any) -> dict[str, Any]:
        """A page of jobs that fit a filter."""
        return self._dict("giftcard_list_jobs", repeat=True, **arguments)

    def requeue_jobs(self, **arguments: Any) -> dict[str, Any]:
        """One step of requeueing by filter. Not repeated on a lost connection: nobody knows which were queued."""
        return self._dict("giftcard_requeue_jobs", **arguments)

    def cancel_flow(self, tenant_id: str, correlation_id: str) -> dict[str, Any]:
        """What is left of a flow."""
        return self._dict("giftcard_cancel_flow", tenant_id=tenant_id, correlation_id=correlation_id)

    def pause(self, stage: str, *, by: str, reason: str | None) -> dict[str, Any]:
        """A stage, or everything ('*')."""
        return self._dict("giftcard_pause", stage=stage, by=by, reason=reason)

    def resume(self, stage: str, *, by: str) -> dict[str, Any]:
        """The end of a pause."""
        return self._dict("giftcard_resume", stage=stage, by=by)

    def reset_circuit(self, circuit: str, *, by: str) -> dict[str, Any]:
        """Closed by a person."""
        return self._dict("giftcard_reset_circuit", circuit=circuit, by=by)

    def note_reveal(self, *, by: str, subject: str) -> None:
        """Personal data was shown in clear."""
        self._wire.call("giftcard_note_reveal", by=by, subject=subject)

    def find_customer(self, tenant_id: str, *, external_id: str | None, email: str | None) -> int:
        """A customer's id."""
        found = self._dict(
            "giftcard_find_customer", repeat=True, tenant_id=tenant_id, external_id=external_id, email=email
        )
        return int(found["id"])

    def erase_customer(self, customer_id: int, *, by: str) -> dict[str, Any]:
        """A person's data, everywhere."""
        return self._dict("giftcard_erase_customer", customer_id=customer_id, by=by)

    def flow(self, tenant_id: str, correlation_id: str) -> dict[str, Any]:
        """Where an order stands."""
        return self._dict("giftcard_flow", repeat=True, tenant_id=tenant_id, correlation_id=correlation_id)

    def status(self, *, stages: dict[str, int]) -> dict[str, Any]:
        """The whole picture in one call."""
        return self._dict("giftcard_status", repeat=True, stages=stages)

    def is_up(self) -> bool:
        """One cheap call; raises like every other when it fails."""
        return self._wire.call("giftcard_schema_version", repeat=True) is not None

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

    # Orders and what they become

    def submit_order(self, **arguments: Any) -> dict[str, Any]:
        """An order and its first job, in one transaction."""
        return self._dict("giftcard_submit_order", repeat=True, **arguments)

    def save_customer(self, **arguments: Any) -> dict[str, Any]:
        """One per (tenant, external id), or per (tenant, e-mail)."""
        return self._dict("giftcard_save_customer", repeat=True, **arguments)

    def assign_code(self, customer_id: int, *, candidates: tuple[str, ...]) -> str | None:
        """The customer's code; None: every candidate is taken."""
        answer = self._dict("giftcard_assign_code", repeat=True, customer_id=customer_id, candidates=candidates)
        code: str | None = answer["code"]
        return code

    def record_payment(self, **arguments: Any) -> dict[str, Any]:
        """The order's one payment."""
        return self._dict("giftcard_record_payment", repeat=True, **arguments)

    def find_payment(self, idempotency_key: str) -> dict[str, Any] | None:
        """The payment made under a key."""
        answer: dict[str, Any] | None = self._wire.call(
            "giftcard_find_payment", repeat=True, idempotency_key=idempotency_key
        )
        return answer

    def record_card(self, **arguments: Any) -> dict[str, Any]:
        """The order's one card. Conflict(giftcard_cards_number_key): another card has this number."""
        return self._dict("giftcard_record_card", repeat=True, **arguments)

    def card(self, tenant_id: str, correlation_id: str) -> dict[str, Any] | None:
        """The order's card, its number encrypted."""
        answer: dict[str, Any] | None = self._wire.call(
            "giftcard_card", repeat=True, tenant_id=tenant_id, correlation_id=correlation_id
        )
        return answer

    def _dict(self, function: str, *, repeat: bool = False, **arguments: Any) -> dict[str, Any]:
        answer: dict[str, Any] = self._wire.call(function, repeat=repeat, **arguments)
        return answer

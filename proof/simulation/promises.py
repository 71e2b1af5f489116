"""What the morning asks about enqueued jobs, webhooks, cancelled jobs, refunds and dead letters."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proof.simulation.night import Night


def enqueued(night: "Night") -> list[str]:
    """What a program has enqueued is there."""
    there = {str(row[0]) for row in night.database.rows("select correlation_id from giftcard_jobs")}
    return [f"job {flow} was enqueued and is lost" for flow in sorted(night.enqueued - there - night.by_hand)]


def deliveries(night: "Night") -> list[str]:
    """Each completed webhook was delivered, under its own id, and nothing else was."""
    rows = night.database.rows(_WEBHOOKS)
    delivered = {event_id for kind, event_id in night.outside.events if kind != "call"}
    lines = [
        f"webhook {job_id} is {status} and was not delivered"
        for job_id, status, event_id in rows
        if status == "completed" and event_id not in delivered
    ]
    known = {str(row[2]) for row in rows}
    return lines + [f"an event {event_id} was delivered that no webhook has" for event_id in sorted(delivered - known)]


_WEBHOOKS = "select id, status, payload ->> 'event_id' from giftcard_jobs where stage = 'webhook' order by id"


def cancelled(night: "Night") -> list[str]:
    """What an operator has cancelled is cancelled, or was completed first."""
    rows = night.database.rows("select id, stage, status from giftcard_jobs order by id")
    ids = night.cancelled - night.touched
    return [
        f"job {job_id} ({stage}) was cancelled and is {status}"
        for job_id, stage, status in rows
        if int(str(job_id)) in ids and status not in ("cancelled", "completed")
    ]


def refunded(night: "Night") -> list[str]:
    """No card of an order whose money went back can be spent."""
    rows = night.database.rows("select correlation_id, state from giftcard_cards order by id")
    return [
        f"order {flow} was refunded and its card is {state}"
        for flow, state in rows
        if flow in night.refunded - night.operated and state != "blocked"
    ]


def dead(night: "Night") -> list[str]:
    """A dead letter that will not revive has used all attempts and revivals; no job has more revivals."""
    revivals, attempts = (night.plan.options[f"giftcard_max_{name}"] for name in ("revivals", "attempts"))
    often = [
        f"job {row[0]} ({row[1]}) was revived {row[2]} times, at most {revivals} are allowed"
        for row in night.database.rows("select id, stage, revivals from giftcard_jobs where revivals > $1", revivals)
    ]
    return often + [
        f"job {row[0]} ({row[1]}) is dead after {row[2]} attempts and {row[3]} revivals: {row[4]}"
        for row in night.database.rows(_DEAD, attempts, revivals)
        if row[5] not in night.by_hand
    ]


_DEAD = """
select id, stage, attempts, revivals, left(last_error, 80), correlation_id from giftcard_jobs
 where status = 'error' and revive_at is null and semantics = 'at_least_once' and last_error !~ '^PermanentError'
   and trigger_type <> 'schedule' and (revivals < $2 or (
     select count(*) from giftcard_job_history h
      where h.job_id = giftcard_jobs.id and h.result in ('FAILED', 'INTERRUPTED'))
       < least(coalesce(max_attempts, $1), $1) * ($2 + 1)) order by id"""

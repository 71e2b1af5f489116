"""What the morning asks about policy: pauses between attempts, revivals, and what opens a circuit."""

from typing import TYPE_CHECKING

from proof.simulation.plan import RATE, RATE_BURST
from proof.simulation.stages import SNOOZE_SECONDS

if TYPE_CHECKING:
    from proof.simulation.night import Night


def pauses(night: "Night") -> list[str]:
    """A task is retried after 5, 10, 20 … seconds, at most 5 minutes.

    After its last attempt it revives in as many hours as the setting has. One that snoozes waits as long as it asks.
    """
    attempts, hours = night.plan.options["giftcard_max_attempts"], night.plan.options["giftcard_failed_job_retry_hours"]
    lines = []
    for job_id, attempt, seconds, most, flow, result in night.database.rows(_FAILED, attempts):
        number = int(str(attempt))
        due = min(5 * 2 ** (number - 1), 300) if number < int(str(most)) else hours * 3600
        due = SNOOZE_SECONDS if result == "SNOOZED" else due
        if flow not in night.by_hand and seconds is not None and abs(float(seconds) - due) > 0.01:
            lines.append(f"attempt {attempt} of job {job_id} was followed after {float(seconds):.1f} s, not {due}")
    return lines


_FAILED = """
select h.job_id, h.attempt, extract(epoch from h.next_run_at - h.finished_at), coalesce(j.max_attempts, $1),
       j.correlation_id, h.result
  from giftcard_job_history h join giftcard_jobs j on j.id = h.job_id
 where h.stage in ('task', 'thanks') and h.result in ('FAILED', 'INTERRUPTED', 'SNOOZED')
 order by h.job_id, h.run_no"""


def rates(night: "Night") -> list[str]:
    """Runs of a stage with a rate start at this rate, after a burst."""
    return [
        f"{runs} runs of draw began within {RATE_WINDOW} s until {at}, {RATE_BURST} and {RATE} a second are allowed"
        for at, runs in night.database.rows(_STARTED)
        if night.plan.has_rate and int(str(runs)) > RATE_BURST + RATE * RATE_WINDOW
    ]


RATE_WINDOW = 10
_STARTED = f"""
select h.started_at, (select count(*) from giftcard_job_history b
                       where b.stage = 'draw' and b.result <> 'RELEASED' and b.started_at <= h.started_at
                         and b.started_at > h.started_at - interval '{RATE_WINDOW} seconds')
  from giftcard_job_history h where h.stage = 'draw' order by h.started_at"""


def circuits(night: "Night") -> list[str]:
    """A circuit opens after failures in a row: since the last success that counted, as many as its threshold."""
    threshold = night.plan.options["giftcard_circuit_threshold"]
    if night.by_hand:
        return []
    return [
        f"circuit {circuit} opened at {at} after {failures} failures in a row"
        for circuit, at, failures in night.database.rows(_OPENED)
        if int(str(failures)) < (10 if str(circuit).startswith("webhook:") else threshold)
    ]


# A run that was claimed before the last change counts neither way.
_OPENED = """
select c.circuit, c.changed_at, (
         select count(*) from giftcard_job_history h join giftcard_jobs j on j.id = h.job_id
          where j.circuit = c.circuit and h.result in ('FAILED', 'INTERRUPTED') and h.finished_at <= c.changed_at
            and h.finished_at >= greatest(p.since, (
              select max(s.finished_at) from giftcard_job_history s join giftcard_jobs k on k.id = s.job_id
               where k.circuit = c.circuit and s.result = 'SUCCESS' and s.finished_at < c.changed_at
                 and s.started_at >= p.since)))
  from giftcard_circuit_changes c
  cross join lateral (select coalesce(max(b.changed_at), '-infinity') as since from giftcard_circuit_changes b
                       where b.circuit = c.circuit and b.id < c.id) p
 where c.from_state = 'closed' and c.to_state = 'open' order by c.id"""

"""What the morning asks about what the product has written down: its counts, effects, schedules and alerts.

What an operator has deleted or changed by hand leaves no line of its own: such a night is not counted.
"""

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proof.simulation.night import Night


def counts(night: "Night") -> list[str]:
    """Ticks and metrics count each run once, as its line in the history has it."""
    if night.by_hand:
        return []
    night.database.run(
        "select public.giftcard_update_counters(p_now => giftcard_proof.clock() + interval '1 minute')",
        at=night.machine.moment,
    )
    return [
        f"{who} count {counted or 0} runs {what}, their history has {had}"
        for who, what, counted, had in night.database.rows(_COUNTS)
        if int(counted or 0) != int(str(had))
    ]


_COUNTS = """
with h as (select result, count(*) as runs from giftcard_job_history group by result),
t as (select sum(started) as started, sum(completed) as completed, sum(retried + errored) as failed,
             sum(snoozed) as snoozed, sum(released) as released, sum(interrupted) as interrupted from giftcard_ticks)
select 'ticks', v.what, v.counted, (select coalesce(sum(h.runs), 0) from h where h.result = any (v.results))
  from t cross join lateral (values
    ('started', t.started, '{SUCCESS,FAILED,SNOOZED,RELEASED,INTERRUPTED}'::text[]),
    ('completed', t.completed, '{SUCCESS}'), ('failed', t.failed, '{FAILED,INTERRUPTED}'),
    ('snoozed', t.snoozed, '{SNOOZED}'), ('released', t.released, '{RELEASED}'),
    ('interrupted', t.interrupted, '{INTERRUPTED}')) v(what, counted, results)
union all
select 'metrics', h.result, (select sum(value) from giftcard_counters where name = 'runs' and label = h.result), h.runs
  from h"""


def lost(night: "Night") -> list[str]:
    """No run that completed is in the log as one that has lost its lease."""
    completed = {tuple(map(str, row)) for row in night.database.rows(_COMPLETED)}
    return [
        f"run {row['run_no']} of job {row['job_id']} completed, and the log has it as one without its lease"
        for row in night.events()
        if row["event"] == "lease_lost"
        and row["outcome"] == "complete"
        and (str(row["job_id"]), str(row["run_no"])) in completed
    ]


_COMPLETED = "select job_id, run_no from giftcard_job_history where result = 'SUCCESS'"


def effects(night: "Night") -> list[str]:
    """Each run got the result of the effect that was recorded first."""
    kept = {str(row[0]): json.loads(str(row[1])) for row in night.database.rows(_DEEDS)}
    return [
        f"a run of job {job_id} got the result {result} of an effect, recorded is {kept[str(job_id)]}"
        for job_id, result in night.deeds
        if str(job_id) in kept and kept[str(job_id)] != result
    ]


_DEEDS = """
select j.id, coalesce(e.result, '{}') from giftcard_jobs j
  join giftcard_effects e using (tenant_id, correlation_id, stage, dedup_key) where e.name = 'deed'"""


def occurrences(night: "Night") -> list[str]:
    """Each occurrence of a schedule, up to the last one, has a job, or is counted as missed or skipped."""
    if night.by_hand:
        return []
    first = json.dumps(night.watch.acts.first_occurrences)
    return [
        f"schedule {schedule} had {due} occurrences, and {jobs} jobs, {missed} missed and {skipped} skipped"
        for schedule, due, jobs, missed, skipped in night.database.rows(_OCCURRENCES, first)
        if int(str(due)) != int(str(jobs)) + int(str(missed)) + int(str(skipped))
    ]


_OCCURRENCES = """
select s.id, extract(epoch from l.last - ($1::jsonb ->> s.id::text)::timestamptz)::integer / 60 + 1,
       (select count(*) from giftcard_jobs j
         where j.trigger_type = 'schedule' and j.correlation_id like 'schedule:' || s.id || ':%'), s.missed, s.skipped
  from giftcard_schedules s
  cross join lateral (select greatest(s.last_at, s.last_missed_at, s.last_skipped_at) as last) l
 where l.last is not null"""


def notified(night: "Night") -> list[str]:
    """Operators know of the dead letters that are left."""
    dead, known = (int(str(night.database.rows(query)[0][0])) for query in (_DEAD, _KNOWN))
    return [f"{dead} dead letters are left, and no alert of them was sent"] if dead and not known else []


_DEAD = "select count(*) from giftcard_jobs where status = 'error' and trigger_type <> 'schedule'"
_KNOWN = """
select count(*) from giftcard_alerts a join giftcard_alert_notifications n using (condition)
 where a.condition = 'dead_letters' and a.resolved_at is null and n.notified_at is not null"""

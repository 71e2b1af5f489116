"""The morning after: no more faults, time passes, ticks run until nothing is left to do. Then the books are opened."""

import json
from collections import Counter
from datetime import datetime
from typing import TYPE_CHECKING

from proof.simulation import policy, promises, records
from proof.simulation.cast import NAMES
from proof.simulation.facts import BROKEN, WORDS
from proof.simulation.machine import EPOCH
from proof.simulation.operators import OPERATOR
from proof.simulation.plan import ENVIRON

if TYPE_CHECKING:
    from proof.simulation.night import Night

_ROUNDS = 400
# Seconds: longer than all revivals, and shorter than anything is kept.
_LONGEST = 12 * 86_400.0
_HOUR = 3600.0
_NEXT = """
select min(t) from (
  select scheduled_at as t from giftcard_jobs where status = 'queued' union all
  select revive_at from giftcard_jobs where status = 'error' union all
  select lease_expires_at from giftcard_jobs where status = 'running' union all
  select open_until from giftcard_circuits c where state <> 'closed' and open_until > giftcard_proof.clock()
     and exists (select from giftcard_jobs j where j.circuit = c.circuit and j.status = 'queued')) x
 where isfinite(t)"""
_LEFT = """
select count(*) from giftcard_jobs
 where status in ('queued', 'running') or status = 'error' and revive_at is not null"""


def heal(night: "Night") -> None:
    """Let time pass without faults until nothing is left that would run by itself."""
    night.faults.end()
    night.outside.call = lambda: None
    night.machine.run()
    night.plan.versions.append((night.machine.now, 2))
    pauses = "update giftcard_stages set paused_at = null, paused_by = null, reason = null"
    night.database.run(pauses, at=night.machine.moment)
    night.machine.spawn(night.process("evening"), lambda: _pause_schedules(night))
    end = night.machine.now + _LONGEST
    for number in range(_ROUNDS):
        night.function(f"morning {number}", source="cron", limit=1000, budget=50, linger=False)
        night.machine.run()
        if night.database.rows(_LEFT) == [("0",)]:
            break
        night.machine.now = max(night.machine.now + 61, _seconds(night.database.rows(_NEXT)[0][0]) + 0.001)
        if night.machine.now > end:
            break
    # Of a dead letter, operators are notified once it is five minutes old.
    night.machine.now += 600
    night.function("noon", source="cron", limit=1000, budget=50, linger=False)
    night.machine.run()


def _pause_schedules(night: "Night") -> None:
    store = night.store(night.machine.thread().process)
    for (schedule,) in night.database.rows("select id from giftcard_schedules order by id"):
        store.pause_schedule(int(str(schedule)), paused_by="simulation", reason=None, caller=OPERATOR)


def wrong(night: "Night") -> list[str]:
    """Return what is not as it must be, a sentence each."""
    found = [str(row[0]) for query in BROKEN for row in night.database.rows(query) if not _is_by_hand(night, row)]
    return [
        *found,
        *_leases(night),
        *_orders(night),
        *_vendors(night),
        *_mails(night),
        *promises.enqueued(night),
        *promises.deliveries(night),
        *promises.cancelled(night),
        *promises.refunded(night),
        *promises.dead(night),
        *policy.pauses(night),
        *policy.rates(night),
        *policy.circuits(night),
        *records.counts(night),
        *records.lost(night),
        *records.effects(night),
        *records.occurrences(night),
        *records.notified(night),
        *_stuck(night),
        *_log(night),
        *_alerts(night),
    ]


def _leases(night: "Night") -> list[str]:
    """A run was settled under a lease that it was claimed or taken over with, and under no other."""
    query = "select job_id, run_no, lease_id from giftcard_job_history where lease_id is not null"
    return [
        f"run {run_no} of job {job_id} was settled under the lease {lease} of another run"
        for job_id, run_no, lease in night.database.rows(query)
        if lease not in night.watch.leases.get((int(str(job_id)), int(str(run_no))), ())
    ]


def _orders(night: "Night") -> list[str]:
    """Orders that were accepted are there once; each has come to its end, or is known not to."""
    rows = night.database.rows("select correlation_id from giftcard_orders order by 1")
    there = Counter(str(row[0]).rsplit("-", 1)[0] for row in rows)
    lines = [f"{name} was taken in {count} times" for name, count in there.items() if count > 1]
    done = {str(row[0]) for row in night.database.rows(_DONE)}
    for flow in night.acknowledged:
        if f"order-{night.acknowledged[flow]}" not in there:
            lines.append(f"order {flow} was accepted and is lost")
        elif flow not in done and flow not in night.by_hand and not _is_dead(night, flow):
            lines.append(f"order {flow} came to no end, and no dead letter tells of it")
    return lines


_DONE = """
select o.correlation_id from giftcard_orders o join giftcard_cards c using (tenant_id, correlation_id)
  join giftcard_jobs j on j.correlation_id = o.correlation_id and j.stage = 'email' and j.status = 'completed'"""


def _is_dead(night: "Night", flow: str) -> bool:
    query = "select 1 from giftcard_jobs where correlation_id = $1 and status = 'error' and revive_at is null"
    return bool(night.database.rows(query, flow))


def _vendors(night: "Night") -> list[str]:
    """Each order was charged once and has one card at the vendor, and both are in our books."""
    made = Counter((one.kind, one.order) for one in night.outside.made)
    lines = [f"order {flow}: the vendor made {count} {kind}s" for (kind, flow), count in made.items() if count > 1]
    booked = {str(row[0]) for row in night.database.rows(_REFERENCES)}
    unbooked = [one for one in night.outside.made if one.reference not in booked and not _is_dead(night, one.order)]
    lines += [
        f"{one.reference} of order {one.order} is in no book" for one in unbooked if one.order not in night.by_hand
    ]
    return lines


_REFERENCES = "select provider_ref from giftcard_payments union select provider_ref from giftcard_cards"


def _mails(night: "Night") -> list[str]:
    """Each delivered order was mailed, always under the same Message-ID."""
    ids = Counter(to for to, _ in set(night.outside.mails))
    sent = night.database.rows(_MAILED)
    return [
        f"{count} orders of {address} were delivered, with {ids[str(address)]} different mails"
        for address, count in sent
        if sum(n for to, n in ids.items() if str(address) in to) < int(str(count))
    ]


_MAILED = """
select o.payload #>> '{customer,email}', count(*) from giftcard_jobs o where stage = 'email' and status = 'completed'
 group by 1"""


def _stuck(night: "Night") -> list[str]:
    """Nothing is left that waits without a reason."""
    left = night.database.rows(_LEFT.replace("count(*)", "id, stage, status, left(last_error, 80), correlation_id"))
    return [
        f"job {job_id} ({stage}) is still {status}: {error}"
        for job_id, stage, status, error, flow in left
        if flow not in night.by_hand
    ]


def _log(night: "Night") -> list[str]:
    """Runs that began are in the history, once; nothing personal is in the log."""
    lines, text = [], night.log.getvalue()
    private = [
        *NAMES,
        "Novotná",
        "@mail.example",
        *night.outside.numbers,
        ENVIRON["CRON_SECRET"],
    ]
    lines += [f"the log has {secret!r}" for secret in private if secret in text or json.dumps(secret)[1:-1] in text]
    shown = [*night.database.rows(WORDS), *(("message of an alert", text) for text in night.outside.alerts)]
    lines += [f"{where} has {secret!r}" for where, words in shown for secret in private if secret in str(words)]
    counted = {
        (str(row[0]), str(row[1])) for row in night.database.rows("select job_id, run_no from giftcard_job_history")
    }
    deleted = {str(row["job_id"]) for row in night.events() if "job_id" in row} - {
        str(row[0]) for row in night.database.rows("select id from giftcard_jobs")
    }
    begun = Counter((str(row["job_id"]), str(row["run_no"])) for row in night.events() if row["event"] == "run_started")
    for (job_id, run_no), count in begun.items():
        if (job_id, run_no) not in counted and job_id not in deleted:
            lines.append(f"run {run_no} of job {job_id} began and is not in its history")
        if count > 1:
            lines.append(f"run {run_no} of job {job_id} began {count} times")
    return lines


def _alerts(night: "Night") -> list[str]:
    """Each condition is notified of at most once an hour. An alert that is sent and not recorded may be sent again."""
    lines, last = [], dict[str, float]()
    for at, condition in night.watch.alerts:
        if at - last.get(condition, -_HOUR) < _HOUR:
            lines.append(f"the alert {condition} was sent again after {at - last[condition]:.0f} s")
        last[condition] = at
    return lines


def _is_by_hand(night: "Night", row: tuple[str | None, ...]) -> bool:
    return row[1] in night.by_hand


def _seconds(text: str | None) -> float:
    return 0.0 if text is None else (datetime.fromisoformat(text) - EPOCH).total_seconds()

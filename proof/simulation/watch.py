"""What must be true after each call of a tick."""

import json
from collections import Counter
from typing import Any

from proof.simulation.acts import Acts
from proof.simulation.database import Database
from proof.simulation.machine import Machine

_CLAIMS = ("giftcard_begin_tick", "giftcard_advance_tick", "giftcard_step")
_RUNNING = """
select j.id, j.stage, coalesce(j.concurrency_key, ''), j.lease_id, j.lease_expires_at > $1::timestamptz,
       coalesce(j.lock_owner, ''), j.run_no, j.lease_expires_at,
       extract(epoch from j.lease_expires_at - $1::timestamptz)
  from giftcard_jobs j where j.status = 'running' order by j.id"""
_CIRCUITS = """
select circuit, state, coalesce(probe_job_id, 0), changed_at::text, open_until <= $1::timestamptz
  from giftcard_circuits where state <> 'closed' order by circuit"""
_FAILING = """
select circuit, failures from giftcard_circuits
 where failures >= case when circuit like 'webhook:%' then 10 else $1::integer end order by circuit"""
# They make ready what has long been due; a tick is woken by the call after them.
_MAKE_READY = ("giftcard_resume", "giftcard_reset_circuit")
_FENCED = ("giftcard_heartbeat", "giftcard_begin_effect")
_HOLDS = "select 1 from giftcard_jobs where id = $1 and status = 'running' and lease_id = $2"
_PAUSED = "select stage from giftcard_stages where paused_at is not null order by stage"

_READY = """
select format('%s, due %s s ago', circuit, round(extract(epoch from $1::timestamptz - head_at)))
  from giftcard_queue_heads($2::jsonb, $1::timestamptz)
 where availability = 'ready' and head_at <= $1::timestamptz - interval '4 seconds'
   and not exists (select from giftcard_stages where paused_at is not null)
   and not exists (select from giftcard_wakes where in_minute >= 20)"""


class Watch:
    """Sees each call that is carried out. What is wrong is a failure of the machine."""

    def __init__(self, machine: Machine, database: Database, limits: dict[str, int], threshold: int) -> None:
        self._machine, self._database, self._limits = machine, database, limits
        self._threshold = threshold
        self.calls = 0
        self.leases: dict[tuple[int, int], set[str]] = {}
        self.alerts: list[tuple[float, str]] = []
        self.late: set[str] = set()
        self.ticking = 0
        self.quiet_since = 0.0
        # The stages of the tick that ended last: none is woken for what only a later deployment knows.
        self.ended_stages: dict[str, int] = {}
        # A change by hand makes a job due and wakes nothing: it waits for the clock's next tick, as documented.
        self.changed_by_hand = False
        self._until: dict[tuple[int, int], tuple[str, str]] = {}
        self._checked: dict[str, float] = {}
        self._interrupted: set[tuple[int, int]] = set()
        self._open: dict[str, str] = {}
        self._newest: dict[str, str] = {}
        self._woken_at = -1.0
        self.acts = Acts(database, self._fail)

    def __call__(self, function: str, arguments: dict[str, Any], answer: Any) -> None:
        """Check what a call has done."""
        self.calls += 1
        process = self._machine.thread().process.name
        self.acts(function, arguments, answer, self._machine.moment.isoformat())
        if function == "giftcard_check_alerts":
            self._checked[process] = self._machine.now
        # Once for each check: a repeated call has nothing new. Later than a minute, another tick may send them again.
        if function == "giftcard_record_notifications" and self._machine.now - self._checked.pop(process, -60) < 60:
            sent = [one for one in arguments["notified"] if one["sent"] and one["kind"] != "resolved"]
            self.alerts += [(self._machine.now, one["condition"]) for one in sent]
        if function in _FENCED and not self._database.rows(_HOLDS, arguments["job_id"], arguments["lease_id"]):
            self._fail(f"{function} was carried out for job {arguments['job_id']} under a lease that it has not")
        if function in _MAKE_READY:
            self.quiet_since = self._machine.now
        if function in (*_CLAIMS, "giftcard_settle_with_call"):
            self._check_claim(function, arguments, answer)

    def _check_claim(self, function: str, arguments: dict[str, Any], answer: Any) -> None:
        if function in _CLAIMS and not answer.get("duplicate"):
            self.changed_by_hand = False
        jobs = answer.get("jobs") or ()
        key = str(arguments.get("claim_key", arguments.get("key")))
        # A repeated call returns what the first one has claimed.
        new = [job for job in jobs if (job[0], job[10]) not in self.leases]
        self._check_paused(new)
        self._check_order(new, key, counts=bool(jobs) or _is_scan(function, arguments, answer))
        for job in jobs:
            self.leases.setdefault((job[0], job[10]), set()).add(key)
        self._interrupted |= {(job[0], job[10]) for job in jobs if job[17]}
        at = self._machine.moment.isoformat()
        now = str(self._database.rows("select $1::timestamptz", at)[0][0]) if any(job[17] for job in jobs) else ""
        for job in jobs:
            lease, until = self._until.get((job[0], job[10]), (key, ""))
            if job[17] and lease != key and until > now:
                self._fail(f"run {job[10]} of job {job[0]} was taken over at {at}, before its lease ended at {until}")
        for circuit, failures in self._database.rows(_FAILING, self._threshold):
            self._fail(f"circuit {circuit} did not open after {failures} failures")
        circuits = {str(row[0]): row for row in self._database.rows(_CIRCUITS, at)}
        self._check_running(self._database.rows(_RUNNING, at), new)
        self._check_circuits(new, circuits)
        self._open = {name: str(row[3]) for name, row in circuits.items() if row[1] == "open" and row[4] == "f"}

    def check_wake(self) -> None:
        """Check that the fleet is woken once a second at most."""
        if self._machine.now - self._woken_at < 0.9:
            self._fail(f"a tick was woken {self._machine.now - self._woken_at:.2f} s after another")
        self._woken_at = self._machine.now

    def check_woken(self, *, wakes: bool) -> None:
        """Check that no job has waited for the clock, where enqueues and ticks wake the next tick."""
        if not wakes or self.changed_by_hand or self.ticking or self._machine.now - self.quiet_since < 4:
            return
        at = self._machine.moment.isoformat()
        for (late,) in self._database.rows(_READY, at, json.dumps(self.ended_stages)):
            self._fail(f"a job waits and no tick was woken: {late}")

    def check_ended(self, owner: str, log: str) -> None:
        """Check that a tick which has ended leaves no run of its own.

        But for results that were given up, and for what a claim takes that arrives after its caller has given up.
        """
        query = (
            "select id, run_no, lease_id from giftcard_jobs where status = 'running' and lock_owner = $1 order by id"
        )
        given_up = {json.loads(line)["job_id"] for line in log.splitlines() if '"result_refused"' in line}
        for job_id, run_no, lease in self._database.rows(query, owner):
            if int(str(job_id)) not in given_up and lease not in self.late:
                self._fail(f"a tick of {owner} has ended, and run {run_no} of job {job_id} goes on under its lease")

    def check_limit(self, started: int, limit: int) -> None:
        """Check that a tick has started no more jobs than it may."""
        if started > limit:
            self._fail(f"a tick has started {started} jobs, its limit is {limit}")

    def _check_paused(self, claimed: Any) -> None:
        paused = {str(row[0]) for row in self._database.rows(_PAUSED)}
        for job in claimed:
            if not job[17] and paused & {"*", str(job[3])}:
                self._fail(f"job {job[0]} was claimed although its stage {job[3]} is paused")

    def _check_order(self, claimed: Any, key: str, *, counts: bool) -> None:
        # The keys of a tick share all but the last group, which counts.
        newest = self._newest.get(key[:24], key)
        for job in claimed:
            if key < newest:
                self._fail(f"job {job[0]} was claimed by a call that came late: its tick has claimed more since")
        if counts:
            self._newest[key[:24]] = max(key, newest)

    def _check_running(self, rows: list[tuple[str | None, ...]], claimed: Any) -> None:
        times = {job[0]: job[13] for job in claimed if not job[17]}
        keys: Counter[str] = Counter()
        stages: Counter[str] = Counter()
        self._until.clear()
        for job_id, stage, key, lease, is_live, owner, run_no, until, left in rows:
            ttr = times.get(int(str(job_id)))
            if ttr is not None and not ttr <= float(left or 0) <= ttr + 60:
                self._fail(f"job {job_id} was claimed for {left} s, its time to run is {ttr} s")
            self._until[int(str(job_id)), int(str(run_no))] = str(lease), str(until)
            if lease is None or is_live is None or not owner:
                self._fail(f"job {job_id} runs without a lease or an owner")
            if is_live == "t" and (int(str(job_id)), int(str(run_no))) not in self._interrupted:
                keys[str(key)] += 1
                stages[str(stage)] += 1
        for key, count in keys.items():
            if key and count > 1:
                self._fail(f"{count} jobs of the concurrency key {key} run at once")
        for stage, most in self._limits.items():
            if stages[stage] > most:
                self._fail(f"{stages[stage]} jobs of stage {stage} run at once, its limit is {most}")

    def _check_circuits(self, jobs: Any, circuits: dict[str, tuple[str | None, ...]]) -> None:
        for job in jobs:
            job_id, circuit, interrupted = job[0], job[5], job[17]
            row = circuits.get(circuit)
            if interrupted or row is None:
                continue
            if row[1] == "open" and self._open.get(circuit) == str(row[3]):
                self._fail(f"job {job_id} was claimed although its circuit {circuit} is open")
            if row[1] == "half_open" and str(job_id) != row[2]:
                self._fail(f"job {job_id} was claimed beside the probe {row[2]} of circuit {circuit}")

    def _fail(self, text: str) -> None:
        self._machine.note(f"WRONG: {text}")
        self._machine.failures.append(text)


def _is_scan(function: str, arguments: dict[str, Any], answer: Any) -> bool:
    """Return whether a call has looked for jobs, after which an older one of its tick claims none."""
    is_advance = function in ("giftcard_advance_tick", "giftcard_step") and not arguments.get("one_by_one")
    return is_advance and arguments["limit"] > 0 and not answer["paused"]

"""What must be true right after an act of an operator, or of a handler."""

import json
from collections.abc import Callable
from typing import Any

from proof.simulation.database import Database

# By function: what the audit calls it, and the argument that names what it changed.
ACTIONS = {
    "giftcard_requeue": ("requeue", "job {job_id}"),
    "giftcard_cancel": ("cancel", "job {job_id}"),
    "giftcard_pause": ("pause", "stage {stage}"),
    "giftcard_resume": ("resume", "stage {stage}"),
    "giftcard_create_webhook_endpoint": ("create_endpoint", "webhook endpoint {id}"),
    "giftcard_save_schedule": ("create_schedule", "schedule {id}"),
    "giftcard_pause_schedule": ("pause_schedule", "schedule {id}"),
}
_AUDITED = "select count(*) from giftcard_audit where action = $1 and subject = $2"
# What must be so right after: a condition of the job's or the circuit's row.
_AFTER = {
    "giftcard_requeue": (
        "select count(*) from giftcard_jobs where id = $1 and status = 'queued' and attempts = 0 and revivals = 0",
        "job_id",
    ),
    "giftcard_cancel": (
        "select count(*) from giftcard_jobs"
        " where id = $1 and (status = 'cancelled' or cancel_requested_at is not null)",
        "job_id",
    ),
    "giftcard_reset_circuit": (
        "select count(*) from giftcard_circuits where circuit = $1 and state = 'closed' and failures = 0",
        "circuit",
    ),
    "giftcard_pause": ("select count(*) from giftcard_stages where stage = $1 and paused_at is not null", "stage"),
    "giftcard_resume": ("select count(*) from giftcard_stages where stage = $1 and paused_at is null", "stage"),
}
_NEWEST = "select count(*) from giftcard_audit where id = (select max(id) from giftcard_audit) and action = $1"
_FLOWS = "select id, correlation_id from giftcard_jobs where id in (select jsonb_array_elements($1::jsonb)::bigint)"
_LEASE = "select extract(epoch from lease_expires_at - $1::timestamptz) from giftcard_jobs where id = $2"


class Acts:
    """Sees each call that is carried out, and reads what it has written."""

    def __init__(self, database: Database, fail: Callable[[str], None]) -> None:
        self._database, self._fail = database, fail
        self.first_occurrences: dict[str, str] = {}
        self.touch: Callable[[int, str], None] = lambda _job_id, _flow: None

    def __call__(self, function: str, arguments: dict[str, Any], answer: Any, at: str) -> None:
        """Check that an act has come about, and is in the audit. A repeated one leaves no other line there."""
        if function == "giftcard_heartbeat":
            ((left,),) = self._database.rows(_LEASE, at, arguments["job_id"])
            if float(left or 0) < arguments["seconds"]:
                self._fail(f"job {arguments['job_id']} has {left} s after a heartbeat for {arguments['seconds']}")
        if function in _AFTER:
            query, name = _AFTER[function]
            if not self._count(query, arguments[name]):
                self._fail(f"{function} was carried out, and {name} {arguments[name]} is as it was")
        if function == "giftcard_save_schedule":
            # It counts from when it was asked for, which may be long before it is stored.
            self.first_occurrences.setdefault(str(answer["id"]), answer["next_at"])
        self._check_audit(function, arguments, answer)
        if function == "giftcard_requeue_jobs" and answer["requeued"]:
            for job_id, flow in self._database.rows(_FLOWS, json.dumps(answer["ids"])):
                self.touch(int(str(job_id)), str(flow))

    def _check_audit(self, function: str, arguments: dict[str, Any], answer: Any) -> None:
        if function in ACTIONS:
            action, subject = ACTIONS[function]
            subject = subject.format(**{**arguments, "id": answer.get("id")})
            if not self._count(_AUDITED, action, subject):
                self._fail(f"{function} was carried out for {subject}, and is not in the audit")
        if function == "giftcard_reset_circuit" and answer["was"] != "closed":
            self._check_newest("reset_circuit")
        if function == "giftcard_requeue_jobs" and answer["requeued"]:
            self._check_newest("requeue")

    def _check_newest(self, action: str) -> None:
        if not self._count(_NEWEST, action):
            self._fail(f"{action} was carried out, and is not in the audit")

    def _count(self, query: str, *arguments: object) -> int:
        return int(str(self._database.rows(query, *arguments)[0][0]))

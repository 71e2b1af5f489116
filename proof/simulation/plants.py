"""Bugs to plant: each takes out what keeps a promise, in the SQL or in the Python. A simulation has to find each."""

import uuid
from dataclasses import replace
from typing import Any
from unittest import mock

from lib.jobs.context import Context
from lib.store.store import Store
from lib.telemetry import events
from lib.tick import runner, settle_calls
from lib.tick.waking import WakingStore
from proof.simulation.operated import OPERATED
from proof.simulation.plant import Plant
from proof.simulation.rules import RULES
from proof.simulation.stages import PAY

_LEASE = "lease_id = (r ->> 'lease_id')::uuid"
_COUNTED = "attempts = least({}attempts + 1, 1000000)"
_SLOT = (
    "j.status = v_running and j.lease_id is not distinct from s.lease_id\n               and j.lease_expires_at > p_now"
)
_ENDED = "coalesce(lease_expires_at, '-infinity'::timestamptz) <= p_now"
_BEGIN_KEY = "'vendor_key', e.vendor_key,"
_ALERT_DUE = "when n.notified_at <= p_now - p_repeat\n"


def _no_journal() -> Any:
    return mock.patch.object(Context, "once", lambda self, name, fn, **_: fn(str(uuid.UUID(int=_draw(self)))))


def _draw(context: Context) -> int:
    return hash((context.job.id, context.job.run_no)) & ((1 << 128) - 1)


def _without_key() -> Any:
    real = Store.submit_order
    return mock.patch.object(
        Store, "submit_order", lambda self, **arguments: real(self, **arguments | {"idempotency_key": None})
    )


def _log_payloads() -> Any:
    real = runner.Runner.log_starts

    def log_starts(self: runner.Runner, jobs: Any) -> None:
        for job in jobs:
            events.emit("run_snoozed", payload=job.payload_json)
        real(self, jobs)

    return mock.patch.object(runner.Runner, "log_starts", log_starts)


def _pay_first() -> Any:
    def settle(result: Any, call: Any, context: Any, **_: Any) -> Any:
        context.store._wire.call(PAY, arguments=call.arguments)
        return replace(result, outcome=replace(result.outcome, then=None))

    return mock.patch.object(settle_calls, "settle_with_call", settle)


def _webhooks_later() -> Any:
    real = Store.advance_tick

    def advance(self: Store, tick_id: int, **arguments: Any) -> Any:
        step = real(self, tick_id, **arguments)
        ids = tuple(row.id for row in step.settled if row.status in ("completed", "error"))
        if ids:
            self._wire.call("giftcard_proof_webhooks", ids=ids)
        return step

    return mock.patch.object(Store, "advance_tick", advance)


def _forget_semantics() -> Any:
    return mock.patch.object(runner.Runner, "with_semantics", lambda _, job: replace(job, semantics="at_least_once"))


_WEBHOOKS_LATER = """create function public.giftcard_proof_webhooks(p_ids bigint[]) returns void language plpgsql as $$
begin perform public.giftcard_enqueue_webhooks(p_ids, giftcard_proof.clock()); end $$;
create function public.giftcard_follow_up("""

PLANTS = (
    Plant(
        "fence",
        "a settle counts whatever lease it presents",
        (
            ("giftcard_settle_and_claim", "and j.status = v_running and j.lease_id = x.lease", ""),
            (
                "giftcard_settle_completed",
                "and status = v_running\n       and lease_id = coalesce(p_lease_id,",
                "and (true or id = coalesce(null,",
            ),
            (
                "giftcard_settle_completed",
                "(p_by_id -> id::text ->> 'lease_id')::uuid)\n    returning",
                "id))\n    returning",
            ),
            ("giftcard_settle_unfinished", f"and j.status = v_running and j.{_LEASE}", ""),
        ),
    ),
    Plant("journal", "once() calls without a journal, each run with a key of its own", patch=_no_journal),
    Plant(
        "vendor key",
        "each attempt sends another idempotency key",
        (
            ("giftcard_begin_effect", _BEGIN_KEY, "'vendor_key', e.vendor_key || '-' || j.run_no,"),
            (
                "giftcard_finish_effect",
                "where vendor_key = p_vendor_key",
                "where vendor_key = split_part(p_vendor_key, '-', 1)",
            ),
        ),
    ),
    Plant(
        "attempt",
        "a claim does not count the attempt",
        (
            ("giftcard_mark_jobs", _COUNTED.format(""), "attempts = attempts"),
            ("giftcard_settle_and_claim", _COUNTED.format("j."), "attempts = j.attempts"),
        ),
    ),
    Plant(
        "killed attempt",
        "the attempt of a killed run is given back",
        (("giftcard_take_over", "set lease_id = p_claim_key", "set attempts = attempts - 1, lease_id = p_claim_key"),),
    ),
    Plant(
        "probe",
        "the place of a probe that ended otherwise is not freed",
        (
            (
                "giftcard_pick_probe",
                "select from public.giftcard_jobs where id = c.probe_job_id and status = 'running'\n"
                "              and lease_id = c.probe_lease_id)",
                "select where c.probe_job_id is not null and c.state = 'half_open')",
            ),
        ),
    ),
    Plant(
        "open circuit",
        "a tick goes on with the queues that it knows, although one's circuit has opened",
        (("giftcard_known_queues", "where c.state <> 'closed'", "where false"),),
    ),
    Plant(
        "revival", "revivals are not counted", (("giftcard_revive_locked", "least(revivals + 1, 1000000)", "revivals"),)
    ),
    Plant(
        "next job",
        "a settle enqueues the next jobs of runs whose lease it has lost, under keys of their own",
        (
            (
                "giftcard_settle",
                "perform public.giftcard_enqueue_next(v_done,",
                "perform public.giftcard_enqueue_next(g.ids,",
            ),
            (
                "giftcard_after_step",
                "perform public.giftcard_enqueue_next(p_done,",
                "perform public.giftcard_enqueue_next(p_ids,",
            ),
            (
                "giftcard_enqueue_next",
                "'tenant_id', j.tenant_id,",
                "'tenant_id', j.tenant_id, 'dedup_key', md5(random()::text),",
            ),
        ),
    ),
    Plant(
        "webhook",
        "webhooks are enqueued by a call after the settle",
        (
            ("giftcard_follow_up", "perform public.giftcard_enqueue_webhooks(", "perform public.giftcard_events_for("),
            ("", "create function public.giftcard_follow_up(", _WEBHOOKS_LATER),
        ),
        _webhooks_later,
    ),
    Plant("settle with call", "the function of a settle is called in a transaction before it", patch=_pay_first),
    Plant(
        "wake",
        "a tick that leaves work wakes none",
        patch=lambda: mock.patch.object(WakingStore, "_after", lambda _, step: step),
    ),
    Plant("slot", "a place is not free once its run has ended", (("giftcard_lock_slots", _SLOT, "true"),)),
    Plant(
        "limit",
        "a claim takes more than there are free places",
        (("giftcard_reserve", "allowed := cardinality(slots);", "allowed := p_want;"),),
    ),
    Plant(
        "take-over",
        "a run is taken over half a minute before its lease ends",
        (("giftcard_scan_queues", _ENDED, _ENDED + " + interval '30 seconds'"),),
    ),
    Plant(
        "personal code",
        "a code is assigned without looking whether another customer has it",
        (
            (
                "giftcard_assign_code",
                "where x.tenant_id = c.tenant_id and x.personal_code = u.candidate",
                "where false",
            ),
            (
                "",
                "constraint giftcard_customers_personal_code_key unique (tenant_id, personal_code)",
                "constraint giftcard_customers_personal_code_key unique (id, personal_code)",
            ),
        ),
    ),
    Plant(
        "history",
        "an interrupted run leaves no line in the history",
        (
            (
                "giftcard_settle_unfinished",
                "      from changed\n    on conflict",
                "      from changed where not coalesce((r ->> 'interrupted')::boolean, false)\n    on conflict",
            ),
        ),
    ),
    Plant("at most once", "a run that may happen once is retried", patch=_forget_semantics),
    Plant("idempotency key", "an order is submitted without the key of its request", patch=_without_key),
    Plant(
        "alert", "an alert is repeated with each check", (("giftcard_due_notifications", _ALERT_DUE, "when true\n"),)
    ),
    Plant("log", "the log has payloads", patch=_log_payloads),
    *RULES,
    *OPERATED,
)

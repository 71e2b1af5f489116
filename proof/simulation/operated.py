"""More bugs to plant: in what people operate by, and in what the product writes down of itself."""

from typing import Any
from unittest import mock

from lib.jobs.retry_policy import RetryPolicy
from lib.tick import tick
from proof.simulation.plant import Plant

_LEASE = "secs => 10 + coalesce("
_NO_LONGER = "secs => -10 + coalesce("
_BEATS = "greatest(lease_expires_at, v_now + make_interval(secs => p_seconds + 10))"


def _as_many_as_threads() -> Any:
    return mock.patch.object(tick._Tick, "_capacity", lambda self: self._pool.free)


OPERATED = (
    Plant(
        "doubling",
        "each retry comes after five seconds",
        patch=lambda: mock.patch.object(RetryPolicy, "delay", return_value=5.0),
    ),
    Plant(
        "snooze",
        "a run that snoozes waits an hour longer",
        (
            (
                "giftcard_settle_unfinished",
                "else p_now + make_interval(secs => coalesce((r ->> 'delay')::double precision, 0)) end",
                "when r ->> 'outcome' = 'snooze'"
                " then p_now + make_interval(secs => 3600 + (r ->> 'delay')::double precision)"
                " else p_now + make_interval(secs => coalesce((r ->> 'delay')::double precision, 0)) end",
            ),
        ),
    ),
    Plant("revived attempts", "a revived job keeps its attempts", (("giftcard_revive_locked", "attempts = 0, ", ""),)),
    Plant(
        "success",
        "a success does not end a row of failures",
        (("giftcard_count_result", "+ 1 else 0 end", "+ 1 else failures end"),),
    ),
    Plant(
        "lease",
        "a claim's lease is shorter than the time to run",
        (("giftcard_mark_jobs", _LEASE, _NO_LONGER), ("giftcard_settle_and_claim", _LEASE, _NO_LONGER)),
    ),
    Plant("extension", "a heartbeat does not extend the lease", (("giftcard_heartbeat", _BEATS, "lease_expires_at"),)),
    Plant(
        "late claim",
        "a claim that comes late takes jobs that no one runs",
        (("giftcard_is_older_key", "coalesce(p_claim_key < p_than", "coalesce(false and p_claim_key < p_than"),),
    ),
    Plant("limit of a tick", "a tick starts as many jobs as it has threads", patch=_as_many_as_threads),
    Plant(
        "concurrency key",
        "a key that is busy is passed over by no claim",
        (
            ("", "j.concurrency_key is null\n             or p_limits", "true\n             or p_limits"),
            ("", "and (n.concurrency_key is null\n", "and (true\n"),
        ),
    ),
    Plant(
        "rate",
        "a claim takes more than its rate allows",
        (("", "elsif allowed > floor(v_tokens) then", "elsif false then"),),
    ),
    Plant(
        "execution",
        "a second call of the clock does its work again",
        (("giftcard_is_duplicate", "execution_id = p_execution_id\n", "false\n"),),
    ),
    Plant(
        "hand-over",
        "a tick wakes none for what is due soon",
        (("giftcard_wake_after", "else least(60, 2 *", "else least(0, 2 *"),),
    ),
    Plant(
        "wakes",
        "the fleet is woken as often as anything asks",
        (("giftcard_take_wake", "elsif w.sent_at > v_now - interval '1 second'", "elsif false"),),
    ),
    Plant(
        "repeated settle",
        "a settle that is repeated after a lost answer has lost its lease",
        (("giftcard_settled_jobs", "coalesce((select 'settled'", "coalesce((select null::text"),),
    ),
    Plant(
        "result",
        "the result of an effect is replaced by a later one",
        (("giftcard_finish_effect", "coalesce(result, p_result)", "p_result"),),
    ),
    Plant(
        "lost occurrence",
        "an occurrence has no job",
        (("giftcard_apply_plans", "if v_jobs is not null then", "if v_jobs is not null and random() < 0.8 then"),),
    ),
    Plant(
        "missed",
        "missed occurrences are not counted",
        (("giftcard_apply_plans", "coalesce((plan ->> 'missed')::integer, 0)", "0"),),
    ),
    Plant(
        "pruning",
        "a job leaves when it has ended",
        (("giftcard_prune_jobs", "greatest(finished_at, updated_at) <= v_over", "true"),),
    ),
    Plant(
        "count of ticks",
        "a tick counts a run more than it has settled",
        (("giftcard_mark_step", "completed + p_completed, started", "completed + p_completed + 1, started"),),
    ),
    Plant(
        "metrics",
        "runs are counted twice",
        (
            (
                "giftcard_count_runs",
                "count(*) as value from h group by stage, result",
                "2 * count(*) as value from h group by stage, result",
            ),
        ),
    ),
    Plant(
        "audit",
        "acts on jobs are not in the audit",
        (("giftcard_record_jobs", "where id = any (p_ids) group by", "where false group by"),),
    ),
    Plant(
        "no alert", "no one is notified", (("giftcard_due_notifications", "where d.kind is not null", "where false"),)
    ),
    Plant(
        "requeue",
        "a requeued job keeps its attempts",
        (("giftcard_requeue_job", "attempts = 0, revivals = 0,", "revivals = 0,"),),
    ),
    Plant(
        "cancel in the queue",
        "a queued job cannot be cancelled",
        (("giftcard_cancel_locked", "and status in ('queued', 'error') returning", "and status = 'error' returning"),),
    ),
    Plant("resume", "a pause has no end", (("giftcard_resume", "set paused_at = null, resumed_at", "set resumed_at"),)),
)

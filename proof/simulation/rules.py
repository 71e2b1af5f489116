"""More bugs to plant: rules of retries, pauses, circuits, schedules, webhooks and refunds that are not followed."""

import itertools
from typing import Any
from unittest import mock

from lib.jobs.retry_policy import RetryPolicy
from lib.tick.unsettled import Unsettled
from lib.webhooks import signing
from proof.simulation.plant import Plant

_OPENS = "elsif v_failed and c.failures >= p_threshold - 1 then"


def _other_ids() -> Any:
    real, number = signing.headers, itertools.count()
    return mock.patch.object(
        signing,
        "headers",
        lambda event_id, *body, **options: real(f"{event_id}-{next(number)}", *body, **options),
    )


RULES = (
    Plant("backoff", "a retry is due at once", patch=lambda: mock.patch.object(RetryPolicy, "delay", return_value=0.0)),
    Plant(
        "early revival",
        "a dead letter revives before its time",
        (("giftcard_revive", "and revive_at <= v_now", ""),),
    ),
    Plant(
        "pause",
        "jobs of a paused stage are claimed",
        (
            ("giftcard_queue_heads", "s.paused_at is not null or", ""),
            ("giftcard_known_queues", "s.paused_at is not null and (", "false and ("),
        ),
    ),
    Plant(
        "cancel",
        "a run that is to be the last is followed by another",
        (
            (
                "giftcard_settle_unfinished",
                "when j.cancel_requested_at is not null then 'cancelled'",
                "when false then ''",
            ),
            ("giftcard_settle_unfinished", "j.cancel_requested_at is not null then p_now", "false then p_now"),
        ),
    ),
    Plant(
        "never opens",
        "a circuit opens after no number of failures",
        (("giftcard_count_result", _OPENS, "elsif false then"),),
    ),
    Plant(
        "opens early", "a circuit opens after one failure", (("giftcard_count_result", _OPENS, "elsif v_failed then"),)
    ),
    Plant(
        "cooldown",
        "an open circuit is probed at once",
        (("giftcard_count_result", "make_interval(secs => p_cooldown_seconds)", "make_interval(secs => 0)"),),
    ),
    Plant(
        "occurrence",
        "two ticks that plan the same schedule each enqueue its job",
        (
            ("giftcard_apply_plans", "('source', s.source)", "('source', s.source, 'dedup_key', md5(random()::text))"),
            ("giftcard_enqueue_occurrences", "and s.version = (p ->> 'version')::integer", ""),
        ),
    ),
    Plant("event id", "each delivery of a webhook has another id", patch=_other_ids),
    Plant("refund", "a refund blocks no card", (("giftcard_enqueue_block", "if not found then", "if false then"),)),
    Plant(
        "claim key",
        "a claim that is repeated after a lost answer does not find its jobs",
        (
            (
                "giftcard_claim_for",
                "if t.claim_key = p_claim_key and t.claim_ids <> '{}' and p_claimed = '{}' then",
                "if false then",
            ),
            ("giftcard_plain_queues", "or t.claim_key = p_claim_key", ""),
        ),
    ),
    Plant(
        "kept results",
        "results are lost with the call that was to settle them",
        patch=lambda: mock.patch.object(Unsettled, "put_back"),
    ),
    Plant(
        "heartbeat",
        "a heartbeat extends whatever run the job has now",
        (("giftcard_heartbeat", "and status = 'running' and lease_id = p_lease_id", ""),),
    ),
    Plant(
        "last error",
        "what operators read of a failure has the payload",
        (
            (
                "giftcard_settle_unfinished",
                "last_error = coalesce(left(r ->> 'error', 500), j.last_error)",
                "last_error = left(r ->> 'error' || j.payload::text, 500)",
            ),
        ),
    ),
)

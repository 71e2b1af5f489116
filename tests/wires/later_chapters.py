"""The story's later chapters: schedules, reports, inlets, webhooks, what vendors send, alerts, what is pruned."""

from typing import Any

from tests.wires.narrator import LEASES, NOBODY, STAGES, Teller

SCHEDULE: dict[str, Any] = {
    "tenant_id": "shop", "name": "täglich", "schedule": "0 9 * * *", "timezone": "Europe/Berlin", "stage": "email",
    "payload": {"n": 2**60, "é": None}, "semantics": "at_least_once", "is_recurring": True, "max_attempts": None,
    "ttr_seconds": None, "retry_delays": [1.5], "missed_policy": "skip", "catch_up_seconds": 300, "missed_cap": 100,
    "overlap_policy": "skip", "pause_after_failures": None, "priority": 10,
}  # fmt: skip
SOON = "2035-01-01T12:30:00+00:00"


def schedules(t: Teller) -> None:
    t.do("clock")
    made = t.do("save_schedule", schedule=SCHEDULE, next_at=t.now, id=None, version=None)
    t.do("save_schedule", schedule=SCHEDULE, next_at=None, id=None, version=None)
    t.do("save_schedule", schedule=SCHEDULE | {"missed_policy": "never"}, next_at=SOON, id=made["id"], version=1)
    t.do("save_schedule", schedule=SCHEDULE, next_at=SOON, id=made["id"], version=9)
    t.do("due_schedules", limit=10)
    t.do("list_schedules", tenant_id="shop", name=None, paused=None, before=None, limit=1)
    job = {
        "stage": "email",
        "tenant_id": "shop",
        "correlation_id": f"schedule:{made['id']}:1",
        "trigger_type": "schedule",
    }
    plan = {"id": made["id"], "version": made["version"], "jobs": [job], "next_at": SOON, "last_at": SOON, "missed": 1}
    t.do("enqueue_occurrences", planned=[plan])
    t.do("enqueue_occurrences", planned=[plan])
    t.ask("occurrences", id=made["id"], limit=10)
    t.ask("occurrences", id=made["id"], limit=10, older="ü")
    t.ask("schedule_history", id=made["id"], limit=10, older=None)
    t.do("pause_schedule", id=made["id"], paused_by="kate", reason="ß", by="kate", tenant_id="shop")
    t.do("pause_schedule", id=made["id"], paused_by="kate", reason="ß", by="kate", tenant_id="another")
    shown = t.do("show_schedule", id=made["id"])
    t.do("resume_schedule", id=made["id"], version=shown["version"], next_at=SOON)
    t.do("resume_schedule", id=made["id"], version=shown["version"], next_at=SOON)
    at_once = {"id": made["id"], "version": shown["version"] + 1, "jobs": [job | {"dedup_key": "2"}], "next_at": SOON}
    t.do("run_schedule", plan=at_once, by="kate")
    t.do("run_schedule", plan=at_once, by="kate", tenant_id="another")
    t.do("precision", window_seconds=3600.5)
    t.do("delete_schedule", id=made["id"], by="kate")
    t.do("delete_schedule", id=made["id"], by="kate")
    t.do("show_schedule", id=NOBODY)


def reports(t: Teller) -> None:
    t.ask("report", tenant_id="shop", day="2035-01-01")
    t.do("make_report", tenant_id="shop", day="2035-01-01", by="kate")
    t.do("make_report", tenant_id="shop", day="2035-02-30")
    t.ask("report", tenant_id="shop", day="2035-01-01")
    t.ask("list_reports", tenant_id=None, older=None, limit=10)
    t.ask("report_tenants", day="2035-01-01", after="ü", limit=10)
    t.ask("report_tenants", day="2035-01-01", after=None, limit=10)
    t.ask("read_pgmq", queues=("queue",), limit=10)
    t.do("import_pgmq", batches={"queue": [{"msg_id": 1, "sent_at": "1", "job": {"stage": "email"}}]})


def webhooks(t: Teller) -> None:
    made = {"tenant_id": "shop", "url": "https://shop.example/hook", "events": ("job.completed",), "enabled": True}
    free = t.ask("next_webhook_endpoint_id")["id"]
    one = t.do("create_webhook_endpoint", **made, endpoint_id=free, secret_encrypted="é")["id"]
    t.do("create_webhook_endpoint", **made, secret_encrypted="é")
    t.do("create_webhook_endpoint", **(made | {"events": (), "url": "https://shop.example/2"}), secret_encrypted="é")
    t.do("update_webhook_endpoint", endpoint_id=one, url=None, events=("job.completed", "report.ready"), by="kate")
    t.do("webhook_endpoint", endpoint_id=one)
    t.do("webhook_endpoint", endpoint_id=NOBODY)
    t.do("list_webhook_endpoints", tenant_id="shop", older=None, limit=1)
    t.do("rotate_webhook_secret", endpoint_id=one, secret_encrypted="ß", former_seconds=60)
    _keys(t, one)
    job_id = t.do("test_webhook_endpoint", endpoint_id=one)["job_id"]
    usual = {"owner": "host:4", "source": "test", "live_seconds": 130, "code_version": 1}
    key = "00000000-0000-4000-8000-000000000099"
    t.do("begin_tick", key=key, limit=1, stages=STAGES | {"webhook": 60}, only_job_id=job_id, **usual)
    t.do("webhook_target", job_id=job_id, lease_id=key, endpoint_id=one)
    t.do("webhook_target", job_id=job_id, lease_id=LEASES[6], endpoint_id=one)
    t.do("disable_webhook_endpoint", endpoint_id=one, url=made["url"], reason="410")
    t.do("test_webhook_endpoint", endpoint_id=one)
    t.do("delete_webhook_endpoint", endpoint_id=one, by="kate", tenant_id="another")
    t.do("delete_webhook_endpoint", endpoint_id=one, by="kate", tenant_id="shop")
    event = {"source": "psp", "type": "paid", "tenant_id": "shop"}
    moved = {"provider_ref": "ch_9", "event_id": "captured:ch_9", "kind": "captured", "amount": 2**40}
    moved |= {"currency": "EUR", "named_order": "order-1", "as_of": SOON}
    t.do("receive_event", event_id="e1", **event, action={"movements": [moved]})
    t.do("receive_event", event_id="e1", **event, action={"ignored": "twice"})
    t.do("receive_event", event_id="e2", **event, action={"job": {"stage": "email"}})
    t.do("receive_event", event_id="e3", **event, action={"movements": [moved | {"currency": "JPY"}]})
    card = {"reference": "ü", "balance": 2**60, "currency": "EUR", "blocked": None, "at": SOON}
    t.do("receive_event", event_id="e4", **event, action={"card": card})
    t.ask("find_offered_payment", tenant_id="shop", correlation_id="order-1", provider="psp")
    t.ask("find_offered_payment", tenant_id="shop", correlation_id="none", provider="psp")


def _keys(t: Teller, endpoint: int) -> None:
    """Another key takes over: texts are listed, and replaced once."""
    for kind in ("card", "effect", "endpoint", "customer"):
        t.ask("list_ciphertexts", kind=kind, key_id="0" * 12, after=None, limit=2)
        t.ask("list_ciphertexts", kind=kind, key_id=None, after="1", limit=1)
    rows = [{"id": str(endpoint), "texts": {"é": "v2.000000000000.é", "ß": "v2.000000000000.ß"}}]
    for kind in ("endpoint", "endpoint", "effect", "customer"):
        t.ask("replace_ciphertexts", kind=kind, rows=rows)
    t.do("record_key_rotation", by="kåte", key_id="0" * 12, texts=2**40)


def tokens(t: Teller) -> None:
    made = {"name": "shop", "hash": "h1", "prefix": "gct_abcd", "scopes": ("orders:read", "admin"), "by": "käte"}
    t.do("create_token", **made, tenant_id="shop", expires_seconds=86_400)
    t.do("create_token", **made)
    t.do("create_token", **(made | {"hash": "h2"}))
    t.do("create_token", **(made | {"name": "other", "hash": "h2", "scopes": ("everything",)}))
    t.do("create_token", **(made | {"name": "other", "hash": "h2", "scopes": ("metrics",)}), tenant_id="shop")
    t.do("create_token", **(made | {"name": "other", "hash": "h2", "scopes": ("metrics",)}), tenant_id=None)
    t.do("list_tokens", older=None, limit=1)
    t.do("check_token", hash="h1", bucket=7)
    t.do("check_token", hash="none", bucket=7)
    t.do("revoke_token", name="shop", by="käte")
    t.do("revoke_token", name="none", by="käte")
    t.do("check_token", hash="h1", bucket=7)
    for _ in range(20):
        t.do("count_denied", bucket=7, reason="signature")
    t.do("count_denied", bucket=4096, reason="signature")


def settle_calls(t: Teller) -> None:
    job = {"stage": "email", "correlation_id": "calls"}
    (made,) = t.do("enqueue", jobs=[job], replace=False)
    usual = {"owner": "host:5", "source": "test", "live_seconds": 130, "code_version": 1}
    key = "00000000-0000-4000-8000-000000000098"
    tick = t.do("begin_tick", key=key, limit=1, stages=STAGES, only_job_id=made["id"], **usual)["tick_id"]
    result = {"id": made["id"], "lease_id": key, "outcome": "complete", "next": [{"stage": "payment"}]}
    for function in ("wire_called", "wire_gone", "wire_note", "wire_called(null); --"):
        call = {"then": {"function": function, "arguments": {"name": "ß" if function == "wire_note" else 2**60}}}
        t.do("settle_with_call", tick_id=NOBODY, result=result | call)
    call = {"then": {"function": "wire_called", "arguments": {"name": "é"}}}
    t.do("settle_with_call", tick_id=tick, result=result | call, cooldown_seconds=60.5)
    t.do("settle_with_call", tick_id=tick, result=result | call)
    t.do("settle_with_call", tick_id=tick, result=result | call | {"lease_id": LEASES[6]})


def watching(t: Teller) -> None:
    t.later(1_200)
    t.do("overview", stages=STAGES, missing={"payment": "PAYMENT_URL"}, since=SOON)
    t.do("update_counters", limit=1000)
    t.do("overview", stages=STAGES, missing={}, since=None)
    t.do("metrics", stages=STAGES)
    t.do("take_wake", ticks=1, catches_up=False)
    t.do("take_wake", ticks=1, catches_up=False)
    told = t.do("check_alerts", stages={}, late_seconds=0.5, repeat_hours=24, channels=("mail:ß", "url:1"))
    t.ask("active_alerts")
    of = [{"channel": item["channel"]} | alert for item in told for alert in item["alerts"]]
    t.do("record_notifications", notified=[row | {"sent": row["channel"] == "url:1" or None} for row in of])
    t.do("check_alerts", stages={}, late_seconds=0.5, repeat_hours=24, channels=("mail:ß", "url:1"))


def batches(t: Teller) -> None:
    job = {"stage": "email", "correlation_id": "bätch", "payload": {"é": 2**60}}
    made = {"name": "ß", "follow_up": {"stage": "email", "correlation_id": "after"}, "jobs": [job], "open": True}
    one = t.do("create_batch", **made, by="kåte", tenant_id="shop")["id"]
    t.do("create_batch", **made, by="kåte", tenant_id="shop")
    t.do("create_batch", **(made | {"jobs": []}), by="kåte", tenant_id="shop")
    t.do("create_batch", **(made | {"name": None}), by="kåte", tenant_id="shop")
    t.do("add_to_batch", id=one, jobs=[job | {"dedup_key": "2"}], by="kåte", tenant_id="shop")
    t.do("add_to_batch", id=one, jobs=[], by="kåte", tenant_id="another")
    t.do("seal_batch", id=one, by="kåte", tenant_id="shop")
    t.do("seal_batch", id=NOBODY, by="kåte", tenant_id=None)
    t.ask("show_batch", id=one, tenant_id="shop")
    t.ask("list_batches", tenant_id="shop", state="running", older=None, limit=1)
    t.do("end_quiet_batches", limit=10)


def pruning(t: Teller) -> None:
    days = {"jobs": "30 days", "archive": "1 year"}
    t.do("prune", limit=10, dry_run=True, **days)
    t.do("prune", limit=10, dry_run=False, **days)
    t.do("prune", limit=10, dry_run=False, jobs="thirty days")
    old = t.do("list_jobs", filter={"status": "cancelled"}, limit=1)["jobs"][0]["id"]
    t.later(40 * 86_400)
    t.do("prune", limit=1000, dry_run=False, **days, dead_letters=None, history="1 day", ticks="1 day")
    t.do("restore_job", job_id=NOBODY)
    t.do("restore_job", job_id=old, reason="ß")
    t.do("show_job", job_id=old, stages={}, missing={})


def limits(t: Teller) -> None:
    t.do("set_limit", kind="tenant", name=" email ", tenant_id="åcme", runs=2, reason="ß", by="kåte")
    t.do("set_limit", kind="circuit", name="http_call:ä", per_second=0.5, burst=3, until="2035-12-31T00:00:00Z", by="k")
    t.do("set_limit", kind="key", name="c-7", tenant_id="shop", runs=0, for_seconds=0.5)
    t.do("set_limit", kind="stage", name="payment", per_second=None, runs=None)
    t.ask("list_limits", kind=None, older=None, limit=1)
    t.ask("list_limits", kind="tenant", older='["tenant", "email", ""]', limit=50)
    t.ask("list_limits", kind="tenant", older="Ü", limit=50)
    t.do("remove_limit", kind="tenant", name="email", tenant_id="åcme", reason="é", by="kåte")
    t.do("remove_limit", kind="tenant", name="email", tenant_id="åcme")

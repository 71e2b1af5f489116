"""One evening of calls, at a time that stands still: every function that the store calls, done and refused.

Told over two wires, to two fresh databases, it has to come out the same, word for word.
"""

from lib.store.wire import Wire
from tests.wires import books
from tests.wires import later_chapters as later
from tests.wires.narrator import FIRST_ID, LEASES, NOBODY, STAGES, Answer, Teller


def tell(wire: Wire) -> list[Answer]:
    """The whole evening."""
    teller = Teller(wire)
    chapters = (
        _nothing_yet,
        _an_order,
        books.one_order,
        books.decisions,
        _jobs,
        _a_tick,
        _effects,
        _dead_letters,
        _operations,
        _operators,
    )
    for chapter in (
        *chapters,
        later.schedules,
        later.reports,
        later.webhooks,
        later.tokens,
        later.limits,
        later.settle_calls,
        later.batches,
        later.watching,
        _a_person,
        later.pruning,
    ):
        chapter(teller)
    return teller.told


def _nothing_yet(t: Teller) -> None:
    t.ask("schema_version")
    t.ask("health")
    t.do("status", stages=STAGES)
    t.do("list_jobs", filter={}, stages=STAGES, missing={})
    t.do("enqueue", jobs=[], replace=False)
    t.do("enqueue_and_wake", jobs=[], replace=False, by=None, commits=True)
    t.ask("find_payment", idempotency_key="none")
    t.ask("books", tenant_id="default", correlation_id="none")
    t.do("card_page", page_id=-(2**63))
    t.ask("list_differences", tenant_id=None, verify=True, limit=10)
    t.do("doctor", stages={})
    t.ask("flow", tenant_id="default", correlation_id="none")
    t.ask("history", job_id=NOBODY, limit=10)
    t.do("show_job", job_id=NOBODY, stages={}, missing={})
    t.ask("find_customer", tenant_id="default", external_id=None, email="nobody@example.org")
    t.do("assign_code", customer_id=NOBODY, candidates=("A", "B"))
    t.do("erase_customer", customer_id=NOBODY, by="kate")
    t.do("advance_tick", tick_id=NOBODY, claim_key=LEASES[0], results=[], limit=1, busy=0)
    t.do("finish_effect", vendor_key="none", result={})
    t.ask("abandon_effect", vendor_key="none", note="none")


def _an_order(t: Teller) -> None:
    flow = {"tenant_id": "shop", "correlation_id": "order-1"}
    payload = {
        "customer": {"given_name": "Łukasz 🎁", "email": "l@example.org", "external_id": "C-1"},
        "amount": {"amount": 2**40, "currency": "EUR"},
        "locale": "de-AT",
    }
    order = flow | {"payload": payload, "trigger_type": "api", "idempotency_key": "key-1"}
    t.do("submit_order", **order, body_hash="one")
    t.do("submit_order", **order, body_hash="one")
    t.do("submit_order", **order, body_hash="another")
    t.do("submit_order", **(order | {"idempotency_key": None}), body_hash="another")
    who = {"external_id": "C-1", "email": "l@example.org", "given_name": "Łukasz", "family_name": None}
    customer = t.do("save_customer", tenant_id="shop", **who, correlation_id="order-1")["id"]
    t.do("save_customer", tenant_id="shop", **(who | {"external_id": None}))
    t.do("assign_code", customer_id=customer, candidates=("LUKASZ0001", "LUKASZ0002"))
    t.do("assign_code", customer_id=customer, candidates=("LUKASZ0003",))
    t.do("assign_code", customer_id=customer + 1, candidates=("LUKASZ0001",))
    t.ask("flow", **flow)
    t.ask("find_customer", tenant_id="shop", external_id="C-1", email=None)
    t.ask("find_customer", tenant_id="shop", external_id=None, email="L@EXAMPLE.ORG")


def _jobs(t: Teller) -> None:
    job = {
        "stage": "email",
        "correlation_id": "f",
        "payload": {"text": '日本 \u2028 \\ "'},
        "context": {"n": 2**53 + 1},
        "delay_seconds": -1,  # before the order: its queue comes first
    }
    rules = {"semantics": "at_most_once", "ttr_seconds": 5, "retry_delays": [0.5, 86_400], "max_attempts": None}
    rules |= {"priority": -10, "concurrency_key": "kunde ä"}
    t.do("enqueue", jobs=[job, job | {"dedup_key": "two"} | rules], replace=False)
    t.do("enqueue", jobs=[job], replace=True)
    for wrong in (
        {"stage": "email"},
        job | {"dedup_key": "3", "ttr_seconds": 0},
        job | {"dedup_key": "4", "ttr_seconds": None},
        job | {"dedup_key": "5", "semantics": "sometimes"},
        job | {"dedup_key": "6", "scheduled_at": "2026-01-31T12:00:00"},
        job | {"dedup_key": "7", "max_attempts": "many"},
        job | {"dedup_key": "8", "max_attempts": 2**40},
        job | {"dedup_key": "9", "priority": 11},
        job | {"dedup_key": "9", "priority": 2**15},
        job | {"dedup_key": "9", "concurrency_key": "a\nb"},
    ):
        t.do("enqueue", jobs=[wrong], replace=False)
    t.do("enqueue", jobs={}, replace=False)
    t.do("enqueue", jobs=[job] * 1001, replace=False)
    t.do("enqueue", jobs=None, replace=None)


def _a_tick(t: Teller) -> None:
    usual = {"owner": "host:1", "source": "test", "stages": STAGES, "live_seconds": 130, "code_version": 1}
    usual |= {"limits": {"email": {"runs": 9}, "payment": 2}, "tenant_weights": {"café": 3}}
    tick = t.do("begin_tick", key=LEASES[0], limit=2, linger_seconds=0.5, execution_id="e", **usual)
    t.do("begin_tick", key=LEASES[0], limit=2, linger_seconds=0.5, execution_id="e", **usual)
    t.do("begin_tick", key=LEASES[1], limit=2, execution_id="e", **usual)
    t.do("begin_tick", key=LEASES[1], limit=2, **(usual | {"code_version": 0}))
    t.do("begin_tick", key="no uuid", limit=2, **usual)
    one, two = (job[0] for job in tick["jobs"])
    t.do("heartbeat", job_id=one, lease_id=LEASES[0], seconds=30.5)
    t.do("heartbeat", job_id=one, lease_id=LEASES[6], seconds=30)
    results = [
        {"id": one, "lease_id": LEASES[0], "outcome": "complete", "context": {"é": 1}, "next": [{"stage": "payment"}]},
        {"id": two, "lease_id": LEASES[0], "outcome": "retry", "delay": 5.25, "error": "Ärger", "trips": 1},
    ]
    settled = {"tick_id": tick["tick_id"], "busy": 0, "limit": 5}
    t.do("advance_tick", claim_key=LEASES[2], results=results, **settled)
    t.do("advance_tick", claim_key=LEASES[2], results=results, **settled)
    t.do("advance_tick", claim_key=LEASES[3], results=[{"id": one, "outcome": "vanish"}], **settled)
    t.do("advance_tick", claim_key=LEASES[3], results=[results[0]] * 2, **settled)
    done = {"ids": (one,), "lease_ids": (LEASES[0],), "results": {str(one): {"detail": {"ß": 1}}}}
    t.do("step", claim_key=LEASES[3], **done, **settled)
    t.do("step", claim_key=LEASES[3], **(done | {"ids": (NOBODY,)}), **(settled | {"tick_id": NOBODY}))
    t.do("advance_tick", claim_key=LEASES[3], results=[], stop="limit", **(settled | {"limit": 0}))
    t.do("begin_maintenance", task="prune")
    t.do("begin_maintenance", task="prune")
    t.ask("continue_maintenance", task="prune")
    t.do("begin_maintenance", task="prune")
    t.do("fail_tick", key="00000000-0000-4000-8000-00000000000f", owner="w", source="cron", error="no")
    t.ask("history", job_id=one, limit=10)
    t.do("job_story", job_id=one, limit=1, stages=STAGES, missing={})
    t.do("job_story", job_id=one, limit=1, older=2, tenant_id="shop", stages=None)
    t.do("list_circuits", older=None, limit=1)
    t.do("status", stages=STAGES)


def _effects(t: Teller) -> None:
    t.do("enqueue", jobs=[{"stage": "payment", "correlation_id": "effects"}], replace=False)
    tick = {"owner": "host:2", "source": "test", "stages": STAGES, "live_seconds": 130, "code_version": 1}
    claimed = t.do("begin_tick", key=LEASES[4], limit=9, only_stage="payment", **tick)["jobs"]
    run = {"job_id": claimed[-1][0], "lease_id": LEASES[4]}
    key = t.do("begin_effect", **run, name="charge")["vendor_key"]
    t.later(7.5)
    t.do("begin_effect", **run, name="charge")
    t.do("begin_effect", **(run | {"lease_id": LEASES[6]}), name="charge")
    t.ask("abandon_effect", vendor_key=key, note="nothing happened — für sicher", tries=1)
    t.ask("abandon_effect", vendor_key=key, note="nothing happened — für sicher", tries=2)
    key = t.do("begin_effect", **run, name="charge")["vendor_key"]
    t.do("finish_effect", vendor_key=key, result={"id": "ch_1", "big": 2**60})
    t.do("finish_effect", vendor_key=key, result={"id": "ch_2"})
    t.do("begin_effect", **run, name="charge")


def _dead_letters(t: Teller) -> None:
    jobs = [{"stage": "email", "correlation_id": f"dead-{n}", "circuit": f"email:{n % 2}"} for n in range(4)]
    ids = [answer["id"] for answer in t.do("enqueue", jobs=jobs, replace=False)]
    tick = {"owner": "host:3", "source": "test", "stages": STAGES, "live_seconds": 130, "code_version": 1}
    begun = t.do("begin_tick", key=LEASES[5], limit=9, only_stage="email", **tick)
    failed = [{"id": i, "lease_id": LEASES[5], "outcome": "error", "error": "no", "revive": None} for i in ids]
    t.do("advance_tick", tick_id=begun["tick_id"], claim_key=LEASES[6], results=failed, limit=0, busy=0)
    t.do("requeue", job_id=ids[0], payload=None, force=False)
    t.do("requeue", job_id=ids[0], payload=None, force=False)
    t.do("requeue", job_id=ids[1], payload={"to": "ß@example.org"}, force=True, reason="Ärger", by="kate")
    t.do("requeue_jobs", filter={"stage": "email", "status": "error"}, dry_run=True)
    t.do("requeue_jobs", filter={"stage": "email"}, dry_run=False, limit=1, spread_seconds=0.5, first_in=2, reason="ß")
    t.do("requeue_jobs", filter={"status": "running"}, dry_run=False)
    t.do("requeue_jobs", filter={"colour": "red"}, after=None, limit=None, dry_run=None)
    t.do("list_jobs", filter={"status": "error", "error": "NO"}, stages=None, missing={})
    t.do("list_jobs", filter={}, limit=2, before=ids[2], stages=STAGES, missing={"email": "SMTP_URL"})
    t.do("list_jobs", filter={}, limit=2, after=ids[0], stages={}, missing={})
    t.do("show_job", job_id=ids[3], stages=STAGES, missing={})
    t.do("errors", stage="email", since=None, limit=50, tenant_id=None)
    t.do("errors", stage=None, since="2035-01-01T12:00:00Z", limit=1, tenant_id="default")
    t.later(3_600)
    t.do("stuck", due_seconds=0.5, snoozed_seconds=60, stages=STAGES, missing={"email": "SMTP_URL"})
    t.do("stuck", due_seconds=1e30, snoozed_seconds=-1, stages=None, missing={})


def _operations(t: Teller) -> None:
    wanted = {"action": "requeue_slowly", "filter": {"error_kind": "Ü", "status": None}, "job_ids": None}
    t.ask("preview_operation", **wanted, tenant_id="shop")
    t.ask("preview_operation", action="cancel", filter={}, job_ids=(FIRST_ID, 2**62), tenant_id=None)
    t.ask("preview_operation", action="cancel", filter={"status": "completed"}, job_ids=None)
    made = wanted | {"reason": "ß", "per_minute": 0.5, "idempotency_key": "key", "by": "kåte", "tenant_id": "shop"}
    operation = t.do("create_operation", **made)
    t.do("create_operation", **made)
    t.do("create_operation", **(made | {"per_minute": 2.5}))
    t.do("create_operation", **(made | {"per_minute": -1.5}))
    t.do("step_operation", limit=500, skip=(operation["id"],))
    t.do("stop_operation", id=operation["id"], by="kåte", tenant_id="another")
    t.do("stop_operation", id=operation["id"], by="kåte", tenant_id="shop")
    t.do("create_operation", **(made | {"action": "cancel", "filter": {"stage": "none"}, "idempotency_key": "two"}))
    t.do("step_operation", limit=500, skip=())
    t.ask("show_operation", id=operation["id"], tenant_id="shop")
    t.ask("show_operation", id=NOBODY, tenant_id=None)
    t.ask("list_operations", tenant_id="shop", state="stopped", older=None, limit=1)


def _operators(t: Teller) -> None:
    t.do("pause", stage="email", paused_by="Åsa", by="kate", reason=None)
    t.do("pause", stage="", by="kate", reason="é")
    t.do("resume", stage="email", resumed_by="Åsa", reason="ß", by="kate")
    t.do("resume", stage="email", by="kate")
    t.do("reset_circuit", circuit="customer_ingest", reason="é", by="kate")
    t.do("reset_circuit", circuit="none", by="kate")
    (answer,) = t.do("enqueue", jobs=[{"stage": "email", "correlation_id": "wishes"}], replace=False)
    t.do("cancel", job_id=answer["id"], by="kate", tenant_id="another")
    t.do("cancel", job_id=answer["id"], reason="Ärger", by="kate", tenant_id="default")
    t.do("cancel", job_id=NOBODY)
    t.do("cancel_flow", tenant_id="default", correlation_id="wishes", reason="ß")
    t.do("cancel_flow", tenant_id="default", correlation_id="none", reason=None)


def _a_person(t: Teller) -> None:
    t.do("record_reveal", by="kate", subject="job 1", tenant_id="shop")
    t.do("record_reveal", by="kate", subject="job 1", reason="the customer asked", tenant_id="shop")
    t.do("erase_customer", customer_id=1, by="kate")
    t.ask("flow", tenant_id="shop", correlation_id="order-1")
    t.do("status", stages=None)
    acts = t.ask("list_audit", by="kate", limit=9)
    t.ask("list_audit", by="kate", older=acts["older"], limit=200)
    t.ask("list_audit", action="requeue", subject=None, since="2035-01-01T12:00:00Z", limit=1, tenant_id="none")
    t.ask("list_audit", since="yesterday evening")

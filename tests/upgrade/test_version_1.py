"""The present schema answers each call of version 1's code as the schema of its time did."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg

from lib.local.migrate import migrate
from tests.upgrade.conftest import MIGRATIONS, holds
from tests.upgrade.version_1 import CALLS, STAGES, Version1, result

Json = dict[str, Any]

TIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(\+\d\d:\d\d|Z)?|\d{4}-\d\d-\d\d [\d:.]+\+\d\d")
# What is measured, or is the schema's own number.
MEASURED = {"next_due_in", "oldest_due_seconds", "start_delay_ms", "duration_ms", "age_seconds", "version"}

WHO = {"tenant_id": "default", "correlation_id": "order-1"}
MONEY = {"provider": "ledger", "amount": 2500, "currency": "USD"}
ORDER = {"amount": {"amount": 2500, "currency": "USD"}, "customer": {"given_name": "Kate", "email": "kate@example.com"}}


def an_evening(code: Version1) -> Iterator[Any]:
    """Every call of version 1, with what each was answered."""
    call = code.call
    yield call("schema_version")
    yield call("submit_order", **WHO, body_hash="b", payload=ORDER, trigger_type="api")
    yield call("submit_order", **WHO, body_hash="b", payload=ORDER, trigger_type="api")
    yield (ingest := code.begin())
    kate = {"external_id": "C-1", "email": "kate@example.com", "given_name": "Kate", "family_name": "Rodgers"}
    yield (customer := call("save_customer", tenant_id="default", **kate, correlation_id="order-1"))
    yield call("assign_code", customer_id=customer["id"], candidates=("KATE0001", "KATE0002"))
    yield code.effect(ingest[0], "unsure")
    yield call("abandon_effect", vendor_key=code.effect(ingest[0], "unsure")["vendor_key"], note="it never arrived")
    following = [{"stage": "payment", "dedup_key": "", "payload": None, "circuit": None, "scheduled_at": None}]
    yield (step := code.advance(result(ingest[0], "complete", context={"a": 1}, next=following), limit=5))
    (payment,) = step["jobs"]
    yield code.effect(payment, "charge")
    yield call("finish_effect", vendor_key=code.effect(payment, "charge")["vendor_key"], result={"reference": "r"})
    yield code.effect(payment, "charge")
    yield call("record_payment", **WHO, **MONEY, idempotency_key="k", provider_ref="r")
    yield call("find_payment", idempotency_key="k")
    card = {"number_encrypted": "x", "number_hash": "h", "last4": "4242", "provider_ref": "c"}
    yield call("record_card", **WHO, **MONEY, **card, customer_id=customer["id"])
    yield call("find_card", **WHO)
    yield code.advance(result(payment, "error", error="TransientError: HTTP 500", revive=3600, trips=1))
    yield from looked_at(code)
    yield from mended(code)
    yield call("find_customer", tenant_id="default", external_id="C-1")
    yield call("record_reveal", by="kim", subject="job 1")
    yield call("erase_customer", customer_id=customer["id"], by="kim")


def looked_at(code: Version1) -> Iterator[Any]:
    """What operators see while the payment's circuit is open."""
    jobs = [{"stage": "email", "correlation_id": f"mail-{n}", "payload": {}, "delay_seconds": 0} for n in range(6)]
    yield code.call("enqueue", jobs=jobs, replace=False)
    yield code.call("enqueue", jobs=jobs, replace=True)
    yield code.call("flow", **WHO)
    for job_id in (1, 2, 3):
        yield code.call("show_job", job_id=job_id, stages=STAGES, missing={"email": "SMTP_URL"})
        yield code.call("history", job_id=job_id, limit=10)
    yield code.call("list_jobs", filter={"stage": "email", "status": "queued"}, limit=2, stages=STAGES, missing={})
    yield code.call("list_jobs", filter={}, after=2, limit=2, stages=STAGES, missing={})
    yield code.call("status", stages=STAGES)


def mended(code: Version1) -> Iterator[Any]:
    """What operators do, and each other outcome."""
    yield code.call("reset_circuit", circuit="payment", by="kim")
    yield code.call("pause", stage="payment", by="kim", reason="lunch")
    yield code.call("resume", stage="payment", by="kim")
    yield code.call("requeue_jobs", filter={}, after=0, limit=10, dry_run=True, spread_seconds=0, first_in=0)
    yield code.call("requeue_jobs", filter={}, after=0, limit=10, dry_run=False, spread_seconds=6, first_in=0)
    one, two, three, four = code.begin(limit=4, only_stage="email", execution_id="e-1")
    yield code.advance(result(one, "retry", delay=30, error="TransientError: no"), busy=3)
    yield code.advance(result(two, "snooze", delay=30, error="waiting for Christmas"), busy=2)
    yield code.advance(result(three, "release"), busy=1)
    yield code.advance(result(four, "error", error="PermanentError: no", revive=None), stop="limit")
    yield code.begin(execution_id="e-1")
    yield code.call("requeue", job_id=four["id"], payload={"better": True}, force=False)
    yield code.call("cancel", job_id=one["id"])
    yield code.call("cancel_flow", tenant_id="default", correlation_id="mail-1")
    yield code.call("status", stages=STAGES)


def masked(value: Any, name: str = "") -> Any:
    """Without times, and what is measured."""
    if name in MEASURED and value is not None:
        return "measured"
    if isinstance(value, dict):
        return {key: masked(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return [masked(inner) for inner in value]
    return TIME.sub("<time>", value) if isinstance(value, str) else value


def told(url: str) -> tuple[list[Any], set[str]]:
    with psycopg.connect(url, autocommit=True) as connection:
        code = Version1(connection)
        return [masked(answer) for answer in an_evening(code)], code.called


def test_each_call_of_version_1_is_answered_as_in_its_time(
    empty_database_url: str, database_url: str, tmp_path: Path
) -> None:
    (tmp_path / MIGRATIONS[0].name).write_bytes(MIGRATIONS[0].read_bytes())
    migrate(empty_database_url, directory=tmp_path)
    (then, called), (now, _) = told(empty_database_url), told(database_url)
    assert called == set(CALLS), "each is played"
    assert len(then) == len(now)
    assert [(a, b) for a, b in zip(then, now, strict=True) if not holds(b, a)] == []

"""How version 1 of the code calls the database and reads its answers: recorded from it, never to be changed.

While a new schema is there and the new code is not, this is what runs.
"""

import itertools
import uuid
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

Json = dict[str, Any]

# Every function that it calls, with the arguments that it gives.
CALLS: dict[str, str] = {
    "abandon_effect": "vendor_key note",
    "advance_tick": "tick_id results claim_key limit busy linger_seconds stop cooldown_seconds",
    "assign_code": "customer_id candidates",
    "begin_effect": "job_id lease_id name",
    "begin_tick": "code_version key owner source execution_id stages limit live_seconds linger_seconds only_stage"
    " only_job_id",
    "cancel": "job_id",
    "cancel_flow": "tenant_id correlation_id",
    "find_card": "tenant_id correlation_id",
    "enqueue": "jobs replace",
    "erase_customer": "customer_id by",
    "find_customer": "tenant_id external_id email",
    "find_payment": "idempotency_key",
    "finish_effect": "vendor_key result",
    "flow": "tenant_id correlation_id",
    "history": "job_id limit",
    "list_jobs": "filter before after limit stages missing",
    "record_reveal": "by subject",
    "pause": "stage by reason",
    "record_card": "tenant_id correlation_id customer_id provider provider_ref number_encrypted number_hash last4"
    " amount currency",
    "record_payment": "tenant_id correlation_id idempotency_key provider provider_ref amount currency",
    "requeue": "job_id payload force",
    "requeue_jobs": "filter after limit dry_run spread_seconds first_in",
    "reset_circuit": "circuit by",
    "resume": "stage by",
    "save_customer": "tenant_id external_id email given_name family_name correlation_id",
    "schema_version": "",
    "show_job": "job_id stages missing",
    "status": "stages",
    "submit_order": "tenant_id correlation_id body_hash payload trigger_type",
}

# It takes these by name, and knows no others: a further one in an answer would be an exception in the middle of a tick.
JOB = (
    "id tenant_id correlation_id stage dedup_key circuit payload_json context_json attempts max_attempts run_no"
    " revivals semantics ttr retry_delays scheduled_at locked_at lock_owner lease_id interrupted"
).split()
SETTLED = "id settled status next_run_at".split()
EFFECT = "state result vendor_key age_seconds".split()

STAGES = dict.fromkeys(("customer_ingest", "personal_code", "payment", "issue_card", "email"), 60)


class Version1:
    """One process of it, over one connection whose functions keep their plans."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        self.called: set[str] = set()
        self._keys = (str(uuid.UUID(int=number)) for number in itertools.count(1))
        self.tick_id = 0

    def call(self, function: str, **arguments: Any) -> Any:
        """As it did; arguments that are not named are null."""
        given = dict.fromkeys(CALLS[function].split()) | arguments
        assert " ".join(given) == CALLS[function], f"version 1 never called {function} like this"
        named = sql.SQL(", ").join(
            sql.SQL("{} => {}").format(sql.Identifier(f"p_{n}"), sql.Placeholder(n)) for n in given
        )
        statement = sql.SQL("select to_json(public.{}({}))").format(sql.Identifier(f"giftcard_{function}"), named)
        row = self.connection.execute(statement, {name: _adapt(value) for name, value in given.items()}).fetchone()
        self.called.add(function)
        return row[0] if row else None

    def begin(self, *, limit: int = 1, **more: Any) -> list[Json]:
        """A tick that has just begun, and the jobs that it got."""
        usual = {
            "code_version": 1,
            "owner": "v1",
            "source": "cron",
            "stages": STAGES,
            "live_seconds": 130,
            "linger_seconds": 0,
        }
        answer = self.call("begin_tick", key=next(self._keys), limit=limit, **usual | more)
        self.tick_id = answer["tick_id"]
        return self._jobs(answer)

    def advance(self, *results: Json, limit: int = 0, busy: int = 0, **more: Any) -> Json:
        """Settles, and gets up to `limit` more."""
        usual = {"linger_seconds": 0, "cooldown_seconds": 60}
        answer: Json = self.call(
            "advance_tick",
            tick_id=self.tick_id, claim_key=next(self._keys), results=list(results), limit=limit, busy=busy,
            **usual | more,
        )  # fmt: skip
        assert all(sorted(settled) == sorted(SETTLED) for settled in answer["settled"])
        self._jobs(answer)
        return answer

    def effect(self, job: Json, name: str) -> Json:
        """An effect outside, as begun."""
        begun: Json = self.call("begin_effect", job_id=job["id"], lease_id=job["lease_id"], name=name)
        assert set(begun) <= set(EFFECT)
        return begun

    @staticmethod
    def _jobs(answer: Json) -> list[Json]:
        jobs: list[Json] = answer["jobs"]
        assert all(sorted(job) == sorted(JOB) for job in jobs)
        return jobs


def result(job: Json, outcome: str, **more: Any) -> Json:
    """One outcome as it wrote them."""
    return {"id": job["id"], "lease_id": job["lease_id"], "outcome": outcome, **more}


def _adapt(value: Any) -> Any:
    if isinstance(value, dict | list):
        return Jsonb(value)
    return list(value) if isinstance(value, tuple) else value

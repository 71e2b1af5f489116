"""Jobs in every state, made by the verbs of the contract: what tests put into a database.

    world = World(connection)              time stands at `world.now` until `world.later(seconds)`
    world = World(connection, now=None)    the database's own clock; `world.backdate(seconds)` moves all rows instead

Two layers: calling and reading (`call`, `rows`, `job`, …), and the verbs on top of it (`enqueue`, `claimed`, …).
"""

import uuid
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
from psycopg.rows import dict_row
from psycopg.sql import SQL, Identifier, Placeholder
from psycopg.types.json import Jsonb

from lib.job import Complete, Error, Job, Outcome
from lib.store import codec
from lib.store.codec import Result, Step
from lib.store.encode import encode_completed, encode_result
from tests.support.as_database import add_webhook

Row = dict[str, Any]

# Far enough ahead that what SQL's own NOW() writes is in the past.
NOON = datetime(2035, 1, 1, 12, tzinfo=UTC)

# What a claim of these tests knows, with the ttr of each in seconds.
STAGES = dict.fromkeys("customer_ingest personal_code payment issue_card email http_call webhook".split(), 60)


class World:
    """One database and its clock. `undo`: within a transaction, where what fails undoes nothing but itself."""

    def __init__(self, connection: psycopg.Connection[Any], *, now: datetime | None = NOON, undo: bool = False) -> None:
        self.connection = connection
        self.now = now
        self._step = connection.transaction if undo else nullcontext

    # Calling and reading

    def call(self, function: str, **arguments: Any) -> Any:
        """Calls giftcard_<function> at this world's time. Dicts and lists travel as jsonb, tuples as arrays."""
        return self.ask(function, **arguments, now=self.now)

    def ask(self, function: str, **arguments: Any) -> Any:
        """Calls giftcard_<function>, one that does not depend on time."""
        named = SQL(", ").join(SQL("{} => {}").format(Identifier(f"p_{n}"), Placeholder(n)) for n in arguments)
        statement = SQL("select to_json(public.{}({}))").format(Identifier(f"giftcard_{function}"), named)
        adapted = {name: _adapt(value) for name, value in arguments.items()}
        with self._step():
            row = self.connection.execute(statement, adapted).fetchone()
        return row[0] if row else None

    def rows(self, query: str, *values: Any) -> list[Row]:
        with self._step(), self.connection.cursor(row_factory=dict_row) as cursor:
            return cursor.execute(query.encode(), values or None).fetchall()

    def run(self, statement: str, *values: Any) -> int:
        """Executes; answers how many rows it touched."""
        with self._step():
            return self.connection.execute(statement.encode(), values or None).rowcount

    def job(self, job_id: int) -> Row:
        return self.rows("select * from public.giftcard_jobs where id = %s", job_id)[0]

    def history(self, job_id: int) -> list[Row]:
        """The runs of a job, the first first."""
        return self.rows("select * from public.giftcard_job_history where job_id = %s order by run_no", job_id)

    def circuits(self) -> list[Row]:
        """`changed_at` None: never."""
        known = "circuit, state, failures, nullif(changed_at, '-infinity') as changed_at, open_until, probe_job_id"
        return self.rows(f"select {known} from public.giftcard_circuits order by circuit")

    def circuit(self, name: str) -> Row:
        return next(circuit for circuit in self.circuits() if circuit["circuit"] == name)

    def changes(self, circuit: str) -> list[Row]:
        """Its changes of state, the first first."""
        return self.rows("select * from public.giftcard_circuit_changes where circuit = %s order by id", circuit)

    def snapshot(self, *job_ids: int) -> list[Any]:
        """All there is about these jobs: equal before and after means nothing was changed."""
        return [(self.job(job_id), self.history(job_id)) for job_id in job_ids]

    # Time

    def later(self, seconds: float) -> None:
        assert self.now, "the database's clock cannot be moved: backdate the rows"
        self.now += timedelta(seconds=seconds)

    def from_now(self, when: datetime | None) -> float:
        """Seconds from this world's time until then."""
        assert when
        return (when - (self.now or datetime.now(UTC))).total_seconds()

    def backdate(self, seconds: float) -> None:
        """Moves all that has a time in the queue, the circuits and the ticks into the past, as if time had gone by."""
        moved = {
            "giftcard_jobs": ("scheduled_at", "locked_at", "lease_expires_at", "revive_at", "finished_at"),
            "giftcard_circuits": ("changed_at", "open_until"),
            "giftcard_ticks": ("started_at", "live_until", "ended_at"),
        }
        for table, columns in moved.items():
            sets = SQL(", ").join(SQL("{0} = {0} - %(by)s").format(Identifier(column)) for column in columns)
            self.connection.execute(
                SQL("update public.{} set {}").format(Identifier(table), sets), {"by": timedelta(seconds=seconds)}
            )

    # Verbs

    def enqueue(self, stage: str = "email", **fields: Any) -> int:
        """A job, queued and due unless the fields say otherwise; in a flow of its own unless they name one."""
        job = {"stage": stage, "correlation_id": f"flow-{uuid.uuid4()}"} | fields
        if stage == "webhook":
            return add_webhook(self.rows, **{"scheduled_at": self.now or datetime.now(UTC)} | job)
        (answer,) = self.call("enqueue", jobs=[job])
        job_id: int = answer["id"]
        return job_id

    def begin(self, *, limit: int = 10, stages: Row = STAGES, key: str | None = None, **more: Any) -> "Tick":
        """A tick that has just begun, with what it claimed."""
        key = key or str(uuid.uuid4())
        usual = {"owner": "worker", "source": "test", "live_seconds": 130, "code_version": 1}
        answer = self.call("begin_tick", key=key, stages=dict(stages), limit=limit, **(usual | more))
        return Tick(self, codec.decode_step(answer, lease_id=key, owner="worker"), key)

    def claim(self, limit: int = 1, **more: Any) -> list[Job]:
        """What a tick that begins now gets."""
        return list(self.begin(limit=limit, **more).step.jobs)

    def claimed(self, stage: str = "email", **fields: Any) -> Job:
        """A job that runs."""
        job_id = self.enqueue(stage, **fields)
        return self.claim_one(job_id)

    def claim_one(self, job_id: int) -> Job:
        """This very job, due or not."""
        stage = self.job(job_id)["stage"]
        (job,) = (j for j in self.claim(stages={**STAGES, stage: 60}, only_job_id=job_id) if j.id == job_id)
        return job

    def settle(self, job: Job, outcome: Outcome, *, trips: int | None = None) -> Row:
        """Writes one outcome; answers {id, settled, status, next_run_at}."""
        (settled,) = self.settle_all(Result(job=job, outcome=outcome, trips=trips))["settled"]
        return dict(settled)

    def settle_all(self, *results: Result, cooldown_seconds: float = 60) -> Row:
        """Writes outcomes in one call; answers {settled, opened, closed, sums}."""
        written = [encode_result(result) for result in results]
        answer: Row = self.call("settle", results=written, cooldown_seconds=cooldown_seconds)
        return answer

    def settled(self, outcome: Outcome, stage: str = "email", **fields: Any) -> int:
        """A job that has run once and ended with this outcome."""
        job = self.claimed(stage, **fields)
        assert self.settle(job, outcome)["settled"] == "settled"
        return job.id

    def completed(self, stage: str = "email", **fields: Any) -> int:
        return self.settled(Complete(), stage, **fields)

    def dead_letter(self, stage: str = "email", *, revive: float | None = None, **fields: Any) -> int:
        """`revive`: seconds until it goes back by itself; None: never."""
        return self.settled(Error(error="TransientError: no", revive=revive), stage, **fields)

    def cancelled(self, stage: str = "email", **fields: Any) -> int:
        job_id = self.enqueue(stage, **fields)
        self.call("cancel", job_id=job_id)
        return job_id

    def interrupted(self, stage: str = "email", **fields: Any) -> Job:
        """A job whose worker was killed: it runs, and its lease has ended. Answers the dead worker's view of it."""
        job = self.claimed(stage, **fields)
        self.end_lease(job.id)
        return job

    def end_lease(self, job_id: int) -> None:
        past = (self.now or datetime.now(UTC)) - timedelta(seconds=1)
        self.run("update public.giftcard_jobs set lease_expires_at = %s where id = %s", past, job_id)

    def take_over(self, **more: Any) -> list[Job]:
        """What a claim takes over from killed workers, and nothing else."""
        return self.claim(**({"only_stage": "nothing of this name"} | more))

    def open_circuit(self, circuit: str = "email", *, failures: int = 3) -> None:
        """Failures in a row, until the circuit is open for 60 s."""
        stage = circuit.split(":")[0]
        for _ in range(failures):
            job = self.claimed(stage, circuit=circuit)
            self.settle(job, Error(error="TransientError: no", counts=True), trips=failures)
        assert self.circuit(circuit)["state"] == "open"

    def by_hand(self, job_id: int) -> None:
        """The operators' UPDATE, word for word."""
        again = "UPDATE giftcard_jobs SET status='queued', scheduled_at=NOW(), attempts=0, last_error=NULL WHERE id=%s"
        assert self.run(again, job_id) == 1


class Tick:
    """A tick that has begun. `step` is the answer of its last call."""

    def __init__(self, world: World, step: Step, key: str) -> None:
        self.world = world
        self.id = step.tick_id
        self.key = key
        self.step = step

    @property
    def jobs(self) -> list[Job]:
        return list(self.step.jobs)

    def advance(self, *results: Result, limit: int = 0, busy: int = 0, key: str | None = None, **more: Any) -> Step:
        """Settles and claims up to `limit` more, as the store does."""
        more |= {"tick_id": self.id, "claim_key": key or str(uuid.uuid4()), "limit": limit, "busy": busy}
        known: dict[str, Any] = {"lease_id": more["claim_key"], "owner": "worker"}
        if results and not more.get("one_by_one") and (completed := encode_completed(list(results))):
            known["completed"] = completed["ids"]
            answer = self.world.call("step", **completed, **more)
        else:
            answer = self.world.call("advance_tick", results=[encode_result(r) for r in results], **more)
        self.step = codec.decode_step(answer, **known)
        return self.step

    @property
    def row(self) -> Row:
        return self.world.rows("select * from public.giftcard_ticks where id = %s", self.id)[0]


def done(job: Job, outcome: Outcome | None = None, *, trips: int | None = None) -> Result:
    """The result of a run: complete unless said otherwise."""
    return Result(job=job, outcome=outcome or Complete(), trips=trips)


def ids(jobs: Iterable[Job]) -> list[int]:
    return [job.id for job in jobs]


def each(make: Callable[[], int], times: int) -> list[int]:
    return [make() for _ in range(times)]


def _adapt(value: Any) -> Any:
    if isinstance(value, dict | list):
        return Jsonb(value)
    return list(value) if isinstance(value, tuple) else value

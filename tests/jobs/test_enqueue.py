"""A job is prepared once, and the same, whichever of the six ways it comes by."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from pydantic import BaseModel, ConfigDict, field_validator

from lib.cli import jobs
from lib.errors import InvalidJob
from lib.giftcards.order_files.file import open_orders
from lib.giftcards.order_files.importing import Importer
from lib.giftcards.order_files.own import OwnColumns
from lib.giftcards.orders import Arrival
from lib.job import Complete, NextJob
from lib.jobs.enqueue import prepare
from lib.jobs.hooks import Draft, before_enqueue
from lib.jobs.registry import Registry
from lib.jobs.stage import Stage, stage
from lib.telemetry import sentry
from lib.validation import same_json
from tests.support.queues import Queues
from tests.support.world import ADMIN, World, a_stage, bearer

CSV = """correlation_id,external_id,given_name,family_name,email,amount,currency,message,deliver_at
f,,{name},,kate@example.com,25.00,USD,,
"""
TRACE = {"sentry-trace": "trace", "baggage": "baggage"}


class Work(BaseModel):
    """A payload that is as strict as those of the product."""

    model_config = ConfigDict(extra="forbid", strict=True)
    host: str


def nothing(payload: Any, context: Any) -> Complete:
    return Complete()


def first(payload: Any, context: Any) -> Complete:
    return Complete(next=(NextJob(stage="work", payload=payload.next),))


def once(name: str, payload: type[BaseModel], of: Callable[[Any], str]) -> Stage:
    """A stage that runs at most once, on the circuit that its payload names."""
    return stage(name, payload=payload, semantics="at_most_once", circuit_of=lambda p: f"{name}:{of(p)}")(nothing)


STAGES = {
    "work": once("work", Work, lambda payload: payload.host),
    "customer_ingest": once("customer_ingest", Arrival, lambda payload: payload.customer.given_name),
    "first": a_stage("first", first),
}

Json = dict[str, Any]
Way = Callable[[World, Json], None]


def by_api(world: World, payload: Json) -> None:
    job = {"stage": "work", "correlation_id": "f", "payload": payload}
    answer = world.client.post("/api/v1/jobs", json={"jobs": [job]}, headers=bearer(ADMIN))
    assert answer.status_code == 202, answer.text


def by_cli(world: World, payload: Json) -> None:
    world.app.cli.add_command(jobs)
    words = ["jobs", "enqueue", "work", "f", "--payload", json.dumps(payload)]
    ended = world.app.test_cli_runner().invoke(args=words)
    assert ended.exit_code == 0, ended.output


def by_csv(world: World, payload: Json) -> None:
    file = open_orders(CSV.format(name=payload["host"]).encode(), OwnColumns())
    outcome = Importer(store=world.store, registry=world.registry, settings=world.settings).run(file)
    assert outcome.created == 1, outcome.wrong


def by_next_stage(world: World, payload: Json) -> None:
    world.add("first", {"next": payload}, correlation_id="f", context={"trace": TRACE})
    world.tick()


def by_schedule(world: World, payload: Json) -> None:
    world.sql(
        """insert into giftcard_schedules (schedule, stage, payload, next_at, check_at)
           values ('* * * * *', 'work', %s, date_trunc('minute', now()), now()) returning id""",
        json.dumps(payload),
    )
    world.tick()


def by_pgmq(world: World, payload: Json) -> None:
    world.queues.create("work_queue", {"correlation_id": "f"} | payload)
    world.tick()


class Watched(World):
    """A world whose hook sees every draft."""

    drafts: list[Draft]
    queues: Queues


@pytest.fixture
def world(
    make_world: Callable[..., World], connection: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """Stages of this test, a hook that sees every draft, and a trace for every job."""
    monkeypatch.setattr(sentry, "with_trace", lambda rows: [row | {"context": {"trace": TRACE}} for row in rows])
    drafts: list[Draft] = []

    def see(draft: Draft) -> None:
        drafts.append(draft)
        draft.ttr_seconds = 77

    before_enqueue.connect(see)
    world: Any = make_world(registry=Registry(STAGES), GIFTCARD_PGMQ_QUEUES="work_queue:work")
    world.drafts, world.queues = drafts, Queues(connection)
    connection.commit()
    connection.autocommit = True
    yield world
    before_enqueue.disconnect(see)


@pytest.mark.parametrize(
    "way", [by_api, by_cli, by_csv, by_next_stage, by_schedule, by_pgmq], ids=lambda way: way.__name__
)
def test_defaults_hooks_and_trace_are_the_same_by_every_way(world: Watched, way: Way) -> None:
    way(world, {"host": "Kate"})
    (job,) = world.sql("select * from giftcard_jobs where stage in ('work', 'customer_ingest')")
    assert job["semantics"] == "at_most_once", "a default of its stage"
    assert job["circuit"] == f"{job['stage']}:Kate", "a default of its payload"
    assert job["ttr_seconds"] == 77, "set by the hook"
    assert job["context"]["trace"] == TRACE
    seen = [(draft.correlation_id, draft.trigger_type) for draft in world.drafts if draft.stage == job["stage"]]
    assert seen[:1] == [(job["correlation_id"], job["trigger_type"].removesuffix("_once"))], "once, as it is enqueued"
    assert len(seen) == 1


def test_what_a_stages_own_code_raises_spoils_only_the_job(world: Watched) -> None:
    """`circuit_of` costs a job its circuit; a validator that raises anything makes its payload invalid."""

    class Odd(Work):
        @field_validator("host")
        @classmethod
        def check(cls, host: str) -> str:
            if host == "bad":
                raise KeyError(host)
            return host

    odd = stage("work", payload=Odd, circuit_of=lambda payload: payload.no_such_field)(nothing)
    rows = [{"stage": "work", "correlation_id": "f", "payload": {"host": "good"}}]
    (prepared,) = prepare(rows, Registry({"work": odd}), world.settings)
    assert "circuit" not in prepared
    rows.append({"stage": "work", "correlation_id": "f", "payload": {"host": "bad"}})
    with pytest.raises(InvalidJob, match="cannot be validated: KeyError") as caught:
        prepare(rows, Registry({"work": odd}), world.settings)
    assert (caught.value.field, caught.value.index) == ("payload", 1)


@pytest.mark.parametrize("way", [by_next_stage, by_schedule, by_pgmq], ids=lambda way: way.__name__)
def test_an_invalid_payload_ends_with_the_same_error_where_no_caller_waits(world: Watched, way: Way) -> None:
    """By API, CLI and CSV the caller gets it: tests/web, tests/cli, tests/giftcards."""
    way(world, {"host": "Kate", "port": 1})
    while world.tick()["started"]:
        pass
    dead = [row["last_error"] for row in world.sql("select last_error from giftcard_jobs where stage = 'work'")]
    assert dead == ["PermanentError: payload: port is unknown"]
    assert world.job(stage="work")["semantics"] == "at_most_once", "its stage's, although the payload is invalid"


def test_a_hook_cannot_set_what_cannot_be_stored(world: Watched) -> None:
    """Nor is what only looks equal unchanged: Python takes 1, 1.0 and True for equal."""
    spoiled = iter([float("nan"), "\x00", "\ud800", object()])

    def spoil(draft: Draft) -> None:
        draft.payload["host"] = next(spoiled)

    before_enqueue.connect(spoil)
    row = {"stage": "unknown to this code", "correlation_id": "f", "payload": {"host": "a"}}
    try:
        prepared = [prepare([row], world.registry, world.settings)[0] for _ in range(4)]
    finally:
        before_enqueue.disconnect(spoil)
    assert [job["payload"] for job in prepared] == [{"host": "a"}] * 4
    assert not same_json({"n": 1}, {"n": True})
    assert not same_json({"n": 1}, {"n": 1.0})

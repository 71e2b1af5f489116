"""A batch of which the database refuses a message, or in whose middle it goes away; and what Python cannot read."""

import json
from collections.abc import Callable, Iterable
from typing import Any

import psycopg
import pytest

from lib.errors import Conflict, Refused, StoreError, Unavailable
from lib.store.postgres import PostgresWire
from lib.tick.pgmq import import_pgmq
from tests.cli.conftest import Door
from tests.support.queues import NOTHING, Queues
from tests.support.world import ADMIN, World, bearer

Make = Callable[..., World]
QUEUES = "work_queue:email"


@pytest.fixture
def queues(connection: psycopg.Connection[Any]) -> Queues:
    return Queues(connection)


class Picky:
    """A wire to Postgres over which the import of some messages fails. `always`: also as dead letters."""

    def __init__(self, url: str, error: StoreError, numbers: Iterable[int], *, always: bool = False) -> None:
        self._wire = PostgresWire(url)
        self._error, self._numbers, self._always = error, set(numbers), always
        self.imports = 0

    def call(self, function: str, /, **arguments: Any) -> Any:
        if function == "giftcard_import_pgmq":
            self.imports += 1
            for message in (m for messages in arguments["batches"].values() for m in messages):
                if message["msg_id"] in self._numbers and (self._always or "error" not in message["job"]):
                    raise self._error
        return self._wire.call(function, **arguments)

    def close(self) -> None:
        self._wire.close()


def run(world: World) -> tuple[dict[str, Any], int]:
    imported, calls = import_pgmq(world.store, world.registry, world.settings)
    return imported["work_queue"], calls


REFUSALS = [Refused("cannot be stored", sqlstate="22P02"), Conflict("a key of theirs", constraint="theirs")]


@pytest.mark.parametrize("error", REFUSALS)
def test_one_bad_message_of_500_costs_about_20_calls(
    make_world: Make, queues: Queues, database_url: str, error: StoreError
) -> None:
    wire = Picky(database_url, error, [137])
    world = make_world(GIFTCARD_PGMQ_QUEUES=QUEUES, wire=wire)
    queues.create("work_queue", *({"n": n} for n in range(1, 501)))
    imported, calls = run(world)
    assert imported == NOTHING | {"moved": 499, "refused": 1}
    assert (wire.imports <= 21, calls) == (True, wire.imports + 1)
    (dead,) = world.sql("select * from giftcard_jobs where status = 'error'")
    assert (dead["payload"], dead["last_error"]) == ({"message": '{"n": 137}'}, f"PermanentError: {error}")
    assert dead["correlation_id"] == "pgmq:work_queue:137"


def test_several_bad_messages_are_found_each(make_world: Make, queues: Queues, database_url: str) -> None:
    wire = Picky(database_url, REFUSALS[0], [1, 2, 50])
    world = make_world(GIFTCARD_PGMQ_QUEUES=QUEUES, wire=wire)
    queues.create("work_queue", *({"n": n} for n in range(1, 51)))
    assert run(world)[0] == NOTHING | {"moved": 47, "refused": 3}


def test_a_message_that_is_refused_as_a_dead_letter_too_stays_and_is_named(
    make_world: Make, queues: Queues, database_url: str
) -> None:
    wire = Picky(database_url, REFUSALS[0], [2], always=True)
    world = make_world(GIFTCARD_PGMQ_QUEUES=QUEUES, wire=wire)
    queues.create("work_queue", *({"n": n} for n in range(1, 6)))
    problem = "message 2 stays in the queue: cannot be stored"
    assert run(world)[0] == NOTHING | {"moved": 4, "problem": problem}
    assert queues.waiting("work_queue") == [2]


def test_a_database_that_goes_away_in_the_middle_stops_the_import_and_loses_nothing(
    make_world: Make, queues: Queues, database_url: str
) -> None:
    class Leaving(Picky):
        def call(self, function: str, /, **arguments: Any) -> Any:
            if function == "giftcard_import_pgmq" and self.imports == 3:
                raise Unavailable("the database is away")
            return super().call(function, **arguments)

    world = make_world(GIFTCARD_PGMQ_QUEUES=QUEUES, wire=Leaving(database_url, REFUSALS[0], [8]))
    queues.create("work_queue", *({"n": n} for n in range(1, 9)))
    report = world.tick()
    assert report["pgmq"]["work_queue"] == NOTHING | {"moved": 4, "problem": "the database is away"}
    assert report["stopped_because"] == "drained", "the tick goes on"
    assert (queues.waiting("work_queue"), queues.archived("work_queue")) == ([5, 6, 7, 8], [1, 2, 3, 4])
    world.sql("update pgmq.q_work_queue set vt = now()")
    again = make_world(GIFTCARD_PGMQ_QUEUES=QUEUES)
    assert run(again)[0] == NOTHING | {"moved": 4}


def test_a_batch_whose_every_message_is_refused_ends_with_the_time(
    make_world: Make, queues: Queues, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = Picky(database_url, REFUSALS[0], range(1, 65), always=True)
    world = make_world(GIFTCARD_PGMQ_QUEUES=QUEUES, wire=wire)
    queues.create("work_queue", *({"n": n} for n in range(1, 65)))
    monkeypatch.setattr("lib.tick.pgmq.time", _Clock(wire))
    imported, _ = run(world)
    assert imported["problem"].startswith("message ")
    assert (wire.imports < 64, queues.waiting("work_queue")) == (True, list(range(1, 65)))


class _Clock:
    """Each import takes a second."""

    def __init__(self, wire: Picky) -> None:
        self._wire = wire

    def monotonic(self) -> float:
        return float(self._wire.imports)


# What Python cannot read

HUGE = "9" * 5000


def test_a_number_that_python_cannot_read_is_refused_and_whoever_reads_it_later_does_not_fail(
    make_world: Make, queues: Queues
) -> None:
    world = make_world(GIFTCARD_PGMQ_QUEUES=QUEUES)
    queues.create("work_queue", {"n": 1})
    world.sql(f"""select pgmq.send('work_queue', '{{"amount": {HUGE}}}')""")
    report = world.tick()
    assert report["pgmq"]["work_queue"] == NOTHING | {"moved": 1, "refused": 1}
    (dead,) = world.sql("select * from giftcard_jobs where correlation_id = 'pgmq:work_queue:2'")
    assert dead["payload"] == {"message": f'{{"amount": {HUGE}}}'}
    assert dead["last_error"].startswith("PermanentError: the message cannot be read: ")
    assert HUGE[:100] not in dead["last_error"]
    for path in ("/api/v1/jobs", f"/api/v1/jobs/{dead['id']}", f"/api/v1/jobs/{dead['id']}/history", "/api/status"):
        assert world.client.get(path, headers=bearer(ADMIN)).status_code == 200, path
    door = Door(world.app, world)
    for command in (["list"], ["show", str(dead["id"])], ["history", str(dead["id"])], ["status"]):
        assert door.says(*command)
    assert world.tick()["stopped_because"] == "drained"


@pytest.mark.parametrize("number", ["9" * 300, "1e-400", "-0.1", "12345678901234567890"])
def test_any_other_number_is_the_payload_unchanged(make_world: Make, queues: Queues, number: str) -> None:
    world = make_world(handlers={"email": lambda payload, context: None}, GIFTCARD_PGMQ_QUEUES=QUEUES)
    queues.create("work_queue")
    world.sql(f"""select pgmq.send('work_queue', '{{"n": {number}}}')""")
    assert run(world)[0] == NOTHING | {"moved": 1}
    assert world.value(f"""select payload = '{{"n": {number}}}' from giftcard_jobs""") is True


def test_the_message_of_a_dead_letter_is_found_by_queue_and_number(make_world: Make, queues: Queues) -> None:
    def fails(payload: Any, context: Any) -> Any:
        raise ConnectionError("no")

    world = make_world(
        handlers={"email": fails}, GIFTCARD_PGMQ_QUEUES=QUEUES, GIFTCARD_MAX_ATTEMPTS=2, GIFTCARD_MAX_REVIVALS=0
    )
    queues.create("work_queue", {"n": 1}, {"n": 2})
    world.sql("update pgmq.q_work_queue set read_ct = 3 where msg_id = 2")
    for _ in range(2):
        world.tick()
        world.move(10)
    dead = world.sql("select * from giftcard_jobs where payload = '{\"n\": 2}'")[0]
    assert (dead["status"], dead["attempts"], dead["revive_at"]) == ("error", 2, None)
    shown = json.loads(Door(world.app, world).says("show", str(dead["id"]), "--json"))
    assert {name: shown["context"]["pgmq"][name] for name in ("queue", "msg_id", "read_ct")} == {
        "queue": "work_queue", "msg_id": 2, "read_ct": 4
    }  # fmt: skip
    text = Door(world.app, world).says("show", str(dead["id"]))
    assert '"queue": "work_queue"' in text.replace("\n", " ")
    archived = world.sql("select read_ct, enqueued_at, archived_at, message from pgmq.a_work_queue where msg_id = 2")
    assert (archived[0]["read_ct"], archived[0]["message"]) == (4, {"n": 2})
    assert archived[0]["enqueued_at"] <= archived[0]["archived_at"]

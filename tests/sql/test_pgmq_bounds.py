"""Messages have the bounds of the API's requests, and nothing that reads a refused one later fails on it."""

import time
from typing import Any

import pytest

from lib.web.app import MAX_BODY_BYTES
from tests.support.factory import World
from tests.support.queues import NOTHING, Queues, import_messages

QUEUES = {"work_queue": {"stage": "email"}}


@pytest.fixture
def queues(world: World) -> Queues:
    queues = Queues(world.connection)
    queues.create("work_queue")
    return queues


def nested(levels: int, *, lists: bool = False) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = [value] if lists else {"a": value}
    return {"a": value} if lists else value


def sized(size: int) -> dict[str, str]:
    """A message of so many bytes, as Postgres writes it."""
    return {"text": "x" * (size - len('{"text": ""}'))}


def import_pgmq(world: World, **more: Any) -> Any:
    return import_messages(world, QUEUES, **more)["work_queue"]


def the_job(world: World) -> dict[str, Any]:
    (row,) = world.rows("select * from giftcard_jobs")
    return row


@pytest.mark.parametrize("message", [sized(MAX_BODY_BYTES), nested(99), nested(98, lists=True)])
def test_a_message_within_the_bounds_is_a_job(world: World, queues: Queues, message: Any) -> None:
    queues.send("work_queue", message)
    assert import_pgmq(world) == NOTHING | {"moved": 1}
    assert the_job(world)["payload"] == message


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (sized(MAX_BODY_BYTES + 1), "the message is too large: 256 KiB are allowed"),
        (nested(101), "the message is nested too deeply: 100 levels are allowed"),
        (nested(100, lists=True), "the message is nested too deeply: 100 levels are allowed"),
        (nested(900), "the message is nested too deeply: 100 levels are allowed"),
        (["x" * 2 * MAX_BODY_BYTES], "the message is not a JSON object"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_message_beyond_a_bound_is_a_dead_letter_with_the_beginning_of_its_text(
    world: World, queues: Queues, message: Any, reason: str
) -> None:
    queues.send("work_queue", message)
    assert import_pgmq(world) == NOTHING | {"refused": 1}
    job = the_job(world)
    assert (job["status"], job["last_error"]) == ("error", f"PermanentError: {reason}")
    (row,) = world.rows("select left(message::text, 10000) as text from pgmq.a_work_queue")
    assert job["payload"] == {"message": row["text"]}


def test_names_of_a_message_beyond_a_bound_are_kept_with_it(world: World, queues: Queues) -> None:
    queues.send("work_queue", {"tenant_id": "acme", "correlation_id": "o-1"} | sized(MAX_BODY_BYTES))
    import_pgmq(world)
    job = the_job(world)
    assert (job["tenant_id"], job["context"]["pgmq"]["correlation_id"]) == ("acme", "pgmq:work_queue:flow:o-1")


def test_large_messages_beyond_the_bound_do_not_travel(world: World, queues: Queues) -> None:
    for _ in range(3):
        queues.send("work_queue", sized(3_000_000))
    queues.send("work_queue", {"n": 1})
    read = world.ask("read_pgmq", queues=("work_queue",), limit=10)["work_queue"]
    assert [len(message["job"]["payload_json"]) for message in read["messages"]] == [10_000, 10_000, 10_000, 8]
    assert read["more"] is False


def test_reading_many_messages_takes_time_in_proportion(world: World, queues: Queues) -> None:
    def seconds(count: int) -> float:
        world.rows("select pgmq.purge_queue('work_queue')")
        body = "jsonb_build_object('text', repeat('x', 1500))"
        world.rows(f"select pgmq.send_batch('work_queue', array(select {body} from generate_series(1, {count})))")
        began = time.perf_counter()
        read = world.ask("read_pgmq", queues=("work_queue",), limit=1000)["work_queue"]
        assert len(read["messages"]) == count
        return time.perf_counter() - began

    seconds(50)
    small, large = min(seconds(100) for _ in range(3)), min(seconds(1000) for _ in range(3))
    assert large < 30 * small, "ten times as many messages: about ten times the time, not a hundred times"

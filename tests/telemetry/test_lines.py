"""How lines are written: whole, those of a batch together, and without a record that no handler wants."""

import io
import json
import logging
import os
import select
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any
from unittest import mock

import pytest

from lib.job import Complete, Outcome
from lib.telemetry import events
from lib.telemetry.frames import Fault
from tests.support.world import World

Make = Callable[..., World]
MOST = select.PIPE_BUF
FIELDS = {"job_id": 7, "stage": "work", "attempt": 1, "max_attempts": 5, "error": None}


class Stream(io.TextIOWrapper):
    """A file of the system as the handler sees it, with what each write to it was."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return super().write(text)


class Entries:
    """A stream that is no file: on Vercel, each write to standard error is one entry of the log."""

    def __init__(self) -> None:
        self.writes: list[str] = []

    def write(self, text: str) -> int:
        self.writes.append(text)
        return len(text)


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = events.LOG.handlers, events.LOG.level, events.LOG.propagate
    yield
    events.LOG.handlers, events.LOG.level, events.LOG.propagate = before


def to(stream: Any, *, readable: bool = False) -> Any:
    with mock.patch("sys.stderr", stream):
        events.configure(readable=readable)
    return stream


def written(stream: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in "".join(stream.writes).splitlines()]


def test_line_has_time_level_event_and_fields_as_json_writes_them() -> None:
    moment = datetime(2026, 11, 27, 23, 49, 8, 646_999, tzinfo=UTC)
    with mock.patch("time.time", return_value=moment.timestamp()):
        stream = to(Stream())
        events.emit("run_failed", **FIELDS, at=moment, text="Zoë\n\ud800", odd=Complete)
    (line,) = stream.writes
    assert line == (
        '{"time": "2026-11-27T23:49:08.646+00:00", "level": "warning", "event": "run_failed", "job_id": 7, '
        '"stage": "work", "attempt": 1, "max_attempts": 5, "error": null, '
        f'"at": "2026-11-27T23:49:08.646999+00:00", "text": "Zo\\u00eb\\n\\ud800", "odd": "{Complete}"}}\n'
    )


def test_line_of_a_record_is_that_of_the_event() -> None:
    stream, other = to(Stream()), logging.NullHandler()
    with mock.patch("time.time", return_value=1.5), mock.patch("time.time_ns", return_value=1_500_000_000):
        events.emit("run_failed", **FIELDS)
        events.LOG.addHandler(other)
        events.emit("run_failed", **FIELDS)
    assert len(stream.writes) == 2
    assert len(set(stream.writes)) == 1


def test_logger_of_a_stage_writes_its_lines_too() -> None:
    stream = to(Stream())
    logging.getLogger("giftcards.mine").warning("%d left", 3)
    (line,) = written(stream)
    assert (line["level"], line["event"], set(line)) == ("warning", "3 left", {"time", "level", "event"})


def test_record_is_made_only_for_a_handler_that_wants_it() -> None:
    to(Stream())
    fault = Fault(frames=(), is_bug=False)
    with mock.patch.object(events.LOG, "makeRecord", wraps=events.LOG.makeRecord) as made:
        events.emit("run_failed", fault=fault, **FIELDS)
        assert made.call_count == 0
        other = mock.Mock(level=logging.INFO)
        events.LOG.addHandler(other)
        events.emit("run_failed", fault=fault, **FIELDS)
        events.emit("run_started", **FIELDS)
    (record,) = [call.args[0] for call in other.handle.call_args_list]
    assert (record.getMessage(), record.fields, record.fault) == ("run_failed", FIELDS, fault)


def test_lines_of_a_batch_are_written_together_in_order_and_never_in_parts() -> None:
    stream = to(Stream())
    with events.batch():
        for number in range(100):
            events.emit("circuit_opened", circuit=f"{number} {'x' * 300}")
        events.emit("circuit_opened", circuit="y" * 2 * MOST)
        with events.batch():
            events.emit("circuit_closed", circuit="z")
        assert stream.writes == []
    assert [line["circuit"].partition(" ")[0] for line in written(stream)][:100] == [str(n) for n in range(100)]
    assert written(stream)[-1]["circuit"] == "z"
    assert all(text.endswith("\n") for text in stream.writes)
    long = [text for text in stream.writes if len(text) > MOST]
    assert [text.count("\n") for text in long] == [1]
    assert len(stream.writes) < 20
    events.emit("circuit_closed", circuit="after")
    assert written(stream)[-1]["circuit"] == "after"


def test_readable_lines_are_measured_in_bytes() -> None:
    stream = to(Stream(), readable=True)
    with events.batch():
        for _ in range(50):
            events.emit("circuit_opened", circuit="é" * 100 + "\ud800")
    assert len(stream.writes) > 1
    assert all(len(text.encode(errors="backslashreplace")) <= MOST for text in stream.writes)


def test_what_is_no_file_gets_one_line_a_write() -> None:
    stream = to(Entries())
    with events.batch():
        for number in range(3):
            events.emit("circuit_opened", circuit=str(number))
    assert [text.count("\n") for text in stream.writes] == [1, 1, 1]


def test_batch_that_fails_loses_no_line_and_holds_back_no_other_thread() -> None:
    stream = to(Stream())
    other = threading.Thread(target=lambda: events.emit("circuit_opened", circuit="theirs"))

    def work() -> None:
        with events.batch():
            events.emit("circuit_opened", circuit="ours")
            other.start()
            other.join()
            assert [line["circuit"] for line in written(stream)] == ["theirs"]
            raise SystemExit

    with pytest.raises(SystemExit):
        work()
    assert [line["circuit"] for line in written(stream)] == ["theirs", "ours"]


def test_stream_that_raises_fails_nothing() -> None:
    stream = to(mock.Mock(spec=io.TextIOWrapper))
    stream.write.side_effect = OSError("the disk is full")
    events.emit("circuit_opened", circuit="one")
    with events.batch():
        events.emit("circuit_opened", circuit="two")
    assert stream.write.call_count == 2


WRITER = """
import sys
from lib.telemetry import events
events.configure(readable=False)
for turn in range(60):
    with events.batch():
        for number in range(40):
            events.emit("circuit_opened", circuit=sys.argv[1] * (100 + number * 7))
"""


def test_lines_of_processes_do_not_mix_in_a_pipe() -> None:
    """The pipe is full nearly always, where longer writes come apart."""
    read, write = os.pipe()
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, name], stderr=write) for name in "abcd"]
    os.close(write)
    with os.fdopen(read, encoding="utf-8") as pipe:
        found = [json.loads(line)["circuit"] for line in pipe]
    assert [writer.wait() for writer in writers] == [0] * 4
    assert len(found) == 4 * 60 * 40
    assert all(len(set(circuit)) == 1 for circuit in found)


def test_lines_of_a_tick_are_those_of_its_runs_and_then_its_own(make_world: Make) -> None:
    def work(payload: Any, context: Any) -> Outcome:
        return Complete()

    world = make_world(handlers={"work": work}, GIFTCARD_CONCURRENCY=5, GIFTCARD_JOBS_PER_CRON_RUN=10)
    world.enqueue("work", count=10)
    stream = to(Stream())
    report = world.tick()
    assert report["completed"] == 10
    told = [line["event"] for line in written(stream)]
    assert told == ["run_completed"] * 10 + ["tick_ended"]
    assert len(stream.writes) < len(told)

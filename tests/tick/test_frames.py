"""A run that fails keeps where: files, lines and functions; never a value, never a folder of a machine."""

import asyncio
import importlib
import inspect
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, field_validator

from lib.errors import PermanentError, TransientError
from lib.job import Complete, Error, Outcome, Retry
from lib.jobs.hooks import after_error
from lib.jobs.registry import Registry
from lib.jobs.stage import stage
from lib.tick.inline import InlineStore
from tests.support.world import World

HERE = "tests/tick/test_frames.py"
SECRET = "kate@example.com"


class Anything(BaseModel):
    model_config = ConfigDict(extra="allow")


class Checked(Anything):
    @field_validator("key", mode="before", check_fields=False)
    @classmethod
    def _check(cls, value: Any) -> Any:
        return {}[value]

    key: Any = "unset"


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError(SECRET)


def look_up(name: str) -> Any:
    secret = SECRET  # noqa: F841 - a local value, which no frame may keep
    return {}[name]


def causes(_payload: Any, _context: Any) -> Outcome:
    try:
        look_up("id")
    except KeyError as error:
        raise RuntimeError("it has no id") from error
    return Complete()


def while_handling(_payload: Any, _context: Any) -> Outcome:
    try:
        look_up("id")
    except KeyError:
        return [][1]


def group(_payload: Any, _context: Any) -> Outcome:
    async def both() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(asyncio.to_thread(look_up, "id"))

    asyncio.run(both())
    return Complete()


def deep(_payload: Any, _context: Any) -> Outcome:
    return deep(_payload, _context)


def of_once(_payload: Any, context: Any) -> Outcome:
    context.once("send", lambda key: look_up(key))
    return Complete()


def mute(_payload: Any, _context: Any) -> Outcome:
    raise Mute


def in_c(_payload: Any, _context: Any) -> Outcome:
    math.sqrt("x")  # type: ignore[arg-type]
    return Complete()


def in_a_package(_payload: Any, _context: Any) -> Outcome:
    json.loads("{")
    return Complete()


def leaves(_payload: Any, _context: Any) -> Outcome:
    sys.exit("bye")


def on_purpose(_payload: Any, _context: Any) -> Outcome:
    raise PermanentError("the card is no card")


def no_outcome(_payload: Any, _context: Any) -> Any:
    return {"id": 1}


def not_json(_payload: Any, _context: Any) -> Outcome:
    return Complete(context={"bytes": b"x"})


def not_storable(_payload: Any, _context: Any) -> Outcome:
    return Complete(context={"nul": "\x00"})


def no_job(_payload: Any, _context: Any) -> Outcome:
    return Complete(next=("sms",))  # type: ignore[arg-type]


# What a handler does, and the places that are kept: its function, and what was raised there.
BUGS: dict[Callable[[Any, Any], Any], list[tuple[str, str | None]]] = {
    causes: [("causes", None), ("look_up", "KeyError"), ("causes", "RuntimeError")],
    while_handling: [("while_handling", None), ("look_up", "KeyError"), ("while_handling", "IndexError")],
    of_once: [("of_once", None), ("Context.once", None), ("of_once.<locals>.<lambda>", None), ("look_up", "KeyError")],
    mute: [("mute", "Mute")],
    in_c: [("in_c", "TypeError")],
    in_a_package: [("in_a_package", None), ("JSONDecoder.raw_decode", "JSONDecodeError")],
    leaves: [("leaves", "SystemExit")],
    on_purpose: [("on_purpose", "PermanentError")],
    no_outcome: [("no_outcome", "PermanentError")],
    not_json: [("not_json", "PermanentError")],
    not_storable: [("not_storable", "PermanentError")],
    no_job: [("no_job", "PermanentError")],
}


def run(
    world: World, do: Callable[[Any, Any], Any], payload: type[BaseModel] = Anything, **options: Any
) -> dict[str, Any]:
    """The one run of a job whose handler does this."""
    world.registry = Registry({"work": stage("work", payload=payload, **options)(do)})
    (found,) = world.history(world.run_job("work", {"key": "unset"})["id"])
    text = json.dumps(found, default=str)
    assert SECRET not in text
    assert not any(folder in text for folder in {str(Path(HERE).absolute().parent), sys.prefix, sys.base_prefix})
    return found


def places(found: dict[str, Any]) -> list[tuple[str, str | None]]:
    """Functions, and what was raised there."""
    return [(frame["function"], frame["raised"]) for frame in found["frames"]]


@pytest.mark.parametrize("do", BUGS, ids=lambda do: do.__name__)
def test_bug_keeps_its_frames(world: World, do: Callable[[Any, Any], Any]) -> None:
    found = run(world, do)
    wanted = BUGS[do]
    assert places(found) == wanted
    own = [frame for frame in found["frames"] if frame["own"]]
    assert {frame["file"] for frame in own} == {HERE}
    lines = Path(HERE).read_text().splitlines()
    assert all(0 < frame["line"] <= len(lines) for frame in own)


def test_group_keeps_the_frames_of_its_members(world: World) -> None:
    found = places(run(world, group))
    assert ("look_up", "KeyError") in found
    assert found[-1][1] == "ExceptionGroup"


def test_endless_recursion_keeps_its_ends(world: World) -> None:
    frames = run(world, deep)["frames"]
    assert len(frames) == 20
    assert frames[-1]["raised"] == "RecursionError"
    assert sum(frame["omitted"] for frame in frames) > 500


def test_broken_module_is_named_with_its_line(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken_module.py").write_text("a = 1\nb = = 2\n")
    monkeypatch.syspath_prepend(tmp_path)

    def load(_payload: Any, _context: Any) -> Outcome:
        importlib.import_module("broken_module")
        return Complete()

    last = run(world, load)["frames"][-1]
    assert (last["file"], last["line"], last["raised"]) == ("broken_module.py", 2, "SyntaxError")


def test_validator_that_raises_is_named(world: World) -> None:
    found = run(world, no_outcome, payload=Checked)
    assert places(found)[-1] == ("Checked._check", "KeyError")


def raises(*_: Any) -> Any:
    return look_up("id")


def test_hook_and_can_retry_that_raise_are_named_in_the_log(world: World, caplog: pytest.LogCaptureFixture) -> None:
    line = inspect.getsourcelines(look_up)[1] + 2
    with after_error.connected_to(raises):
        run(world, on_purpose, can_retry=raises)
    failed = [record.fields for record in caplog.records if record.message == "hook_failed"]  # type: ignore[attr-defined]
    assert [fields["at"] for fields in failed] == [f"{HERE}:{line}"] * 2
    (dead,) = [record.fields for record in caplog.records if record.message == "run_dead_lettered"]  # type: ignore[attr-defined]
    assert dead["at"].startswith(f"{HERE}:")


@pytest.mark.parametrize(
    "outcome",
    [Error(error="no"), Retry(delay=1, error="no"), TransientError("made by a client of ours")],
    ids=["error", "retry", "of a client"],
)
def test_expected_failure_keeps_none(world: World, outcome: Any) -> None:
    def do(_payload: Any, context: Any) -> Any:
        if isinstance(outcome, TransientError):
            context.http.request("GET", "http://127.0.0.1:9/")
        return outcome

    found = run(world, do)
    assert (found["result"], found["frames"]) == ("FAILED", None)


def test_success_keeps_none(world: World) -> None:
    found = run(world, lambda payload, context: Complete())
    assert found["frames"] is None


def test_inline_mode_keeps_them_too(world: World) -> None:
    def work(_payload: Any, _context: Any) -> Outcome:
        return look_up("id")

    world.registry = Registry({"work": stage("work", payload=Anything)(work)})
    store = InlineStore.over(world.store, lambda: world.registry, world.settings)
    with pytest.raises(KeyError):
        store.enqueue([{"stage": "work", "correlation_id": "one", "payload": {}}])
    assert places(world.history(world.job()["id"])[0])[-1] == ("look_up", "KeyError")

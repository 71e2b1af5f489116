"""Whatever an exception has for a message and attributes, its run is settled, and the tick ends."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from lib.errors import PermanentError, TransientError
from lib.giftcards.flow import continuing
from lib.job import Complete, Outcome
from lib.jobs.hooks import after_error
from lib.jobs.registry import Registry
from lib.jobs.stage import stage
from tests.support.world import World


class Nothing(BaseModel):
    pass


class Leaving(Exception):
    """Its message leaves the process."""

    def __str__(self) -> str:
        sys.exit(3)


class Grudging(Exception):
    """Has every attribute, and shows none."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


class Soon(TransientError):
    """Holds what its type does not allow."""

    def __init__(self) -> None:
        super().__init__("the vendor is busy", detail={"share": float("nan"), "many": 10**400, "a\x00b": 1})
        self.retry_after = "soon"  # type: ignore[assignment]


class Never(PermanentError):
    """A failure for good, with a detail that cannot be read."""

    def __init__(self) -> None:
        super().__init__("no")
        self.detail = {"by": Leaving()}


STATUSES = {Leaving: "queued", Grudging: "queued", Soon: "queued", Never: "error"}


def run(world: World, do: Callable[[Any, Any], Any], **options: Any) -> dict[str, Any]:
    """The one run of a job whose handler does this."""
    world.registry = Registry({"work": stage("work", payload=Nothing, **options)(do)})
    (found,) = world.history(world.run_job("work", {})["id"])
    return found


@pytest.fixture
def no_hook_is_left() -> Iterator[None]:
    yield
    after_error._clear_state()


@pytest.mark.parametrize("kind", STATUSES, ids=lambda kind: kind.__name__)
def test_exception_with_odd_attributes_is_settled(world: World, kind: type[Exception]) -> None:
    def raises(payload: Any, context: Any) -> Outcome:
        raise kind

    found = run(world, raises)
    assert world.job(found["job_id"])["status"] == STATUSES[kind]
    assert kind.__name__ in found["error"]
    assert found["frames"][-1]["raised"] == kind.__name__


def test_hook_that_leaves_is_undone(world: World, no_hook_is_left: None) -> None:
    def leave(failed: Any) -> None:
        sys.exit(3)

    def raises(payload: Any, context: Any) -> Outcome:
        raise ValueError("x")

    after_error.connect(leave)
    found = run(world, raises, can_retry=lambda attempt, error: sys.exit(3))
    assert (world.job(found["job_id"])["status"], found["error"]) == ("queued", "ValueError: x")


def test_detail_is_stored_whatever_it_holds(world: World) -> None:
    detail = {"kate@example.com\x00": 1, "nan": float("nan"), "large": 10**400, "plain": 1.5}
    found = run(world, lambda payload, context: Complete(detail=detail))
    assert found["detail"] == {"[email]": 1, "nan": "nan", "large": found["detail"]["large"], "plain": 1.5}


def test_frames_begin_in_the_handler_of_a_step_of_a_flow(world: World) -> None:
    def raises(payload: Any, context: Any) -> Outcome:
        raise ValueError("x")

    assert [frame["raised"] for frame in run(world, continuing(raises))["frames"]] == ["ValueError"]

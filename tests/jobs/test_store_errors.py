"""Our own database fails inside a handler: the run is tried again, and it is not the vendor's fault."""

from collections.abc import Callable
from typing import Any

import pytest

from lib.errors import Misconfigured, StoreError, Unavailable
from tests.support.world import World

Make = Callable[..., World]


@pytest.mark.parametrize(
    "error",
    [Unavailable("lost"), Unavailable("a trigger", sqlstate="P0001", undone=True), Misconfigured("no grant")],
    ids=["lost", "a trigger", "no grant"],
)
def test_it_is_transient_and_opens_no_circuit(make_world: Make, error: StoreError) -> None:
    def work(payload: Any, context: Any) -> Any:
        raise error

    world = make_world(handlers={"work": work}, GIFTCARD_CIRCUIT_THRESHOLD=1)
    ids = world.enqueue("work", count=3)
    report = world.tick()
    assert (report["retried"], report["errored"], report["circuits_opened"]) == (3, 0, [])
    assert {world.job(job_id)["status"] for job_id in ids} == {"queued"}
    assert world.sql("select * from giftcard_circuits where failures > 0 or state <> 'closed'") == []

"""The platform delivers one call twice, to two processes at once."""

import json
import signal
from pathlib import Path

import pytest

from tests.crash.house import House
from tests.crash.processes import Worker, wait_for

_ROUNDS = 10


@pytest.fixture
def pair(house: House) -> tuple[Worker, Worker]:
    """Two processes that can tick at once."""
    first, second = house.worker("tasks"), house.worker("tasks")
    first.await_ready()
    second.await_ready()
    return first, second


def _enqueue(house: House, name: str, **payload: str) -> None:
    """Three tasks, due now."""
    house.execute(
        """insert into giftcard_jobs (correlation_id, stage, payload)
           select %s || n, 'task', %s::jsonb from generate_series(1, 3) n""",
        name,
        json.dumps(payload),
    )


@pytest.mark.slow
def test_of_two_deliveries_at_once_one_works_and_the_other_says_duplicate(
    house: House, pair: tuple[Worker, Worker], tmp_path: Path
) -> None:
    for number in range(_ROUNDS):
        execution = f"execution-{number}"
        _enqueue(house, execution, trace=str(tmp_path / "trace"))
        for worker in pair:
            worker.begin_tick(execution_id=execution)
        reports = [worker.answer() for worker in pair]
        seen = sorted(
            (one["duplicate"], one["started"], one["completed"], one["stopped_because"]) for one in reports if one
        )
        assert seen == [(False, 3, 3, "drained"), (True, 0, 0, "duplicate")], f"{execution}: {seen}"
    runs = (tmp_path / "trace").read_text().splitlines()
    assert len({line.split()[0] for line in runs}) == len(runs) == 3 * _ROUNDS


@pytest.mark.slow
def test_a_delivery_works_again_once_the_first_one_was_killed_and_its_time_is_over(
    house: House, pair: tuple[Worker, Worker], tmp_path: Path
) -> None:
    first, second = pair
    gate = tmp_path / "gate"
    _enqueue(house, "order", trace=str(tmp_path / "trace"), gate=str(gate))
    first.begin_tick(execution_id="one")
    begun = (tmp_path / "trace").exists
    wait_for(begun, seconds=20, what="the first delivery's work")
    first.signal(signal.SIGKILL)
    assert first.answer() is None
    early = second.tick(execution_id="one")
    assert early is not None
    assert (early["duplicate"], early["started"]) == (True, 0), "the first one could still be at work"
    house.execute("update giftcard_ticks set live_until = clock_timestamp() where ended_at is null")
    gate.write_text("complete")
    house.move_time()
    late = second.tick(execution_id="one")
    assert late is not None
    assert (late["duplicate"], late["interrupted"], late["retried"]) == (False, 3, 3)
    house.move_time()
    last = second.tick()
    assert last is not None
    assert (last["started"], last["completed"]) == (3, 3)

"""A call of a tick that is carried out after the tick has ended, as a pooler or a lock may delay it."""

import pytest

from lib.store.encode import encode_completed
from tests.support.factory import Row, World, done
from tests.support.race import Race

LATE, OTHER = "00000000-0000-4000-8000-000000000007", "00000000-0000-4000-8000-000000000008"


def test_a_late_call_claims_nothing_for_a_tick_that_has_ended(world: World) -> None:
    """No one runs what it would claim: it would wait for its lease to end, and lose an attempt."""
    tick = world.begin(limit=5)
    assert tick.row["stopped_because"] == "drained"
    world.enqueue()
    late = world.call("advance_tick", tick_id=tick.id, claim_key=LATE, results=[], limit=5, busy=0)
    assert late["jobs"] == []
    assert world.rows("select status, attempts from giftcard_jobs") == [{"status": "queued", "attempts": 0}]
    assert len(world.begin(limit=5).jobs) == 1


@pytest.mark.parametrize("by_step", [True, False])
def test_a_late_settle_counts_and_claims_nothing(world: World, by_step: bool) -> None:
    world.enqueue()
    tick = world.begin(limit=1)
    world.enqueue()
    world.run("update giftcard_ticks set ended_at = now(), stopped_because = 'budget' where id = %s", tick.id)
    completed = encode_completed([done(tick.jobs[0])])
    if by_step:
        late = world.call("step", tick_id=tick.id, claim_key=LATE, **completed, limit=5, busy=1)
    else:
        late = tick.advance(done(tick.jobs[0]), limit=5)
        late = {"jobs": list(late.jobs)}
    assert late["jobs"] == []
    statuses = world.rows("select status, attempts from giftcard_jobs order by id")
    assert statuses == [{"status": "completed", "attempts": 1}, {"status": "queued", "attempts": 0}]


@pytest.mark.parametrize("with_result", [True, False])
def test_a_claim_that_is_repeated_when_no_more_is_wanted_finds_its_leases(world: World, with_result: bool) -> None:
    """The reply was lost, and the tick's budget has ended meanwhile: the job is its own all the same."""
    world.enqueue()
    tick = world.begin(limit=1)
    job_id = world.enqueue()
    claim: Row = {"tick_id": tick.id, "claim_key": LATE, "busy": 1}
    lost = world.call("advance_tick", results=[], limit=1, **claim)
    assert [job[0] for job in lost["jobs"]] == [job_id]
    if with_result:
        completed = encode_completed([done(tick.jobs[0])])
        again = world.call("step", **completed, limit=0, **claim)
    else:
        again = world.call("advance_tick", results=[], limit=0, **claim)
    assert [job[0] for job in again["jobs"]] == [job_id]
    more = world.call("advance_tick", results=[], limit=0, **claim | {"claim_key": OTHER})
    assert more["jobs"] == []


def test_a_claim_that_is_repeated_after_the_end_finds_its_leases(world: World) -> None:
    world.enqueue()
    tick = world.begin(limit=1, key=LATE)
    world.run("update giftcard_ticks set ended_at = now(), stopped_because = 'budget' where id = %s", tick.id)
    again = world.call("advance_tick", tick_id=tick.id, claim_key=LATE, results=[], limit=1, busy=0)
    assert [job[0] for job in again["jobs"]] == [job.id for job in tick.jobs]


OLD, NEW = "00000000-0000-4000-8000-000000000011", "00000000-0000-4000-8000-000000000012"


@pytest.mark.parametrize("call", ["begin_tick", "advance_tick", "step"])
def test_a_call_that_comes_after_a_later_claim_of_its_tick_claims_nothing(world: World, call: str) -> None:
    """It was held back on the way, its caller has repeated it and gone on: no one runs what it would claim."""
    first = world.enqueue()
    tick = world.begin(limit=1, key=OLD)
    results = [done(tick.jobs[0])] if call == "step" else []
    second = world.enqueue()
    assert [job.id for job in tick.advance(limit=1, busy=1, key=NEW).jobs] == [second]
    third = world.enqueue()

    late = world.begin(limit=5, key=OLD).step if call == "begin_tick" else tick.advance(*results, limit=5, key=OLD)
    assert (late.jobs, late.stopped_because) == ((), None)
    again = tick.advance(limit=1, busy=1, key=NEW)
    assert [job.id for job in again.jobs] == [second], "its reply may have been lost: its repeat finds the lease"
    assert _leases(world) == {first: None if call == "step" else OLD, second: NEW, third: None}
    assert world.rows("select ended_at from giftcard_ticks") == [{"ended_at": None}]


def _leases(world: World) -> dict[int, str | None]:
    rows = world.rows("select id, lease_id::text as lease_id from giftcard_jobs")
    return {row["id"]: row["lease_id"] for row in rows}


@pytest.mark.parametrize("call", ["begin_tick", "advance_tick"])
def test_it_claims_nothing_either_if_the_later_claim_found_nothing(world: World, call: str) -> None:
    world.enqueue(delay_seconds=30)
    tick = world.begin(limit=5, key=OLD, linger_seconds=50)
    assert tick.advance(limit=5, key=NEW, linger_seconds=50).jobs == ()
    job_id = world.enqueue(semantics="at_most_once")
    late = world.begin(limit=5, key=OLD).step if call == "begin_tick" else tick.advance(limit=5, key=OLD)
    assert (late.jobs, late.stopped_because) == ((), None)
    repeated = tick.advance(limit=5, key=NEW, linger_seconds=50)
    assert [job.id for job in repeated.jobs] == [job_id], "a call that is repeated looks again"


def test_it_waits_for_a_later_claim_that_is_under_way(world: World, race: Race) -> None:
    for _ in range(3):
        world.enqueue()
    tick = world.begin(limit=1, key="00000000-0000-4000-8000-000000000010")
    claim: Row = {"tick_id": tick.id, "results": [], "limit": 1, "busy": 1}
    claimed = race.first.call("advance_tick", claim_key=NEW, **claim)["jobs"]
    late = race.second_waits(lambda w: w.call("advance_tick", claim_key=OLD, **claim)["jobs"])
    race.commit()
    assert late.result() == []
    again = world.call("advance_tick", claim_key=NEW, **claim)["jobs"]
    assert [job[0] for job in again] == [job[0] for job in claimed]


def test_keys_of_other_ticks_have_no_order(world: World) -> None:
    """A version before keys had an order draws each at random."""
    world.enqueue()
    tick = world.begin(limit=1, key="f0000000-0000-4000-8000-000000000001", linger_seconds=50)
    job_id = world.enqueue()
    answer = tick.advance(limit=1, key="00000000-0000-4000-8000-000000000001")
    assert [job.id for job in answer.jobs] == [job_id]

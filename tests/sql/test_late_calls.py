"""A call of a tick that is carried out after the tick has ended, as a pooler or a lock may delay it."""

import pytest

from lib.store.encode import encode_completed
from tests.support.factory import World, done

LATE = "00000000-0000-4000-8000-000000000007"


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


def test_a_claim_that_is_repeated_after_the_end_finds_its_leases(world: World) -> None:
    world.enqueue()
    tick = world.begin(limit=1, key=LATE)
    world.run("update giftcard_ticks set ended_at = now(), stopped_because = 'budget' where id = %s", tick.id)
    again = world.call("advance_tick", tick_id=tick.id, claim_key=LATE, results=[], limit=1, busy=0)
    assert [job[0] for job in again["jobs"]] == [job.id for job in tick.jobs]

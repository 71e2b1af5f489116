"""The script that raises ids after a restore."""

from tests.sql.scripts.running import Script
from tests.support.factory import World


def test_it_lists_what_is_behind_and_raises_it_when_meant(script: Script, world: World) -> None:
    highest = max(world.enqueue() for _ in range(3))
    assert script("raise_ids") == []
    world.run("select setval('giftcard_jobs_id_seq', 1, false)")
    behind = [{"table": "giftcard_jobs", "highest": str(highest), "next_id": "1"}]
    assert script("raise_ids") == behind
    assert script("raise_ids", p_dry_run="false") == behind
    assert script("raise_ids") == []
    assert world.enqueue() == highest + 1

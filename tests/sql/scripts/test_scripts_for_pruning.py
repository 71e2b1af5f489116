"""The scripts of sql/ for what has ended."""

import pytest

from tests.sql.scripts.running import Script, ScriptError
from tests.support.factory import World


def old(world: World) -> int:
    """A job that ended forty days ago."""
    job_id = world.completed()
    world.run(
        "update giftcard_jobs set finished_at = now() - interval '40 days', updated_at = now() - interval '40 days'"
        " where id = %s",
        job_id,
    )
    return job_id


def test_prune_counts_first(script: Script, world: World) -> None:
    job_id = old(world)
    (answer,) = script("prune")
    assert (answer["jobs"], answer["dry_run"], answer["done"]) == ("1", "t", "t")
    assert world.job(job_id)


def test_prune_moves_what_is_old_into_the_archive_and_restore_brings_it_back(script: Script, world: World) -> None:
    job_id, young = old(world), world.completed()
    (answer,) = script("prune", p_dry_run="false")
    assert (answer["jobs"], answer["dry_run"]) == ("1", "f")
    assert [row["id"] for row in world.rows("select id from giftcard_jobs")] == [young]
    assert script("restore", p_job_id=str(job_id)) == [{"id": str(job_id), "status": "completed", "restored": "t"}]
    assert world.job(job_id)["status"] == "completed"


def test_prune_keeps_what_it_is_told_to_keep(script: Script, world: World) -> None:
    old(world)
    assert script("prune", p_jobs="'60 days'", p_dry_run="false")[0]["jobs"] == "0"
    assert script("prune", p_jobs="null", p_dry_run="false")[0]["jobs"] == "0"
    with pytest.raises(ScriptError, match="nothing younger than a day"):
        script("prune", p_jobs="'40'")

"""The scripts of sql/ for jobs, and the statements that the contract lets a person type by hand."""

import re
from typing import Any

import pytest

from lib.job import Complete
from tests.sql.scripts.running import ALL_SCRIPTS, SCRIPTS, Script, ScriptError, dead_letter, statuses
from tests.support.factory import World

# What the contract lets a person type, word for word.
HAND_RUN = (
    "UPDATE giftcard_jobs SET status='queued', scheduled_at=NOW(), attempts=0, last_error=NULL WHERE id='JOB_ID';"
)
OLDER_BULK_FORM = (
    "UPDATE giftcard_jobs SET status='queued', scheduled_at=NOW(), attempts=0, last_error=NULL "
    "WHERE status='queued' AND scheduled_at > NOW() AND attempts >= max_attempts"
)


# The scripts as they are shipped


def test_all_scripts_of_the_contract_are_there() -> None:
    wanted = {"requeue_one", "requeue_dead_letters", "status", "stuck_jobs", "many_attempts", "circuit_reset"}
    assert wanted | {"pause", "resume"} <= set(ALL_SCRIPTS)


@pytest.mark.parametrize("name", ALL_SCRIPTS)
def test_a_script_is_a_few_lines_of_one_statement_that_calls_one_function(name: str) -> None:
    text = (SCRIPTS / f"{name}.sql").read_text()
    code = re.sub(r"--.*", "", text).strip()
    assert len(re.findall(r"\bgiftcard_\w+\(", code)) == 1
    assert code.find(";") == len(code) - 1
    assert not re.search(r"\\|(?<!:):['\"]?[a-z]", code), "psql's commands and variables mean nothing to the editor"
    assert len(text.splitlines()) <= 15


def test_the_scripts_as_they_are_shipped_change_nothing(script: Script, world: World) -> None:
    dead_letter(world)
    world.open_circuit()

    def everything() -> list[Any]:
        tables = ["giftcard_" + name for name in ("jobs", "circuits", "stages", "limits", "effects", "orders", "audit")]
        return [world.rows(f"select t::text from {table} t order by 1") for table in tables]

    before = everything()
    for name in ALL_SCRIPTS:
        try:
            script(name)
        except ScriptError as error:
            missing = r"job 0|circuit  has|stage  is not|p_stage .* must be given|p_url must be"
            missing += r"|kind must be|no difference  of|no order has the correlation id|order  has no card"
            assert re.search(missing, str(error)), name  # noqa: PT017 - the message names the missing value
        assert everything() == before, name


# One job


def test_requeue_one_makes_a_dead_letter_due_with_new_attempts(script: Script, world: World) -> None:
    job_id = dead_letter(world)
    assert script("requeue_one", p_job_id=str(job_id)) == [{"id": str(job_id), "was": "error", "status": "queued"}]
    job = world.job(job_id)
    assert (job["status"], job["attempts"], job["revivals"], job["last_error"]) == ("queued", 0, 0, None)
    assert [job.id for job in world.claim()] == [job_id]


def test_requeue_one_takes_a_corrected_payload(script: Script, world: World) -> None:
    job_id = dead_letter(world)
    script("requeue_one", p_job_id=str(job_id), p_payload="""'{"note": "it''s mended"}'""")
    assert world.job(job_id)["payload"] == {"note": "it's mended"}


def test_requeue_one_wants_force_for_a_completed_job(script: Script, world: World) -> None:
    job_id = world.completed()
    with pytest.raises(ScriptError, match="use force"):
        script("requeue_one", p_job_id=str(job_id))
    assert script("requeue_one", p_job_id=str(job_id), p_force="true")[0]["was"] == "completed"


def test_cancel_ends_a_queued_job(script: Script, world: World) -> None:
    job_id = world.enqueue()
    answer = {"id": str(job_id), "was": "queued", "status": "cancelled", "cancel_requested": "f"}
    assert script("cancel", p_job_id=str(job_id)) == [answer]
    assert statuses(world, job_id) == ["cancelled"]


def test_cancel_of_a_running_job_is_a_wish(script: Script, world: World) -> None:
    job = world.claimed()
    answer = {"id": str(job.id), "was": "running", "status": "running", "cancel_requested": "t"}
    assert script("cancel", p_job_id=str(job.id)) == [answer]
    assert world.settle(job, Complete())["status"] == "completed"


# Many jobs


def test_requeue_dead_letters_counts_first_and_requeues_then(script: Script, world: World) -> None:
    ids = [dead_letter(world) for _ in range(3)]
    assert script("requeue_dead_letters") == [{"dry_run": "t", "matched": "3", "requeued": "0"}]
    assert set(statuses(world, *ids)) == {"error"}
    answer = {"dry_run": "f", "matched": "3", "requeued": "3"}
    assert script("requeue_dead_letters", p_dry_run="false") == [answer]
    assert set(statuses(world, *ids)) == {"queued"}
    assert script("requeue_dead_letters")[0]["matched"] == "0"


@pytest.mark.parametrize(
    "value",
    [{"p_stage": "'email'"}, {"p_error": "'mail SERVER'"}, {"p_older_than": "'5 minutes'"}],
    ids=["stage", "error", "age"],
)
def test_requeue_dead_letters_takes_those_that_were_asked_for(
    value: dict[str, str], script: Script, world: World
) -> None:
    meant, other = dead_letter(world), world.dead_letter("payment")
    assert script("requeue_dead_letters", p_dry_run="false", **value)[0]["requeued"] == "1"
    assert statuses(world, meant, other) == ["queued", "error"]


def test_requeue_dead_letters_takes_the_oldest_first_within_its_limit(script: Script, world: World) -> None:
    younger, older = world.dead_letter(), dead_letter(world)
    script("requeue_dead_letters", p_limit="1", p_dry_run="false")
    assert statuses(world, younger, older) == ["error", "queued"]


def test_the_older_bulk_form_finds_nothing_and_its_script_finds_the_exhausted(script: Script, world: World) -> None:
    exhausted = dead_letter(world, max_attempts=1)
    waiting = world.enqueue(max_attempts=1, delay_seconds=60)
    assert world.run(OLDER_BULK_FORM) == 0
    counted = {"found_by_the_older_form": "0", "dry_run": "t", "matched": "1", "requeued": "0"}
    assert script("requeue_exhausted_old_form") == [counted]
    assert script("requeue_exhausted_old_form", p_dry_run="false")[0]["requeued"] == "1"
    assert statuses(world, exhausted, waiting) == ["queued", "queued"]


# What the contract lets a person type by hand


def test_the_hand_run_update_on_a_dead_letter_runs_it_on_the_next_tick(world: World) -> None:
    job_id = dead_letter(world)
    assert world.run(HAND_RUN.replace("JOB_ID", str(job_id))) == 1
    (job,) = world.claim()
    assert (job.id, job.attempts, job.run_no, job.interrupted) == (job_id, 1, 2, False)
    assert world.job(job_id)["revive_at"] is None
    assert world.settle(job, Complete())["settled"] == "settled"


def test_the_hand_run_update_on_a_running_job_wins_over_its_worker(world: World) -> None:
    before = world.claimed()
    assert world.run(HAND_RUN.replace("JOB_ID", str(before.id))) == 1
    assert world.settle(before, Complete())["settled"] == "lease_lost"
    assert statuses(world, before.id) == ["queued"]
    (after,) = world.claim()
    assert (after.id, after.attempts, after.run_no) == (before.id, 1, 2)
    assert world.settle(before, Complete())["settled"] == "lease_lost"
    assert world.settle(after, Complete())["settled"] == "settled"
    assert [run["result"] for run in world.history(after.id)] == ["INTERRUPTED", "SUCCESS"]

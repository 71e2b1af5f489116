"""Sending one job back to the queue, or several by their ids."""

import json
from typing import Any

import pytest

from tests.cli.conftest import Door
from tests.support.world import World, an_order


@pytest.fixture
def dead(world: World) -> int:
    """A dead letter whose payload is at fault."""
    (job_id,) = world.enqueue("customer_ingest", {"not": "an order"}, status="error", last_error="x", attempts=5)
    return job_id


def test_requeue_gives_a_job_a_whole_new_set_of_attempts(dead: int, door: Door) -> None:
    assert door.json("requeue", dead) == {"id": dead, "status": "queued", "was": "error"}
    job = door.world.job(dead)
    assert (job["status"], job["attempts"], job["last_error"]) == ("queued", 0, None)


def test_requeue_tells_what_happened_and_what_comes_next(dead: int, door: Door) -> None:
    assert door.says("requeue", dead) == f"job {dead} is queued (was error): the next tick runs it\n"


def test_requeue_of_a_queued_job_is_refused(world: World, door: Door) -> None:
    (job_id,) = world.enqueue("email")
    assert door.refuses("requeue", job_id) == f"job {job_id} is queued already"


def test_requeue_of_a_completed_job_needs_force(world: World, door: Door) -> None:
    (job_id,) = world.enqueue("email", status="completed")
    assert "force" in door.refuses("requeue", job_id)
    assert door.json("requeue", job_id, "--force")["was"] == "completed"


def test_refusal_stops_no_other_job_and_is_told(world: World, door: Door) -> None:
    jobs = [*world.enqueue("email", status="error", count=1), *world.enqueue("email"), 404]
    jobs += world.enqueue("email", status="cancelled")
    result = door.run("requeue", *jobs)
    assert result.exit_code == 2
    assert result.stdout.splitlines() == [
        f"job {jobs[0]} is queued (was error): the next tick runs it",
        f"job {jobs[3]} is queued (was cancelled): the next tick runs it",
    ]
    assert result.stderr == f"Error: job {jobs[1]} is queued already; job 404 does not exist\n"


def test_several_jobs_are_one_json_value(world: World, door: Door) -> None:
    one, other = world.enqueue("email", status="error", count=2)
    assert door.json("requeue", one, other, one) == {
        "jobs": [{"id": one, "status": "queued", "was": "error"}, {"id": other, "status": "queued", "was": "error"}],
        "refused": [],
    }


def test_corrected_payload_is_taken(dead: int, door: Door, tmp_path: Any) -> None:
    file = tmp_path / "payload.json"
    file.write_text(json.dumps(an_order(customer={"given_name": "Ann"}), indent=2))
    door.says("requeue", dead, "--payload", f"@{file}")
    assert door.world.job(dead)["payload"]["customer"]["given_name"] == "Ann"


def test_payload_may_come_by_standard_input(dead: int, door: Door) -> None:
    text = json.dumps(an_order(customer={"given_name": "Zoë"}), ensure_ascii=False)
    door.says("requeue", dead, "--payload", "@-", types=text)
    assert door.world.job(dead)["payload"]["customer"]["given_name"] == "Zoë"


BAD_PAYLOADS = [
    ("{", "is not valid JSON"),
    ("", "is not valid JSON"),
    ("[]", "must be a JSON object"),
    ('{"a": 1, "a": 2}', "names this field twice"),
    ('{"a": NaN}', "NaN is not JSON"),
    ('{"a": "\\ud800"}', "half a character"),
    ('{"a": ' + "[" * 5000 + "]" * 5000 + "}", "nested too deeply"),
    ('{"amount": {"amount": -1, "currency": "USD"}}', "customer is required"),
    ("@/nowhere/at/all.json", "No such file"),
    ("@/", "directory"),
]


def test_payload_that_is_not_valid_changes_nothing(dead: int, door: Door) -> None:
    for text, why in BAD_PAYLOADS:
        assert why.lower() in door.refuses("requeue", dead, "--payload", text).lower(), text
    assert "--payload: cannot read 'FILE': No such file" in door.refuses("requeue", dead, "--payload", "@FILE")
    assert "--payload: cannot read '/': Is a directory" in door.refuses("requeue", dead, "--payload", "@/")
    assert (door.world.job(dead)["status"], door.world.job(dead)["payload"]) == ("error", {"not": "an order"})

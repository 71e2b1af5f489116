"""The scripts of sql/ for stages, circuits and effects, and those that only look."""

import json

import pytest

from tests.sql.scripts.running import Script, ScriptError, dead_letter, statuses
from tests.support.factory import World
from tests.support.world import a_world, an_order

# Stages and circuits


def test_pause_keeps_jobs_waiting_and_resume_lets_them_go(script: Script, world: World) -> None:
    job_id = world.enqueue()
    paused = script("pause", p_stage="'email'", p_by="'kim'", p_reason="'the provider moves'")[0]
    told = paused["stage"], paused["paused"], paused["paused_by"], paused["reason"]
    assert told == ("email", "t", "kim", "the provider moves")
    assert world.claim() == []
    assert world.job(job_id)["attempts"] == 0
    resumed = script("resume", p_stage="'email'", p_by="'lee'")[0]
    assert (resumed["stage"], resumed["paused"], resumed["resumed_by"]) == ("email", "f", "lee")
    assert [job.id for job in world.claim()] == [job_id]


def test_a_star_pauses_everything(script: Script, world: World) -> None:
    world.enqueue()
    script("pause", p_stage="'*'", p_by="'kim'")
    assert world.claim() == []
    script("resume", p_stage="'*'")
    assert len(world.claim()) == 1


def test_circuit_reset_closes_an_open_circuit(script: Script, world: World) -> None:
    world.open_circuit()
    job_id = world.enqueue()
    assert world.claim() == []
    answer = {"circuit": "email", "was": "open", "state": "closed"}
    assert script("circuit_reset", p_circuit="'email'", p_by="'kim'") == [answer]
    assert world.changes("email")[-1]["cause"] == "reset by kim"
    assert [job.id for job in world.claim()] == [job_id]


def test_a_limit_is_set_until_it_is_removed(script: Script, world: World) -> None:
    values = {"p_kind": "'tenant'", "p_name": "'email'", "p_tenant_id": "'acme'"}
    made = script("set_limit", **values, p_runs="2", p_per_second="0.5", p_for_seconds="7200", p_by="'kim'")[0]
    values_of = {name: made[name] for name in ("kind", "name", "tenant_id", "runs", "per_second", "burst")}
    assert list(values_of.values()) == ["tenant", "email", "acme", "2", "0.5", ""]
    assert world.rows("select set_by, until > now() as holds from giftcard_limits") == [
        {"set_by": "kim", "holds": True}
    ]
    assert script("remove_limit", **values)[0] == made
    assert world.rows("select from giftcard_limits") == []


# Looking


def test_status_shows_a_fact_a_line(script: Script, world: World) -> None:
    dead_letter(world, stage="payment", error="Declined: the payment service declined (402)")
    world.enqueue(delay_seconds=60)
    facts: dict[str, list[str]] = {}
    for row in script("status"):
        facts.setdefault(row["topic"], []).append(row["fact"])
    assert list(facts)[:2] == ["now", "counts"]
    assert facts["counts"] == ['{"email": {"queued": 1}, "payment": {"error": 1}}']
    assert "declined (402)" in facts["dead_letters"][0]
    assert len(facts["ticks"]) == 1


def test_status_asked_by_sql_tells_the_doors_as_they_are(script: Script, world: World) -> None:
    # Who asks by SQL names no stages: that must not make each of them one that nobody knows.
    world.open_circuit()
    world.enqueue()
    world.enqueue("payment")
    heads = [json.loads(row["fact"]) for row in script("status") if row["topic"] == "queues"]
    assert [(head["circuit"], head["availability"]) for head in heads] == [("email", "blocked"), ("payment", "ready")]


def test_stuck_jobs_says_why(script: Script, world: World) -> None:
    world.open_circuit("payment")
    killed = world.interrupted()
    late = world.enqueue(scheduled_at="2026-01-01T00:00:00Z")
    held = world.enqueue("payment", scheduled_at="2026-01-02T00:00:00Z")
    world.enqueue()  # due just now: nothing is wrong with it
    assert {int(row["id"]): row["why"] for row in script("stuck_jobs")} == {
        killed.id: "its function was killed: the next tick takes it over",
        late: "due, but no tick has taken it",
        held: "circuit payment is open",
    }


def test_many_attempts_shows_the_most_first(script: Script, world: World) -> None:
    ids = {attempts: world.enqueue() for attempts in (2, 3, 4)}
    for attempts, job_id in ids.items():
        world.run("update giftcard_jobs set attempts = %s where id = %s", attempts, job_id)
    assert [int(row["id"]) for row in script("many_attempts")] == [ids[4], ids[3]]
    assert [int(row["id"]) for row in script("many_attempts", p_at_least="4")] == [ids[4]]


# Outcome unknown


def unknown_charge(world: World) -> tuple[int, str]:
    """A payment that was begun and that nobody can tell the end of; its job is dead. Job and vendor key."""
    job = world.claimed("payment", payload=an_order())
    begun = world.call("begin_effect", job_id=job.id, lease_id=job.lease_id, name="charge")
    world.run("update giftcard_jobs set status = 'error', last_error = 'Outcome unknown: charge'")
    return job.id, begun["vendor_key"]


def test_decide_effect_that_happened_lets_the_payment_go_on_with_what_the_vendor_said(
    script: Script, world: World, database_url: str
) -> None:
    job_id, _ = unknown_charge(world)
    values = {"p_job_id": str(job_id), "p_name": "'charge'", "p_by": "'kim'"}
    with pytest.raises(ScriptError, match="give p_result, what came of it"):
        script("decide_effect", p_happened="true", **values)
    script("decide_effect", p_happened="true", p_result="""'{"reference": "ch_123"}'""", **values)
    assert world.rows("select result->>'decided_by' as by from giftcard_effects") == [{"by": "kim"}]
    script("requeue_one", p_job_id=str(job_id))
    with a_world(database_url) as application:
        application.run(only_stage="payment")
    assert statuses(world, job_id) == ["completed"]
    assert world.rows("select provider_ref from giftcard_payments") == [{"provider_ref": "ch_123"}]


def test_decide_effect_that_did_not_happen_frees_a_new_key(script: Script, world: World) -> None:
    job_id, key = unknown_charge(world)
    decided = script("decide_effect", p_job_id=str(job_id), p_name="'charge'", p_by="'kim'")[0]["decided"]
    assert '"abandoned": true' in decided
    (effect,) = world.rows("select vendor_key, started_at, note from giftcard_effects")
    assert effect["vendor_key"] != key
    assert (effect["started_at"], effect["note"]) == (None, "did not happen, decided by kim")


def test_a_payload_can_be_corrected_once_a_person_has_decided_that_nothing_happened(
    script: Script, world: World
) -> None:
    job_id, _ = unknown_charge(world)
    corrected = {"p_job_id": str(job_id), "p_payload": """'{"mended": true}'"""}
    with pytest.raises(ScriptError, match="has begun an effect outside"):
        script("requeue_one", **corrected)
    script("decide_effect", p_job_id=str(job_id), p_name="'charge'")
    assert script("requeue_one", **corrected)[0]["status"] == "queued"

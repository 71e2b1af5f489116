"""The breaker: every sequence of cases.json played on the database, with outcomes as the policy decides them."""

import random
from typing import Any

import pytest

from lib.config.settings import Settings
from lib.errors import DuplicatePersonalCode, Interrupted, PermanentError, TransientError
from lib.job import Complete, Error, Job, Outcome, Release, Retry, Snooze
from lib.jobs.registry import Registry
from lib.tick.runner import Runner
from tests.support.cases import CASES as ALL_CASES
from tests.support.factory import World, done, ids

CASES = ALL_CASES["circuit"]
FAILURES = {
    "F": TransientError("down"),
    "P": PermanentError("bad"),
    "I": Interrupted("killed"),
    "D": DuplicatePersonalCode("taken"),
}
OTHERS: dict[str, Outcome] = {"S": Complete(), "Z": Snooze(delay=0, waiting_for="x"), "R": Release()}


class Play:
    """Plays results one after another on one circuit, a millisecond apart."""

    def __init__(self, world: World, *, threshold: int = CASES["threshold"], circuit: str = "email") -> None:
        self.world = world
        self.circuit = circuit
        settings = Settings(giftcard_circuit_threshold=threshold, giftcard_max_attempts=25)
        self.runner = Runner(Registry({}), settings, random.Random(1))
        # For late results: claimed before anything happened.
        self.early = [self._next() for _ in range(3)]

    def __call__(self, *results: str) -> None:
        for result in results:
            self.world.later(0.001 if not result.startswith("+") else float(result))
            if result.startswith("late "):
                self._settle(self.early.pop(), result.removeprefix("late "))
            elif not result.startswith("+"):
                self._settle(self._interrupted() if result == "I" else self._next(), result)

    @property
    def state(self) -> str:
        """As the status shows it; a circuit without trouble is closed."""
        shown = {c["circuit"]: c["state"] for c in self.world.call("status", stages={})["circuits"]}
        return str(shown.get(self.circuit, "closed"))

    def _next(self) -> Job:
        stage = self.circuit.split(":")[0]
        return self.world.claim_one(self.world.enqueue(stage, circuit=self.circuit))

    def _interrupted(self) -> Job:
        job_id = self._next().id
        self.world.end_lease(job_id)
        (job,) = self.world.take_over()
        assert job.id == job_id
        return job

    def _settle(self, job: Job, result: str) -> None:
        made = done(job, OTHERS[result]) if result in OTHERS else self.runner.failed(job, FAILURES[result])
        (settled,) = self.world.settle_all(made, cooldown_seconds=CASES["cooldown"])["settled"]
        assert settled["settled"] == "settled"


@pytest.mark.parametrize("case", CASES["sequences"], ids=lambda case: "-".join(case["results"]))
def test_every_sequence_ends_in_its_state(world: World, case: dict[str, Any]) -> None:
    play = Play(world)
    play(*case["results"])
    assert play.state == case["state"]
    if case.get("cooldown_starts_again"):
        assert world.from_now(world.circuit("email")["open_until"]) == CASES["cooldown"]


@pytest.mark.parametrize("result", ["P", "Z", "I", "R", "D"])
def test_a_probe_that_tells_nothing_leaves_the_place_to_the_next(world: World, result: str) -> None:
    play = Play(world)
    play("F", "F", "F", "+60", result)
    assert play.state == "half_open"
    play("S")
    assert play.state == "closed"


@pytest.mark.parametrize("circuit", ["webhook:7", "http_call:example.org"])
def test_webhook_and_http_call_circuits_open_after_ten(world: World, circuit: str) -> None:
    play = Play(world, threshold=CASES["thresholds"]["webhook"], circuit=circuit)
    play(*["F"] * 9)
    assert play.state == "closed"
    play("F")
    assert play.state == "open"


def test_a_threshold_of_nothing_is_no_circuit(world: World) -> None:
    play = Play(world, threshold=CASES["thresholds"]["off"])
    play(*["F"] * 20)
    assert play.state == "closed"
    assert world.circuits() == []


def test_one_circuit_does_not_count_for_another(world: World) -> None:
    a, b = Play(world, circuit="webhook:a"), Play(world, circuit="webhook:b")
    a("F", "F")
    b("F", "F")
    assert (a.state, b.state) == ("closed", "closed")
    a("F")
    assert (a.state, b.state) == ("open", "closed")


def test_results_of_one_call_count_in_the_order_they_are_given(world: World) -> None:
    jobs = [world.claimed() for _ in range(5)]
    failed = [done(job, Retry(delay=5, error="down"), trips=3) for job in jobs]
    answer = world.settle_all(*failed[:2], done(jobs[2]), *failed[3:])
    assert (answer["opened"], world.circuit("email")["failures"]) == ([], 2)


def test_three_failures_in_one_call_open_it_once(world: World) -> None:
    jobs = [world.claimed() for _ in range(5)]
    answer = world.settle_all(*(done(job, Retry(delay=5, error="down"), trips=3) for job in jobs))
    assert answer["opened"] == ["email"]
    assert [c["to_state"] for c in world.changes("email")] == ["open"]


def test_every_change_is_kept_with_time_and_cause(world: World) -> None:
    play = Play(world)
    play("F", "F", "F")
    opened_at = world.now
    play("+60", "F")
    failed_at = world.now
    play("+60", "S")
    changes = world.changes("email")
    assert [(c["from_state"], c["to_state"]) for c in changes] == [
        ("closed", "open"),
        ("open", "half_open"),
        ("half_open", "open"),
        ("open", "half_open"),
        ("half_open", "closed"),
    ]
    causes = [c["cause"] for c in changes]
    assert causes[0] == "3 failures in a row, the last: TransientError: down"
    assert causes[1:] == [
        "cooldown over",
        "probe failed: TransientError: down",
        "cooldown over",
        "probe succeeded",
    ]
    assert (changes[0]["changed_at"], changes[2]["changed_at"], changes[4]["changed_at"]) == (
        opened_at, failed_at, world.now
    )  # fmt: skip
    assert all(c["job_id"] for c in changes)


# The door


def test_an_open_circuit_starts_nothing_and_uses_no_attempt(world: World) -> None:
    world.open_circuit()
    waiting, other = world.enqueue(), world.enqueue("payment")
    before = world.snapshot(waiting)
    for _ in range(5):
        world.later(11)
        tick = world.begin()
        assert waiting not in ids(tick.jobs)
    assert world.snapshot(waiting) == before
    assert world.job(other)["attempts"] == 1
    world.later(5)
    assert ids(world.claim(limit=10)) == [waiting]


def test_a_person_cannot_start_a_job_behind_an_open_circuit(world: World) -> None:
    world.open_circuit()
    assert world.claim(only_job_id=world.enqueue()) == []


def test_a_person_closes_a_circuit(world: World) -> None:
    world.open_circuit()
    waiting = world.enqueue()
    answer = world.call("reset_circuit", circuit="email", by="kate")
    assert answer == {"circuit": "email", "was": "open", "state": "closed"}
    change = world.changes("email")[-1]
    assert (change["to_state"], change["cause"]) == ("closed", "reset by kate")
    assert ids(world.claim(limit=10)) == [waiting]


def test_a_reset_of_a_closed_circuit_forgets_its_failures(world: World) -> None:
    Play(world)("F", "F")
    world.call("reset_circuit", circuit="email")
    assert (world.circuit("email")["failures"], world.changes("email")) == (0, [])


def test_a_reset_of_a_circuit_that_never_failed_is_refused(world: World) -> None:
    with pytest.raises(Exception, match="never failed") as caught:
        world.call("reset_circuit", circuit="email")
    assert caught.value.sqlstate == "GC404"  # type: ignore[attr-defined]


def test_a_run_claimed_before_the_reset_does_not_count(world: World) -> None:
    play = Play(world)
    play("F", "F", "F")
    world.call("reset_circuit", circuit="email")
    play("late F", "late F", "late F")
    assert (play.state, world.circuit("email")["failures"]) == ("closed", 0)


# The mail server is down: what cases.json tells of it


def test_the_story_of_the_mail_server(world: World) -> None:
    story = ALL_CASES["mail_server_down_story"]
    job_id = world.enqueue()
    starts, second = [], 0
    while world.job(job_id)["status"] == "queued":
        for job in world.claim():
            starts.append(second)
            failed = (
                Error(error="down", counts=True, revive=86_400)
                if job.attempts == 5
                else Retry(delay=2.0 ** (job.attempts - 1), error="down")
            )
            world.settle(job, failed, trips=3)
        world.later(1)
        second += 1
    assert starts == story["starts_after_seconds"]
    assert world.job(job_id)["status"] == story["then"]


def test_a_failure_after_a_success_in_one_call_counts_for_a_circuit_that_is_new(world: World) -> None:
    jobs = [world.claimed(), world.claimed()]
    failed = done(jobs[1], Retry(delay=5, error="E: no"), trips=3)
    assert world.settle_all(done(jobs[0]), failed)["sums"]["retried"] == 1
    assert world.circuit("email")["failures"] == 1

"""Debug mode: a job runs inside its enqueue, and what its handler raises comes out of it."""

import os
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from dev import ROOT
from lib.errors import PermanentError, SettingsError, TransientError
from lib.job import Complete, Error, NextJob, Outcome, Retry, Snooze
from lib.tick.inline import InlineStore
from lib.web.app import create_app
from lib.web.services import Services
from tests.support.acts import KIM
from tests.support.world import ADMIN, API, World, an_order, bearer, settings_of

Make = Callable[..., World]


def work(payload: Any, context: Any) -> Outcome:
    match payload.do:
        case "fail":
            raise TransientError("not now")
        case "break":
            return [][1]  # a mistake of the handler's own
        case "leave":
            raise KeyboardInterrupt
        case "retry":
            return Retry(delay=60, error="says the handler")
        case "die":
            return Error(error="says the handler", next=(NextJob(stage="after", payload={}),))
        case "snooze":
            return Snooze(delay=60, waiting_for="tomorrow")
        case "garbage":
            return Complete(context={"not": {"json"}})
        case "go on":
            return Complete(next=(NextJob(stage="after", payload={"do": "go on"}),))
    return Complete(context={"thread": threading.get_ident()})


def after(payload: Any, context: Any) -> Outcome:
    return work(payload, context) if payload.do == "fail" else Complete(context={"after": context.job.correlation_id})


@pytest.fixture
def world(make_world: Make) -> World:
    """A world whose enqueues run what they enqueue."""
    return synchronous(make_world(handlers={"work": work, "after": after}, GIFTCARD_INLINE=1))


def synchronous(world: World) -> World:
    """As the entrypoint puts it together."""
    world.store = InlineStore.over(world.store, lambda: world.registry, world.settings)
    world.app = create_app(Services(world.settings, world.store, lambda: world.registry))
    world.app.testing = True  # what is raised in a request comes out of it
    world.client = world.app.test_client()
    return world


def enqueue(world: World, do: str, **fields: Any) -> dict[str, Any]:
    (answer,) = world.store.enqueue([{"stage": "work", "correlation_id": "f", "payload": {"do": do}} | fields])
    return answer


def test_job_runs_in_the_thread_of_whoever_enqueues_it(world: World) -> None:
    answer = enqueue(world, "nothing")
    job = world.job(answer["id"])
    assert answer == {"id": job["id"], "status": "completed", "created": True}
    assert (job["status"], job["attempts"], job["run_no"]) == ("completed", 1, 1)
    assert job["context"] == {"thread": threading.get_ident()}
    assert [run["result"] for run in world.history(job["id"])] == ["SUCCESS"]
    assert world.sql("select source, stopped_because, ended_at is null as open from giftcard_ticks") == [
        {"source": "inline", "stopped_because": "limit", "open": False}
    ]


@pytest.mark.parametrize(
    ("do", "raised", "last_error"),
    [
        ("fail", TransientError, "TransientError: not now"),
        ("break", IndexError, "IndexError: list index out of range"),
        ("leave", KeyboardInterrupt, "KeyboardInterrupt"),
        ("retry", TransientError, "TransientError: says the handler"),
        ("die", PermanentError, "PermanentError: says the handler"),
        ("garbage", TypeError, "TypeError: Object of type set is not JSON serializable"),
    ],
)
def test_failure_is_raised_and_leaves_a_dead_letter_that_does_not_revive(
    world: World, do: str, raised: type[BaseException], last_error: str
) -> None:
    with pytest.raises(raised):
        enqueue(world, do)
    job = world.job(stage="work")
    assert (job["status"], job["attempts"], job["revive_at"], job["lease_id"]) == ("error", 1, None, None)
    assert job["last_error"] == last_error
    assert [run["result"] for run in world.history(job["id"])] == ["FAILED"]
    assert world.sql("select from giftcard_circuits") == []
    assert world.value("select count(*) from giftcard_jobs where stage = 'after'") == (1 if do == "die" else 0)


def test_traceback_ends_in_the_handler(world: World) -> None:
    with pytest.raises(IndexError) as caught:
        enqueue(world, "break")
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert (last.name, last.line) == ("work", "return [][1]  # a mistake of the handler's own")


def test_payload_that_does_not_fit_is_raised_too(make_world: Make) -> None:
    world = synchronous(make_world(GIFTCARD_INLINE=1))
    with pytest.raises(PermanentError, match="payload: customer"):
        world.store.enqueue([{"stage": "email", "correlation_id": "f", "payload": {}}])
    assert world.job()["status"] == "error"


def test_what_follows_runs_the_same_way(world: World) -> None:
    enqueue(world, "go on")
    assert world.job(stage="after")["context"] == {"after": "f"}
    with pytest.raises(TransientError):
        world.store.enqueue([{"stage": "after", "correlation_id": "g", "payload": {"do": "fail"}}])
    assert world.statuses() == {"completed": 2, "error": 1}


def test_job_for_tomorrow_runs_now(world: World) -> None:
    assert enqueue(world, "nothing", delay_seconds=86_400)["status"] == "completed"


def test_snooze_is_no_failure(world: World) -> None:
    assert enqueue(world, "snooze")["status"] == "queued"
    assert world.job()["last_error"] == "waiting for tomorrow"


def test_first_that_fails_leaves_those_behind_it_queued(world: World) -> None:
    jobs = [{"stage": "work", "correlation_id": str(n), "payload": {"do": do}} for n, do in enumerate(("", "fail", ""))]
    with pytest.raises(TransientError):
        world.store.enqueue(jobs)
    assert world.statuses() == {"completed": 1, "error": 1, "queued": 1}


def test_job_that_is_there_already_does_not_run_again_unless_it_is_replaced(world: World) -> None:
    with pytest.raises(TransientError):
        enqueue(world, "fail")
    assert enqueue(world, "nothing")["status"] == "error"
    (answer,) = world.store.enqueue([{"stage": "work", "correlation_id": "f", "payload": {"do": ""}}], replace=True)
    assert (answer["status"], answer["was"]) == ("completed", "error")


@pytest.mark.parametrize("why", ["paused", "paused by setting", "unknown"])
def test_job_that_may_not_start_stays_queued(world: World, make_world: Make, why: str) -> None:
    stage = "nobody" if why == "unknown" else "work"
    if why == "paused":
        world.store.pause("work", paused_by="ann", reason=None, caller=KIM)
    elif why == "paused by setting":
        world = synchronous(make_world(handlers={"work": work}, GIFTCARD_INLINE=1, GIFTCARD_PAUSED=1))
    assert enqueue(world, "nothing", stage=stage)["status"] == "queued"
    assert world.job()["attempts"] == 0


def test_run_of_a_killed_process_is_seen_to_on_the_way(world: World) -> None:
    killed = world.add("work", {"do": ""}, status="running", attempts=1, run_no=1)
    assert enqueue(world, "nothing")["status"] == "completed"
    job = world.job(killed)
    assert (job["status"], job["last_error"].partition(":")[0]) == ("queued", "Interrupted")


def test_order_goes_all_the_way_before_its_door_answers(make_world: Make) -> None:
    world = synchronous(make_world(GIFTCARD_INLINE=1))
    assert world.submit(an_order(correlation_id="order-1")).status_code == 202
    assert world.statuses() == {"completed": 5}
    assert world.flow("order-1")["card"]["amount"] == 2500
    assert world.submit(an_order(correlation_id="order-1")).status_code == 202
    assert world.statuses() == {"completed": 5}


def test_failure_comes_out_of_the_request_that_enqueued(world: World) -> None:
    body = {"stage": "work", "correlation_id": "f", "payload": {"do": "break"}}
    with pytest.raises(IndexError):
        world.client.post("/api/v1/jobs", json=body, headers=bearer(ADMIN))
    world.app.testing = False
    response = world.client.post("/api/v1/jobs", json=body | {"correlation_id": "g"}, headers=bearer(ADMIN))
    assert (response.status_code, response.content_type) == (500, "application/problem+json")


# As a process


def flask_jobs(world: World, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    own = {"DATABASE_URL": world.url, "GIFTCARD_INLINE": "1", "GIFTCARD_ENV": "development", "GIFTCARD_API_TOKEN": API}
    own |= {"PATH": os.environ["PATH"], "FLASK_APP": "api/index.py"}
    command = [sys.executable, "-m", "flask", "jobs", *args]
    return subprocess.run(command, cwd=ROOT, env=own | environ, capture_output=True, text=True, timeout=60)


@pytest.mark.slow
def test_command_shows_the_traceback_of_the_handler(make_world: Make) -> None:
    world = make_world()
    order = (
        '{"customer": {"given_name": "Kate", "email": "kate@example.com"}, "amount": {"amount": 5, "currency": "USD"}}'
    )
    ended = flask_jobs(world, "enqueue", "personal_code", "f", "--payload", order)
    assert ended.returncode == 1
    assert "lib/stages/personal_code.py" in ended.stderr
    assert "Traceback" in ended.stderr
    assert world.job()["status"] == "error"
    ended = flask_jobs(world, "enqueue", "customer_ingest", "g", "--payload", order)
    assert "ran at once (GIFTCARD_INLINE) and is completed" in ended.stdout


@pytest.mark.parametrize("where", ["production", "preview", None])
def test_production_does_not_start_with_it(where: str | None) -> None:
    with pytest.raises(SettingsError, match="GIFTCARD_INLINE requires GIFTCARD_ENV=development or test"):
        settings_of(GIFTCARD_INLINE=1, GIFTCARD_ENV=where)
    assert not settings_of(GIFTCARD_ENV=where).giftcard_inline
    assert settings_of(GIFTCARD_INLINE=1, GIFTCARD_ENV="development").giftcard_inline

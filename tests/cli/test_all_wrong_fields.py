"""Wherever several fields are wrong, all of them are named, not the first alone."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from lib.tick.message_forms import translated
from tests.cli.conftest import Door
from tests.support.world import ADMIN, API, World, an_order, bearer

# Two fields of an order are wrong.
WRONG = an_order(customer={"email": "nobody"}, amount={"amount": -1, "currency": "USD"})
EMAIL, AMOUNT = "customer.email is not a valid e-mail address", "amount.amount must be at least 1"


def post(path: str, body: Any, *, token: str = ADMIN, method: str = "POST") -> Callable[[World, Door], str]:
    def send(world: World, door: Door) -> str:
        response = world.client.open(path, method=method, json=body, headers=bearer(token))
        assert response.status_code == 422, response.text
        first = response.json["errors"][0]
        assert response.json["field"] == first["field"]
        assert all(error["message"] in response.json["detail"] for error in response.json["errors"])
        return str(response.json["detail"])

    return send


def ask(query: str) -> Callable[[World, Door], str]:
    def send(world: World, door: Door) -> str:
        response = world.client.get(query, headers=bearer(ADMIN))
        assert response.status_code == 422
        assert len(response.json["errors"]) == 3
        return str(response.json["detail"])

    return send


def command(*words: Any, types: str | None = None) -> Callable[[World, Door], str]:
    return lambda world, door: door.refuses(*words, types=types)


def a_run(world: World, door: Door) -> str:
    job_id = world.add("email", WRONG)
    world.tick()
    (error,) = world.sql("select last_error from public.giftcard_jobs where id = %s", job_id)
    return str(error["last_error"])


def a_row_of_an_order(world: World, door: Door) -> str:
    world.submit(an_order(correlation_id="flow"))
    world.sql(
        "update public.giftcard_orders set details = jsonb_set(details, '{customer}',"
        """ '{"email": "nobody", "given_name": "\\u0007"}')"""
    )
    world.tick()
    return str(world.value("select last_error from public.giftcard_jobs where stage = 'customer_ingest'"))


def a_message(world: World, door: Door) -> str:
    return str(translated("payment", {"reference": "", "amount": -1, "currency": "USD"})["error"])


def a_changed_schedule(world: World, door: Door) -> str:
    """A row of plain SQL that no request could have made, changed."""
    world.sql("insert into public.giftcard_schedules (schedule, stage) values ('* * * * *', 'E-Mail')")
    world.sql("update public.giftcard_schedules set max_attempts = 900")
    return post("/api/v1/schedules/1", {"timezone": "UTC"}, method="PATCH")(world, door)


TWO_JOBS = [{"stage": "email", "correlation_id": name, "payload": WRONG} for name in "ab"]
PLACES: dict[str, tuple[Callable[[World, Door], str], list[str]]] = {
    "an order": (post("/api/v1/giftcards", WRONG, token=API), [EMAIL, AMOUNT]),
    "a job": (post("/api/v1/jobs", {"stage": "E", "ttr_seconds": 0}), ["stage ", "correlation_id ", "ttr_seconds "]),
    "a payload": (post("/api/v1/jobs", TWO_JOBS[0]), [EMAIL, AMOUNT]),
    "payloads of two jobs": (
        post("/api/v1/jobs", {"jobs": TWO_JOBS}),
        [f"jobs.{index}.payload.{text}" for index in (0, 1) for text in (EMAIL, AMOUNT)],
    ),
    "stages of two jobs": (
        post("/api/v1/jobs", {"jobs": [{"stage": name, "correlation_id": "c"} for name in ("one", "two")]}),
        ["jobs.0.stage there is no stage one", "jobs.1.stage there is no stage two"],
    ),
    "a query": (ask("/api/v1/jobs?stage=E&limit=0&colour=red"), ["stage ", "limit ", "colour is unknown"]),
    "a schedule": (
        post("/api/v1/schedules", {"schedule": "* * * * *", "stage": "E", "ttr_seconds": 0}),
        ["stage ", "ttr_seconds "],
    ),
    "a schedule's payload": (
        post("/api/v1/schedules", {"schedule": "* * * * *", "stage": "email", "payload": WRONG}),
        [EMAIL, AMOUNT],
    ),
    "a stored schedule": (a_changed_schedule, ["stage ", "max_retry_count "]),
    "a run": (a_run, [f"PermanentError: payload: {EMAIL}", AMOUNT]),
    "an order's row": (a_row_of_an_order, ["customer.email", "customer.given_name"]),
    "a message of a queue": (a_message, ["reference ", "amount.amount "]),
    "options": (command("list", "--stage", "E", "--status", "dead"), ["--stage ", "--status "]),
    "options of two models": (command("list", "--stage", "E", "--limit", 0), ["--stage ", "--limit "]),
    "options of a requeue": (command("requeue", "--stage", "E", "--per-minute", 0), ["--stage ", "--per-minute "]),
    "options of a job": (
        command("enqueue", "E", "c", "--ttr-seconds", 0, "--max-attempts", 99),
        ["--stage ", "--ttr-seconds ", "--max-attempts "],
    ),
    "jobs of a file": (
        command("enqueue", "--file", "-", types=json.dumps(TWO_JOBS)),
        [f"job 1 of 2: {EMAIL}; {AMOUNT}", f"job 2 of 2: {EMAIL}; {AMOUNT}"],
    ),
    "options of a schedule": (
        command("schedules", "create", "* * * * *", "--stage", "E", "--ttr-seconds", 0),
        ["--stage ", "--ttr-seconds "],
    ),
}


@pytest.mark.parametrize("place", PLACES)
def test_all_wrong_fields_are_named(world: World, direct: Door, place: str) -> None:
    act, named = PLACES[place]
    text = act(world, direct)
    assert [each for each in named if each not in text] == [], text
    assert "nobody" not in text


def test_the_command_line_hears_them_all_from_a_deployment(remote: Door) -> None:
    said = remote.refuses("enqueue", "--file", "-", types=json.dumps(TWO_JOBS))
    assert said == f"job 1 of 2: {EMAIL}; {AMOUNT}; job 2 of 2: {EMAIL}; {AMOUNT}"


def test_more_than_ten_are_counted(world: World) -> None:
    body = {"stage": "email", "correlation_id": "c"} | {f"no{number}": 1 for number in range(200)}
    problem = world.client.post("/api/v1/jobs", json=body, headers=bearer(ADMIN)).json
    assert problem["detail"].endswith("no106 is unknown; and 190 more")
    assert len(problem["errors"]) == 100


def test_a_refused_payload_has_the_commands_that_correct_it(world: World, direct: Door) -> None:
    job_id = world.add("email", WRONG)
    world.tick()
    text = direct.says("show", job_id)
    assert "Its payload is at fault: the error names each field." in text
    assert f"flask jobs show {job_id} --reveal" in text
    assert f"flask jobs requeue {job_id} --payload @FILE" in text
    opened = direct.says("show", job_id, "--reveal")
    assert "nobody" in opened
    assert f"show {job_id} --reveal" not in opened
    assert f"job {job_id}" in direct.says("audit", "--action", "reveal")
    direct.says("requeue", job_id, "--payload", json.dumps(an_order()))
    assert "Its payload is at fault" not in direct.says("show", job_id)

"""Jobs that call an address, as they come and as they are queued again."""

import random
import socket
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from lib.tick.runner import Runner
from tests.support import raw_server
from tests.support.raw_server import Server, a_server
from tests.support.world import ADMIN, World, bearer

LOOPBACK = "127.0.0.0/8,::1"


@pytest.fixture
def server() -> Iterator[Server]:
    with a_server() as server:
        yield server


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    return make_world(GIFTCARD_ALLOWED_NETWORKS=LOOPBACK)


def test_api_as_plain_text_is_called_whichever_way_the_job_comes(world: World, server: Server) -> None:
    world.enqueue("http_call", {"api": f"{server.url}sql"})
    job = {"stage": "http_call", "correlation_id": "f", "payload": {"api": f"{server.url}api"}}
    response = world.client.post("/api/v1/jobs", json=job, headers=bearer(ADMIN))
    assert response.status_code == 202, response.text
    assert world.job(response.json["jobs"][0]["id"])["circuit"] == "http_call:127.0.0.1"
    world.sql(
        "insert into giftcard_schedules (schedule, stage, payload, next_at)"
        " values ('* * * * * *', 'http_call', jsonb_build_object('api', %s::text), now() - interval '1 second')",
        f"{server.url}schedule",
    )
    world.run()
    asked = {(asked.method, asked.path, asked.body) for asked in server.asked}
    assert asked == {("POST", "/sql", b""), ("POST", "/api", b""), ("POST", "/schedule", b"")}


# Bound to its key


OTHER = {"body": {"amount": 2}}


def add(world: World, url: str, **columns: Any) -> int:
    return world.add("http_call", {"url": url, "body": {"amount": 1}}, **columns)


def requeue(world: World, job_id: int, *, payload: dict[str, Any] | None = None) -> tuple[int, str]:
    """The answer to a requeue, with what is different in the payload: status, text."""
    body = {"force": True} | ({"payload": world.job(job_id)["payload"] | payload} if payload is not None else {})
    response = world.client.post(f"/api/v1/jobs/{job_id}/requeue", json=body, headers=bearer(ADMIN))
    return response.status_code, response.text


def replaced(world: World, job_id: int, *, payload: dict[str, Any]) -> int:
    """The status of an enqueue of the same job, to replace it, with what is different in the payload."""
    job = world.job(job_id)
    again = {name: job[name] for name in ("stage", "correlation_id")} | {"payload": job["payload"] | payload}
    body = {"jobs": [again], "replace": True}
    return world.client.post("/api/v1/jobs", json=body, headers=bearer(ADMIN)).status_code


def keys(server: Server) -> list[str]:
    return [asked.headers["idempotency-key"] for asked in server.asked]


def killed(world: World, server: Server) -> int:
    """A job whose function was killed after its request had gone out; it may run no more."""
    job_id = add(world, server.url, max_attempts=1)
    step = world.store.begin_tick(
        key=str(uuid.uuid4()), owner="w", source="test", stages={"http_call": 60}, limit=1, live_seconds=60
    )
    runner = Runner(world.registry, world.settings, random.Random(1))
    runner.run(step.jobs[0], runner.context(step.jobs[0], world.store))  # the result is never settled
    world.move(3600)
    world.tick()
    assert (world.job(job_id)["status"], len(server.asked)) == ("error", 1)
    return job_id


def failed(answer: Any) -> Callable[[World, Server], int]:
    def job(world: World, server: Server) -> int:
        server.then(answer)
        job_id = add(world, server.url, max_attempts=1)
        world.tick()
        return job_id

    return job


def refused_after_a_try_without_an_answer(world: World, server: Server) -> int:
    server.then(raw_server.hang_up, 404)
    job_id = add(world, server.url)
    world.drain()
    world.move(60)
    world.drain()
    return job_id


def refused_after_a_redirect(world: World, server: Server) -> int:
    server.then(raw_server.redirect(303, "/next"), 404)
    job_id = add(world, server.url)
    world.drain()
    return job_id


GONE_OUT = {
    "killed": killed,
    "503": failed(503),
    "401": failed(401),
    "no answer": failed(raw_server.hang_up),
    "cut": failed(raw_server.cut),
    "done": failed(200),
    "unanswered, then refused": refused_after_a_try_without_an_answer,
    "redirected, then refused": refused_after_a_redirect,
}


@pytest.mark.parametrize("name", GONE_OUT)
def test_call_that_may_have_gone_out_keeps_payload_and_key(world: World, server: Server, name: str) -> None:
    job_id = GONE_OUT[name](world, server)
    status, text = requeue(world, job_id, payload=OTHER)
    assert (status, "has begun an effect outside with its old payload" in text) == (409, True)
    if name != "done":
        assert replaced(world, job_id, payload=OTHER) == 409
    assert requeue(world, job_id, payload={})[0] == 200
    world.drain()
    assert world.job(job_id)["status"] == "completed"
    assert set(keys(server)) == {keys(server)[0]}


def refused(world: World, server: Server) -> int:
    server.then(404)
    job_id = add(world, server.url)
    world.drain()
    return job_id


def unreachable(world: World, server: Server) -> int:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    job_id = add(world, f"http://127.0.0.1:{port}/", max_attempts=1)
    world.drain()
    assert "ConnectError" in world.job(job_id)["last_error"]
    return job_id


def forbidden(world: World, server: Server) -> int:
    job_id = add(world, "http://10.0.0.1/")
    world.drain()
    return job_id


def secret_missing(world: World, server: Server) -> int:
    headers = {"Authorization": "Bearer {{secret:MISSING}}"}
    job_id = world.add("http_call", {"url": server.url, "headers": headers}, max_attempts=1)
    world.drain()
    return job_id


def decided(world: World, server: Server) -> int:
    """An operator knows that it did not happen."""
    job_id = failed(503)(world, server)
    world.sql("select giftcard_decide_effect(%s, 'call', false)", job_id)
    return job_id


@pytest.mark.parametrize(
    "way", [refused, unreachable, forbidden, secret_missing, decided], ids=lambda way: way.__name__
)
@pytest.mark.parametrize("by_replace", [False, True])
def test_call_that_surely_had_no_effect_may_get_another_payload(
    world: World, server: Server, way: Callable[[World, Server], int], by_replace: bool
) -> None:
    job_id = way(world, server)
    assert world.job(job_id)["status"] == "error"
    before = keys(server)
    correct = {"url": server.url, "headers": {}} | OTHER
    if by_replace:
        assert replaced(world, job_id, payload=correct) == 202
    else:
        assert requeue(world, job_id, payload=correct)[0] == 200
    world.drain()
    assert world.job(job_id)["status"] == "completed"
    assert server.asked[-1].body == b'{"amount": 2}'
    assert keys(server)[-1] not in before


def test_call_that_happened_by_an_operators_word_is_not_made_again(world: World, server: Server) -> None:
    job_id = failed(503)(world, server)
    world.sql("select giftcard_decide_effect(%s, 'call', true, '{\"reference\": \"x\"}')", job_id)
    assert requeue(world, job_id)[0] == 200
    world.drain()
    assert (world.job(job_id)["status"], len(server.asked)) == ("completed", 1)

"""A job sends a secret encrypted, or not at all."""

import socket
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.raw_server import Server, a_server
from tests.support.world import ADMIN, World, bearer

Make = Callable[..., World]

SENDS = [{"headers": {"X-Key": "{{secret:TOKEN}}"}}, {"body": {"key": ["{{secret:TOKEN}}"]}}]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """One without TLS; every name leads to it, which no rule knows."""
    resolve = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **more: resolve("127.0.0.1", *rest, **more))
    with a_server() as server:
        yield server


def a_world(make_world: Make, environment: str, server: Server) -> World:
    """One whose secret may go to the server, by its name or as this machine."""
    return make_world(
        GIFTCARD_ENV=environment,
        GIFTCARD_ALLOWED_NETWORKS="127.0.0.0/8",
        GIFTCARD_SECRET_TOKEN="t0ken-of-a-job",
        GIFTCARD_SECRET_TOKEN_HOSTS=f"vendor.example.com:{server.port},127.0.0.1:{server.port}",
    )


def posted(world: World, payload: dict[str, Any]) -> Any:
    job = {"stage": "http_call", "correlation_id": uuid.uuid4().hex, "payload": payload}
    return world.client.post("/api/v1/jobs", json=job, headers=bearer(ADMIN))


@pytest.mark.parametrize("sends", SENDS, ids=["header", "body"])
def test_secret_to_http_is_refused_at_the_door_and_at_the_call(
    make_world: Make, server: Server, sends: dict[str, Any]
) -> None:
    world = a_world(make_world, "production", server)
    payload = {"url": f"http://vendor.example.com:{server.port}/"} | sends
    refusal = posted(world, payload)
    assert (refusal.status_code, "url must begin with https://" in refusal.json["detail"]) == (422, True)
    (job_id,) = world.enqueue("http_call", payload)
    world.run()
    job = world.job(job_id)
    said = "PermanentError: url must begin with https://: secrets do not travel in clear"
    assert (job["status"], job["last_error"], job["revive_at"]) == ("error", said, None)
    assert world.sql("select * from giftcard_effects") == []
    assert server.asked == []


def test_schedule_is_refused_too(make_world: Make, server: Server) -> None:
    body = {"schedule": "0 * * * *", "api": {"url": f"http://vendor.example.com:{server.port}/"} | SENDS[0]}
    refusal = a_world(make_world, "production", server).client.post(
        "/api/v1/schedules", json=body, headers=bearer(ADMIN)
    )
    assert (refusal.status_code, "must begin with https://" in refusal.text) == (422, True)


def test_without_a_secret_and_in_development_http_is_called(make_world: Make, server: Server) -> None:
    world = a_world(make_world, "production", server)
    assert posted(world, {"url": f"http://vendor.example.com:{server.port}/"}).status_code == 202
    assert posted(world, {"url": server.url} | SENDS[0]).status_code == 202, "this machine"
    world.run()
    development = a_world(make_world, "development", server)
    assert posted(development, {"url": f"http://vendor.example.com:{server.port}/x"} | SENDS[0]).status_code == 202
    development.run()
    assert len(server.asked) == 3

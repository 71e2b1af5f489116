"""Secrets that jobs name are in the call and nowhere else."""

import html
import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, quote_plus, urlsplit

import pytest

from tests.support.raw_server import Asked, Server, a_server, redirect
from tests.support.world import ADMIN, World, bearer

Make = Callable[..., World]
Log = Callable[[], list[dict[str, Any]]]

# As hard to find again as can be: written anew by JSON, by addresses and by pages.
KEY = 'k3y/"with" <a> & ü+%'
TOKEN = "t0ken-of-a-job"


@pytest.fixture
def server() -> Iterator[Server]:
    with a_server() as server:
        yield server


@pytest.fixture
def world(make_world: Make, server: Server) -> World:
    secrets = {
        "GIFTCARD_SECRET_KEY": KEY,
        "GIFTCARD_SECRET_TOKEN": f"{TOKEN}\n",
        "GIFTCARD_SECRET_LINES": "line one\nline two",
    }
    return make_world(GIFTCARD_ALLOWED_NETWORKS="127.0.0.0/8", **secrets | bound(server, "KEY", "TOKEN", "LINES"))


def bound(server: Server, *names: str) -> dict[str, str]:
    """The variables that let secrets go to the server."""
    return {f"GIFTCARD_SECRET_{name}_HOSTS": urlsplit(server.url).netloc for name in names}


def called(world: World, server: Server, **payload: Any) -> dict[str, Any]:
    """A job of the API that calls the server, after a tick."""
    job = {"stage": "http_call", "correlation_id": str(uuid.uuid4()), "payload": {"url": server.url} | payload}
    response = world.client.post("/api/v1/jobs", json=job, headers=bearer(ADMIN))
    assert response.status_code == 202, response.text
    world.run()
    return world.job(response.json["jobs"][0]["id"])


def everything(world: World) -> str:
    """All that is stored of jobs, as text."""
    tables = (
        "giftcard_jobs",
        "giftcard_job_history",
        "giftcard_circuits",
        "giftcard_circuit_changes",
        "giftcard_ticks",
    )
    return "\n".join(str(world.sql(f"select to_jsonb(t)::text as row from public.{table} t")) for table in tables)


def echo(asked: Asked) -> None:
    """Repeats what it was sent, in every way that it can be written."""
    heard = [json.loads(asked.body)["a"], asked.headers["authorization"]]
    ways = [quote, quote_plus, lambda text: quote(text, safe=""), html.escape, json.dumps, str]
    written = [way(text) for way in ways for text in heard] + [json.dumps(heard[0], ensure_ascii=False)]
    asked.answer(500, "\n".join(written).encode())


def test_secrets_are_in_the_call(world: World, server: Server) -> None:
    job = called(
        world,
        server,
        headers={"Authorization": "Bearer {{secret:TOKEN}}", "X-Two": "{{secret:TOKEN}}{{secret:TOKEN}}"},
        body={"key": "{{secret:KEY}}", "{{secret:TOKEN}}": ["a {{secret:LINES}} b"]},
    )
    assert job["status"] == "completed"
    (asked,) = server.asked
    assert (asked.headers["authorization"], asked.headers["x-two"]) == (f"Bearer {TOKEN}", TOKEN * 2)
    assert json.loads(asked.body) == {"key": KEY, TOKEN: ["a line one\nline two b"]}
    called(world, server, body="text {{secret:KEY}}")
    assert server.asked[1].body == f"text {KEY}".encode()


def test_secrets_are_nowhere_else_though_the_server_repeats_them(world: World, server: Server, log: Log) -> None:
    server.answer = echo
    job = called(
        world,
        server,
        headers={"Authorization": "Bearer {{secret:TOKEN}}"},
        body={"a": "{{secret:KEY}} {{secret:TOKEN}}"},
    )
    assert server.asked
    assert job["payload"]["headers"] == {"Authorization": "Bearer {{secret:TOKEN}}"}
    answer = world.history(job["id"])[0]["detail"]["answer"]
    assert answer.count("[secret]") == 20
    stored = everything(world) + json.dumps(log()) + str(log())
    assert TOKEN not in stored
    assert "k3y" not in stored


def test_secret_that_is_not_set_is_a_failure_that_passes(make_world: Make, world: World, server: Server) -> None:
    job = called(world, server, headers={"Authorization": "Bearer {{secret:NEW}}"})
    assert (job["status"], job["attempts"]) == ("queued", 1)
    assert job["last_error"] == "TransientError: the secret NEW is not set: set GIFTCARD_SECRET_NEW"
    assert server.asked == []
    world.move(10)
    new = {"GIFTCARD_SECRET_NEW": "new-secret"} | bound(server, "NEW")
    now_set = make_world(GIFTCARD_ALLOWED_NETWORKS="127.0.0.0/8", **new)
    now_set.run()
    assert now_set.job(job["id"])["status"] == "completed"


def test_secret_that_no_header_can_hold_is_not_sent_and_not_shown(world: World, server: Server) -> None:
    job = called(world, server, headers={"X-Lines": "{{secret:LINES}}"})
    assert job["last_error"] == "TransientError: the secret in the header X-Lines has characters that are not allowed"
    assert server.asked == []


def test_secret_that_is_not_set_is_not_looked_for_in_other_settings(world: World, server: Server) -> None:
    job = called(world, server, body="{{secret:CRON_SECRET}} {{secret:DATABASE_URL}}")
    assert job["last_error"].endswith("the secret CRON_SECRET is not set: set GIFTCARD_SECRET_CRON_SECRET")


def test_secrets_go_to_no_other_host(world: World, server: Server) -> None:
    with a_server() as other:
        server.then(redirect(302, other.url), redirect(307, other.url))
        headers = {"X-Key": "{{secret:TOKEN}}", "User-Agent": "{{secret:TOKEN}}", "Accept": "text/plain"}
        assert called(world, server, headers=headers, body="{{secret:KEY}}")["status"] == "completed"
        (asked,) = other.asked
        assert (TOKEN in str(asked.headers), asked.body, asked.headers["accept"]) == (False, b"", "text/plain")
        refused = called(world, server, body="{{secret:KEY}}")
        assert (refused["status"], len(other.asked)) == ("error", 1)

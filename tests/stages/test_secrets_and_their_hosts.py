"""A secret goes to its hosts only, and only for jobs of the sources that may send it; real servers are called."""

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.support.queues import Queues
from tests.support.raw_server import Server, a_server, redirect
from tests.support.world import ADMIN, World, bearer

Make = Callable[..., World]
TOKEN = "t0ken-of-a-job"
NAMED = {"headers": {"Authorization": "Bearer {{secret:TOKEN}}"}}
IN_BODY = {"body": {"token": "{{secret:TOKEN}}"}}


@pytest.fixture
def server() -> Iterator[Server]:
    with a_server() as server:
        yield server


@pytest.fixture
def bounded(make_world: Make) -> Callable[..., World]:
    """A world with the secret, and these hosts and sources of it."""

    def make(hosts: str | None = None, sources: str | None = None, **more: str) -> World:
        bounds = {"GIFTCARD_SECRET_TOKEN_HOSTS": hosts, "GIFTCARD_SECRET_TOKEN_SOURCES": sources}
        return make_world(GIFTCARD_ALLOWED_NETWORKS="127.0.0.0/8", GIFTCARD_SECRET_TOKEN=TOKEN, **bounds | more)

    return make


def post(world: World, payload: dict[str, Any]) -> Any:
    job = {"stage": "http_call", "correlation_id": str(uuid.uuid4()), "payload": payload}
    return world.client.post("/api/v1/jobs", json=job, headers=bearer(ADMIN))


def at(server: Server, host: str = "127.0.0.1") -> str:
    return f"{host}:{server.port}"


# Hosts


@pytest.mark.parametrize("named", [NAMED, IN_BODY], ids=["header", "body"])
def test_a_secret_without_hosts_is_refused_by_name_of_the_setting(
    bounded: Any, server: Server, named: dict[str, Any]
) -> None:
    world = bounded()
    response = post(world, {"url": server.url} | named)
    assert (response.status_code, response.json["field"]) == (422, f"jobs.0.payload.{next(iter(named))}")
    assert "set GIFTCARD_SECRET_TOKEN_HOSTS" in response.text
    (job_id,) = world.enqueue("http_call", {"url": server.url} | named)
    world.run()
    job = world.job(job_id)
    assert (job["status"], server.asked) == ("queued", []), "the deployment is at fault: it waits for the setting"
    assert job["last_error"] == (
        "TransientError: the call must not name the secret TOKEN, which has no hosts: "
        "set GIFTCARD_SECRET_TOKEN_HOSTS to those that may receive it"
    )
    assert world.sql("select * from giftcard_circuits where failures > 0") == []


@pytest.mark.parametrize("hosts", ["api.example.com", "127.0.0.1", "127.0.0.1:1", "*.0.0.1", "localhost:{port}"])
@pytest.mark.parametrize("named", [NAMED, IN_BODY], ids=["header", "body"])
def test_a_host_that_is_not_listed_receives_nothing(
    bounded: Any, server: Server, hosts: str, named: dict[str, Any]
) -> None:
    world = bounded(hosts.format(port=server.port), "sql")
    response = post(world, {"url": server.url} | named)
    assert response.status_code == 422
    assert f"must not send the secret TOKEN to {at(server)}" in response.text
    (job_id,) = world.enqueue("http_call", {"url": server.url} | named)
    world.run()
    job = world.job(job_id)
    assert (job["status"], job["revive_at"], server.asked) == ("error", None, [])
    assert job["last_error"].startswith("PermanentError: the call must not send the secret TOKEN to")
    assert "GIFTCARD_SECRET_TOKEN_HOSTS" in job["last_error"]
    assert world.sql("select * from giftcard_effects") == [], "its payload may be corrected"


@pytest.mark.parametrize("hosts", ["127.0.0.1:{port}", "api.example.com, LOCALHOST:{port},127.0.0.1:{port}"])
def test_a_listed_host_receives_it(bounded: Any, server: Server, hosts: str) -> None:
    world = bounded(hosts.format(port=server.port))
    for url in {server.url, server.url.replace("127.0.0.1", "localhost") if "LOCAL" in hosts else server.url}:
        assert post(world, {"url": url} | NAMED).status_code == 202
    world.drain()
    assert {asked.headers["authorization"] for asked in server.asked} == {f"Bearer {TOKEN}"}
    assert set(world.statuses()) == {"completed"}


def test_one_secret_of_a_call_that_may_not_go_there_stops_the_call(bounded: Any, server: Server) -> None:
    other = {"GIFTCARD_SECRET_OTHER": "another-secret", "GIFTCARD_SECRET_OTHER_HOSTS": "api.example.com"}
    world = bounded(at(server), "sql", **other, GIFTCARD_SECRET_OTHER_SOURCES="sql")
    both = {"headers": {"X-A": "{{secret:TOKEN}}", "X-B": "{{secret:OTHER}}"}}
    assert "the secret OTHER" in post(world, {"url": server.url} | both).text
    world.enqueue("http_call", {"url": server.url} | both)
    world.drain()
    assert (world.statuses(), server.asked) == ({"error": 1}, [])


def test_a_redirect_to_another_listed_host_receives_nothing(bounded: Any, server: Server) -> None:
    with a_server() as other:
        world = bounded(f"{at(server)},{at(other)},localhost:{server.port}")
        local = f"http://localhost:{server.port}/"
        server.then(redirect(302, other.url), redirect(307, other.url), redirect(307, local))
        post(world, {"url": server.url} | NAMED)
        world.drain()
        (asked,) = other.asked
        assert "authorization" not in asked.headers
        for _ in range(2):
            post(world, {"url": server.url} | IN_BODY)
            world.drain()
        assert (len(other.asked), len(server.asked)) == (1, 3), "no body with a secret went on"
        assert TOKEN not in str([asked.headers for asked in other.asked])


def test_a_redirect_within_the_origin_keeps_the_secret(bounded: Any, server: Server) -> None:
    world = bounded(at(server))
    server.then(redirect(307, "/next"))
    post(world, {"url": server.url} | NAMED | IN_BODY)
    world.drain()
    assert [asked.headers["authorization"] for asked in server.asked] == [f"Bearer {TOKEN}"] * 2
    assert TOKEN.encode() in server.asked[1].body


def test_a_call_without_a_secret_needs_no_hosts(bounded: Any, server: Server) -> None:
    world = bounded()
    assert post(world, {"url": server.url}).status_code == 202
    world.drain()
    assert len(server.asked) == 1


# Sources


def came(world: World, way: str, server: Server, connection: psycopg.Connection[Any]) -> None:
    """A call with the secret, which comes this way."""
    payload = {"url": server.url} | NAMED
    match way:
        case "api":
            post(world, payload)
        case "schedule":
            body = {"schedule": "0 0 1 1 *", "stage": "http_call", "payload": payload}
            made = world.client.post("/api/v1/schedules", json=body, headers=bearer(ADMIN))
            assert made.status_code == 201, made.text
            world.client.post(f"/api/v1/schedules/{made.json['id']}/run", headers=bearer(ADMIN))
        case "insert":
            world.enqueue("http_call", payload, trigger_type="api", source="app")
        case "plain enqueue":
            world.sql(
                "select giftcard_enqueue(jsonb_build_array(jsonb_build_object('stage', 'http_call', 'correlation_id',"
                " 'c', 'trigger_type', 'api', 'payload', %s::jsonb)))",
                psycopg.types.json.Jsonb(payload),
            )
        case "plain schedule":
            world.sql(
                "insert into giftcard_schedules (schedule, stage, payload, source, next_at)"
                " values ('* * * * * *', 'http_call', %s, 'app', now() - interval '1 second')",
                psycopg.types.json.Jsonb(payload),
            )
        case "update":
            post(world, {"url": server.url})
            world.sql("update giftcard_jobs set payload = %s", psycopg.types.json.Jsonb(payload))
        case "pgmq":
            Queues(connection).create("calls", payload)


@pytest.mark.parametrize("way", ["api", "schedule"])
def test_jobs_of_the_application_may_send_it(
    bounded: Any, server: Server, way: str, connection: psycopg.Connection[Any]
) -> None:
    world = bounded(at(server))
    came(world, way, server, connection)
    world.drain()
    assert [asked.headers["authorization"] for asked in server.asked] == [f"Bearer {TOKEN}"]


@pytest.mark.parametrize("way", ["insert", "plain enqueue", "plain schedule", "update", "pgmq"])
@pytest.mark.parametrize("allowed", [False, True])
def test_jobs_of_sql_and_pgmq_may_not_unless_the_setting_lists_them(
    bounded: Any, server: Server, way: str, allowed: bool, connection: psycopg.Connection[Any]
) -> None:
    source = "pgmq" if way == "pgmq" else "sql"
    wrong = "sql" if way == "pgmq" else "pgmq"
    world = bounded(at(server), source if allowed else wrong, GIFTCARD_PGMQ_QUEUES="calls:http_call")
    came(world, way, server, connection)
    world.tick()
    job = world.sql("select * from giftcard_jobs where stage = 'http_call' order by id limit 1")[0]
    if allowed:
        assert server.asked[0].headers["authorization"] == f"Bearer {TOKEN}"
        return
    assert (job["status"], server.asked) == ("error", [])
    assert job["last_error"] == (
        f"PermanentError: the secret TOKEN is not for jobs that came by {source}: add {source} to "
        "GIFTCARD_SECRET_TOKEN_SOURCES, and requeue the job"
    )


def test_a_payload_that_an_operator_corrects_is_the_operators(
    bounded: Any, server: Server, connection: psycopg.Connection[Any]
) -> None:
    world = bounded(at(server))
    came(world, "insert", server, connection)
    world.tick()
    job = world.job()
    payload = job["payload"] | {"method": "PUT"}
    response = world.client.post(f"/api/v1/jobs/{job['id']}/requeue", json={"payload": payload}, headers=bearer(ADMIN))
    assert response.status_code == 200, response.text
    world.tick()
    assert [asked.method for asked in server.asked] == ["PUT"]

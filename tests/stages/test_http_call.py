"""Jobs that call an address: what is sent, what every status becomes, what is kept of it. With real servers."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from tests.support import raw_server
from tests.support.cases import CASES
from tests.support.raw_server import Server, a_server, redirect
from tests.support.world import ADMIN, World, bearer

Make = Callable[..., World]
LOOPBACK = "127.0.0.0/8,::1"


@pytest.fixture
def server() -> Iterator[Server]:
    with a_server() as server:
        yield server


@pytest.fixture
def world(make_world: Make) -> World:
    return make_world(GIFTCARD_ALLOWED_NETWORKS=LOOPBACK, GIFTCARD_JOBS_PER_CRON_RUN=100)


def called(world: World, server: Server, *, columns: dict[str, Any] | None = None, **payload: Any) -> dict[str, Any]:
    """A job that calls the server, after a tick."""
    (job_id,) = world.enqueue("http_call", {"url": server.url} | payload, **(columns or {}))
    world.run()
    return world.job(job_id)


def kept(world: World, job: dict[str, Any]) -> dict[str, Any]:
    """What history has of the job's last run."""
    detail: dict[str, Any] = world.history(job["id"])[-1]["detail"]
    return detail


@pytest.mark.parametrize("kind", ["permanent", "transient", "success"])
def test_status_becomes_what_the_table_says(world: World, server: Server, kind: str) -> None:
    statuses = CASES["http_status"][kind]
    server.answer = lambda asked: asked.answer(int(asked.path[1:]))
    for status in statuses:
        world.enqueue("http_call", {"url": f"{server.url}{status}"}, circuit=f"http_call:of-{status}")
    world.run()
    jobs = world.sql("select * from giftcard_jobs order by id")
    assert len(server.asked) == len(jobs) == len(statuses)
    expected = {"permanent": "error", "transient": "queued", "success": "completed"}[kind]
    for status, job in zip(statuses, jobs, strict=True):
        assert (job["status"], job["attempts"], job["revive_at"]) == (expected, 1, None), status
        assert kept(world, job)["status"] == status
        if kind == "success":
            assert job["last_error"] is None
        else:
            assert job["last_error"] == f"{kind.title()}Error: 127.0.0.1 answered {status}"


def test_call_arrives_as_the_job_says(world: World, server: Server) -> None:
    job = called(
        world, server, url=f"{server.url}a?b=c", method="PUT", headers={"X-Own": "1"}, body={"amount": 25, "ü": None}
    )
    assert job["status"] == "completed"
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.headers["x-own"]) == ("PUT", "/a?b=c", "1")
    assert (asked.headers["content-type"], asked.body) == ("application/json", b'{"\\u00fc": null, "amount": 25}')
    assert (asked.headers["user-agent"], asked.headers["x-attempt"]) == ("giftcard-jobs", "1")
    called(world, server, method="POST", headers={"content-type": "text/csv", "user-agent": "me"}, body="a,ü")
    assert (server.asked[1].headers["content-type"], server.asked[1].headers["user-agent"]) == ("text/csv", "me")
    assert server.asked[1].body == "a,ü".encode()
    called(world, server, method="GET")
    assert {"content-type", "content-length"} & set(server.asked[2].headers) == set()


def test_failing_call_is_tried_after_1_2_4_seconds_under_one_key(world: World, server: Server) -> None:
    server.answer = lambda asked: asked.answer(503)
    job = called(world, server)
    waits = []
    while job["status"] == "queued":
        (run,) = world.history(job["id"])[-1:]
        waits.append(round((run["next_run_at"] - run["finished_at"]).total_seconds(), 3))
        world.move_to(job["scheduled_at"])
        world.run()
        job = world.job(job["id"])
    assert waits == CASES["backoff"]["http_call"]["delays_by_attempt"][:3]
    assert (job["status"], job["attempts"]) == ("error", CASES["max_attempts"]["http_call"])
    assert [asked.headers["x-attempt"] for asked in server.asked] == ["1", "2", "3", "4"]
    world.requeue(job["id"])
    world.run()
    keys = {asked.headers["idempotency-key"] for asked in server.asked}
    assert (len(server.asked), len(keys)) == (5, 1)


def test_every_job_has_a_key_of_its_own(world: World, server: Server) -> None:
    for columns in ({}, {"correlation_id": "a"}, {"correlation_id": "a", "dedup_key": "b"}, {"tenant_id": "c"}):
        called(world, server, columns=columns)
    keys = {asked.headers["idempotency-key"] for asked in server.asked}
    assert len(keys) == 4


def test_completed_call_that_a_person_queues_again_is_made_again_under_its_key(world: World, server: Server) -> None:
    job = called(world, server)
    world.requeue(job["id"], force=True)
    world.run()
    first, again = (asked.headers["idempotency-key"] for asked in server.asked)
    assert first == again


def test_retry_after_is_a_floor_in_both_forms(world: World, server: Server) -> None:
    later = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
    server.then(
        lambda asked: asked.answer(429, Retry_After="7"),
        lambda asked: asked.answer(503, Retry_After=later),
        lambda asked: asked.answer(503, Retry_After="999999"),
    )
    job = called(world, server)
    waits = []
    for _ in range(3):
        (run,) = world.history(job["id"])[-1:]
        waits.append((run["next_run_at"] - run["finished_at"]).total_seconds())
        world.move(waits[-1])
        world.run()
    assert (waits[0], waits[2]) == (7, 24 * 3600)
    assert 85 <= waits[1] <= 90


def test_other_statuses_can_be_the_expected_ones(world: World, server: Server) -> None:
    server.then(404, 200, redirect(302, "/next"))
    assert called(world, server, expected_statuses=[404, 410])["status"] == "completed"
    unexpected = called(world, server, expected_statuses=[404, 410])
    assert (unexpected["status"], unexpected["last_error"]) == ("queued", "TransientError: 127.0.0.1 answered 200")
    assert kept(world, called(world, server, expected_statuses=[200, 302]))["status"] == 302


# What is kept


def test_status_time_and_the_beginning_of_the_answer_are_kept(world: World, server: Server) -> None:
    server.then(lambda asked: asked.answer(200, b"ab\x00\r\n" * 1_000))
    job = called(world, server)
    detail = kept(world, job)
    assert set(detail) == {"status", "duration_ms", "answer"}
    assert (detail["status"], detail["answer"][:9], len(detail["answer"])) == (200, "ab ab ab ", 2_048)
    assert 0 <= detail["duration_ms"] < 2_000


def test_personal_data_in_an_answer_is_not_kept(world: World, server: Server) -> None:
    server.then(lambda asked: asked.answer(422, b'{"error": "kate@example.com has no card 4111111111111111"}'))
    assert kept(world, called(world, server))["answer"] == '{"error": "[email] has no card [card …1111]"}'


@pytest.mark.parametrize("way", [raw_server.hang_up, raw_server.cut, raw_server.nonsense])
def test_broken_answer_is_tried_again_and_its_time_is_kept(world: World, server: Server, way: Any) -> None:
    server.then(way)
    job = called(world, server)
    assert (job["status"], job["attempts"]) == ("queued", 1)
    assert set(kept(world, job)) == {"duration_ms"}


def test_call_ends_before_the_ttr_of_its_job(world: World, server: Server) -> None:
    server.then(raw_server.never)
    job = called(world, server, columns={"ttr_seconds": 1})
    assert (job["status"], job["last_error"]) == (
        "queued",
        "TransientError: 127.0.0.1 did not respond in time (ReadTimeout)",
    )
    assert 500 <= kept(world, job)["duration_ms"] < 5_000


def test_call_ends_at_its_own_timeout(world: World, server: Server) -> None:
    server.then(raw_server.dripping)
    assert 150 <= kept(world, called(world, server, timeout_seconds=0.2))["duration_ms"] < 5_000


@pytest.mark.parametrize("way", [raw_server.never, raw_server.hang_up, 503])
def test_call_that_goes_out_at_most_once_is_an_error_at_once(world: World, server: Server, way: Any) -> None:
    server.then(way)
    job = called(world, server, columns={"semantics": "at_most_once"}, timeout_seconds=0.3)
    assert (job["status"], job["attempts"], job["revive_at"]) == ("error", 1, None)
    world.move(48 * 3600)
    world.run()
    assert len(server.asked) == 1


def test_bomb_and_a_gigabyte_do_no_harm(world: World, server: Server) -> None:
    import gzip

    bomb = gzip.compress(b"b" * 50_000_000)
    server.then(
        lambda asked: asked.answer(200, bomb, Content_Encoding="gzip"),
        lambda asked: asked.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 2147483648\r\n\r\n", *[b"x" * 65_536] * 32_768),
    )
    assert kept(world, called(world, server))["answer"] == "b" * 2_048
    assert kept(world, called(world, server))["answer"] == "x" * 2_048


# Where it may lead


def test_address_inside_is_not_called_and_not_tried_again(make_world: Make, server: Server) -> None:
    world = make_world()
    for url in (server.url, f"http://localhost:{server.port}/", f"http://[::ffff:127.0.0.1]:{server.port}/"):
        job = called(world, server, url=url)
        assert (job["status"], job["attempts"], job["revive_at"]) == ("error", 1, None)
        assert "has a forbidden address (see GIFTCARD_ALLOWED_NETWORKS)" in job["last_error"]
    assert server.asked == []


def test_redirect_inside_is_not_followed_and_not_tried_again(make_world: Make, server: Server) -> None:
    world = make_world(GIFTCARD_ALLOWED_NETWORKS="127.0.0.1")
    server.then(redirect(307, f"http://127.0.0.2:{server.port}/"))
    job = called(world, server)
    assert (job["status"], len(server.asked)) == ("error", 1)


@pytest.mark.parametrize(
    "payload",
    [
        {},
        {"url": "http://0x7f.1/"},
        {"headers": {"Host": "x"}},
        {"url": "http://{{secret:A}}/"},
        {"timeout_seconds": "1"},
    ],
)
def test_job_of_plain_sql_that_is_none_is_an_error_of_its_own(world: World, server: Server, payload: Any) -> None:
    (job_id,) = world.enqueue("http_call", ({"url": server.url} if payload else {}) | payload)
    world.run()
    job = world.job(job_id)
    assert (job["status"], job["last_error"][:24]) == ("error", "PermanentError: payload:")


def test_ten_failures_open_the_circuit_of_their_host_alone(world: World, server: Server) -> None:
    server.answer = lambda asked: asked.answer(200 if asked.headers["host"].startswith("localhost") else 503)
    jobs = [
        {"stage": "http_call", "correlation_id": f"{host}-{n}", "payload": {"url": f"http://{host}:{server.port}/"}}
        for host in ("127.0.0.1", "localhost")
        for n in range(12)
    ]
    response = world.client.post("/api/v1/jobs", json={"jobs": jobs}, headers=bearer(ADMIN))
    assert response.status_code in (200, 201, 202), response.text
    world.run()
    states = {row["circuit"]: row["state"] for row in world.sql("select circuit, state from giftcard_circuits")}
    assert states["http_call:127.0.0.1"] == "open"
    assert states.get("http_call:localhost", "closed") == "closed"
    assert world.value("select count(*) from giftcard_jobs where status = 'completed'") == 12
    assert sum(asked.headers["host"].startswith("127") for asked in server.asked) < 12 + 5

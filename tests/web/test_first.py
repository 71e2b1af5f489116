"""The application of a new process serves all that Flask serves, and as Flask does; a tick needs no Flask."""

import copy
import inspect
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from unittest import mock

import pytest
from flask import Flask
from werkzeug.test import Client, TestResponse

from dev import ROOT
from lib.errors import Misconfigured, Refused, Unavailable
from lib.web.app import create_app
from lib.web.first import FirstApplication, once
from tests.support.world import ADMIN, API, CRON, World, bearer

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
CLOCK, HEALTH = "/api/cron/giftcard-jobs", "/api/health"
Make = Callable[..., World]


def _first(world: World) -> Client:
    return Client(FirstApplication(world.services, lambda: world.app))


def _alone(world: World) -> Client:
    """One that must not need Flask."""
    return Client(FirstApplication(world.services, lambda: pytest.fail("Flask was needed")))


def _addresses(world: World) -> Iterator[str]:
    """Each rule of the API, and what is beside it."""
    for rule in world.app.url_map.iter_rules():
        yield "/".join("7" if part.startswith("<") else part for part in rule.rule.split("/"))
    yield from ("/", "/api", "/api/", "/api/nothing", "/api/health/", "/API/health", "/api//health", "/nothing")


def _shown(answer: TestResponse) -> tuple[int, str, dict[str, str], bytes]:
    headers = dict(answer.headers)
    if "Allow" in headers:
        headers["Allow"] = ", ".join(sorted(headers["Allow"].split(", ")))
    return answer.status_code, answer.status, headers, answer.data


def _both(world: World, path: str, *, method: str = "GET", **request: Any) -> tuple[int, str, dict[str, str], bytes]:
    """The response that both give."""
    of_first, of_flask = (client.open(path, method=method, **request) for client in (_first(world), world.client))
    assert _shown(of_first) == _shown(of_flask), f"{method} {path}"
    return _shown(of_first)


@pytest.mark.parametrize("method", METHODS)
def test_every_address_answers_as_flask_does(world: World, method: str) -> None:
    compared = [_both(world, address, method=method)[0] for address in _addresses(world)]
    assert len(compared) > 60
    assert {401, 404} <= set(compared) or method == "OPTIONS"


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_tick_needs_no_flask_and_answers_as_flask_does(world: World, method: str) -> None:
    report = {"ü": "€", "b": [1.5, None], "a": {"é": True}}
    with mock.patch("lib.tick.report.TickReport.as_json", return_value=report):
        shown = [
            _shown(client.open(CLOCK, method=method, headers=bearer(CRON))) for client in (_alone(world), world.client)
        ]
    assert shown[0] == shown[1]
    assert shown[0][0] == 200
    assert "ü" in shown[0][3].decode()


@pytest.mark.parametrize("execution_id", ["a-1", "x" * 300])
def test_a_call_that_comes_twice_is_one_tick_whichever_serves_it(world: World, execution_id: str) -> None:
    headers = bearer(CRON) | {"X-Vercel-Execution-Id": execution_id}
    duplicates = [client.get(CLOCK, headers=headers).json["duplicate"] for client in (world.client, _alone(world))]
    assert duplicates == [False, True]


def test_a_wake_is_recorded_as_one(world: World) -> None:
    assert _alone(world).get(CLOCK, headers=bearer(CRON) | {"X-Giftcard-Wake": "1"}).status_code == 200
    assert world.value("select source from public.giftcard_ticks") == "wake"


REFUSED = ({}, bearer("wrong"), bearer(ADMIN), bearer(API), {"Authorization": f"Basic {CRON}"})


@pytest.mark.parametrize("headers", REFUSED)
def test_another_token_is_refused_as_by_flask(world: World, headers: dict[str, str]) -> None:
    assert _both(world, CLOCK, headers=headers)[0] in (401, 403)


def test_without_a_secret_of_the_clock_no_token_is_taken(make_world: Make) -> None:
    world = make_world(CRON_SECRET=None)
    for headers in ({}, bearer(""), bearer("None"), bearer(CRON)):
        assert _both(world, CLOCK, headers=headers)[0] == 503


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("the database cannot be reached", undone=True),
        Unavailable("it is read-only", sqlstate="25006"),
        Misconfigured("the schema is too old", sqlstate="GC426"),
        Refused("it is refused", sqlstate="GC400"),
        RuntimeError("a mistake in our code"),
    ],
    ids=lambda error: str(error)[:20],
)
def test_a_tick_that_fails_has_the_problem_that_flask_has(world: World, error: Exception) -> None:
    with mock.patch("lib.web.clock.run_tick", side_effect=error):
        status, *_, body = _both(world, CLOCK, headers=bearer(CRON))
    assert status in (400, 500, 503)
    assert b'"title"' in body


def test_a_preview_that_runs_no_ticks_says_so(make_world: Make) -> None:
    status, *_, body = _both(make_world(VERCEL_ENV="preview", GIFTCARD_ENV="test"), CLOCK, headers=bearer(CRON))
    assert (status, b"GIFTCARD_ALLOW_PREVIEW" in body) == (403, True)


@pytest.mark.parametrize("error", [Unavailable("gone"), Unavailable("read-only", sqlstate="25006")])
def test_health_is_as_flask_shows_it(world: World, error: Exception) -> None:
    assert _alone(world).get(HEALTH).json == {"status": "up"}
    assert _both(world, HEALTH)[0] == 200
    with mock.patch.object(type(world.store), "check_health", side_effect=error):
        assert _both(world, HEALTH)[0] == 503


@pytest.mark.parametrize("raw", ["/api/cron%2Fgiftcard-jobs", "/api/he%61lth", "/api/v1/giftcards/a%3Ab"])
def test_on_the_platform_an_encoded_address_is_the_same_address(make_world: Make, raw: str) -> None:
    world = make_world(VERCEL_ENV="production")
    _both(world, "/", headers=bearer(API), environ_overrides={"PATH_INFO": raw})


def test_requests_that_come_at_once_build_flask_once(world: World) -> None:
    built: list[Flask] = []
    together = threading.Barrier(8)

    def create() -> Flask:
        built.append(create_app(world.services))
        return built[-1]

    app = FirstApplication(world.services, once(create))

    def ask(_: int) -> int:
        together.wait()
        return Client(app).get("/api/v1/giftcards/none", headers=bearer(API)).status_code

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == [404] * 8
    assert len(built) == 1


def test_a_server_that_looks_at_the_application_needs_no_flask(world: World) -> None:
    """As Vercel's runtime does before the first request (`vercel_runtime.resolver.detect_app_type`)."""
    app = FirstApplication(world.services, lambda: pytest.fail("Flask was needed"))
    assert getattr(app, "asgi", None) is None
    assert not inspect.iscoroutinefunction(app)
    assert not inspect.iscoroutinefunction(app.__call__)
    assert len(inspect.signature(app).parameters) == 2
    assert callable(copy.copy(app))
    with pytest.raises(AttributeError, match="create_app"):
        app.lifespan  # noqa: B018


def test_what_tests_ask_an_application_for_is_that_of_flask(world: World) -> None:
    app = FirstApplication(world.services, lambda: world.app)
    assert app.config is world.app.config
    assert app.test_client().get(HEALTH).json == {"status": "up"}


def test_what_could_not_be_made_is_made_again() -> None:
    make = once(mock.Mock(side_effect=[OSError("too many open files"), 7]))
    with pytest.raises(OSError, match="too many"):
        make()
    assert (make(), make()) == (7, 7)


@pytest.mark.parametrize("command", [["routes"], ["jobs", "--version"]])
def test_flask_finds_all_routes_and_commands(command: list[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "flask", "--app", "api.index", *command],
        cwd=ROOT,
        env={"PATH": "/usr/bin", "GIFTCARD_ENV": "test"},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    assert ("orders.submit" in ended.stdout and "health.deep" in ended.stdout) or "code version" in ended.stdout

"""The application of a cold start serves all that the whole one does, and as the whole one does."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from lib.web import app as whole_app
from lib.web.first import create_first_app
from tests.support.world import ADMIN, API, CRON, World, bearer

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")


@pytest.fixture
def first(world: World) -> FlaskClient:
    return create_first_app(world.services).test_client()


def _addresses(world: World) -> Iterator[str]:
    """Each rule of the API, and what is beside it."""
    for rule in world.app.url_map.iter_rules():
        address = rule.rule.replace("<int:", "<").replace("<path:", "<")
        yield "/".join("7" if part.startswith("<") else part for part in address.split("/"))
    yield from ("/", "/api", "/api/", "/api/nothing", "/api/health/", "/API/health", "/api//health", "/nothing")


def _shown(answer: TestResponse) -> tuple[int, dict[str, str], bytes]:
    headers = {name: value for name, value in answer.headers if name != "Set-Cookie"}
    if "Allow" in headers:
        headers["Allow"] = ", ".join(sorted(headers["Allow"].split(", ")))
    return answer.status_code, headers, answer.data


@pytest.mark.parametrize("method", METHODS)
def test_every_address_answers_as_that_of_the_whole_application(world: World, first: FlaskClient, method: str) -> None:
    compared = 0
    for address in _addresses(world):
        answers = [client.open(address, method=method) for client in (first, world.client)]
        assert _shown(answers[0]) == _shown(answers[1]), f"{method} {address}"
        compared += 1
    assert compared > 60


def test_a_tick_builds_nothing_else(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_app, "create_app", lambda services: pytest.fail("it was built"))
    first = create_first_app(world.services).test_client()
    assert first.get("/api/cron/giftcard-jobs", headers=bearer(CRON)).status_code == 200
    assert first.post("/api/jobs/run", headers=bearer(ADMIN)).status_code == 200
    assert first.get("/api/health").status_code == 200
    assert first.delete("/api/health").status_code == 405


def test_requests_that_come_at_once_build_it_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[object] = []
    together, create = threading.Barrier(8), whole_app.create_app

    def counted(services: object) -> object:
        built.append(services)
        return create(services)  # type: ignore[arg-type]

    monkeypatch.setattr(whole_app, "create_app", counted)
    app = create_first_app(world.services)

    def ask(_: int) -> int:
        client = app.test_client()
        together.wait()
        return client.get("/api/v1/giftcards/none", headers=bearer(API)).status_code

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == [404] * 8
    assert len(built) == 1


def test_a_build_that_fails_is_tried_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    create, fails = whole_app.create_app, iter([True])

    def broken_once(services: object) -> object:
        if next(fails, False):
            raise OSError("too many open files")
        return create(services)  # type: ignore[arg-type]

    monkeypatch.setattr(whole_app, "create_app", broken_once)
    client = create_first_app(world.services).test_client()
    with pytest.raises(OSError, match="too many"):
        client.get("/api/v1/giftcards/none", headers=bearer(API))
    assert client.get("/api/v1/giftcards/none", headers=bearer(API)).status_code == 404


Make = Callable[..., World]


@pytest.mark.parametrize("raw", ["/api/cron%2Fgiftcard-jobs", "/api/he%61lth", "/api/v1/giftcards/a%3Ab"])
def test_on_the_platform_an_encoded_address_is_the_same_address(make_world: Make, raw: str) -> None:
    world = make_world(VERCEL_ENV="production")
    first = create_first_app(world.services).test_client()
    raw_path = {"PATH_INFO": raw}
    answers = [client.get("/", headers=bearer(CRON), environ_overrides=raw_path) for client in (first, world.client)]
    assert answers[0].status_code == answers[1].status_code
    assert answers[0].is_json

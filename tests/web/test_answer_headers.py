"""The headers that every response has, and the one spelling of an address."""

from collections.abc import Callable

import pytest

from tests.support.world import ADMIN, API, World, bearer

Make = Callable[..., World]

REQUESTS = [
    ("GET", "/api/health", 200),
    ("GET", "/api/status", 200),
    ("GET", "/api/v1/giftcards/none", 404),
    ("GET", "/api/nothing", 404),
    ("DELETE", "/api/status", 405),
    ("POST", "/api/docs", 405),
    ("POST", "/api/v1/jobs", 422),
]


@pytest.mark.parametrize(("method", "path", "status"), REQUESTS)
def test_no_response_is_stored_and_none_has_its_type_guessed(world: World, method: str, path: str, status: int) -> None:
    response = world.client.open(path, method=method, headers=bearer(ADMIN), json={} if method == "POST" else None)
    assert response.status_code == status
    assert response.headers.getlist("Cache-Control") == ["no-store"]
    assert response.headers.getlist("X-Content-Type-Options") == ["nosniff"]


def test_so_do_responses_without_a_token_and_without_a_database(make_world: Make) -> None:
    away = make_world(DATABASE_URL="postgresql://kate@127.0.0.1:1/x")
    for path, headers, status in (
        ("/api/status", {}, 401),
        ("/api/health", {}, 503),
        ("/api/status", bearer(ADMIN), 503),
    ):
        response = away.client.get(path, headers=headers)
        assert (response.status_code, response.headers["Cache-Control"]) == (status, "no-store")
        assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_so_does_a_failure_of_ours(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise RuntimeError

    monkeypatch.setattr(world.store, "check_health", fails)
    response = world.client.get("/api/health")
    assert (response.status_code, response.headers["Cache-Control"]) == (500, "no-store")
    assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/api/docs", "/api/openapi.json"])
def test_the_reference_may_be_stored(world: World, path: str) -> None:
    response = world.client.get(path)
    assert (response.status_code, response.headers.get("Cache-Control")) == (200, None)
    assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/api//status", "/api/v1//giftcards/a", "/api/v1/giftcards//a"])
def test_an_address_with_two_slashes_is_another_one(world: World, path: str) -> None:
    """A redirect would lose the token, or the body of an order."""
    response = world.client.get("/", headers=bearer(API), environ_overrides={"PATH_INFO": path})
    assert (response.status_code, response.content_type) == (404, "application/problem+json")
    assert "Location" not in response.headers

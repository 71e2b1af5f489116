"""A name in a path is found however the server hands the path over."""

from collections.abc import Callable

import pytest

from tests.support.world import API, World, bearer

Make = Callable[..., World]


def _asked_for(world: World, raw: str) -> tuple[int, str | None]:
    """As Vercel's runtime hands it over: PATH_INFO as it stands in the request line."""
    answer = world.client.get("/", headers=bearer(API), environ_overrides={"PATH_INFO": f"/api/v1/giftcards/{raw}"})
    return answer.status_code, (answer.json or {}).get("correlation_id")


@pytest.mark.parametrize("vercel_env", ["production", "preview"])
@pytest.mark.parametrize(("name", "raw"), [("a:b", "a%3Ab"), ("ü", "%C3%BC"), ("a%41", "a%2541"), ("a+b", "a+b")])
def test_on_vercel_paths_are_decoded_here(make_world: Make, vercel_env: str, name: str, raw: str) -> None:
    world = make_world(VERCEL_ENV=vercel_env)
    world.enqueue("email", correlation_id=name)
    assert _asked_for(world, raw) == (200, name)


def test_a_path_that_is_no_text_is_not_found(make_world: Make) -> None:
    assert _asked_for(make_world(VERCEL_ENV="production"), "%FF")[0] == 404


@pytest.mark.parametrize("vercel_env", [None, "development"])
def test_elsewhere_the_server_has_decoded_them(make_world: Make, vercel_env: str | None) -> None:
    world = make_world(VERCEL_ENV=vercel_env)
    world.enqueue("email", correlation_id="a%41")
    assert _asked_for(world, "a%41") == (200, "a%41")

"""Worlds whose orders have a page."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.world import World

PUBLIC_URL = "https://cards.example.com"


@pytest.fixture
def make_shop(make_world: Callable[..., World]) -> Callable[..., World]:
    """Makes worlds whose orders have a page."""
    return lambda **environ: make_world(**({"GIFTCARD_PUBLIC_URL": PUBLIC_URL} | environ))


@pytest.fixture
def shop(make_shop: Callable[..., World]) -> World:
    return make_shop()


@pytest.fixture
def visit() -> Callable[..., Any]:
    """Opens a link, or a token, as a browser does."""

    def get(world: World, link: str, **options: Any) -> Any:
        path = link.removeprefix(PUBLIC_URL) if link.startswith(PUBLIC_URL) else f"/o/{link}"
        return world.client.get(path, **options)

    return get

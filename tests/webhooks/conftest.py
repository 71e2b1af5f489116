"""Worlds for the tests of this folder, and a receiver that knows us by our signature."""

from collections.abc import Callable, Iterator

import pytest

from tests.support.receiver import Receiver, a_receiver
from tests.support.world import World


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with a_receiver() as receiver:
        yield receiver


@pytest.fixture
def telling(make_world: Callable[..., World], receiver: Receiver) -> World:
    """A world that may call this machine, and starts as much as there is in one tick."""
    return make_world(GIFTCARD_ALLOWED_NETWORKS="127.0.0.0/8", GIFTCARD_JOBS_PER_CRON_RUN=200)

"""Receivers of alerts."""

from collections.abc import Iterator

import pytest

from lib.monitoring import alerts
from tests.support.alerts import Postbox
from tests.support.raw_server import Server, a_server


@pytest.fixture
def postbox() -> Iterator[Postbox]:
    server = Postbox()
    server.up()
    yield server
    server.down()


@pytest.fixture
def receiver() -> Iterator[Server]:
    with a_server() as server:
        yield server


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of the alerts takes at most 2 s, not 10."""
    monkeypatch.setattr(alerts, "_TIMEOUT", 2.0)
    monkeypatch.setattr(alerts, "_EARLIER", 0.2)

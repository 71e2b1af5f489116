"""Fixtures of every test: an application over a database of its own, and its log."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from unittest import mock

import pytest

from lib.telemetry import events
from tests.support.servers import Vendor, a_vendor
from tests.support.world import World, a_world


@pytest.fixture
def make_world(database_url: str, tmp_path: Any) -> Iterator[Callable[..., World]]:
    """Makes worlds over this test's database; mails become files of this test."""
    with ExitStack() as made:
        yield lambda **options: made.enter_context(
            a_world(database_url, **({"GIFTCARD_MAIL_DIR": tmp_path / "mails"} | options))
        )


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    """The application as it comes."""
    return make_world()


@pytest.fixture
def payments() -> Iterator[Vendor]:
    """A payment service over HTTP."""
    with a_vendor() as vendor:
        yield vendor


@pytest.fixture
def cards() -> Iterator[Vendor]:
    """A card service over HTTP."""
    with a_vendor(makes_cards=True) as vendor:
        yield vendor


@pytest.fixture
def log() -> Iterator[Callable[[], list[dict[str, Any]]]]:
    """Reads what was logged so far, as production writes it: one object a line."""
    logger = logging.getLogger("giftcards")
    before = logger.handlers, logger.level, logger.propagate
    with mock.patch("sys.stderr", io.StringIO()) as stream:
        events.configure(readable=False)
    lines: list[dict[str, Any]] = []

    def read() -> list[dict[str, Any]]:
        lines.extend(map(json.loads, stream.getvalue().splitlines()[len(lines) :]))
        return lines.copy()

    yield read
    logger.handlers, logger.level, logger.propagate = before

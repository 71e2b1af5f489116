"""A database with a clock that stands still until a test moves it."""

from typing import Any

import psycopg
import pytest

from tests.factory import World


@pytest.fixture
def world(connection: psycopg.Connection[Any]) -> World:
    return World(connection)

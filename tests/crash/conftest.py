"""A house with workers, vendors and orders, for each test that asks for one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.crash.house import House
from tests.crash.shop import Shop


@pytest.fixture
def house(database_url: str, tmp_path: Path) -> Iterator[House]:
    """Workers over this test's database."""
    house = House(database_url, tmp_path)
    yield house
    house.close()


@pytest.fixture
def shop(house: House) -> Iterator[Shop]:
    """Orders, whose money and cards an HTTP vendor takes and makes, and whose mails a real SMTP server gets."""
    shop = Shop(house)
    yield shop
    shop.close()

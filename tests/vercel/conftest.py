"""One build for all tests here, and instances of it over each test's database."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from tests.support.world import ADMIN, API, CRON, ENCRYPTION_KEY, LOOKUP_KEY
from tests.vercel.building import Built, build, copy_the_tree, write_bare_application
from tests.vercel.serving import Function
from tests.vercel.tools import Missing, Tools, tools

# Stands where developers have secrets lying about: it must be nowhere in what is deployed.
SECRET_OF_A_DEVELOPER = "a-secret-that-lies-about"
_LYING_ABOUT = (
    ".env",
    ".env.local",
    ".env.production",
    ".local/secrets.json",
    "data/orders-of-may.csv",
    "sql/mine.sql",
)

Serve = Callable[..., Function]


@pytest.fixture(scope="session")
def needed() -> Tools:
    """What a build needs. A machine without it skips these tests; CI only where its packages do not have it."""
    try:
        return tools()
    except Missing as error:
        if os.environ.get("CI") and error.can_be_had:
            pytest.fail(str(error))
        pytest.skip(str(error))


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One process of this session at a time: the workers of xdist share what the first of them builds."""
    with Path(f"{folder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def build_once(needed: Tools, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Built]:
    """Builds what a function writes into a folder, once a session."""
    base = tmp_path_factory.getbasetemp()
    base = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base

    def once(write: Callable[[Path], None]) -> Built:
        folder = base / write.__name__.strip("_")
        with _alone(folder):
            said = folder / ".vercel/said"
            if not said.exists():
                folder.mkdir()
                write(folder)
                said.write_text(build(folder, tools=needed))
        return Built(folder)

    return once


def _deployment(folder: Path) -> None:
    """The tree as it is now, on a developer's machine."""
    copy_the_tree(folder)
    for name in _LYING_ABOUT:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"CRON_SECRET={SECRET_OF_A_DEVELOPER}\n")


@pytest.fixture(scope="session")
def built(build_once: Callable[..., Built]) -> Built:
    """The application, built."""
    return build_once(_deployment)


@pytest.fixture(scope="session")
def bare(build_once: Callable[..., Built]) -> Built:
    """An application of Flask and httpx alone, built the same way."""
    return build_once(write_bare_application)


@pytest.fixture
def serve(built: Built, needed: Tools, database_url: str) -> Iterator[Serve]:
    """Starts instances over this test's database; `serve(SMTP_URL=…)` sets variables."""
    environment = {
        "DATABASE_URL": database_url,
        "CRON_SECRET": CRON,
        "GIFTCARD_ADMIN_TOKEN": ADMIN,
        "GIFTCARD_API_TOKEN": API,
        "GIFTCARD_ENCRYPTION_KEYS": ENCRYPTION_KEY,
        "GIFTCARD_LOOKUP_KEY": LOOKUP_KEY,
        "GIFTCARD_TICK_LINGER": "0",
    }
    with ExitStack() as running:
        yield lambda **more: running.enter_context(
            closing(Function(built, environment | more, python=needed.python_folder))
        )

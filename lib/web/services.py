"""What requests are served with."""

from collections.abc import Callable
from dataclasses import dataclass, field

from flask import Flask

from lib.config.settings import Settings
from lib.jobs.stage import Registry
from lib.operations import Operations
from lib.store.store import Store
from lib.tick.shutdown import Shutdown


@dataclass(frozen=True, slots=True)
class Giftcards:
    """What requests need. `registry` is a function: stages are imported by the first request that needs them."""

    settings: Settings
    store: Store
    registry: Callable[[], Registry]
    shutdown: Shutdown = field(default_factory=Shutdown)


def giftcards(app: Flask) -> Giftcards:
    """The parts of this application."""
    parts: Giftcards = app.extensions["giftcards"]
    return parts


def operations(app: Flask, *, by: str = "admin token") -> Operations:
    """What operators do, over this application's store."""
    parts = giftcards(app)
    return Operations(parts.store, parts.registry, parts.settings, by=by)

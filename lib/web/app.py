"""Puts the web application together."""

from collections.abc import Callable
from dataclasses import dataclass, field

from flask import Flask

from lib.operations import Operations
from lib.settings import Settings
from lib.shutdown import Shutdown
from lib.stages import Registry
from lib.store.store import Store

# A body longer than this is refused before it is read.
MAX_BODY_BYTES = 256 * 1024


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


def create_app(parts: Giftcards) -> Flask:
    """The Flask application over these parts."""
    from lib.web import cron, giftcards, health, jobs, problems

    app = Flask("giftcards", static_folder=None)
    app.config["MAX_CONTENT_LENGTH"] = MAX_BODY_BYTES
    app.extensions["giftcards"] = parts
    problems.register(app)
    for module in (cron, giftcards, health, jobs):
        app.register_blueprint(module.blueprint)
    return app

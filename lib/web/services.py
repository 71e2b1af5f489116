"""The services that requests use: settings, store, stages."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lib.caller import Caller
from lib.config.settings import Settings
from lib.errors import SettingsError
from lib.jobs.registry import Registry
from lib.store.store import Store
from lib.tick.shutdown import Shutdown

if TYPE_CHECKING:  # imported when used: a tick needs none of them
    from flask import Flask

    from lib.giftcards.decisions import Decisions
    from lib.giftcards.stories import Stories
    from lib.jobs.batches import Batches
    from lib.operations import Operations


@dataclass(frozen=True, slots=True)
class Services:
    """What requests need. `registry` is a function: stages are imported by the first request that needs them."""

    settings: Settings
    store: Store
    registry: Callable[[], Registry]
    shutdown: Shutdown = field(default_factory=Shutdown)


def services(app: "Flask") -> Services:
    """Return the services of an application. Raise SettingsError if it has none because a setting is invalid."""
    found: Services | SettingsError = app.extensions["services"]
    if isinstance(found, SettingsError):
        raise found
    return found


def decisions(app: "Flask", *, caller: Caller) -> "Decisions":
    """Return the decisions about an application's orders."""
    from lib.giftcards.decisions import Decisions

    own = services(app)
    return Decisions(own.store, own.registry, own.settings, caller=caller)


def stories(app: "Flask", *, caller: Caller) -> "Stories":
    """Return an application's orders, for reading."""
    from lib.giftcards.stories import Stories

    own = services(app)
    return Stories(own.store, own.registry, own.settings, caller=caller)


def operations(app: "Flask", *, caller: Caller) -> "Operations":
    """Return the operators' verbs over an application's store."""
    from lib.operations import Operations

    own = services(app)
    return Operations(own.store, own.registry, own.settings, caller=caller)


def batches(app: "Flask", *, caller: Caller) -> "Batches":
    """Return the batches of an application's store."""
    from lib.jobs.batches import Batches

    own = services(app)
    return Batches(own.store, own.registry, own.settings, caller=caller)

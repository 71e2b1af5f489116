"""The stages of gift cards: one file a kind of work, each a handler under `@stage(...)`."""

import importlib
import pkgutil

from lib.jobs.stage import Registry, Stage


def load() -> Registry:
    """Return every stage in this folder. Heavy libraries are imported by handlers when they run, not here."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        for value in vars(importlib.import_module(f"{__name__}.{module.name}")).values():
            if isinstance(value, Stage):
                found[value.name] = value
    return Registry(found)

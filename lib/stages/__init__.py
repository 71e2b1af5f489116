"""The stages of gift cards: one file per stage, each a handler under `@stage(...)`."""

import importlib
import pkgutil

from lib.jobs.stage import Registry, Stage


def load() -> Registry:
    """Return all stages in this folder. Handlers import heavy libraries when they run, not when they are loaded."""
    found = {}
    for module in pkgutil.iter_modules(__path__):
        for value in vars(importlib.import_module(f"{__name__}.{module.name}")).values():
            if isinstance(value, Stage):
                found[value.name] = value
    return Registry(found)

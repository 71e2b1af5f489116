"""The entrypoint: settings from the environment, the store, and the Flask `app` with the commands of `flask jobs`."""

import gc

# Imports make half a million objects that stay: to search them for garbage again and again takes a tenth of the start.
gc.disable()

import functools  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402

from flask import Flask  # noqa: E402

from lib import stages  # noqa: E402
from lib.cli import jobs  # noqa: E402
from lib.config.dev_env import forget_other_database  # noqa: E402
from lib.config.load import load  # noqa: E402
from lib.errors import SettingsError  # noqa: E402
from lib.store.connect import connect  # noqa: E402
from lib.telemetry import events  # noqa: E402
from lib.web.services import Services  # noqa: E402


def _application() -> Flask:
    """Return the application. Raise SettingsError if a setting is invalid."""
    forget_other_database()
    settings = load()
    if settings.sentry_dsn:
        from lib.telemetry import sentry

        sentry.configure(settings)
    store, registry = connect(settings), functools.cache(lambda: stages.load(settings))
    if settings.giftcard_inline:
        from lib.tick.inline import InlineStore

        store = InlineStore.over(store, registry, settings)
    elif settings.giftcard_wake == "url":
        from lib.tick.waking import WakingStore

        store = WakingStore.over(store, settings)
    services = Services(settings, store, registry)
    services.shutdown.on_sigterm()
    if os.environ.get("FLASK_RUN_FROM_CLI"):  # `flask routes` lists all
        from lib.web.app import create_app

        return create_app(services)
    from lib.web.first import create_first_app

    return create_first_app(services)


def _application_or_error() -> Flask:
    """Return the application, or one that answers everything with the invalid setting."""
    try:
        return _application()
    except SettingsError as error:
        from lib.web.invalid import create_invalid_app

        return create_invalid_app(error)


events.configure(readable=sys.stderr.isatty())
app = _application_or_error()  # on the top level, where the platform looks for it
app.cli.add_command(jobs)
gc.freeze()  # what exists now stays: collections pass over it
gc.enable()

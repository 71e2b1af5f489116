"""The entrypoint: settings from the environment, the store, and the Flask `app` with the commands of `flask jobs`."""

import functools
import sys

from flask import Flask

from lib import stages
from lib.cli import jobs
from lib.config.dev_env import forget_other_database
from lib.config.load import load
from lib.errors import SettingsError
from lib.store.connect import connect
from lib.telemetry import events
from lib.web.app import create_app
from lib.web.services import Services


def _application() -> Flask:
    """Return the application. Raise SettingsError if a setting is invalid."""
    forget_other_database()
    settings = load()
    events.set_level(settings.giftcard_log_level)
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
    return create_app(services)


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

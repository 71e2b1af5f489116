"""The entrypoint: settings from the environment, the store, and `app`, which serves requests.

`create_app` returns the Flask application with the commands of `flask jobs`: `flask` finds it by this name.
"""

import gc

# Imports make 200,000 objects that stay. Looking for garbage among them takes a tenth of a start.
gc.disable()

import functools  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402
from typing import TYPE_CHECKING, Any  # noqa: E402

# Pydantic would read the metadata of all packages for plugins; none that is installed has any.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "1")

from lib import stages  # noqa: E402
from lib.config.dev_env import forget_other_database  # noqa: E402
from lib.config.load import load  # noqa: E402
from lib.errors import SettingsError  # noqa: E402
from lib.store.connect import connect  # noqa: E402
from lib.telemetry import events  # noqa: E402
from lib.web.first import FirstApplication, once  # noqa: E402
from lib.web.services import Services  # noqa: E402

if TYPE_CHECKING:
    from flask import Flask


def _services() -> Services:
    """Return the services. Raise SettingsError if a setting is invalid."""
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
    return services


def _services_or_error() -> Services | SettingsError:
    try:
        return _services()
    except SettingsError as error:
        return error


def _flask() -> "Flask":
    """Return the Flask application; with an invalid setting, it answers everything with that."""
    from lib.cli import jobs
    from lib.web.app import create_app
    from lib.web.invalid import create_invalid_app

    made = create_invalid_app(services) if isinstance(services, SettingsError) else create_app(services)
    made.cli.add_command(jobs)
    return made


def _application() -> Any:
    """Return the WSGI application. Sentry and inline mode are about requests as Flask handles them."""
    if isinstance(services, SettingsError) or services.settings.sentry_dsn or services.settings.giftcard_inline:
        return create_app()
    return FirstApplication(services, create_app)


events.configure(readable=sys.stderr.isatty())
services = _services_or_error()
create_app = once(_flask)
app = _application()  # on the top level, where the platform looks for it
gc.freeze()  # what exists now stays: collections pass over it
gc.enable()

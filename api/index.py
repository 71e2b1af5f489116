"""The entrypoint: settings from the environment, the store, and the Flask `app` with the commands of `flask jobs`."""

import functools
import sys

from lib import stages
from lib.cli import jobs
from lib.config.load import load
from lib.errors import SettingsError
from lib.store.connect import connect
from lib.telemetry import events
from lib.web.app import create_app
from lib.web.services import Services

try:
    _settings = load()
except SettingsError as error:
    raise SystemExit(f"Invalid settings: {error}") from None

events.configure(readable=sys.stderr.isatty())
if _settings.sentry_dsn:
    from lib.telemetry import sentry

    sentry.configure(_settings)
_store, _registry = connect(_settings), functools.cache(lambda: stages.load(_settings))
if _settings.giftcard_inline:
    from lib.tick.inline import InlineStore

    _store = InlineStore.over(_store, _registry, _settings)
_services = Services(_settings, _store, _registry)
_services.shutdown.on_sigterm()
app = create_app(_services)
app.cli.add_command(jobs)

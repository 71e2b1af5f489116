"""The entrypoint: environment → Settings → Store → Flask `app`. Vercel serves it, `flask jobs` runs its commands."""

import functools
import sys

from lib import events, settings, stages
from lib.cli import jobs
from lib.store.connect import connect
from lib.web.app import Giftcards, create_app

try:
    _settings = settings.load()
except settings.SettingsError as error:
    raise SystemExit(f"The settings are wrong. {error}") from None

events.configure(readable=sys.stderr.isatty())
_parts = Giftcards(_settings, connect(_settings), functools.cache(stages.load))
_parts.shutdown.on_sigterm()
app = create_app(_parts)
app.cli.add_command(jobs)

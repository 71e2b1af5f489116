"""The entrypoint: environment → Settings → Store → Flask `app`. Vercel serves it, `flask jobs` runs its commands."""

import functools
import signal
import sys
import threading
from types import FrameType
from typing import Any

from lib import events, settings, stages
from lib.cli import jobs
from lib.store.connect import connect
from lib.web.app import Giftcards, create_app

_settings = settings.load()
events.configure(readable=not _settings.is_production and sys.stderr.isatty())
_parts = Giftcards(_settings, connect(_settings), functools.cache(stages.load))
app = create_app(_parts)
app.cli.add_command(jobs)

if threading.current_thread() is threading.main_thread():
    _before: Any = signal.getsignal(signal.SIGTERM)

    def _on_sigterm(number: int, frame: FrameType | None) -> None:
        # The platform kills us soon: ticks claim no more and release what has not begun. Then our predecessor.
        _parts.stop.set()
        if callable(_before):
            _before(number, frame)

    signal.signal(signal.SIGTERM, _on_sigterm)

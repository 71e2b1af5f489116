"""What a call of the clock does, and health: without Flask, which the first tick of a new process would wait for."""

import hashlib
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from lib.config.settings import MARGIN_SECONDS
from lib.errors import StoreError
from lib.telemetry import sentry
from lib.tick.tick import run_tick
from lib.web.services import Services

CRON_PATH = "/api/cron/giftcard-jobs"
HEALTH_PATH = "/api/health"
# Characters: an index of Postgres holds no long ones.
_LONGEST_EXECUTION_ID = 200
# By SQLSTATE, of a database that can be reached.
_STATUSES = {"25006": "read_only", "57P03": "in_recovery", "53100": "disk_full"}


def tick(own: Services, **options: Any) -> dict[str, Any]:
    """Run a tick with these options of `run_tick`, and return its report. Raises what `run_tick` raises."""
    settings = own.settings
    longest = settings.giftcard_tick_budget_seconds + own.registry().longest(settings) + MARGIN_SECONDS
    is_watched = options["source"] == "cron" and settings.runs_ticks
    watched = sentry.checked_in(settings, longest=longest) if is_watched else nullcontext()
    with watched, own.shutdown.tick() as stop:
        report = run_tick(own.store, own.registry(), settings, stop=stop, **options)
        return report.with_advice(limited=options.get("limit") is not None)


def tick_of_clock(own: Services, environ: Mapping[str, Any]) -> dict[str, Any]:
    """Run the tick that a scheduler asks for. `environ`: the request, as WSGI has it. Raises what `run_tick` raises."""
    execution_id = _header(environ, own.settings.giftcard_execution_id_header)
    if len(execution_id) > _LONGEST_EXECUTION_ID:
        execution_id = hashlib.sha256(execution_id.encode()).hexdigest()
    source = "wake" if _header(environ, "X-Giftcard-Wake") else "cron"
    return tick(own, source=source, execution_id=execution_id or None)


def state(own: Services) -> tuple[dict[str, Any], int]:
    """Return whether the database is reachable and accepts writes, the names of broken stages, and the HTTP status."""
    try:
        own.store.check_health()
    except StoreError as error:
        return {"status": _STATUSES.get(error.sqlstate or "", "down")}, 503
    broken = list(own.registry().broken)
    return {"status": "up"} | ({"broken_stages": broken} if broken else {}), 200


def bearer_token(environ: Mapping[str, Any]) -> bytes:
    """Return the token of a request, empty if it has none."""
    scheme, _, token = _header(environ, "Authorization").partition(" ")
    # WSGI hands a header's bytes over as Latin-1.
    return token.encode("latin-1", "backslashreplace") if scheme.lower() == "bearer" else b""


def _header(environ: Mapping[str, Any], name: str) -> str:
    key = name.upper().replace("-", "_")
    return str(environ.get(key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}", ""))

"""The doctor's checks, the worst first, each with its fix; and the alerts that hold."""

from typing import Any

from flask import Blueprint, current_app
from flask.typing import ResponseReturnValue

from lib.errors import StoreError
from lib.monitoring import alert_texts
from lib.telemetry.redact import clean
from lib.web import auth
from lib.web.page import render, session
from lib.web.services import operations, services

blueprint = Blueprint("doctor", __name__, url_prefix="/doctor")

_LEVELS = ("red", "yellow", "green")


@blueprint.get("")
@session.view("admin")
def index() -> ResponseReturnValue:
    """Return the checks and the alerts."""
    return _page(probe=False)


@blueprint.post("")
@session.view("admin")
def probe() -> ResponseReturnValue:
    """Return the same after the mail server was tried, which takes up to 5 seconds."""
    return _page(probe=True)


def _page(*, probe: bool) -> ResponseReturnValue:
    checks = operations(current_app, caller=auth.caller()).doctor(probe=probe)["checks"]
    levels = {level: [check for check in checks if check["level"] == level] for level in _LEVELS}
    return render.page("doctor.html", levels=levels, alerts=_alerts(), probed=probe)


def _alerts() -> list[dict[str, Any]] | None:
    """Return the alerts that hold, each with its text. None: the database does not answer."""
    own = services(current_app)
    try:
        rows = own.store.active_alerts()
    except StoreError:
        return None
    secrets = own.settings.secrets()
    return [
        row | {"text": clean(alert_texts.text(row | {"kind": "raised"}), secrets=secrets, limit=1_000)} for row in rows
    ]

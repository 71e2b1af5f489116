"""For machines that watch: numbers for Prometheus, and whether somebody should be woken."""

from typing import Any

from flask import Blueprint, Response, current_app

from lib.web import auth
from lib.web.services import giftcards

blueprint = Blueprint("watch", __name__)


@blueprint.get("/api/metrics")
@auth.metrics
def metrics() -> Response:
    """Return metrics in the Prometheus text format."""
    from lib.monitoring.metrics import CONTENT_TYPE, exposition

    parts = giftcards(current_app)
    return Response(exposition(parts.store, parts.registry(), parts.settings), content_type=CONTENT_TYPE)


@blueprint.get("/api/health/deep")
@auth.metrics
def deep() -> tuple[dict[str, Any], int]:
    """Return the alert conditions that hold, with 503 if there are any.

    Also sends notifications that are due, so that alerts work when no ticks run.
    """
    from lib.monitoring.alerts import tell

    parts = giftcards(current_app)
    told = tell(parts.store, parts.registry(), parts.settings)
    alerts = parts.store.active_alerts()
    return {"status": "troubled" if alerts else "well", "alerts": alerts, "told": told}, 503 if alerts else 200

"""Metrics for Prometheus."""

from flask import Blueprint, Response, current_app

from lib.web import auth
from lib.web.services import services

blueprint = Blueprint("metrics", __name__)


@blueprint.get("/api/metrics")
@auth.scope("metrics", all_tenants=True)
def metrics() -> Response:
    """Return metrics in the Prometheus text format."""
    from lib.monitoring.metrics import CONTENT_TYPE, exposition

    own = services(current_app)
    return Response(exposition(own.store, own.registry(), own.settings), content_type=CONTENT_TYPE)

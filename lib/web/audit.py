"""The audit: what operators did."""

from typing import Any

from flask import Blueprint, current_app

from lib.jobs.audit import AuditPage
from lib.web import auth
from lib.web.request_data import read_query
from lib.web.services import services

blueprint = Blueprint("audit", __name__, url_prefix="/api/v1/audit")


@blueprint.get("")
@auth.scope("admin")
def list_audit() -> dict[str, Any]:
    """Return a page of the acts of operators, newest first.

    Each act has who, when, what and on which subject, without personal data.
    """
    (page,) = read_query(AuditPage)
    tenant_id = auth.caller().only(page.tenant_id)
    return services(current_app).store.list_audit(**page.model_dump(mode="json") | {"tenant_id": tenant_id})

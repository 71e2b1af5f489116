"""The audit: what operators did, filtered by who, what, on which subject and since when."""

import json
import re
from typing import Any

from flask import Blueprint, current_app, url_for
from flask.typing import ResponseReturnValue

from lib.jobs.audit import ACTIONS, AuditPage
from lib.web import auth
from lib.web.page import filters, render, session, shown
from lib.web.services import services

blueprint = Blueprint("audit", __name__, url_prefix="/audit")

_PAGES = {"job": "/jobs", "schedule": "/schedules", "webhook endpoint": "/webhooks"}
_NUMBERED = re.compile(rf"({'|'.join(_PAGES)}) ([1-9][0-9]{{0,17}})", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)


@blueprint.get("")
@session.view("admin", all_tenants=False)
def index() -> ResponseReturnValue:
    """Return a page of the acts that match the filter, newest first."""
    (page,) = filters.strictly(AuditPage)
    tenant_id = auth.caller().only(page.tenant_id)
    found = services(current_app).store.list_audit(**page.model_dump(mode="json") | {"tenant_id": tenant_id})
    acts = [act | {"page": page_of(act), "texts": _details(act)} for act in found["acts"]]
    return render.page("audit.html", wanted=page, actions=ACTIONS, acts=acts, older=found["older"])


def page_of(act: dict[str, Any]) -> str | None:
    """Return the page about the subject of an act; None: there is none."""
    kind, _, name = act["subject"].partition(" ")
    tenant_id = act["tenant_id"]
    if found := _NUMBERED.fullmatch(act["subject"]):
        return f"{_PAGES[found[1]]}/{found[2]}"
    if kind in ("order", "flow") and tenant_id:
        return shown.flow_address(tenant_id, name)
    if kind == "report" and tenant_id and _DAY.fullmatch(name):
        return url_for("reports.show", tenant_id=tenant_id, day=name)
    return None


def _details(act: dict[str, Any]) -> dict[str, str]:
    """Return the details of an act as texts by name."""
    details = act["details"]
    if not isinstance(details, dict):
        return {} if details is None else {"": _text(details)}
    return {str(name).replace("_", " "): _text(value) for name, value in details.items()}


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)

"""Daily reports, as JSON or CSV."""

import re
from datetime import date
from typing import Any, Literal

from flask import Blueprint, Response, current_app, make_response, request
from pydantic import TypeAdapter, ValidationError

from lib.reports.schemas import Day, ReportPage, ReportRequest
from lib.reports.service import Reports
from lib.validation import LateModel
from lib.web import auth
from lib.web.problems import Problem
from lib.web.request_data import read_body, read_query, refuse_nul
from lib.web.services import services

blueprint = Blueprint("reports", __name__, url_prefix="/api/v1/reports")


class FormatQuery(LateModel):
    """The format of a report. None: as `Accept` prefers."""

    format: Literal["json", "csv"] | None = None


def _reports() -> Reports:
    return Reports(services(current_app).store, caller=auth.caller())


@blueprint.get("")
@auth.scope("jobs:read")
def list_reports() -> dict[str, Any]:
    """Return a page of reports, newest day first."""
    (page,) = read_query(ReportPage)
    return _reports().list_reports(**page.model_dump())


@blueprint.post("")
@auth.scope("jobs:write")
def create() -> dict[str, Any]:
    """Create the report of a day, replacing an earlier one."""
    body = read_body(ReportRequest, optional=True)
    return _reports().make_report(body.tenant_id, day=body.day)


@blueprint.get("/<path:tenant_id>/<day>")
@auth.scope("jobs:read")
def show(tenant_id: str, day: str) -> Response:
    """Return a report, as JSON or CSV."""
    (query,) = read_query(FormatQuery)
    refuse_nul(tenant_id)
    report = _reports().report(tenant_id, day=checked_day(day))
    wanted = query.format or (
        "csv" if request.accept_mimetypes.best_match(["application/json", "text/csv"]) == "text/csv" else "json"
    )
    response = csv_of(report) if wanted == "csv" else make_response(report)
    response.vary.add("Accept")
    return response


def csv_of(report: dict[str, Any]) -> Response:
    """Return a report as a file of CSV."""
    from lib.reports.csv import as_csv

    name = re.sub(r"[^A-Za-z0-9._-]", "_", f"giftcards-{report['tenant_id']}-{report['day']}.csv")
    response = Response(as_csv(report), content_type="text/csv; charset=utf-8; header=present")
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def checked_day(day: str) -> date:
    """Return a day of the path.

    Raises:
        Problem: 404 for what is none.
    """
    try:
        return TypeAdapter(Day).validate_python(day)
    except ValidationError:
        raise Problem(404, "there is no such day", detail="a day is written like 2026-01-31", field="day") from None

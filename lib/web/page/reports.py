"""Daily reports: a list, one day with its sums, the same as CSV, and a new one."""

from typing import Any

from flask import Blueprint, Response, current_app, url_for
from flask.typing import ResponseReturnValue

from lib.reports.schemas import ReportPage, ReportRequest
from lib.reports.service import Reports
from lib.web import auth
from lib.web.page import actions, filters, render, session
from lib.web.reports import checked_day, csv_of
from lib.web.request_data import refuse_nul
from lib.web.services import services

blueprint = Blueprint("reports", __name__, url_prefix="/reports")


def _reports() -> Reports:
    return Reports(services(current_app).store, caller=auth.caller())


@blueprint.get("")
@session.view("jobs:read", all_tenants=False)
def index() -> ResponseReturnValue:
    """Return a page of reports, newest day first."""
    (page,) = filters.strictly(ReportPage)
    return render.page("reports.html", wanted=page, **_reports().list_reports(**page.model_dump()))


@blueprint.post("")
@session.view("jobs:write", all_tenants=False)
def create() -> ResponseReturnValue:
    """Create the report of a day, replacing an earlier one, and lead to it."""

    def verb() -> Any:
        wanted = actions.form(ReportRequest)
        return _reports().make_report(wanted.tenant_id, day=wanted.day)

    return actions.attempt(
        verb,
        lambda made: actions.lead(
            url_for("reports.show", tenant_id=made["tenant_id"], day=made["day"]), "The report is made."
        ),
        otherwise=url_for("reports.index"),
    )


@blueprint.get("/<path:tenant_id>/<day>", merge_slashes=False)
@session.view("jobs:read", all_tenants=False)
def show(tenant_id: str, day: str) -> ResponseReturnValue:
    """Return a report."""
    report = _report(tenant_id, day)
    return render.page("report.html", report=report, bars=bars(report["last_days"]))


@blueprint.get("/<path:tenant_id>/<day>.csv", merge_slashes=False)
@session.view("jobs:read", all_tenants=False)
def csv(tenant_id: str, day: str) -> Response:
    """Return a report as CSV."""
    return csv_of(_report(tenant_id, day))


def _report(tenant_id: str, day: str) -> dict[str, Any]:
    refuse_nul(tenant_id)
    return _reports().report(tenant_id, day=checked_day(day))


# The picture of the last days, in its own units.
_WIDTH, _HEIGHT, _GAP = 560, 96, 6


def bars(days: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the bars of a picture of the cards of each day, the oldest day first."""
    most = max((max(0, day["cards"]) for day in days), default=0)
    width = _WIDTH / max(1, len(days))
    return {
        "width": _WIDTH,
        "height": _HEIGHT,
        "bars": [
            {
                "x": round(number * width + _GAP / 2, 1),
                "width": round(width - _GAP, 1),
                "height": max(2, round(_HEIGHT * max(0, day["cards"]) / most)) if most else 2,
                "day": day["day"],
                "cards": day["cards"],
            }
            for number, day in enumerate(days)
        ],
    }

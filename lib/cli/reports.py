"""The group of reports of days, and its tables."""

import shlex
from collections.abc import Iterator
from datetime import date
from typing import Any

import click
from flask.cli import with_appcontext

from lib.caller import DEFAULT_TENANT
from lib.cli.group import BadInput, command_line, jobs, json_option, output
from lib.cli.options import TEXT, build, options_of, typed_fields
from lib.cli.services import report_service
from lib.cli.tables import Part, Table, moment
from lib.giftcards.money import format_money
from lib.reports.schemas import ReportPage, ReportRequest

Json = dict[str, Any]

_TOTALS = ("orders", "payments", "cards", "failures", "retries", "dead_letters", "differences")

_report_options = options_of(ReportRequest)


@jobs.group()
@with_appcontext
def reports() -> None:
    """Report a tenant's orders of a day, from midnight to midnight in UTC."""


@reports.command()
@_report_options
@json_option
def create(*, as_json: bool, **options: Any) -> None:
    """Create and store the report of a day (yesterday). It is not mailed."""
    wanted = build(ReportRequest, typed_fields(ReportRequest, options))
    output(report_service().make_report(wanted.tenant_id, day=wanted.day), as_json=as_json, view=_report_view)


@reports.command()
@_report_options
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV for spreadsheets.")
@json_option
def show(*, as_csv: bool, as_json: bool, **options: Any) -> None:
    """Show a stored report: of a day, or the newest."""
    if as_csv and as_json:
        raise BadInput("--csv and --json exclude each other")
    found = _find(build(ReportRequest, typed_fields(ReportRequest, options)))
    if as_csv:
        from lib.reports import csv

        click.echo(csv.as_csv(found), nl=False)
        return
    output(found, as_json=as_json, view=_report_view)


def _find(wanted: ReportRequest) -> Json:
    service, tenant_id = report_service(), wanted.tenant_id or DEFAULT_TENANT
    if wanted.day is not None:
        return service.report(tenant_id, day=wanted.day)
    newest = service.list_reports(tenant_id=tenant_id, older=None, limit=1)["reports"]
    if not newest:
        raise BadInput(f"tenant {tenant_id} has no report yet; to create one: flask jobs reports create")
    try:
        return service.report(tenant_id, day=date.fromisoformat(newest[0]["day"]))
    except ValueError:  # infinity
        raise BadInput(f"the newest report is of the day {newest[0]['day']}: give --day") from None


@reports.command("list")
@options_of(ReportPage, skip=("older",))
@click.option("--older", type=TEXT, help="Page after this cursor, from the page before.")
@json_option
def list_reports(*, as_json: bool, **options: Any) -> None:
    """List stored reports, the newest day first, a page at a time."""
    page = build(ReportPage, typed_fields(ReportPage, options))
    found = report_service().list_reports(**page.model_dump())
    output(found, as_json=as_json, view=lambda found: _page_view(found, page))


def _page_view(found: Json, page: ReportPage) -> Iterator[Part]:
    if not found["reports"]:
        yield "No report yet; to create one: flask jobs reports create"
        return
    rows = [
        (row["day"], row["tenant_id"], *(row["totals"].get(name) for name in _TOTALS), moment(row["made_at"]))
        for row in found["reports"]
    ]
    yield Table("Reports, the newest day first", ("day", "tenant", *map(_label, _TOTALS), "created at"), rows)
    if found["older"]:
        words = command_line("reports", "list", "--limit", str(page.limit), "--older", found["older"])
        yield "older: " + shlex.join(words + (["--tenant", page.tenant_id] if page.tenant_id else []))


def _report_view(report: Json) -> Iterator[Part]:
    incomplete = "" if report["complete"] else ": incomplete, the day is not over"
    title = f"Tenant {report['tenant_id']} on {report['day']} (UTC), created at {moment(report['made_at'])}{incomplete}"
    yield Table(title, ("", ""), [(_label(name), report["totals"].get(name)) for name in _TOTALS])
    if report["currencies"]:
        rows = [
            (money["currency"], *(format_money(money[f"{name}_amount"], money["currency"]) for name in _TOTALS[:3]))
            for money in report["currencies"]
        ]
        yield Table("Amounts", ("currency", *_TOTALS[:3]), rows)
    if report.get("differences"):  # reports of older releases have none
        rows = [(d["kind"], d["items"], format_money(d["amount"], d["currency"])) for d in report["differences"]]
        yield Table("Money and cards do not match", ("kind", "items", "amount"), rows)
        yield "details: flask jobs orders reconcile"
    if report["failures"]:
        columns = ("stage", "reason", "failures", "retries", "dead_letters")
        rows = [tuple(failure[name] for name in columns) for failure in report["failures"]]
        yield Table("Failures", tuple(map(_label, columns)), rows)


def _label(name: str) -> str:
    return name.replace("_", " ")

"""Reports of days: made, listed, shown."""

import shlex
from collections.abc import Iterator
from datetime import date
from typing import Any

import click
from flask.cli import with_appcontext

from lib.api_client.reports import ReportsClient
from lib.cli.group import BadInput, answer, as_json, jobs, report_service, url
from lib.cli.options import TEXT, given, made, options_of
from lib.cli.tables import Part, Table, moment
from lib.giftcards.money import format_money
from lib.reports.schemas import ReportPage, ReportRequest
from lib.store.store import Store

Json = dict[str, Any]

_TOTALS = ("orders", "payments", "cards", "failures", "retries", "dead_letters", "paid_without_card")


_which = options_of(ReportRequest)


@jobs.group()
@with_appcontext
def reports() -> None:
    """What became of a tenant's orders on a day, from midnight to midnight in UTC."""


@reports.command()
@_which
@as_json
def create(*, as_json: bool, **typed: Any) -> None:
    """Make the report of a day (yesterday) now, and keep it. Nothing is mailed."""
    wanted = made(ReportRequest, given(ReportRequest, typed))
    found = report_service().make_report(wanted.tenant_id, day=wanted.day)
    answer(found, as_json=as_json, view=_view)


@reports.command()
@_which
@click.option("--csv", "as_sheet", is_flag=True, help="For spreadsheets.")
@as_json
def show(*, as_sheet: bool, as_json: bool, **typed: Any) -> None:
    """A report as it was last made: of a day, or the newest."""
    if as_sheet and as_json:
        raise BadInput("--csv and --json exclude each other")
    wanted = made(ReportRequest, given(ReportRequest, typed))
    found = _found(report_service(), wanted)
    if as_sheet:
        from lib.reports.csv import as_csv

        click.echo(as_csv(found), nl=False)
        return
    answer(found, as_json=as_json, view=_view)


def _found(service: Store | ReportsClient, wanted: ReportRequest) -> Json:
    if wanted.day is not None:
        return service.report(wanted.tenant_id, day=wanted.day)
    newest = service.list_reports(tenant_id=wanted.tenant_id, older=None, limit=1)["reports"]
    if not newest:
        raise BadInput(f"tenant {wanted.tenant_id} has no report yet: flask jobs reports create makes one")
    return service.report(wanted.tenant_id, day=date.fromisoformat(newest[0]["day"]))


@reports.command("list")
@options_of(ReportPage, skip=("older",))
@click.option("--older", type=TEXT, help="The page behind this cursor, which the page before it gave.")
@as_json
def list_reports(*, as_json: bool, **typed: Any) -> None:
    """Reports that were made, the newest day first. A page at a time."""
    page = made(ReportPage, given(ReportPage, typed))
    answer(report_service().list_reports(**page.model_dump()), as_json=as_json, view=lambda found: _list(found, page))


def _list(found: Json, page: ReportPage) -> Iterator[Part]:
    if not found["reports"]:
        yield "No report yet: flask jobs reports create makes one."
        return
    rows = [
        (row["day"], row["tenant_id"], *(row["totals"][name] for name in _TOTALS), moment(row["made_at"]))
        for row in found["reports"]
    ]
    yield Table("Reports, the newest day first", ("day", "tenant", *map(_words, _TOTALS), "made at"), rows)
    if found["older"]:
        where = url()
        words = ["flask", "jobs", *(["--url", where] if where else []), "reports", "list"]
        words += ["--limit", str(page.limit), "--older", found["older"]]
        yield "older: " + shlex.join(words + (["--tenant", page.tenant_id] if page.tenant_id else []))


def _view(report: Json) -> Iterator[Part]:
    so_far = "" if report["complete"] else ": so far, the day is not over"
    title = f"Tenant {report['tenant_id']} on {report['day']} (UTC), made at {moment(report['made_at'])}{so_far}"
    yield Table(title, ("", ""), [(_words(name), report["totals"][name]) for name in _TOTALS])
    if report["currencies"]:
        rows = [
            (money["currency"], *(format_money(money[f"{name}_amount"], money["currency"]) for name in _TOTALS[:3]))
            for money in report["currencies"]
        ]
        yield Table("Amounts", ("currency", *_TOTALS[:3]), rows)
    if report["paid_without_card"]:
        rows = [(m["payments"], format_money(m["amount"], m["currency"])) for m in report["paid_without_card"]]
        yield Table("Paid, no card", ("payments", "amount"), rows)
        yield "to see which: flask jobs status"
    if report["failures"]:
        columns = ("stage", "reason", "failures", "retries", "dead_letters")
        rows = [tuple(failure[name] for name in columns) for failure in report["failures"]]
        yield Table("Failures", tuple(map(_words, columns)), rows)


def _words(name: str) -> str:
    return name.replace("_", " ")

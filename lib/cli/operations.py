"""The group of operations on many jobs, and its tables."""

import shlex
import uuid
from collections.abc import Iterator
from typing import Any

import click
from flask.cli import with_appcontext

from lib.cli.group import BadInput, Failed, command_line, jobs, json_option, output
from lib.cli.known import require_names
from lib.cli.models import build_each
from lib.cli.options import ID, NAME, build, option_name, options_of, reason_option, typed_fields, yes_option
from lib.cli.prompts import confirm
from lib.cli.services import bulk_service
from lib.cli.tables import Part, Table, count, moment
from lib.errors import StoreError
from lib.jobs.schemas import Filter, OperationPage, OperationRequest

Json = dict[str, Any]

_HELP = {
    "state": "running, stopped, completed or failed.",
    "limit": "Maximum number of rows.",
    "older": "Page after this id, from the page before.",
    "all": "Every job that the action changes, without a filter.",
    "per_minute": "Rate of requeue_slowly (10).",
}
_VERBS = {"requeue": "Requeue", "requeue_slowly": "Requeue slowly", "cancel": "Cancel"}
_ENDS = (("stopped because", "stopped_because"), ("error", "error"))

_operation_id = click.argument("operation_id", metavar="ID", type=ID)


@jobs.group()
@with_appcontext
def operations() -> None:
    """Requeue or cancel many jobs, in steps that ticks carry out."""


@operations.command("list")
@options_of(OperationPage, help_texts=_HELP)
@json_option
def list_operations(*, as_json: bool, **options: Any) -> None:
    """List operations, the newest first, a page at a time."""
    page = build(OperationPage, typed_fields(OperationPage, options))
    output(bulk_service().list(page), as_json=as_json, view=lambda found: _page_view(found, page))


@operations.command()
@_operation_id
@json_option
def show(operation_id: int, *, as_json: bool) -> None:
    """Show an operation with its progress."""
    output(bulk_service().find(operation_id), as_json=as_json, view=_operation_view)


@operations.command()
@_operation_id
@json_option
def stop(operation_id: int, *, as_json: bool) -> None:
    """Stop an operation. What it has changed stays."""
    output(bulk_service().stop(operation_id), as_json=as_json, view=_operation_view)


@operations.command()
@click.argument("operation", metavar="ACTION", type=NAME)
@click.option("--id", "job_ids", type=ID, multiple=True, help="A job, instead of a filter; repeat it for each one.")
@options_of(Filter)
@options_of(OperationRequest, skip=("action", "filter", "job_ids", "reason"), help_texts=_HELP)
@reason_option
@yes_option
@json_option
def create(operation: str, *, job_ids: tuple[int, ...], yes: bool, as_json: bool, **options: Any) -> None:
    """Begin to requeue, requeue_slowly or cancel the jobs that match a filter. The next tick goes on with it."""
    if operation not in _VERBS:
        raise BadInput(f"the action must be one of {', '.join(_VERBS)}")
    values = options | {"action": operation, "job_ids": list(job_ids) or None, "filter": None}
    only, wanted = build_each((Filter, OperationRequest), values)
    wanted = wanted.model_copy(update={"filter": only})
    if not (wanted.all or wanted.job_ids or only.as_json()):
        raise BadInput("no job is selected: give --id, a filter like --stage or --error-kind, or --all")
    if wanted.reason is None and not wanted.dry_run:
        raise BadInput("--reason is required: the audit keeps it")
    service = bulk_service()
    preview = service.preview(wanted)
    if not preview["count"]:
        require_names(only)
    if wanted.dry_run or not preview["count"]:
        output(preview, as_json=as_json, view=_preview_view)
        return
    confirm(f"{_VERBS[wanted.action]} {_jobs(preview['count'], capped=preview['capped'])}?", yes=yes)
    try:
        created = service.create(wanted, idempotency_key=str(uuid.uuid4()))
    except StoreError as error:
        raise Failed(f"{error}; to see whether it was created: flask jobs operations list") from error
    output(created, as_json=as_json, view=_operation_view)


def _jobs(number: int, *, capped: bool) -> str:
    return f"{number:,} or more jobs" if capped else count(number, "job")


def _preview_view(preview: Json) -> Iterator[Part]:
    yield f"{_jobs(preview['count'], capped=preview['capped'])} would be changed."
    if preview["by_stage"]:
        yield Table("By stage", ("stage", "jobs"), [(row["stage"], row["count"]) for row in preview["by_stage"]])


def _operation_view(operation: Json) -> Iterator[Part]:
    only = operation["filter"].items()
    rows = [
        ("state", operation["state"]),
        ("jobs", _jobs(operation["total"], capped=operation["capped"])),
        ("met", f"{operation['matched']:,}"),
        ("changed", f"{operation['changed']:,}"),
        *((name, value) for name, value in only),
        *([("selected", operation["selected"])] if operation["selected"] else []),
        *([("per minute", f"{operation['per_minute']:g}")] if operation["per_minute"] else []),
        *([("first job", operation["first_job_id"])] if operation["first_job_id"] else []),
        ("reason", operation["reason"]),
        ("by", operation["by"]),
        ("created at", moment(operation["created_at"])),
        ("last step at", moment(operation["last_at"])),
        ("finished at", moment(operation["finished_at"])),
        *([(name, operation[key]) for name, key in _ENDS if operation[key]]),
    ]
    yield Table(f"Operation {operation['id']}: {operation['action']}", ("", ""), rows)


def _page_view(found: Json, page: OperationPage) -> Iterator[Part]:
    if not found["operations"]:
        yield "No operation matches."
        return
    columns = ("id", "action", "state", "jobs", "met", "changed", "by", "created at", "reason")
    rows = [
        (
            *(row["id"], row["action"], row["state"], f"{row['total']:,}{'+' if row['capped'] else ''}"),
            *(row["matched"], row["changed"], row["by"], moment(row["created_at"]), row["reason"]),
        )
        for row in found["operations"]
    ]
    yield Table("Operations, the newest first", columns, rows)
    if found["older"]:
        words = command_line("operations", "list")
        for name, value in page.model_dump(exclude_none=True, exclude={"older"}).items():
            words += [option_name(name), str(value)]
        yield "older: " + shlex.join([*words, "--older", str(found["older"])])

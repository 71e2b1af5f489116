"""The group of batches, and its tables."""

import shlex
import time
import uuid
from collections.abc import Iterator
from typing import Any

import click
from flask.cli import with_appcontext

from lib.cli.group import BadInput, command_line, jobs, json_option, output
from lib.cli.options import (
    ID,
    build,
    build_from_json,
    json_argument,
    option_name,
    options_of,
    reason_option,
    typed_fields,
    yes_option,
)
from lib.cli.prompts import confirm, progress_bar
from lib.cli.services import batch_service
from lib.cli.tables import Part, Table, count, moment
from lib.jobs.batch_schemas import BatchJobsRequest, BatchPage, BatchRequest

Json = dict[str, Any]

_HELP = {
    "state": "open, running or ended.",
    "limit": "Maximum number of rows.",
    "older": "Page after this id, from the page before.",
}
_STATUSES = ("queued", "running", "completed", "error", "cancelled")
# Seconds between two looks at a batch, and characters of its bar.
_WATCH = 2.0
_BAR = 30

_batch_id = click.argument("batch_id", metavar="ID", type=ID)


@jobs.group()
@with_appcontext
def batches() -> None:
    """Watch and manage batches: jobs that end together, and what follows their end."""


@batches.command("list")
@options_of(BatchPage, help_texts=_HELP)
@json_option
def list_batches(*, as_json: bool, **options: Any) -> None:
    """List batches, the newest first, a page at a time."""
    page = build(BatchPage, typed_fields(BatchPage, options))
    output(batch_service().list(page), as_json=as_json, view=lambda found: _page_view(found, page))


@batches.command()
@_batch_id
@click.option("--watch", is_flag=True, help="Wait for its end, with a bar on a terminal.")
@json_option
def show(batch_id: int, *, watch: bool, as_json: bool) -> None:
    """Show a batch with its progress."""
    service = batch_service()
    batch = service.find(batch_id)
    if watch and batch["state"] == "open":
        raise BadInput(f"it is open, so it cannot end: flask jobs batches seal {batch_id}")
    if watch:
        with progress_bar(f"Batch {batch_id}", total=batch["counts"]["total"]) as bar:
            while batch["state"] != "ended":
                bar(batch["done"])
                time.sleep(_WATCH)
                batch = service.find(batch_id)
            bar(batch["counts"]["total"])
    output(batch, as_json=as_json, view=_batch_view)


@batches.command()
@click.argument("batch", metavar="JSON")
@json_option
def create(batch: str, *, as_json: bool) -> None:
    """Create a batch from a body of the API: JSON, or @FILE, or @- for standard input."""
    wanted = build_from_json(BatchRequest, json_argument(batch, name="the batch"))
    output(batch_service().create(wanted), as_json=as_json, view=_batch_view)


@batches.command()
@_batch_id
@click.argument("members", metavar="JSON")
@json_option
def add(batch_id: int, members: str, *, as_json: bool) -> None:
    """Enqueue more jobs into an open batch: a JSON array, or @FILE, or @- for standard input."""
    given = json_argument(members, name="the array of jobs")
    wanted = build_from_json(BatchJobsRequest, given if isinstance(given, dict) else {"jobs": given})
    output(batch_service().add(batch_id, wanted), as_json=as_json, view=_added_view)


@batches.command()
@_batch_id
@json_option
def seal(batch_id: int, *, as_json: bool) -> None:
    """Seal a batch: no other job can join it, and it ends with its jobs."""
    output(batch_service().seal(batch_id), as_json=as_json, view=_batch_view)


@batches.command()
@_batch_id
@reason_option
@yes_option
@json_option
def cancel(batch_id: int, *, reason: str | None, yes: bool, as_json: bool) -> None:
    """Cancel the jobs of a batch that have not completed, in steps that ticks carry out."""
    _act("cancel", batch_id, reason, yes=yes, as_json=as_json)


@batches.command()
@_batch_id
@reason_option
@yes_option
@json_option
def requeue(batch_id: int, *, reason: str | None, yes: bool, as_json: bool) -> None:
    """Requeue the dead letters of a batch, in steps that ticks carry out."""
    _act("requeue", batch_id, reason, yes=yes, as_json=as_json)


def _act(action: str, batch_id: int, reason: str | None, *, yes: bool, as_json: bool) -> None:
    if not reason:
        raise BadInput("--reason is required: the audit keeps it")
    service = batch_service()
    counts = service.find(batch_id)["counts"]
    number = counts["error"] + (counts["queued"] + counts["running"] if action == "cancel" else 0)
    confirm(f"{action.capitalize()} {count(number, 'job')} of batch {batch_id}?", yes=yes)
    verb = service.cancel if action == "cancel" else service.requeue
    operation = verb(batch_id, reason=reason, idempotency_key=str(uuid.uuid4()))
    output(operation, as_json=as_json, view=_operation_view)


def _operation_view(operation: Json) -> Iterator[Part]:
    yield f"Created operation {operation['id']}: the next tick begins with it."
    yield f"Its progress: flask jobs operations show {operation['id']}"


def _added_view(found: Json) -> Iterator[Part]:
    rows = [(job["id"], job["status"], "new" if job["created"] else "was there") for job in found["jobs"]]
    yield Table("Jobs of the batch", ("job", "status", ""), rows)


def _progress(batch: Json) -> str:
    """Return how far a batch is as a bar, a share and numbers."""
    total, done = batch["counts"]["total"], batch["done"]
    share = done / total if total else float(batch["state"] == "ended")
    filled = int(share * _BAR)
    more = " or more" if batch["capped"] else ""
    return f"[{'#' * filled}{'-' * (_BAR - filled)}] {int(share * 100)} % ({done:,} of {total:,}{more})"


def _batch_view(batch: Json) -> Iterator[Part]:
    ended, follow_up = batch["ended_with"], batch["follow_up"]
    rows = [
        ("state", batch["state"]),
        ("done", _progress(batch)),
        *((status, f"{batch['counts'][status]:,}") for status in _STATUSES if batch["counts"][status]),
        *([("will revive", f"{batch['reviving']:,}")] if batch["reviving"] else []),
        *(
            [("ended with", ", ".join(f"{ended[name]:,} {name}" for name in _STATUSES if ended.get(name)))]
            if ended
            else []
        ),
        ("follow-up", follow_up.get("stage", "unreadable") if follow_up else "none"),
        *([("follow-up job", batch["follow_up_job_id"])] if batch["follow_up_job_id"] else []),
        *([("error", batch["error"])] if batch["error"] else []),
        ("tenant", batch["tenant_id"]),
        ("created at", moment(batch["created_at"])),
        ("sealed at", moment(batch["sealed_at"])),
        ("ended at", moment(batch["ended_at"])),
    ]
    yield Table(f"Batch {batch['id']}{': ' + batch['name'] if batch['name'] else ''}", ("", ""), rows)
    if batch["state"] == "open":
        yield f"It ends once it is sealed: flask jobs batches seal {batch['id']}"
    if batch["counts"]["error"]:
        yield f"Its dead letters: flask jobs list --batch-id {batch['id']} --status error"


def _page_view(found: Json, page: BatchPage) -> Iterator[Part]:
    if not found["batches"]:
        yield "No batch matches."
        return
    columns = ("id", "name", "state", "done", "jobs", "dead", "follow-up", "created at")
    rows = [
        (
            *(row["id"], row["name"] or "", row["state"], row["done"]),
            f"{row['counts']['total']:,}{'+' if row['capped'] else ''}",
            *(row["counts"]["error"], (row["follow_up"] or {}).get("stage", ""), moment(row["created_at"])),
        )
        for row in found["batches"]
    ]
    yield Table("Batches, the newest first", columns, rows)
    if found["older"]:
        words = command_line("batches", "list")
        for name, value in page.model_dump(exclude_none=True, exclude={"older"}).items():
            words += [option_name(name), str(value)]
        yield "older: " + shlex.join([*words, "--older", str(found["older"])])

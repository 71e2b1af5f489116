"""prune and restore."""

import click

from lib.cli import messages
from lib.cli.group import app_services, jobs, json_option, output
from lib.cli.options import ID, build, reason_option, yes_option
from lib.cli.prompts import confirm
from lib.cli.services import job_service, local_service
from lib.jobs.schemas import ActRequest


@jobs.command()
@click.option("--dry-run", is_flag=True, help="Count each kind up to 1,000, and change nothing.")
@yes_option
@json_option
def prune(*, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Archive finished jobs and delete old rows at once, without waiting for the ticks."""
    local_service("prune")
    from lib.tick.pruning import preview, prune_all

    own = app_services()
    found = preview(own.store, own.settings)
    counts = messages.pruned_counts(found, capped=True)
    if dry_run or (found["done"] and not counts):
        output(found | {"dry_run": dry_run}, as_json=as_json, view=messages.would_prune)
        return
    confirm(f"Remove {counts or 'what is past its limit'} (finished jobs go to the archive)?", yes=yes)
    pruned = prune_all(own.store, own.settings)
    output(pruned | {"done": True, "dry_run": False}, as_json=as_json, view=messages.pruned)


@jobs.command()
@click.argument("job_id", type=ID)
@reason_option
@json_option
def restore(job_id: int, *, reason: str | None, as_json: bool) -> None:
    """Restore a job from the archive, unchanged."""
    why = build(ActRequest, {"reason": reason}).reason
    output(job_service().restore(job_id, reason=why), as_json=as_json, view=messages.restored)

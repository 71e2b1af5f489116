"""What has ended: leave now, or come back."""

from collections.abc import Iterator
from typing import Any

import click

from lib.cli.group import answer, as_json, here, job_service, jobs, parts
from lib.cli.options import ID
from lib.cli.prompts import sure
from lib.cli.tables import Part, count

_MOST_COUNTED = 1000


@jobs.command()
@click.option("--dry-run", is_flag=True, help="Only count, each kind up to 1,000.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@as_json
def prune(*, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove what has ended and is past its limit. Ticks do it by themselves; this does all of it at once."""
    here("prune")
    from lib.tick.pruning import preview, prune_all

    own = parts()
    found = preview(own.store, own.settings)
    if dry_run or (found["done"] and not _shown(found)):
        answer(found | {"dry_run": dry_run}, as_json=as_json, view=_would_leave)
        return
    sure(f"Remove {_shown(found) or 'what is past its limit'} (finished jobs go to the archive)?", yes=yes)
    left = prune_all(own.store, own.settings)
    answer(left | {"done": True, "dry_run": False}, as_json=as_json, view=_left)


@jobs.command()
@click.argument("job_id", type=ID)
@as_json
def restore(job_id: int, *, as_json: bool) -> None:
    """Bring a job back from the archive, as it was."""
    answer(job_service().restore(job_id), as_json=as_json, view=_restored)


def _shown(found: dict[str, Any], *, capped: bool = True) -> str:
    words = {
        "jobs": ("finished job", "finished jobs"),
        "history": ("run", "runs"),
        "ticks": ("tick", "ticks"),
        "circuit_changes": ("change of a circuit", "changes of circuits"),
        "archive": ("job of the archive", "jobs of the archive"),
    }
    more = {kind: "at least " if capped and found[kind] >= _MOST_COUNTED else "" for kind in words}
    return ", ".join(more[kind] + count(found[kind], *names) for kind, names in words.items() if found[kind])


def _would_leave(found: dict[str, Any]) -> Iterator[Part]:
    where = "" if found["done"] else " among the oldest 10,000"
    yield (
        f"{_shown(found)} would leave: leave --dry-run out to do it"
        if _shown(found)
        else f"nothing{where} is past its limit"
    )


def _left(done: dict[str, Any]) -> Iterator[Part]:
    yield f"{_shown(done, capped=False) or 'nothing'} left; flask jobs restore ID brings a job back from the archive"


def _restored(done: dict[str, Any]) -> Iterator[Part]:
    again = f"; flask jobs requeue {done['id']} runs it again" if done["status"] in ("error", "cancelled") else ""
    yield f"job {done['id']} is back, {done['status']} as it was{again}"

"""The tables that operators see on a terminal (rich: imported by those who look, never by the application)."""

from typing import Any

from rich.console import Console
from rich.table import Table

STATUSES = ("queued", "running", "completed", "error", "cancelled")
_MOST_COUNTED = 1000


def table(title: str, columns: list[str], rows: list[list[Any]]) -> Table:
    """A plain table; None is shown as nothing."""
    made = Table(title=title, title_justify="left", title_style="bold", header_style="dim", box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, overflow="fold")
    for row in rows:
        made.add_row(*("" if cell is None else str(cell) for cell in row))
    return made


def counts_table(counts: dict[str, dict[str, int]]) -> Table:
    """Jobs by stage and status."""

    def shown(number: int) -> str:
        return f"{number}+" if number >= _MOST_COUNTED else str(number or "·")

    rows = [[stage, *(shown(by.get(status, 0)) for status in STATUSES)] for stage, by in sorted(counts.items())]
    return table("Jobs", ["stage", *STATUSES], rows)


def status_tables(status: dict[str, Any]) -> None:
    """What `GET /api/status` says, for a tired person: what is wrong comes with what to do."""
    console = Console()
    console.print(counts_table(status["counts"]))
    for paused in status["paused"]:
        what = "everything" if paused["stage"] == "*" else f"stage {paused['stage']}"
        why = paused["reason"] or "no reason given"
        console.print(f"{what} is paused by {paused['by']} since {_short(paused['since'])}: {why}")
    for stage, setting in status["stages_not_configured"].items():
        console.print(f"stage {stage} is parked: set {setting}")
    if status["circuits"]:
        rows = [[c["circuit"], c["state"], c["failures"], _short(c["open_until"])] for c in status["circuits"]]
        console.print(table("Circuits that are not well", ["circuit", "state", "failures", "open until"], rows))
    if status["dead_letters"]:
        rows = [
            [d["id"], d["stage"], d["attempts"], _short(d["revive_at"]) or "never", d["last_error"]]
            for d in status["dead_letters"]
        ]
        console.print(table("Dead letters, the newest 20", ["job", "stage", "attempts", "revives", "error"], rows))
        console.print("to try one again: flask jobs requeue ID", style="dim")
    if status["paid_without_card"]:
        rows = [
            [p["correlation_id"], p["amount"], p["currency"], p["stage"], p["last_error"]]
            for p in status["paid_without_card"]
        ]
        console.print(table("Paid, no card", ["flow", "minor units", "currency", "stops at", "error"], rows))
    ticks = [
        [
            t["id"],
            t["source"],
            _short(t["started_at"]),
            t["started"],
            t["completed"],
            t["retried"],
            t["errored"],
            t["stopped_because"] or "killed or running",
        ]
        for t in status["ticks"]
    ]
    console.print(
        table("Last ticks", ["tick", "source", "began", "started", "completed", "retried", "dead", "stopped"], ticks)
    )


def job_tables(job: dict[str, Any]) -> None:
    """A job and its runs."""
    console = Console()
    shown = (
        "stage",
        "status",
        "correlation_id",
        "tenant_id",
        "attempts",
        "max_attempts",
        "run_no",
        "revivals",
        "scheduled_at",
        "revive_at",
        "last_error",
    )
    console.print(table(f"Job {job['id']}", ["", ""], [[name, job[name]] for name in shown if job[name] is not None]))
    rows = [
        [
            run["run_no"],
            run["attempt"],
            run["result"],
            _short(run["started_at"]),
            _short(run["next_run_at"]),
            run["error"],
        ]
        for run in job["history"]
    ]
    console.print(table("Runs, the newest first", ["run", "attempt", "result", "began", "next", "error"], rows))


def _short(time: str | None) -> str:
    return time[:19].replace("T", " ") if time else ""

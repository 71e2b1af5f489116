"""Tables of what is stuck, and of errors by kind, each with the command that helps."""

from collections.abc import Iterator
from typing import Any

from lib.cli.tables import Part, Table, count, moment

Json = dict[str, Any]


def stuck(found: Json) -> Iterator[Part]:
    """Render what does not move, the worst first."""
    if not found["stuck"]:
        yield "Nothing is stuck."
        return
    for thing in found["stuck"]:
        yield f"{_subject(thing)}{_since(thing)}: {thing['why']}"
        yield f"  {thing['fix']}"
    if found["truncated"]:
        yield f"only the oldest 20 of each kind are listed: there are more of {', '.join(found['truncated'])}"


def _subject(thing: Json) -> str:
    if thing["kind"] not in ("due", "dead"):
        stage = f" of {thing['stage']}" if thing["stage"] and thing["kind"] in ("killed", "snoozed") else ""
        return f"{thing['subject']}{stage}"
    number = f"{thing['count']:,}{'+' if thing['capped'] else ''}"
    if thing["kind"] == "due":
        return f"{thing['subject']}, {number} due"
    subject = thing["subject"].replace("letters", "letter", 1) if number == "1" else thing["subject"]
    return f"{number} {subject}"


def _since(thing: Json) -> str:
    # The sentence of a killed run has the time.
    return f" since {moment(thing['since'])}" if thing["since"] and thing["kind"] != "killed" else ""


def errors(found: Json) -> Iterator[Part]:
    """Render errors by stage and kind, the most frequent first."""
    if not found["errors"]:
        yield "There are no errors."
        return
    rows = [
        (
            _count(group),
            group["stage"],
            group["error"],
            moment(group["first_at"]),
            moment(group["last_at"]),
            group["job_id"],
        )
        for group in found["errors"]
    ]
    yield Table("Errors, the most frequent first", ("count", "stage", "error", "first", "last", "job"), rows)
    for command in found["errors"][0]["next"]:
        yield f"next: {command}"
    if found["more"]:
        yield "there are more kinds: --stage or --limit shows them"


def _count(group: Json) -> str:
    more = "+" if group["capped"] else ""
    runs = "" if group["runs"] is None else f", {count(group['runs'], 'run')}"
    return f"{group['count']:,}{more}{runs}"

"""Checks of the pgmq import."""

from collections.abc import Iterator
from typing import Any

from lib.monitoring.doctor.finding import Deployment, Finding, green, red, yellow


def pgmq(deployment: Deployment) -> Finding:
    """Check that the queues of GIFTCARD_PGMQ_QUEUES can be imported, are closed to web clients, and what they left.

    Unset: no line.
    """
    problems = [queue["problem"] for queue in deployment.facts["pgmq"].values() if "problem" in queue]
    if problems:
        return red("; ".join(dict.fromkeys(problems)), fix="see docs/queues.md#what-is-needed")
    open_to = {queue: found["writers"] for queue, found in deployment.facts["pgmq"].items() if found["writers"]}
    if open_to:
        written = (f"{' and '.join(roles)} may write messages into {queue}" for queue, roles in open_to.items())
        return red("; ".join(written), fix="revoke it: see docs/queues.md#who-may-write-a-queue")
    unknown = [
        f"messages of {queue.name} are for the stage {queue.stage}, which this code does not have"
        for queue in deployment.settings.giftcard_pgmq_queues
        if not deployment.registry.knows(queue.stage)
    ]
    if unknown:
        return yellow("; ".join(unknown), fix="correct GIFTCARD_PGMQ_QUEUES, or deploy the code that has the stage")
    kept = [line for queue, found in deployment.facts["pgmq"].items() for line in _kept(queue, found)]
    if kept:
        return yellow("; ".join(kept), fix="see docs/queues.md#messages-that-are-not-jobs")
    return green("the queues can be imported: " + ", ".join(deployment.facts["pgmq"]))


def _kept(queue: str, found: dict[str, Any]) -> Iterator[str]:
    """Yield what is left of messages of a queue that did not become jobs. Each count ends at a thousand."""
    dead = [f"{found[name]} {name}" for name in ("refused", "conflicts") if found[name]]
    if dead:
        yield f"messages of {queue} are dead letters: {', '.join(dead)}"
    if found["unimportable"]:
        yield f"ten reads could not import {found['unimportable']} messages of {queue}"

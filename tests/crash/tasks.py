"""A stage for tests: it leaves a line for each run, and may wait to be told how to end."""

import os
import time
from pathlib import Path

from pydantic import BaseModel

from lib.errors import TransientError
from lib.job import Call, Complete, Outcome, Snooze
from lib.jobs.context import Context
from lib.jobs.stage import stage

_LOOK_SECONDS = 0.005


class Task(BaseModel):
    """`trace`: the file that gets a line `job_id run_no pid` as a run begins.

    `gate`: a file the run waits for; what is in it says how the run ends: complete, fail or snooze. `then`: the
    function of the database that its settle calls with the job's correlation id.
    """

    trace: str
    gate: str | None = None
    then: str | None = None


@stage("task", payload=Task)
def task(payload: Task, context: Context) -> Outcome:
    """Its line first, in one write, so that the lines of several processes do not mix."""
    line = f"{context.job.id} {context.job.run_no} {os.getpid()}\n"
    trace = os.open(payload.trace, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(trace, line.encode())
    os.close(trace)
    match _told_at(Path(payload.gate)) if payload.gate else "complete":
        case "complete":
            return Complete(then=Call(payload.then, {"flow": context.job.correlation_id}) if payload.then else None)
        case "snooze":
            return Snooze(delay=0, waiting_for="the test")
        case other:
            raise TransientError(f"was told to {other}")


def _told_at(gate: Path) -> str:
    while not gate.exists():
        time.sleep(_LOOK_SECONDS)
    return gate.read_text()

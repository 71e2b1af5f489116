"""Stages of a simulation beside the product's own, and three versions of a deployment."""

from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from lib import stages
from lib.errors import TransientError
from lib.job import Call, Complete, Job, NextJob, Outcome, Snooze
from lib.jobs.context import Context
from lib.jobs.registry import Registry
from lib.jobs.stage import Stage, stage

SNOOZE_SECONDS = 20
"""How long a task snoozes."""
PAY = "pay"
"""The function that a task may call as it is settled: it leaves a row in `giftcard_proof.paid`."""


class Task(BaseModel):
    """`seconds`: how long it takes. `fails`: how many runs fail first. `snoozes`: how many snooze before those.

    `beats`: it sends a heartbeat. `pays`: it is settled with a call. `deed_seconds`: it has
    an effect, which takes so long.
    """

    seconds: float = 0.1
    fails: int = 0
    snoozes: int = 0
    beats: bool = False
    pays: bool = False
    deed_seconds: float | None = None


Begun = Callable[[Job], None]
Done = Callable[[Job, dict[str, Any]], None]
Pause = Callable[[float], None]


def deployments(begun: Begun, pause: Pause, done: Done) -> list[Registry]:
    """Return the deployments N-1, N and N+1: N-1 knows no stage `draw`, only N+1 enqueues and knows `thanks`."""
    product = stages.load()

    def work(payload: Task, context: Context) -> Outcome:
        begun(context.job)
        pause(payload.seconds)
        if payload.deed_seconds is not None:
            done(context.job, context.once("deed", lambda _: deed(payload, context.job), repeatable=True))
        if payload.beats:
            context.heartbeat()
            pause(payload.seconds)
        run = context.job.run_no
        if run <= payload.snoozes:
            return Snooze(delay=SNOOZE_SECONDS, waiting_for="its time")
        if run <= payload.snoozes + payload.fails:
            raise TransientError("it fails")
        return Complete(then=Call(PAY, {"job": context.job.id}) if payload.pays else None)

    def deed(payload: Task, job: Job) -> dict[str, Any]:
        pause(payload.deed_seconds or 0)
        return {"run": job.run_no}

    def work_and_thank(payload: Task, context: Context) -> Outcome:
        outcome = work(payload, context)
        return (
            Complete(then=outcome.then, next=(NextJob(stage="thanks"),)) if isinstance(outcome, Complete) else outcome
        )

    def of(name: str, handler: Callable[[Task, Context], Outcome], *, once: bool = False) -> Stage:
        return stage(name, payload=Task, ttr=20, longest=60, semantics="at_most_once" if once else "at_least_once")(
            handler
        )

    old = {**product.stages, "task": of("task", work)}
    present = old | {"draw": of("draw", work, once=True)}
    following = present | {"task": of("task", work_and_thank), "thanks": of("thanks", work)}
    return [Registry(old), Registry(present), Registry(following)]

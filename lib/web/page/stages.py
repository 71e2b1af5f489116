"""Stages: the order's pipeline with what each stage does now, and what holds or releases it."""

from typing import Annotated, Any

from flask import Blueprint, current_app
from flask.typing import ResponseReturnValue
from pydantic import Field

from lib.tick.tick import run_tick
from lib.validation import Identifier, Matching
from lib.web import auth
from lib.web.page import pipeline, render, session
from lib.web.page.actions import Why, act, back, form
from lib.web.page.render import counted
from lib.web.services import operations, services

blueprint = Blueprint("stages", __name__)

# Seconds in which a tick of this page starts jobs: its sender waits for its end.
_TICK_SECONDS = 5.0
_OUTCOMES = ("completed", "retried", "errored", "snoozed", "interrupted", "cancelled")


class _Stage(Why):
    """The stage to pause or resume; `*`: everything."""

    stage: Identifier


class _Circuit(Why):
    circuit: Annotated[str, Field(min_length=1, max_length=3000), Matching(r"^[^\u0000]+$", "cannot hold a NUL")]


@blueprint.get("/stages")
@session.view("jobs:read")
def show() -> ResponseReturnValue:
    """Return all stages, with one call of the database."""
    own = services(current_app)
    found = operations(current_app, caller=auth.caller()).overview()
    flow, others = (pipeline.with_settings(cards, own.registry(), own.settings) for cards in pipeline.cards(found))
    broken = {name: found["missing"][name] for name in own.registry().broken if name in found["missing"]}
    return render.page("stages.html", overview=found, flow=flow, others=others, broken=broken)


@blueprint.post("/stages/pause")
@session.view("admin")
def pause() -> ResponseReturnValue:
    """Pause a stage, or everything."""
    wanted = form(_Stage)
    own = operations(current_app, caller=auth.caller())
    return act(
        lambda: own.pause(wanted.stage, by=auth.caller().name, reason=wanted.reason),
        done=f"{_name(wanted.stage)} is paused: its jobs wait and lose no attempt.",
        to=back("/stages"),
    )


@blueprint.post("/stages/resume")
@session.view("admin")
def resume() -> ResponseReturnValue:
    """Resume a stage, or everything."""
    wanted = form(_Stage)
    own = operations(current_app, caller=auth.caller())
    return act(
        lambda: own.resume(wanted.stage, by=auth.caller().name, reason=wanted.reason),
        done=f"{_name(wanted.stage)} is resumed: the next tick starts what is due.",
        to=back("/stages"),
    )


@blueprint.post("/circuits/reset")
@session.view("admin")
def reset() -> ResponseReturnValue:
    """Close a circuit."""
    wanted = form(_Circuit)
    own = operations(current_app, caller=auth.caller())
    return act(
        lambda: own.reset_circuit(wanted.circuit, reason=wanted.reason),
        done=f"The circuit {wanted.circuit} is closed: the next tick tries its jobs.",
        to=back("/stages"),
    )


@blueprint.post("/tick")
@session.view("admin")
def tick() -> ResponseReturnValue:
    """Run a tick now, a short one."""
    own = services(current_app)

    def run() -> dict[str, Any]:
        budget = min(_TICK_SECONDS, own.settings.giftcard_tick_budget_seconds)
        with own.shutdown.tick() as stop:
            report = run_tick(
                own.store, own.registry(), own.settings, source="manual", budget=budget, linger=False, stop=stop
            )
        return report.as_json()

    return act(run, done=_report, to=back("/stages"))


def _report(report: dict[str, Any]) -> str:
    if report["paused"]:
        return "The tick ran nothing: everything is paused."
    ended = ", ".join(f"{report[name]} {name}" for name in _OUTCOMES if report[name])
    return f"The tick ran {counted(report['started'], 'job')}{f': {ended}' if ended else ''}."


def _name(stage: str) -> str:
    return "Everything" if stage == "*" else stage

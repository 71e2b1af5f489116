"""The flow of an order: which step follows which. `GIFTCARD_ORDER_FLOW` is the list of the steps.

A built-in step ends with `completed`. Any other stage goes on with the flow by itself (`continuing`), when the flow has
enqueued its job: the job's context holds its place, `{"order_flow": {"step": …, "before": …}}`. `before` is the
built-in step that follows: it comes next if the step is no longer in the list when it completes.
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from lib.config.project import ORDER_FLOW
from lib.giftcards.books import read_books
from lib.giftcards.orders import Order
from lib.job import Complete, NextJob
from lib.jobs.context import Context

_PLACE = "order_flow"


def completed(context: Context, order: Order, **facts: Any) -> Complete:
    """Return the outcome of a step: `facts` for the flow's context, and the next step."""
    return _followed_by(_next(context), Complete(context=facts), context, lambda: order)


def continuing(handler: Callable[[Any, Context], Any]) -> Callable[[Any, Context], Any]:
    """Return a handler that goes on with an order's flow, if its job is a step of one.

    The next step is enqueued beside the next jobs that the handler names. A step exists once in a flow, so that a step
    that runs again enqueues nothing again.
    """

    @functools.wraps(handler)
    def run(payload: Any, context: Context) -> Any:
        outcome = handler(payload, context)
        if not isinstance(outcome, Complete) or not _is_step(context):
            return outcome
        return _followed_by(_next(context), outcome, context, lambda: read_books(context).order)

    return run


def _is_step(context: Context) -> bool:
    place = context.job.context.get(_PLACE) if _PLACE in context.job.context_json else None
    return isinstance(place, dict) and place.get("step") == context.job.stage and context.job.dedup_key == ""


def _next(context: Context) -> str | None:
    """Return the step after that of a job; None: it is the last."""
    flow, step = context.settings.giftcard_order_flow, context.job.stage
    if step in flow:
        return next(iter(flow[flow.index(step) + 1 :]), None)
    before = context.job.context[_PLACE].get("before")
    return before if before in ORDER_FLOW else None


def _followed_by(step: str | None, outcome: Complete, context: Context, order: Callable[[], Order]) -> Complete:
    if step is None or any(job.stage == step and job.dedup_key == "" for job in outcome.next):
        return outcome
    if step in ORDER_FLOW:
        at = _delivery(order(), context) if step == "email" else None
        return replace(outcome, next=(*outcome.next, NextJob(stage=step, at=at)))
    flow = context.settings.giftcard_order_flow
    before = next((other for other in flow[flow.index(step) :] if other in ORDER_FLOW), None)
    place = {_PLACE: {"step": step, "before": before}}
    return replace(outcome, context=outcome.context | place, next=(*outcome.next, NextJob(stage=step)))


def _delivery(order: Order, context: Context) -> Any:
    """Return the time for which the mail is ordered; None: at once."""
    # A past time would make the mail look late. `locked_at` is by the database's clock.
    return order.deliver_at if order.deliver_at and order.deliver_at > context.job.locked_at else None

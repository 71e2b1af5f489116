"""Parses what a project adds to the product: packages of stages, a folder of templates, steps of the order's flow."""

import re
from pathlib import Path
from typing import Any

# The flow of an order: the one list of its steps. `GIFTCARD_ORDER_FLOW` puts others between and after them.
ORDER_FLOW = ("customer_ingest", "personal_code", "payment", "issue_card", "email")

STAGE_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_PACKAGE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*", re.ASCII)
_ROOT = Path(__file__).parents[2]


def packages(value: Any) -> Any:
    """Split `shop.stages,shop.more_stages`."""
    if not isinstance(value, str):
        return value
    found = _parts(value)
    for position, part in enumerate(found, start=1):
        if not _PACKAGE.fullmatch(part):
            raise ValueError(f"item {position} must be the dotted name of a package, like shop.stages")
        if part == "lib" or part.startswith("lib."):
            raise ValueError(f"item {position} must be a package of your own: those of lib are found anyway")
    return tuple(dict.fromkeys(found))


def folder(value: Any) -> Any:
    """Return a folder that exists. A relative path starts at the project's root."""
    if not isinstance(value, str):
        return value
    path = _ROOT / value
    if not path.is_dir():
        raise ValueError("must be a folder that exists, absolute or relative to the project's root")
    return path


def order_flow(value: Any) -> Any:
    """Parse the whole list of steps: the built-in ones in their order, and others after the first."""
    if not isinstance(value, str):
        return value
    steps = _parts(value)
    built_in = " → ".join(ORDER_FLOW)
    if [step for step in steps if step in ORDER_FLOW] != list(ORDER_FLOW) or steps[0] != ORDER_FLOW[0]:
        raise ValueError(f"must begin with {ORDER_FLOW[0]} and have each of {built_in} once, in this order")
    for position, step in enumerate(steps, start=1):
        if not STAGE_NAME.fullmatch(step):
            raise ValueError(f"step {position} must be the name of a stage, like loyalty_points")
        if step in steps[: position - 1]:
            raise ValueError(f"step {position} is there twice")
        if step == "webhook":
            raise ValueError(f"step {position} is webhook, whose jobs only the database enqueues")
    return tuple(steps)


def _parts(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]

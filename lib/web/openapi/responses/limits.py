"""Limits of runs and of starts."""

from typing import Literal

from lib.jobs.schemas import LimitKind
from lib.web.openapi.responses.base import Response, Time


class LimitValues(Response):
    """How much may run and start. Null: no limit."""

    runs: int | None
    """The most at once in the whole fleet. 0: none starts."""
    per_second: float | None
    """The most starts a second."""
    burst: int | None
    """The most starts at once after a pause."""


class LimitRow(LimitValues):
    """A limit as it was set or removed. Null values are those of the default."""

    kind: LimitKind
    """What `name` names: a stage, a circuit, the stage of a tenant, or a concurrency key."""
    name: str
    tenant_id: str | None
    """Of the kinds `tenant` (`*`: each tenant) and `key`."""
    until: Time | None
    """When it ends by itself. Null: never."""
    set_by: str | None
    reason: str | None
    updated_at: Time | None


class Limit(LimitRow):
    """A limit with what is in force."""

    state: Literal["active", "ended", "default"]
    """`ended`: its time is past, and a tick will delete it. `default`: of the settings, without a row."""
    default: LimitValues
    """What is in force where the limit has no value, and after its end."""
    in_force: LimitValues
    running: int
    """The number of runs now; for each tenant (`*`), the most that one of them has."""
    tokens: float | None
    """How many may start at once now, by the rate. Null: there is no rate, or it is of each tenant."""
    held_until: Time | None
    """Nothing starts before: the other side asked for it with `Retry-After`."""


class LimitList(Response):
    """A page of limits, by kind, name and tenant."""

    limits: list[Limit]
    older: str | None
    """The cursor of the next page. Null on the last one."""

"""Requests about reports, and the payload of their jobs."""

import re
from datetime import date
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from lib.validation import NO_CURSOR, Identifier, StrictModel

# In the payload of a job: every tenant with activity on the day.
ALL_TENANTS = "*"
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)


def _day(value: object) -> object:
    """Return text as a date, in one format only: Python parses more of them than Postgres does."""
    if not isinstance(value, str):
        return value
    try:
        if _DAY.fullmatch(value):
            return date.fromisoformat(value)
    except ValueError:
        pass
    raise ValueError("is not a day like 2026-01-31")


def _one_tenant(value: str) -> str:
    if value == ALL_TENANTS:
        raise ValueError("names one tenant here: a job of stage report makes the reports of all")
    return value


def _cursor(value: str) -> str:
    day, slash, tenant = value.partition("/")
    try:
        # The first two are days in Postgres.
        if slash and tenant and (day in ("infinity", "-infinity") or isinstance(_day(day), date)):
            return value
    except ValueError:
        pass
    raise ValueError(NO_CURSOR)


Day = Annotated[date, BeforeValidator(_day)]


class ReportJob(StrictModel):
    """The payload of stage `report`. `tenant_id`: by default that of the job; `*`: all. `day`: by default yesterday.

    `after`: of all tenants, only those after this name.
    """

    tenant_id: Identifier | None = None
    day: Day | None = None
    after: Annotated[str, Field(max_length=3000)] | None = None


class ReportRequest(StrictModel):
    """A report to create. By default, `tenant_id` is that of the token, or `default`, and `day` is yesterday in UTC."""

    tenant_id: Annotated[Identifier, AfterValidator(_one_tenant)] | None = None
    day: Day | None = None


class ReportPage(StrictModel):
    """A page of a list. `older`: the cursor of an earlier page."""

    tenant_id: Identifier | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50
    older: (
        Annotated[str, Field(max_length=3000, json_schema_extra={"format": "cursor"}), AfterValidator(_cursor)] | None
    ) = None

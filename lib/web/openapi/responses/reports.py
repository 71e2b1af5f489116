"""Daily reports."""

from lib.web.openapi.responses.base import Json, Response, Time


class ReportSummary(Response):
    """A daily report without its details."""

    tenant_id: str
    day: str
    made_at: Time
    complete: bool
    """Whether the day was over when the report was created."""
    totals: dict[str, int]


class ReportPage(Response):
    """A page of reports, newest day first."""

    reports: list[ReportSummary]
    older: str | None
    """The cursor of the next page. Null on the last one."""


class DayReport(ReportSummary):
    """A daily report. Amounts are in minor units."""

    currencies: list[Json]
    """Orders, cards and sums by currency."""
    failures: list[Json]
    last_days: list[Json]
    differences: list[Json]
    """Where money and cards did not match: number and amount by kind and currency."""

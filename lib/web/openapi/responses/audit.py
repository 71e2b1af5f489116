"""The audit."""

from lib.web.openapi.responses.base import Json, Response, Time


class Act(Response):
    """An act of an operator."""

    id: int
    at: Time
    by: str
    """The name of the token, the user of the command line, or the database role."""
    role: str
    """The database role that connected."""
    tenant_id: str | None
    """The tenant whose data it changed. Null: none, or all."""
    action: str
    subject: str
    """What it changed, like `job 7`."""
    details: Json
    """Names and numbers, without personal data."""


class AuditPage(Response):
    """A page of the acts of operators, newest first."""

    acts: list[Act]
    older: int | None
    """The cursor of the next page. Null on the last one."""

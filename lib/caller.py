"""Who calls: an operator, a token, a scheduler."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, as the audit log names them.

    `tenant_id`: the only tenant whose data they see and change; None: every tenant.
    """

    name: str
    tenant_id: str | None = None

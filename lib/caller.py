"""Who calls: an operator, a token, a scheduler."""

from dataclasses import dataclass
from typing import Any

from lib.errors import Forbidden

DEFAULT_TENANT = "default"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, as the audit names them.

    `tenant_id`: the only tenant whose data they see and change; None: every tenant.
    """

    name: str
    tenant_id: str | None = None

    def tenant(self, requested: str | None, *, field: str = "tenant_id") -> str:
        """Return the tenant of a request: the one that it names, in `field`, or the caller's own.

        Raises:
            Forbidden: the caller may not act for the requested tenant.
        """
        return self.only(requested, field=field) or DEFAULT_TENANT

    def only(self, requested: str | None, *, field: str = "tenant_id") -> str | None:
        """Return the tenant that a list is limited to. None: all.

        Raises:
            Forbidden: the caller may not see the requested tenant.
        """
        if requested is not None and self.tenant_id not in (None, requested):
            raise Forbidden(f"this token is for the tenant {self.tenant_id} only", field=field)
        return self.tenant_id if requested is None else requested

    def check_payload(self, payload: dict[str, Any] | None, *, field: str = "payload") -> None:
        """Check the tenant that a job's payload names: a job of stage `report` works for that one, or for all (`*`).

        Raises:
            Forbidden: the caller may not act for it.
        """
        self.only((payload or {}).get("tenant_id"), field=f"{field}.tenant_id")

"""Who calls: an operator, a token, a scheduler."""

from dataclasses import dataclass

from lib.errors import Forbidden

DEFAULT_TENANT = "default"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, as the audit names them.

    `tenant_id`: the only tenant whose data they see and change; None: every tenant.
    """

    name: str
    tenant_id: str | None = None

    def tenant(self, requested: str | None) -> str:
        """Return the tenant of a request: the one that it names, or the caller's own.

        Raises:
            Forbidden: the caller may not act for the requested tenant.
        """
        return self.only(requested) or DEFAULT_TENANT

    def only(self, requested: str | None) -> str | None:
        """Return the tenant that a list is limited to. None: all.

        Raises:
            Forbidden: the caller may not see the requested tenant.
        """
        if requested is not None and self.tenant_id not in (None, requested):
            raise Forbidden(f"this token is for the tenant {self.tenant_id} only", field="tenant_id")
        return self.tenant_id if requested is None else requested

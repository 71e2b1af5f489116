"""The client for limits: the methods of `lib.jobs.limits.Limits`."""

from typing import Any

from lib.api_client.transport import Transport
from lib.jobs.schemas import LimitPage, LimitRemoval, LimitRequest

Json = dict[str, Any]

_PATH = "/api/v1/limits"


class LimitsClient:
    """Signatures, results and errors are those of `Limits`. The API knows the operator by the token."""

    def __init__(self, transport: Transport) -> None:
        self._http = transport

    def find(self, page: LimitPage) -> Json:
        """Return a page of limits."""
        return self._http.get(_PATH, **page.model_dump())

    def set(self, request: LimitRequest) -> Json:
        """Set a limit and return it."""
        return self._http.put(_PATH, request.model_dump(mode="json", exclude_none=True))

    def remove(self, request: LimitRemoval) -> Json:
        """Remove a limit and return what it was."""
        return self._http.post(f"{_PATH}/remove", request.model_dump(exclude_none=True))

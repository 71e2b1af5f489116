"""The client for tokens: the methods of `lib.tokens.service.Tokens`."""

from typing import Any

from lib.api_client.transport import Transport, segment
from lib.tokens.schemas import TokenPage, TokenRequest

Json = dict[str, Any]

_PATH = "/api/v1/tokens"


class TokensClient:
    """Signatures, results and errors are those of `Tokens`. The API knows the operator by the token."""

    def __init__(self, transport: Transport) -> None:
        self._http = transport

    def find(self, page: TokenPage) -> Json:
        """Return a page of tokens, the newest first."""
        return self._http.get(_PATH, **page.model_dump())

    def create(self, request: TokenRequest) -> Json:
        """Create a token. Only this result has it."""
        return self._http.post(_PATH, request.model_dump())

    def revoke(self, name: str) -> Json:
        """Revoke a token for good."""
        return self._http.delete(f"{_PATH}/{segment(name)}")

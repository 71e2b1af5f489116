"""Create, list and revoke tokens, for the API and the command line."""

import hashlib
import secrets
from typing import Any

from lib.caller import Caller
from lib.store.store import Store
from lib.tokens.schemas import TokenPage, TokenRequest

Json = dict[str, Any]

# Scanners for leaked secrets recognize it.
PREFIX = "gct_"
_SHOWN = len(PREFIX) + 4


class Tokens:
    """The tokens of a store. `caller` is recorded in the audit log."""

    def __init__(self, store: Store, *, caller: Caller) -> None:
        self._store = store
        self._caller = caller

    def find(self, page: TokenPage) -> Json:
        """Return a page of tokens, newest first. None of them has the token itself."""
        return self._store.list_tokens(**page.model_dump())

    def create(self, request: TokenRequest) -> Json:
        """Create a token. Only this result has it, as `token`."""
        token = PREFIX + secrets.token_urlsafe(32)
        created = self._store.create_token(
            name=request.name,
            hash=hash_of(token.encode()),
            prefix=token[:_SHOWN],
            scopes=tuple(request.scopes),
            tenant_id=request.tenant_id,
            expires_seconds=request.expires_seconds,
            by=self._caller.name,
        )
        return created | {"token": token}

    def revoke(self, name: str) -> Json:
        """Revoke a token for good."""
        return self._store.revoke_token(name, by=self._caller.name)


def hash_of(token: bytes) -> str:
    """Return the hash by which a token is found. The token is random: a plain hash cannot be reversed."""
    return hashlib.sha256(token).hexdigest()

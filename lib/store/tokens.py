"""Calls for tokens, and for requests that are denied."""

from typing import Any

from lib.store.calls import Calls


class TokenCalls(Calls):
    """Documented in `supabase/schemas/63_tokens.sql` and `64_denied_requests.sql`."""

    def create_token(self, **arguments: Any) -> dict[str, Any]:
        """Create a token, of which only the hash is given. Repeated with the same hash it returns the same token."""
        return self._dict("giftcard_create_token", repeat=True, **arguments)

    def revoke_token(self, name: str, *, by: str) -> dict[str, Any]:
        """Revoke a token for good."""
        return self._dict("giftcard_revoke_token", repeat=True, name=name, by=by)

    def list_tokens(self, *, older: int | None, limit: int) -> dict[str, Any]:
        """Return a page of tokens, without their hashes."""
        return self._dict("giftcard_list_tokens", repeat=True, older=older, limit=limit)

    def check_token(self, hash: str, *, bucket: int) -> dict[str, Any]:
        """Return what a token allows: {name, tenant_id, scopes}; of one that is denied {reason, retry_after}.

        `bucket`: a hash of the caller's address; `retry_after`: seconds, None below the limit.
        """
        return self._dict("giftcard_check_token", repeat=True, hash=hash, bucket=bucket)

    def count_denied(self, bucket: int, *, reason: str) -> dict[str, Any]:
        """Count a request with a wrong signature. Return {reason, retry_after}."""
        return self._dict("giftcard_count_denied", repeat=True, bucket=bucket, reason=reason)

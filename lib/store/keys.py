"""Calls for the rotation of encryption keys."""

from typing import Any

from lib.store.calls import Calls


class KeyCalls(Calls):
    """Documented in `supabase/schemas/63_ciphertexts.sql`."""

    def list_ciphertexts(self, kind: str, *, key_id: str | None, after: str | None, limit: int) -> dict[str, Any]:
        """Return {counts, rows, after} of some rows of a kind: the texts that are not under `key_id`."""
        return self._dict("giftcard_list_ciphertexts", repeat=True, kind=kind, key_id=key_id, after=after, limit=limit)

    def replace_ciphertexts(self, kind: str, rows: list[dict[str, Any]]) -> int:
        """Replace texts ({id, texts: {old: new}}) that have not changed meanwhile. Return how many rows changed."""
        return int(self._dict("giftcard_replace_ciphertexts", repeat=True, kind=kind, rows=rows)["replaced"])

    def record_key_rotation(self, *, by: str, key_id: str, texts: int) -> None:
        """Record in the audit log that a key takes over from the others."""
        self._dict("giftcard_record_key_rotation", by=by, key_id=key_id, texts=texts)

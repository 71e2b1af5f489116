"""Rotation of the encryption keys: every stored text is re-encrypted under the newest key, while ticks run."""

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from lib.config.settings import Settings
from lib.errors import Failure, Refused
from lib.giftcards.cards import missing_key, vault_of
from lib.store.store import Store
from lib.webhooks.secrets import secret_cipher

Json = dict[str, Any]

# Cards last: while one of them is under an older key, the doctor advises to rotate.
KINDS = ("effect", "endpoint", "card")
# Ticks that hold a row, or still encrypt under an older key, make another pass necessary.
_PASSES = 10
_LISTED_PROBLEMS = 20


class KeyRotation:
    """What the operators' command does. `by`: the operator, recorded in the audit log."""

    def __init__(self, store: Store, settings: Settings, *, by: str) -> None:
        """Raise Refused for keys that are missing or malformed."""
        missing = missing_key(settings)
        if missing:
            reason = f"{missing} is not set here: load the deployment's settings, as with . ./.env.production"
            raise Refused(reason, sqlstate="GC409")
        try:
            self._vault, self._secrets = vault_of(settings), secret_cipher(settings)
        except ValueError as error:
            raise Refused(str(error), sqlstate="GC409") from None
        self._store = store
        self._by = by
        self._newest = self._vault.key_ids[0]

    def status(self, *, batch: int = 1000) -> Json:
        """Return {keys: [{position, id, texts: {kind: number}, removable}], former, unknown}.

        `former`: texts of the former form, by kind: they are bound to no row, and under any of the keys. `unknown`:
        keys that the setting lacks, {id, texts}. `removable`: nothing is under this older key.
        """
        counts = {kind: Counter[str]() for kind in KINDS}
        for kind, window in self._windows(None, batch):
            counts[kind].update(window["counts"])
        return self._state(counts)

    def rotate(self, *, batch: int, progress: Callable[[int], None] = lambda done: None) -> Json:
        """Re-encrypt every text that is not under the newest key, `batch` rows at a time.

        Return the status after it with `rotated`, rows by kind; `problems`: [{kind, id, problem}], the first rows that
        no key reads or that are not authentic, which stay as they are; `failed`: how many these are. Interrupted, it
        continues where it was when it is called again.
        """
        status = self.status(batch=batch)
        self._store.record_key_rotation(by=self._by, key_id=self._newest, texts=to_rotate(status))
        rotated = Counter[str](dict.fromkeys(KINDS, 0))
        for _ in range(_PASSES):
            before = rotated.total()
            counts = {kind: Counter[str]() for kind in KINDS}
            problems: list[Json] = []
            for kind, window in self._windows(self._newest, batch):
                counts[kind].update(window["counts"])
                rows = [fresh for row in window["rows"] if (fresh := self._reencrypted(kind, row, problems))]
                if rows:
                    rotated[kind] += self._store.replace_ciphertexts(kind, rows)
                    progress(rotated.total())
            if rotated.total() == before:
                break
        found = {"rotated": dict(rotated), "problems": problems[:_LISTED_PROBLEMS], "failed": len(problems)}
        return self._state(counts) | found

    def _windows(self, key_id: str | None, batch: int) -> Iterator[tuple[str, Json]]:
        for kind in KINDS:
            after = None
            while True:
                window = self._store.list_ciphertexts(kind, key_id=key_id, after=after, limit=batch)
                yield kind, window
                after = window["after"]
                if after is None:
                    break

    def _reencrypted(self, kind: str, row: Json, problems: list[Json]) -> Json | None:
        """Return {id, texts: {old: new}} of the texts that can be read. Add what cannot to `problems`."""
        place = row["tenant_id"], row["place"]
        fresh = {}
        for text in row["texts"]:
            try:
                if kind == "endpoint":
                    fresh[text] = self._secrets.encrypt(self._secrets.decrypt(text, place), place)
                else:
                    number = self._vault.open(text, place, number_hash=row["number_hash"] or "")
                    fresh[text] = self._vault.seal(number, place).encrypted
            except Failure as failure:
                problems.append({"kind": kind, "id": row["id"], "problem": str(failure)})
        return {"id": row["id"], "texts": fresh} if fresh else None

    def _state(self, counts: dict[str, Counter[str]]) -> Json:
        def texts(key_id: str) -> dict[str, int]:
            return {kind: counts[kind][key_id] for kind in KINDS}

        ids = list(dict.fromkeys(self._vault.key_ids))
        former = texts("")
        unknown = sorted({key_id for kind in KINDS for key_id in counts[kind]} - {"", *ids})
        keys = [
            {
                "position": self._vault.key_ids.index(key_id) + 1,
                "id": key_id,
                "texts": texts(key_id),
                "removable": key_id != self._newest and not any([*former.values(), *texts(key_id).values()]),
            }
            for key_id in ids
        ]
        return {
            "keys": keys,
            "former": former,
            "unknown": [{"id": key_id, "texts": texts(key_id)} for key_id in unknown],
        }


def to_rotate(status: Json) -> int:
    """Return how many texts of a status are not under the newest key."""
    groups = [status["former"], *(row["texts"] for row in status["keys"][1:] + status["unknown"])]
    return sum(sum(group.values()) for group in groups)

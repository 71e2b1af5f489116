"""What a request says."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.support.postgrest.problems import Problem

_JSON = "application/json"
_SINGLE = "application/vnd.pgrst.object+json"
_RAW = ("text/plain", "text/xml", "application/octet-stream")
_KNOWN = frozenset(
    """resolution=merge-duplicates resolution=ignore-duplicates return=representation return=minimal return=headers-only
    count=exact count=planned count=estimated tx=commit tx=rollback missing=default missing=null handling=strict
    handling=lenient""".split()
)


@dataclass(frozen=True, slots=True)
class Preferences:
    """The header Prefer. `applied` is what Preference-Applied says; never tx, which Supabase lets nobody choose."""

    strict: bool
    exact_count: bool
    timezone: str | None
    max_affected: int | None
    applied: str

    def refuse_unknown(self, header: str) -> None:
        """With handling=strict."""
        unknown = [p for p in _split(header) if p not in _KNOWN and not p.startswith(("timezone=", "max-affected="))]
        if self.strict and unknown:
            details = f"Invalid preferences: {', '.join(unknown)}"
            raise Problem(400, "PGRST122", "Invalid preferences given with handling=strict", details=details)


def preferences(header: str) -> Preferences:
    """Of each kind the first counts."""
    first: dict[str, str] = {}
    for preference in _split(header):
        kind = preference.partition("=")[0]
        if preference in _KNOWN or kind in ("timezone", "max-affected"):
            first.setdefault(kind, preference)
    strict = first.get("handling") == "handling=strict"
    most = first.get("max-affected", "").partition("=")[2]
    told = [first[kind] for kind in ("count", "handling", "timezone") if kind in first]
    told += [first["max-affected"]] if strict and most.isdigit() else []
    return Preferences(
        strict=strict,
        exact_count=first.get("count") in ("count=exact", "count=estimated"),
        timezone=first.get("timezone", "").partition("=")[2] or None,
        max_affected=int(most) if most.isdigit() else None,
        applied=", ".join(told),
    )


@dataclass(frozen=True, slots=True)
class Request:
    """A request. The names of `headers` are in lower case."""

    method: str
    target: str
    headers: Mapping[str, str]
    content: bytes = b""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path.removeprefix("/rest/v1")

    @property
    def query(self) -> dict[str, str]:
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", _JSON).partition(";")[0].strip()

    @property
    def prefer(self) -> Preferences:
        return preferences(self.headers.get("prefer", ""))

    def wants_one_object(self) -> bool:
        """Instead of an array. Raises Problem for a media type that is not to be had."""
        accepted = [kind.partition(";")[0].strip() for kind in self.headers.get("accept", "*/*").split(",")]
        for kind in accepted:
            if kind == _SINGLE:
                return True
            if kind in (_JSON, "*/*", "application/*"):
                return False
        raise Problem(406, "PGRST107", f"None of these media types are available: {', '.join(accepted)}")

    def schema(self, exposed: list[str]) -> str:
        """The one that the profile header names, else the first."""
        header = "accept-profile" if self.method in ("GET", "HEAD") else "content-profile"
        schema = self.headers.get(header, exposed[0])
        if schema not in exposed:
            hint = f"Only the following schemas are exposed: {', '.join(exposed)}"
            raise Problem(406, "PGRST106", f"Invalid schema: {schema}", hint=hint)
        return schema

    def names(self) -> set[str]:
        """The arguments' names: of the query, or of the body."""
        if self.method != "POST":
            return set(self.query)
        if self.content_type in _RAW:
            return set()
        if self.content_type != _JSON:
            raise Problem(400, "PGRST102", f"Content-Type not acceptable: {self.content_type}")
        body = self._json()
        if isinstance(body, list) and body:
            if not all(isinstance(item, dict) and set(item) == set(body[0]) for item in body):
                raise Problem(400, "PGRST102", "All object keys must match")
            return set(body[0])
        return set(body) if isinstance(body, dict) else set()

    def _json(self) -> Any:
        try:
            # NaN and Infinity are Python's own addition.
            return json.loads(self.content, parse_constant=_refuse) if self.content else {}
        except ValueError:
            raise Problem(400, "PGRST102", "Empty or invalid json") from None


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _split(header: str) -> list[str]:
    return [preference.strip() for preference in header.split(",") if preference.strip()]

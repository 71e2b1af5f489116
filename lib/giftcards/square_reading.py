"""Signed events of Square, read whatever form they have."""

import hashlib
import json
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lib.giftcards.square_events import Event, EventId, EventType
from lib.validation import JsonError, strict_json


def read(raw: bytes) -> tuple[Event, str | None]:
    """Return a signed event, and what is wrong with its form, or None.

    An event that is not as Square describes them is kept all the same, under its own id if it has one, else under the
    hash of its text: Square would send it again for a day, and someone may want to look for it.
    """
    try:
        body = strict_json(raw)
    except JsonError:
        body = None
    try:
        return Event.model_validate_json(json.dumps(body, ensure_ascii=False)), None
    except ValidationError as error:
        # Only the location: the value may be personal data.
        location = ".".join(map(str, error.errors(include_input=False)[0]["loc"]))
    given = body if isinstance(body, dict) else {}
    event = Event(
        event_id=_valid(EventId, given.get("event_id")) or f"sha256:{hashlib.sha256(raw).hexdigest()}",
        type=_valid(EventType, given.get("type")) or "unreadable",
        created_at=datetime.fromtimestamp(0, UTC),  # not read: it is ignored
    )
    return event, f"not as expected: {location or 'the body is no object'}"[:200]


def _valid(kind: Any, value: Any) -> str | None:
    try:
        return str(TypeAdapter(kind).validate_python(value))
    except ValidationError:
        return None

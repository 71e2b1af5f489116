"""The headers that a job may set on its request."""

import re
from collections.abc import Mapping

from lib.validation import harmless

MAX_VALUE_LENGTH = 4_096

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE = re.compile(r"(?:[!-~](?:[\t -~]*[!-~])?)?")
# Set by the client alone: framing and routing, and the engine's own headers.
_RESERVED = frozenset(
    """host content-length content-encoding transfer-encoding te trailer connection keep-alive proxy-connection upgrade
    http2-settings expect proxy-authorization proxy-authenticate accept-encoding idempotency-key x-attempt""".split()
)


def check(headers: Mapping[str, str]) -> None:
    """Validate header names and values.

    Raises:
        ValueError: names the header, never its value; safe to return to clients.
    """
    names = set()
    for name, value in headers.items():
        # Many servers treat an underscore as a hyphen.
        normalized = name.lower().replace("_", "-")
        if not _NAME.fullmatch(name):
            raise ValueError(f"must not have a header named {harmless(name)!r}")
        if normalized in _RESERVED:
            raise ValueError(f"must not set {name}: the call sets it itself")
        if normalized in names:
            raise ValueError(f"must not set {name} twice")
        if not is_valid_value(value):
            raise ValueError(f"must have a value of printable ASCII, at most {MAX_VALUE_LENGTH} characters, for {name}")
        names.add(normalized)


def is_valid_value(value: str) -> bool:
    """Return whether a text can be sent as a header value."""
    return len(value) <= MAX_VALUE_LENGTH and _VALUE.fullmatch(value) is not None

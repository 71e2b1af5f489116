"""Headers that a request may bring along."""

import re
from collections.abc import Mapping

from lib.validation import harmless

LONGEST_VALUE = 4_096

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_VALUE = re.compile(r"(?:[!-~](?:[\t -~]*[!-~])?)?")
# Where a message ends and whom it is for is said by the client alone, and so is what the engine itself tells.
_OURS = frozenset(
    """host content-length content-encoding transfer-encoding te trailer connection keep-alive proxy-connection upgrade
    http2-settings expect proxy-authorization proxy-authenticate accept-encoding idempotency-key x-attempt""".split()
)


def check(headers: Mapping[str, str]) -> None:
    """Refuses names and values that could change the meaning of a request.

    Raises:
        ValueError: names the header, never its value; fit for answers.
    """
    seen = set()
    for name, value in headers.items():
        # Many servers take an underscore for a hyphen.
        plain = name.lower().replace("_", "-")
        if not _NAME.fullmatch(name):
            raise ValueError(f"must not have a header named {harmless(name)!r}")
        if plain in _OURS:
            raise ValueError(f"must not set {name}: it is set by the call itself")
        if plain in seen:
            raise ValueError(f"must not set {name} twice")
        if not is_value(value):
            raise ValueError(f"must have a value of printable ASCII, at most {LONGEST_VALUE} characters, for {name}")
        seen.add(plain)


def is_value(value: str) -> bool:
    """Whether it can be sent as a header's value."""
    return len(value) <= LONGEST_VALUE and _VALUE.fullmatch(value) is not None

"""Circuits."""

from typing import Literal

from lib.web.openapi.responses.base import Response, Time


class Circuit(Response):
    """A circuit that is not closed or has recent failures."""

    circuit: str
    """The name of the circuit."""
    state: Literal["closed", "open", "half_open"]
    failures: int
    """Failures in a row."""
    changed_at: Time | None
    open_until: Time | None


class CircuitList(Response):
    """A page of the circuits that are not closed or have recent failures, by name."""

    circuits: list[Circuit]
    older: str | None
    """The cursor of the next page. Null on the last one."""


class CircuitResetResult(Response):
    """A circuit closed by an operator."""

    circuit: str
    was: str
    """The state before the request."""
    state: Literal["closed"]

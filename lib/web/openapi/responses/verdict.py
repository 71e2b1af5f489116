"""The verdict of the overview."""

from typing import Literal

from lib.web.openapi.responses.base import Response


class VerdictAction(Response):
    """The one action that helps."""

    label: str
    kind: Literal["resume", "reset_circuit", "requeue", "tick", "open"]
    target: str
    """A stage (`*`: everything), a circuit, a kind of error, or an address of the operators' page. Empty for a tick."""
    stage: str | None
    """The stage of that kind of error."""


class Verdict(Response):
    """What is wrong, the worst first. Times are placeholders in braces, as `{2026-11-29T14:02:00Z}`."""

    level: Literal["ok", "warning", "error"]
    kind: str
    """A stable name of the first trouble; `ok` without one."""
    sentence: str
    next: str
    """What happens next by itself, and when, or what to do."""
    action: VerdictAction | None
    others: list[str]
    """The sentences of further troubles."""

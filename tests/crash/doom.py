"""Appointments with death: where on its way a worker gets a signal."""

import os
import signal
from pathlib import Path
from typing import Any

from lib.job import Job
from lib.store.codec import decode_step
from lib.store.postgres import PostgresWire

_COMPLETE = "complete"
_SETTLES = ("advance_tick", "step")

# Right after the claim; between the handler's end and the settle; between the settle and its answer.
_ANY = ("after claim", "before settle", "after settle")
# Between intent and effect, on both sides of the vendor's deed, between effect and record, between record and the rest.
AROUND_EFFECTS = ("after begin_effect", "before taking", "after taking", "before finish_effect", "after finish_effect")
PLACES = {
    "customer_ingest": (*_ANY, "before save_customer", "after save_customer"),
    "personal_code": (*_ANY, "before assign_code", "after assign_code"),
    "payment": (*_ANY, *AROUND_EFFECTS, "before record_payment", "after record_payment"),
    "issue_card": (*_ANY, *AROUND_EFFECTS, "before record_card", "after record_card"),
    "email": (*_ANY, *AROUND_EFFECTS),
}


def point(order: str, stage: str, when: str) -> str:
    """The name of one place: `order-07 payment before finish_effect`."""
    return f"{order} {stage} {when}"


class Appointments:
    """A file each, named for its point; what is in it is the signal.

    Whoever comes to the point first takes the file away, in one step, before the signal falls: so each comes true once,
    whichever process meets it, and a killed one leaves the truth behind.
    """

    def __init__(self, folder: Path) -> None:
        self._due = folder / "due"
        self._kept = folder / "kept"
        for each in (self._due, self._kept):
            each.mkdir(parents=True, exist_ok=True)

    def make(self, name: str, *, number: int = signal.SIGKILL) -> None:
        """Somebody will get this signal there."""
        with (self._due / name).open("x") as file:
            file.write(str(int(number)))

    def meet(self, name: str) -> int | None:
        """The signal that falls here and now; None: none."""
        try:
            return int((self._due / name).rename(self._kept / name).read_text())
        except FileNotFoundError:
            return None

    def left(self) -> list[str]:
        """Those that nobody has come to yet."""
        return sorted(path.name for path in self._due.iterdir())

    def kept(self) -> list[str]:
        """Those that came true."""
        return sorted(path.name for path in self._kept.iterdir())

    def cancel(self, name: str) -> None:
        """It will not come true."""
        (self._due / name).unlink()


class DoomedWire(PostgresWire):
    """The real wire, which looks for an appointment before and after each call and then signals its own process.

    `before x` and `after x` are the call of giftcard_x; `before settle` and `after settle` the call that settles a
    completed run; `after claim` is the call that brought the job. After: it is committed, and its answer never heard.
    """

    def __init__(self, url: str, appointments: Appointments) -> None:
        super().__init__(url)
        self._appointments = appointments
        self._jobs: dict[int, tuple[str, str]] = {}
        self._effects: dict[str, tuple[str, str]] = {}
        self._customers: dict[int, str] = {}

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        """See `lib.store.wire.Wire`."""
        name = function.removeprefix("giftcard_")
        whose = self._whose(name, arguments)
        self._come_to("before", name, whose)
        answer = super().call(function, repeat=repeat, **arguments)
        if name == "begin_effect":
            self._effects[answer["vendor_key"]] = self._jobs[arguments["job_id"]]
        self._come_to("after", name, whose)
        if name in ("begin_tick", "advance_tick", "step"):
            step = decode_step(answer, lease_id=str(arguments.get("claim_key")), owner="")
            self._come_to("after", "claim", self._learn(step.jobs))
        return answer

    def _learn(self, jobs: tuple[Job, ...]) -> list[tuple[str, str]]:
        """Remembers who is who; answers the runs that are about to begin."""
        for job in jobs:
            self._jobs[job.id] = (job.correlation_id, job.stage)
            if job.stage == "personal_code":
                self._customers[job.context["customer_id"]] = job.correlation_id
        return [self._jobs[job.id] for job in jobs if not job.interrupted]

    def _whose(self, name: str, arguments: dict[str, Any]) -> list[tuple[str, str]]:
        """The orders and stages that a call is about."""
        match name:
            case "step":  # of runs that are all complete
                return [self._jobs[one] for one in arguments["ids"]]
            case "advance_tick":
                results = arguments["results"]
                return [self._jobs[one["id"]] for one in results if one["outcome"] == _COMPLETE]
            case "begin_effect":
                return [self._jobs[arguments["job_id"]]]
            case "settle_with_call":
                return [self._jobs[arguments["result"]["id"]]]
            case "finish_effect":
                return [self._effects[arguments["vendor_key"]]]
            case "save_customer":
                return [(arguments["email"].partition("@")[0], "customer_ingest")]
            case "assign_code":
                return [(self._customers[arguments["customer_id"]], "personal_code")]
            case "record_payment" | "record_card":
                stage = {"record_payment": "payment", "record_card": "issue_card"}[name]
                return [(arguments["correlation_id"], stage)]
        return []

    def _come_to(self, when: str, name: str, whose: list[tuple[str, str]]) -> None:
        place = "settle" if name in _SETTLES else name
        for order, stage in whose:
            number = self._appointments.meet(point(order, stage, f"{when} {place}"))
            if number is not None:
                os.kill(os.getpid(), number)

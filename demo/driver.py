"""The driver: performs each step of the scenario when its time has come."""

import time
from dataclasses import dataclass

from rich.console import Console

from demo import scenario
from demo.display import Display
from demo.mailbox import MailServer
from demo.operator import Operator
from demo.payments import PaymentService
from demo.progress import Line, Progress
from demo.receivers import Receiver
from demo.results import Killed
from demo.runtime import Clock, Worker
from demo.snapshot import Snapshot
from lib.giftcards.order_files.importing import Imported
from lib.web.services import Services

_POLL_INTERVAL = 0.15  # seconds
_KILL_TIMEOUT = 30.0  # seconds after which the process is killed in any case


@dataclass(slots=True, kw_only=True)
class Participants:
    """Everything that takes part in the demo."""

    services: Services
    snapshot: Snapshot
    payments: PaymentService
    mails: MailServer
    receiver: Receiver
    operator: Operator
    worker: Worker
    clock: Clock
    killed: Killed | None = None


def run(console: Console, participants: Participants, imported: Imported, *, verbose: bool) -> None:
    """Run the scenario until no work is left, or until its timeout."""
    settings, stages = participants.services.settings, participants.services.registry().stages
    attempts = {name: int(stage.effective(settings, "max_attempts")) for name, stage in stages.items()}
    progress = Progress(participants.snapshot, participants.payments, participants.receiver, attempts=attempts)
    with Display(console, total=imported.created, verbose=verbose) as display:
        display.print([("bold", f"process {participants.worker.pid} starts a tick (flask jobs tick) …")])
        while True:
            display.print(progress.poll())
            display.print(_perform_steps(participants, display.seconds))
            display.update(participants.snapshot.counts(), circuits=participants.snapshot.circuits())
            if _is_over(participants) or display.seconds > scenario.TIMEOUT:
                break
            time.sleep(_POLL_INTERVAL)
        display.print(progress.poll())


def _is_over(participants: Participants) -> bool:
    return (
        participants.operator.is_done
        and not participants.snapshot.schedules()
        and not participants.snapshot.open_jobs()
    )


def _perform_steps(participants: Participants, seconds: float) -> list[Line]:
    """Perform the steps that are due, and return the lines to print."""
    if participants.killed is None:
        is_time = (
            participants.payments.waiting >= scenario.KILL_AT
            or participants.worker.has_ended
            or seconds > _KILL_TIMEOUT
        )
        return _kill(participants) if is_time else []
    participants.operator.check_health()
    if not participants.operator.is_done and not participants.snapshot.open_jobs():
        participants.operator.finish()
        return [("bold", "all orders are done; the daily report is scheduled, and goes out by webhook and mail")]
    probes = [
        change
        for change in participants.snapshot.changes()
        if (change.circuit, change.from_state) == ("email", "half_open")
    ]
    if len(probes) >= scenario.MAIL_PROBES and not participants.mails.is_open:
        participants.mails.open()
        return [("bold", "the mail server is up again; the next probe will notice")]
    return []


def _kill(participants: Participants) -> list[Line]:
    exit_code = participants.worker.kill()
    # After its end, so that its jobs cannot change any more.
    participants.killed = Killed(
        pid=participants.worker.pid,
        exit_code=exit_code,
        runs=participants.snapshot.running_of(participants.worker.owner),
    )
    participants.payments.resume_responses()
    participants.operator.schedule_calls()
    participants.clock.start()
    orders = ", ".join(sorted(order for order, _ in participants.killed.runs))
    return [
        (
            "bold",
            f"process {participants.killed.pid} is killed (SIGKILL) during a tick; running: {orders or 'nothing'}",
        ),
        ("bold", f"the clock starts: {scenario.TICKS_PER_SECOND} calls of the cron endpoint per second"),
        ("bold", f"two calls are scheduled: a recurring ping ({scenario.CALL_CRON}) and a transfer, at most once"),
    ]

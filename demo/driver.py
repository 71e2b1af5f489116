"""The director: does what the story wants, when it wants it."""

import time
from dataclasses import dataclass

from rich.console import Console

from demo import scenario
from demo.display import Display
from demo.mailbox import MailServer
from demo.operator import Desk
from demo.payments import PaymentService
from demo.progress import Line, News
from demo.receivers import Receiver
from demo.results import Killed
from demo.runtime import Clock, Worker
from demo.snapshot import Facts
from lib.giftcards.csv_import import Imported
from lib.web.services import Services

_LOOK_EVERY = 0.15  # seconds
_KILL_BY = 30.0  # seconds; then the process is killed whatever it does


@dataclass(slots=True, kw_only=True)
class Cast:
    """Who plays."""

    services: Services
    facts: Facts
    payments: PaymentService
    mails: MailServer
    receiver: Receiver
    desk: Desk
    worker: Worker
    clock: Clock
    killed: Killed | None = None


def run(console: Console, cast: Cast, imported: Imported) -> None:
    """Until nothing is left to do, or patience ends."""
    settings, stages = cast.services.settings, cast.services.registry().stages
    attempts = {name: int(stage.effective(settings, "max_attempts")) for name, stage in stages.items()}
    news = News(cast.facts, cast.payments, cast.receiver, attempts=attempts)
    with Display(console, whole=imported.created) as display:
        display.tell([("bold", f"process {cast.worker.pid} begins a tick (flask jobs tick) …")])
        while True:
            display.tell(news.look())
            display.tell(_direct(cast, display.seconds))
            display.show(cast.facts.counts(), circuits=cast.facts.circuits())
            if _is_over(cast) or display.seconds > scenario.PATIENCE:
                break
            time.sleep(_LOOK_EVERY)
        display.tell(news.look())


def _is_over(cast: Cast) -> bool:
    return cast.desk.is_closed and not cast.facts.schedules() and not cast.facts.open_jobs()


def _direct(cast: Cast, seconds: float) -> list[Line]:
    """Does what the story wants now; answers the lines that tell of it."""
    if cast.killed is None:
        is_time = cast.payments.held >= scenario.KILL_AT or cast.worker.has_ended or seconds > _KILL_BY
        return _kill(cast) if is_time else []
    cast.desk.ask_for_health()
    if not cast.desk.is_closed and not cast.facts.open_jobs():
        cast.desk.close()
        return [
            ("bold", "the orders are through; the report of the day is scheduled, and goes to webhooks and by mail")
        ]
    probes = [
        change for change in cast.facts.changes() if (change.circuit, change.from_state) == ("email", "half_open")
    ]
    if len(probes) >= scenario.MAIL_PROBES and not cast.mails.is_open:
        cast.mails.open()
        return [("bold", "the mail server is up again; nobody is told, the next probe will find out")]
    return []


def _kill(cast: Cast) -> list[Line]:
    exit_code = cast.worker.kill()
    # Read after its death: nothing of it can change any more.
    cast.killed = Killed(pid=cast.worker.pid, exit_code=exit_code, runs=cast.facts.running_of(cast.worker.owner))
    cast.payments.thaw()
    cast.desk.schedule_calls()
    cast.clock.start()
    orders = ", ".join(sorted(order for order, _ in cast.killed.runs))
    return [
        (
            "bold",
            f"process {cast.killed.pid} is killed (SIGKILL) in the middle of a tick; under way: {orders or 'nothing'}",
        ),
        ("bold", f"the clock starts: {scenario.TICKS_PER_SECOND} calls of the cron door a second"),
        ("bold", f"two calls are scheduled: a ping, each {scenario.CALL_TIMES}, and a transfer, at most once"),
    ]

"""The whole evening, in order: setting up, orders in, all that goes wrong, and what came out."""

import secrets
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psycopg
from rich.console import Console

from lib.demo import opening, story, summary
from lib.demo.checks import all_checks
from lib.demo.database import Database, alone, own_database
from lib.demo.facts import Facts
from lib.demo.live import Display, new_console
from lib.demo.mailbox import MailServer
from lib.demo.news import Line, News
from lib.demo.outcome import Killed, read_outcome
from lib.demo.payments import PaymentService
from lib.demo.stage import Clock, Worker, application, clock, worker
from lib.errors import StoreError
from lib.giftcards.importing import Imported, import_csv
from lib.local import ROOT
from lib.settings import Settings
from lib.web.app import Giftcards

_LOOK_EVERY = 0.15  # seconds
_KILL_BY = 30.0  # seconds; then the process is killed whatever it does


@dataclass(slots=True, kw_only=True)
class _Cast:
    """Who plays."""

    parts: Giftcards
    facts: Facts
    payments: PaymentService
    mails: MailServer
    worker: Worker
    clock: Clock
    killed: Killed | None = None


def play(folder: Path) -> int:
    """Plays the demo; `folder` holds Postgres and demo/. Answers the exit code, see `lib.demo.__main__`."""
    console = new_console()
    folder = folder.resolve()
    began = time.monotonic()
    try:
        with alone(folder / "demo"), own_database(folder) as database, ExitStack() as stack:
            return _play(console, stack, database, folder=folder / "demo", began=began)
    except StoreError as error:
        console.print(f"The demo cannot play: {error}", style="red")
        return 2
    except psycopg.Error as error:
        console.print(f"The database went away: {' '.join(str(error).split())}", style="red")
        return 1


def _play(console: Console, stack: ExitStack, database: Database, *, folder: Path, began: float) -> int:
    mails = stack.enter_context(MailServer(folder / "mails"))
    attempts = Settings.model_construct().max_payment_retry_attempts
    payments = stack.enter_context(PaymentService(story.FATES, token=secrets.token_urlsafe(), broken_times=attempts))
    log_file = folder / "log.jsonl"
    log_file.write_text("")
    log = stack.enter_context(log_file.open("a", buffering=1, encoding="utf-8"))
    _set_environment(database, payments, mails, folder=folder)
    parts, url = stack.enter_context(application(log))
    opening.setting_up(console, database, url=url, payments=payments.url, mail_port=mails.port, log=log_file)
    with (ROOT / "data/orders.csv").open(encoding="utf-8-sig", newline="") as rows:
        imported = import_csv(parts.store, rows, tenant_id=database.tenant)
    opening.orders_in(console, imported)

    payments.freeze()
    facts = stack.enter_context(Facts(database.url, tenant=database.tenant))
    cast = _Cast(
        parts=parts,
        facts=facts,
        payments=payments,
        mails=mails,
        worker=stack.enter_context(worker(log, settings=story.DOOMED)),
        clock=stack.enter_context(clock(url, per_second=story.TICKS_PER_SECOND)),
    )
    _run(console, cast, imported)
    cast.clock.stop()
    outcome = read_outcome(facts, payments, imported=imported, mails=folder / "mails", killed=cast.killed)
    checks = all_checks(outcome)
    summary.what_came_out(console, outcome, ticks=cast.clock.calls, mails=folder / "mails")
    summary.verdict(console, checks, cast.clock.complaints, seconds=time.monotonic() - began)
    if not all(check.holds for check in checks):
        return 1
    summary.what_next(console, outcome, folder=folder)
    return 0


def _set_environment(database: Database, payments: PaymentService, mails: MailServer, *, folder: Path) -> None:
    bent = {variable: value for variable, (value, _) in story.SHORTENED.items()}
    own = {
        "DATABASE_URL": database.url,
        "GIFTCARD_PAYMENT_PROVIDER": "http",
        "GIFTCARD_PAYMENT_URL": payments.url,
        "GIFTCARD_PAYMENT_TOKEN": payments.token,
        "SMTP_URL": f"smtp://127.0.0.1:{mails.port}",
    }
    story.set_environment(own | bent, folder=folder)


def _run(console: Console, cast: _Cast, imported: Imported) -> None:
    """Until nothing is left to do, or patience ends."""
    news = News(cast.facts, cast.payments, max_attempts=cast.parts.settings.max_payment_retry_attempts)
    with Display(console, whole=imported.created) as display:
        display.tell([("bold", f"process {cast.worker.pid} begins a tick (flask jobs tick) …")])
        while True:
            display.tell(news.look())
            display.tell(_direct(cast, display.seconds))
            display.show(cast.facts.counts(), circuits=cast.facts.circuits())
            if (cast.killed and not cast.facts.open_jobs()) or display.seconds > story.PATIENCE:
                break
            time.sleep(_LOOK_EVERY)
        display.tell(news.look())


def _direct(cast: _Cast, seconds: float) -> list[Line]:
    """Does what the story wants now; answers the lines that tell of it."""
    if cast.killed is None:
        is_time = cast.payments.held >= story.KILL_AT or cast.worker.has_ended or seconds > _KILL_BY
        return _kill(cast) if is_time else []
    probes = [
        change for change in cast.facts.changes() if (change.circuit, change.from_state) == ("email", "half_open")
    ]
    if len(probes) >= story.MAIL_PROBES and not cast.mails.is_open:
        cast.mails.open()
        return [("bold", "the mail server is up again; nobody is told, the next probe will find out")]
    return []


def _kill(cast: _Cast) -> list[Line]:
    exit_code = cast.worker.kill()
    # Read after its death: nothing of it can change any more.
    cast.killed = Killed(pid=cast.worker.pid, exit_code=exit_code, runs=cast.facts.running_of(cast.worker.owner))
    cast.payments.thaw()
    cast.clock.start()
    orders = ", ".join(sorted(order for order, _ in cast.killed.runs))
    return [
        (
            "bold",
            f"process {cast.killed.pid} is killed (SIGKILL) in the middle of a tick; under way: {orders or 'nothing'}",
        ),
        ("bold", f"the clock starts: {story.TICKS_PER_SECOND} calls of the cron door a second"),
    ]

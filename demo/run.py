"""The whole evening, in order: setting up, orders in, all that goes wrong, and what came out."""

import secrets
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import httpx
import psycopg
from rich.console import Console

from demo import intro, scenario, summary
from demo.checks import all_checks
from demo.database import Database, alone, own_database
from demo.display import new_console
from demo.driver import Cast, run
from demo.mailbox import MailServer
from demo.operator import desk
from demo.payments import PaymentService
from demo.receivers import ALERTS, Receiver
from demo.results import read_outcome
from demo.runtime import application, clock, worker
from demo.snapshot import Facts
from dev import ROOT
from lib.config.settings import Settings
from lib.errors import StoreError
from lib.giftcards.csv_import import Imported, import_csv


def play(folder: Path, *, supabase: Sequence[str] | None) -> int:
    """Plays the demo; `folder` holds Postgres and demo/. Arguments and exit code: see `demo.__main__`."""
    console = new_console()
    folder = folder.resolve()
    began = time.monotonic()
    try:
        with alone(folder / "demo"), own_database(folder, supabase=supabase) as database, ExitStack() as stack:
            return _play(console, stack, database, folder=folder / "demo", began=began)
    except StoreError as error:
        console.print(f"The demo cannot play: {error}", style="red")
        return 2
    except psycopg.Error as error:
        console.print(f"The database went away: {' '.join(str(error).split())}", style="red")
        return 1
    except httpx.HTTPError as error:
        console.print(f"The application did not answer as it should: {error}", style="red")
        return 1


def _play(console: Console, stack: ExitStack, database: Database, *, folder: Path, began: float) -> int:
    mails = stack.enter_context(MailServer(folder / "mails"))
    attempts = Settings.model_construct().max_payment_retry_attempts
    payments = stack.enter_context(PaymentService(scenario.FATES, token=secrets.token_urlsafe(), broken_times=attempts))
    receiver = stack.enter_context(Receiver())
    log_file = folder / "log.jsonl"
    log_file.write_text("")
    log = stack.enter_context(log_file.open("a", buffering=1, encoding="utf-8"))
    _set_environment(database, payments, mails, receiver, folder=folder)
    services, url = stack.enter_context(application(log))
    intro.setting_up(
        console,
        database,
        url=url,
        payments=payments.url,
        mail_port=mails.port,
        others=receiver.url(""),
        log=log_file,
    )
    with (ROOT / "data/orders.csv").open(encoding="utf-8-sig", newline="") as rows:
        imported = import_csv(services.store, services.registry(), services.settings, rows, tenant_id=database.tenant)
    intro.orders_in(console, imported)

    payments.freeze()
    facts = stack.enter_context(Facts(database.url, tenant=database.tenant))
    cast = Cast(
        services=services,
        facts=facts,
        payments=payments,
        mails=mails,
        receiver=receiver,
        desk=stack.enter_context(desk(url, receiver, tenant=database.tenant)),
        worker=stack.enter_context(worker(log, settings=scenario.DOOMED)),
        clock=stack.enter_context(clock(url, per_second=scenario.TICKS_PER_SECOND)),
    )
    run(console, cast, imported)
    return _judge(console, cast, imported, folder=folder, began=began)


def _judge(console: Console, cast: Cast, imported: Imported, *, folder: Path, began: float) -> int:
    cast.clock.stop()
    mails = folder / "mails"
    outcome = read_outcome(cast.facts, cast.payments, cast.receiver, imported=imported, mails=mails, killed=cast.killed)
    cast.desk.turn_off_shop()
    checks = all_checks(outcome)
    summary.what_came_out(console, outcome, ticks=cast.clock.calls, mails=mails)
    summary.verdict(console, checks, cast.clock.complaints, seconds=time.monotonic() - began)
    if not all(check.holds for check in checks):
        return 1
    summary.what_next(console, outcome, folder=folder)
    return 0


def _set_environment(
    database: Database, payments: PaymentService, mails: MailServer, receiver: Receiver, *, folder: Path
) -> None:
    bent = {variable: value for variable, (value, _) in scenario.SHORTENED.items()}
    own = {
        "DATABASE_URL": database.url,
        **database.supabase,
        "GIFTCARD_PAYMENT_PROVIDER": "http",
        "GIFTCARD_PAYMENT_URL": payments.url,
        "GIFTCARD_PAYMENT_TOKEN": payments.token,
        "SMTP_URL": f"smtp://127.0.0.1:{mails.port}",
        "REPORT_RECIPIENTS": scenario.REPORT_READER,
        "GIFTCARD_ALERT_URL": receiver.url(ALERTS),
        "GIFTCARD_ALLOWED_NETWORKS": "127.0.0.0/8",
    }
    scenario.set_environment(own | bent, folder=folder)

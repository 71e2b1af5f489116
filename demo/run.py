"""The whole demo, in order: setup, import, run, checks."""

import os
import secrets
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import httpx
import psycopg
from rich.console import Console

from demo import intro, scenario, screen, summary
from demo.checks import all_checks
from demo.database import Database, demo_database, exclusive
from demo.display import new_console
from demo.driver import Participants, run
from demo.mailbox import MailServer
from demo.operator import operator
from demo.payments import PaymentService
from demo.receivers import ALERTS, Receiver
from demo.results import read_outcome
from demo.runtime import application, clock, worker
from demo.snapshot import Snapshot
from dev import ROOT
from lib.config.settings import Settings
from lib.errors import StoreError
from lib.giftcards.order_files.file import open_orders
from lib.giftcards.order_files.importing import Imported, Importer
from lib.giftcards.order_files.own import OwnColumns
from lib.store.libpq import words_of
from lib.web.services import Services


def run_demo(folder: Path, *, supabase: Sequence[str] | None, verbose: bool) -> int:
    """Run the demo; `folder` holds Postgres and demo/. Arguments and exit code: see `demo.__main__`."""
    console = new_console(verbose=verbose)
    folder = folder.resolve()
    began = time.monotonic()
    try:
        with exclusive(folder / "demo"), demo_database(folder, supabase=supabase) as database, ExitStack() as stack:
            return _run(console, stack, database, folder=folder / "demo", began=began, verbose=verbose)
    except StoreError as error:
        console.print(f"The demo cannot start: {error}", style="red")
        return 2
    except psycopg.Error as error:
        console.print(f"The database was lost: {words_of(error, os.environ.get('DATABASE_URL', ''))}", style="red")
        return 1
    except httpx.HTTPError as error:
        console.print(f"The application returned an error: {error}", style="red")
        return 1


def _run(console: Console, stack: ExitStack, database: Database, *, folder: Path, began: float, verbose: bool) -> int:
    mails = stack.enter_context(MailServer(folder / "mails"))
    attempts = Settings.model_construct().max_payment_retry_attempts
    payments = stack.enter_context(
        PaymentService(scenario.BEHAVIORS, token=secrets.token_urlsafe(), broken_times=attempts)
    )
    receiver = stack.enter_context(Receiver())
    log_file = folder / "log.jsonl"
    log_file.write_text("")
    log = stack.enter_context(log_file.open("a", buffering=1, encoding="utf-8"))
    _set_environment(database, payments, mails, receiver, folder=folder)
    services, url = stack.enter_context(application(log))
    if verbose:
        addresses = {"url": url, "payments": payments.url, "others": receiver.url("")}
        intro.setup(console, database, mail_port=mails.port, log=log_file, **addresses)
    else:
        screen.start(console, database)
    imported = _import_orders(services, tenant_id=database.tenant)
    if verbose:
        intro.imported_orders(console, imported)

    payments.withhold_responses()
    snapshot = stack.enter_context(Snapshot(database.url, tenant=database.tenant))
    participants = Participants(
        services=services,
        snapshot=snapshot,
        payments=payments,
        mails=mails,
        receiver=receiver,
        operator=stack.enter_context(operator(url, receiver, tenant=database.tenant)),
        worker=stack.enter_context(worker(log, settings=scenario.WORKER_SETTINGS)),
        clock=stack.enter_context(clock(url, per_second=scenario.TICKS_PER_SECOND)),
    )
    run(console, participants, imported, verbose=verbose)
    return _check(console, participants, imported, folder=folder, began=began, verbose=verbose)


def _import_orders(services: Services, *, tenant_id: str) -> Imported:
    orders = open_orders((ROOT / "data/orders.csv").read_bytes(), OwnColumns())
    registry, settings = services.registry(), services.settings
    return Importer(store=services.store, registry=registry, settings=settings, tenant_id=tenant_id).run(orders)


def _check(
    console: Console, participants: Participants, imported: Imported, *, folder: Path, began: float, verbose: bool
) -> int:
    participants.clock.stop()
    mails = folder / "mails"
    outcome = read_outcome(
        participants.snapshot,
        participants.payments,
        participants.receiver,
        imported=imported,
        mails=mails,
        killed=participants.killed,
    )
    participants.operator.disable_shop()
    checks = all_checks(outcome)
    seconds, errors = time.monotonic() - began, participants.clock.errors
    if verbose:
        summary.results(console, outcome, ticks=participants.clock.calls, mails=mails)
        summary.checks(console, checks, errors, seconds=seconds, verbose=True)
    else:
        screen.end(console, outcome, checks, errors, seconds=seconds, mails=mails)
    if not all(check.passed for check in checks):
        return 1
    summary.next_steps(console, outcome, folder=folder)
    return 0


def _set_environment(
    database: Database, payments: PaymentService, mails: MailServer, receiver: Receiver, *, folder: Path
) -> None:
    shortened = {variable: value for variable, (value, _) in scenario.SHORTENED.items()}
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
    scenario.set_environment(own | shortened, folder=folder)

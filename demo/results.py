"""All that came out, in one value: read from the database, from the books of those who were called, from the mails."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from demo.mailbox import Mail, read_mails
from demo.payments import Charge, PaymentService
from demo.receivers import Call, Message, Receiver
from demo.scenario import REPORT_READER
from demo.snapshot import Change, Facts, Letter, OrderFacts, Report, Run
from lib.giftcards.csv_import import Imported
from lib.giftcards.personal_codes import candidates


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """The process that was killed; `runs` are order and stage of what it had begun."""

    pid: int
    exit_code: int
    runs: list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What went by the clock, and what others were told."""

    calls: list[Call]
    messages: list[Message]
    forged: list[str]
    alerts: list[dict[str, Any]]
    report: Report | None
    report_mails: list[Mail]
    off: dict[str, str]
    """Webhook endpoints that were turned off: why, by address."""
    schedules: int
    """Those that are left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What there is when nothing moves any more."""

    imported: Imported
    orders: list[OrderFacts]
    runs: list[Run]
    letters: list[Letter]
    changes: list[Change]
    circuits: dict[str, str]
    charges: list[Charge]
    asked: Counter[str]
    silences: list[str]
    declined: set[str]
    mails: list[Mail]
    killed: Killed | None
    open_jobs: int
    waited: dict[str, int]
    """By circuit: the jobs that waited before it and lost no attempt."""
    told: Told

    @property
    def dead(self) -> list[OrderFacts]:
        """Orders that will not come to a card by themselves."""
        return [order for order in self.orders if order.dead]

    @property
    def customers(self) -> dict[int, OrderFacts]:
        """Each customer once, with the first order of theirs."""
        first: dict[int, OrderFacts] = {}
        for order in self.orders:
            if order.customer_id is not None:
                first.setdefault(order.customer_id, order)
        return first

    @property
    def unanswered(self) -> list[str]:
        """Orders whose money was taken without an answer, though nobody was killed."""
        victims = {order for order, _ in self.killed.runs} if self.killed else set()
        return sorted(set(self.silences) - victims)

    @property
    def revived(self) -> list[Letter]:
        """Dead letters that came back by themselves."""
        return [letter for letter in self.letters if letter.revivals]


def read_outcome(
    facts: Facts,
    payments: PaymentService,
    receiver: Receiver,
    *,
    imported: Imported,
    mails: Path,
    killed: Killed | None,
) -> Outcome:
    """Reads it."""
    changes = facts.changes()
    came = read_mails(mails)
    reports = [mail for mail in came if mail.to == REPORT_READER]
    return Outcome(
        imported=imported,
        orders=facts.orders(),
        runs=facts.runs(),
        letters=facts.letters(),
        changes=changes,
        circuits=facts.circuits(),
        charges=list(payments.charges),
        asked=Counter(payments.asked),
        silences=list(payments.silences),
        declined=set(payments.declined),
        mails=[mail for mail in came if mail not in reports],
        killed=killed,
        open_jobs=facts.open_jobs(),
        waited={change.circuit: facts.waited(change.circuit) for change in changes},
        told=_read_told(facts, receiver, report_mails=reports),
    )


def _read_told(facts: Facts, receiver: Receiver, *, report_mails: list[Mail]) -> Told:
    return Told(
        calls=list(receiver.calls),
        messages=list(receiver.messages),
        forged=list(receiver.forged),
        alerts=list(receiver.alerts),
        report=facts.report(),
        report_mails=report_mails,
        off=facts.endpoints_off(),
        schedules=facts.schedules(),
    )


def wanted_code(customer: OrderFacts) -> str | None:
    """The code that a customer would have, were they alone; None: any four digits would do."""
    if not any(char.isascii() and char.isdigit() for char in customer.external_id or ""):
        return None
    # Only the later candidates are random.
    return candidates(customer.given_name, customer.external_id, attempt=1, rng=Random(0))[0]  # noqa: S311

"""All results, in one value: from the database, the records of the called services, and the mails."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from demo.mailbox import Mail, read_mails
from demo.payments import Charge, PaymentService
from demo.receivers import Call, Message, Receiver
from demo.scenario import REPORT_READER
from demo.snapshot import CircuitChange, DeadLetter, OrderState, Report, Run, Snapshot
from lib.giftcards.order_files.importing import Imported
from lib.giftcards.personal_codes import candidates


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """The killed process; `runs` are order and stage of its unfinished runs."""

    pid: int
    exit_code: int
    runs: list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliveries:
    """Scheduled calls, webhooks, alerts and reports."""

    calls: list[Call]
    messages: list[Message]
    forged: list[str]
    alerts: list[dict[str, Any]]
    report: Report | None
    report_mails: list[Mail]
    disabled: dict[str, str]
    """The reasons of disabled webhook endpoints, by URL."""
    schedules: int
    """The number of schedules left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The final state."""

    imported: Imported
    orders: list[OrderState]
    runs: list[Run]
    letters: list[DeadLetter]
    changes: list[CircuitChange]
    circuits: dict[str, str]
    charges: list[Charge]
    requests: Counter[str]
    without_response: list[str]
    declined: set[str]
    mails: list[Mail]
    killed: Killed | None
    open_jobs: int
    waited: dict[str, int]
    """By circuit: the jobs that waited for it and lost no attempt."""
    deliveries: Deliveries

    @property
    def dead(self) -> list[OrderState]:
        """Orders that will get no card without an operator."""
        return [order for order in self.orders if order.dead]

    @property
    def customers(self) -> dict[int, OrderState]:
        """The first order of each customer."""
        first: dict[int, OrderState] = {}
        for order in self.orders:
            if order.customer_id is not None:
                first.setdefault(order.customer_id, order)
        return first

    @property
    def charged_without_response(self) -> list[str]:
        """Orders that were charged without a response, except those of the killed process."""
        killed = {order for order, _ in self.killed.runs} if self.killed else set()
        return sorted(set(self.without_response) - killed)

    @property
    def revived(self) -> list[DeadLetter]:
        """Dead letters that were revived automatically."""
        return [letter for letter in self.letters if letter.revivals]


def read_outcome(
    snapshot: Snapshot,
    payments: PaymentService,
    receiver: Receiver,
    *,
    imported: Imported,
    mails: Path,
    killed: Killed | None,
) -> Outcome:
    """Read the final state."""
    changes = snapshot.changes()
    all_mails = read_mails(mails)
    reports = [mail for mail in all_mails if mail.to == REPORT_READER]
    return Outcome(
        imported=imported,
        orders=snapshot.orders(),
        runs=snapshot.runs(),
        letters=snapshot.letters(),
        changes=changes,
        circuits=snapshot.circuits(),
        charges=list(payments.charges),
        requests=Counter(payments.requests),
        without_response=list(payments.without_response),
        declined=set(payments.declined),
        mails=[mail for mail in all_mails if mail not in reports],
        killed=killed,
        open_jobs=snapshot.open_jobs(),
        waited={change.circuit: snapshot.waited(change.circuit) for change in changes},
        deliveries=_read_deliveries(snapshot, receiver, report_mails=reports),
    )


def _read_deliveries(snapshot: Snapshot, receiver: Receiver, *, report_mails: list[Mail]) -> Deliveries:
    return Deliveries(
        calls=list(receiver.calls),
        messages=list(receiver.messages),
        forged=list(receiver.forged),
        alerts=list(receiver.alerts),
        report=snapshot.report(),
        report_mails=report_mails,
        disabled=snapshot.disabled_endpoints(),
        schedules=snapshot.schedules(),
    )


def preferred_code(customer: OrderState) -> str | None:
    """Return the first choice of a customer's code; None: its digits are random."""
    if not any(char.isascii() and char.isdigit() for char in customer.external_id or ""):
        return None
    # Only the other candidates are random.
    return candidates(customer.given_name, customer.external_id, attempt=1, rng=Random(0))[0]  # noqa: S311

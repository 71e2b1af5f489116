"""The expected results: the demo fails unless all of them hold."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from signal import SIGKILL

from demo import notifications, schedules
from demo.mailbox import Mail
from demo.results import Outcome, preferred_code


@dataclass(frozen=True, slots=True)
class Check:
    """An expectation, and the problems found."""

    sentence: str
    problems: list[str]

    @property
    def passed(self) -> bool:
        """Whether there are no problems."""
        return not self.problems


def all_checks(outcome: Outcome) -> list[Check]:
    """Run all checks: the business first, then the failures of the scenario."""
    checks: dict[str, Callable[[Outcome], Iterator[str]]] = {
        "every good row of the file is one order": _imported,
        "every order has one card, one payment and one mail, except those that were declined": _each_has_one,
        "declined orders have neither card nor payment nor mail": _declined_have_none,
        "no two customers have the same personal code": _codes,
        "the payment service's records and ours agree: no order was charged twice": _records,
        "each mail went to its own customer with their own code": _mails,
        "no work is left": _nothing_left,
        "the circuit of email opened, and closed again": _circuit,
        "the killed process lost no work, and its payments were charged once": _killed,
        "payments without a response were retried, and charged once": _no_response,
        "a dead letter revived by itself and succeeded": _revived,
        "customers with the same first choice of code got different codes": _collisions,
    }
    checks |= schedules.CHECKS
    checks |= notifications.CHECKS
    return [Check(sentence, list(problems_of(outcome))) for sentence, problems_of in checks.items()]


def _imported(outcome: Outcome) -> Iterator[str]:
    if len(outcome.orders) != outcome.imported.created or not outcome.orders:
        yield f"{outcome.imported.created} rows were imported, but there are {len(outcome.orders)} orders"


def _each_has_one(outcome: Outcome) -> Iterator[str]:
    mails = Counter(mail.key for mail in outcome.mails)
    for order in outcome.orders:
        counts = (order.cards, len(order.payments or []), mails[order.mail_key or ""])
        if order.id not in outcome.declined and counts != (1, 1, 1):
            yield "{}: {} cards, {} payments, {} mails".format(order.id, *counts) + f" ({order.dead})" * bool(
                order.dead
            )


def _declined_have_none(outcome: Outcome) -> Iterator[str]:
    if not outcome.declined:
        yield "no order was declined"
    for order in outcome.orders:
        if order.id in outcome.declined and not (
            order.dead and not order.cards and not order.payments and not order.mail_key
        ):
            yield f"{order.id}: {order.cards} cards, {len(order.payments or [])} payments, dead: {order.dead or 'no'}"


def _codes(outcome: Outcome) -> Iterator[str]:
    codes = Counter(customer.personal_code for customer in outcome.customers.values())
    yield from (f"{code or 'no code'}: {times} customers" for code, times in codes.items() if times > 1 or not code)


def _records(outcome: Outcome) -> Iterator[str]:
    theirs = Counter((charge.reference, charge.id, charge.amount, charge.currency) for charge in outcome.charges)
    ours = Counter(
        (order.id, payment, order.amount, order.currency)
        for order in outcome.orders
        for payment in order.payments or []
    )
    yield from (f"only the payment service has {charge}" for charge in theirs - ours)
    yield from (f"only we have {payment}" for payment in ours - theirs)
    yield from _charged_twice(outcome)


def _charged_twice(outcome: Outcome) -> Iterator[str]:
    charges = Counter(charge.reference for charge in outcome.charges)
    yield from (f"{order} was charged {times} times" for order, times in charges.items() if times > 1)


def _mails(outcome: Outcome) -> Iterator[str]:
    orders = {order.mail_key: order for order in outcome.orders if order.mail_key}
    for mail in outcome.mails:
        order = orders.get(mail.key)
        if order is None:
            yield f"{mail.path.name} belongs to no order"
        elif mail.to.lower() != order.email.lower() or not _contains(mail, order.personal_code):
            yield f"{mail.path.name} is not the mail of {order.id}"


def _contains(mail: Mail, code: str | None) -> bool:
    return bool(code) and str(code) in mail.text.split()


def _nothing_left(outcome: Outcome) -> Iterator[str]:
    if outcome.open_jobs:
        yield f"{outcome.open_jobs} jobs are still queued, running or waiting to be revived"
    if outcome.deliveries.schedules:
        yield f"{outcome.deliveries.schedules} schedules are left"
    yield from (f"the circuit of {circuit} is {state}" for circuit, state in outcome.circuits.items())


def _circuit(outcome: Outcome) -> Iterator[str]:
    states = [change.to_state for change in outcome.changes if change.circuit == "email"]
    if states[:1] != ["open"] or states[-1:] != ["closed"]:
        yield f"its states: {', '.join(states) or 'always closed'}"


def _killed(outcome: Outcome) -> Iterator[str]:
    payments = [order for order, stage in outcome.killed.runs if stage == "payment"] if outcome.killed else []
    if outcome.killed is None or outcome.killed.exit_code != -SIGKILL or not payments:
        yield "no process was killed during a payment"
        return
    taken_over = {(run.order_id, run.stage) for run in outcome.runs if run.result == "INTERRUPTED"}
    yield from (
        f"{order} ({stage}) was not taken over"
        for order, stage in outcome.killed.runs
        if (order, stage) not in taken_over
    )
    yield from _retried_once_charged(outcome, payments)


def _no_response(outcome: Outcome) -> Iterator[str]:
    if not outcome.charged_without_response:
        yield "every payment got a response"
    yield from _retried_once_charged(outcome, outcome.charged_without_response)


def _retried_once_charged(outcome: Outcome, orders: list[str]) -> Iterator[str]:
    charges = Counter(charge.reference for charge in outcome.charges)
    for order in orders:
        if charges[order] != 1 or outcome.requests[order] < 2:
            yield f"{order}: requested {outcome.requests[order]} times, charged {charges[order]} times"


def _revived(outcome: Outcome) -> Iterator[str]:
    if not any(letter.status == "completed" for letter in outcome.revived):
        yield f"{len(outcome.revived)} revived, none of them completed"


def _collisions(outcome: Outcome) -> Iterator[str]:
    customers = outcome.customers.values()
    if not any(preferred_code(customer) not in (None, customer.personal_code) for customer in customers):
        yield "every customer got their first choice"

"""What should have come out: each sentence is true or the demo has failed."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from signal import SIGKILL

from demo import notifications, schedules
from demo.mailbox import Mail
from demo.results import Outcome, wanted_code


@dataclass(frozen=True, slots=True)
class Check:
    """A sentence, and what speaks against it: nothing, or a few words each."""

    sentence: str
    against: list[str]

    @property
    def holds(self) -> bool:
        """Whether nothing does."""
        return not self.against


def all_checks(outcome: Outcome) -> list[Check]:
    """The business first, then the events that the demo wants to show."""
    rules: dict[str, Callable[[Outcome], Iterator[str]]] = {
        "every good row of the file is one order": _imported,
        "every order has one card, one payment and one mail, except those that were declined": _each_has_one,
        "what was declined has neither card nor payment nor mail": _declined_have_none,
        "no two customers have the same personal code": _codes,
        "the payment service's books and ours agree: nobody was charged twice": _books,
        "each mail goes to its own customer and says their own code": _mails,
        "nothing is left to do": _nothing_left,
        "the circuit of email opened, and closed again": _circuit,
        "the killed process lost no work, and its payments were charged once": _killed,
        "who got no answer asked again, and was charged once": _unanswered,
        "a dead letter revived by itself and succeeded": _revived,
        "customers who wanted the same code got others": _collisions,
    }
    rules |= schedules.RULES
    rules |= notifications.RULES
    return [Check(sentence, list(rule(outcome))) for sentence, rule in rules.items()]


def _imported(outcome: Outcome) -> Iterator[str]:
    if len(outcome.orders) != outcome.imported.created or not outcome.orders:
        yield f"{outcome.imported.created} rows were taken in, and there are {len(outcome.orders)} orders"


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
        yield "nobody was declined"
    for order in outcome.orders:
        if order.id in outcome.declined and not (
            order.dead and not order.cards and not order.payments and not order.mail_key
        ):
            yield f"{order.id}: {order.cards} cards, {len(order.payments or [])} payments, dead: {order.dead or 'no'}"


def _codes(outcome: Outcome) -> Iterator[str]:
    codes = Counter(customer.personal_code for customer in outcome.customers.values())
    yield from (f"{code or 'no code'}: {times} customers" for code, times in codes.items() if times > 1 or not code)


def _books(outcome: Outcome) -> Iterator[str]:
    theirs = Counter((charge.reference, charge.id, charge.amount, charge.currency) for charge in outcome.charges)
    ours = Counter(
        (order.id, payment, order.amount, order.currency)
        for order in outcome.orders
        for payment in order.payments or []
    )
    yield from (f"only they have {charge}" for charge in theirs - ours)
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
        elif mail.to.lower() != order.email.lower() or not _says(mail, order.personal_code):
            yield f"{mail.path.name} is not what {order.id} should have got"


def _says(mail: Mail, code: str | None) -> bool:
    return bool(code) and str(code) in mail.text.split()


def _nothing_left(outcome: Outcome) -> Iterator[str]:
    if outcome.open_jobs:
        yield f"{outcome.open_jobs} jobs are still queued, running or waiting for their revival"
    if outcome.told.schedules:
        yield f"{outcome.told.schedules} schedules are still there"
    yield from (f"the circuit of {circuit} is {state}" for circuit, state in outcome.circuits.items())


def _circuit(outcome: Outcome) -> Iterator[str]:
    states = [change.to_state for change in outcome.changes if change.circuit == "email"]
    if states[:1] != ["open"] or states[-1:] != ["closed"]:
        yield f"its states: {', '.join(states) or 'closed all the time'}"


def _killed(outcome: Outcome) -> Iterator[str]:
    payments = [order for order, stage in outcome.killed.runs if stage == "payment"] if outcome.killed else []
    if outcome.killed is None or outcome.killed.exit_code != -SIGKILL or not payments:
        yield "no process was killed in the middle of a payment"
        return
    taken_over = {(run.order_id, run.stage) for run in outcome.runs if run.result == "INTERRUPTED"}
    yield from (
        f"{order} ({stage}) was not taken over"
        for order, stage in outcome.killed.runs
        if (order, stage) not in taken_over
    )
    yield from _asked_again(outcome, payments)


def _unanswered(outcome: Outcome) -> Iterator[str]:
    if not outcome.unanswered:
        yield "everybody got an answer"
    yield from _asked_again(outcome, outcome.unanswered)


def _asked_again(outcome: Outcome, orders: list[str]) -> Iterator[str]:
    charges = Counter(charge.reference for charge in outcome.charges)
    for order in orders:
        if charges[order] != 1 or outcome.asked[order] < 2:
            yield f"{order}: asked {outcome.asked[order]} times, charged {charges[order]} times"


def _revived(outcome: Outcome) -> Iterator[str]:
    if not any(letter.status == "completed" for letter in outcome.revived):
        yield f"{len(outcome.revived)} revived, none of them is completed"


def _collisions(outcome: Outcome) -> Iterator[str]:
    customers = outcome.customers.values()
    if not any(wanted_code(customer) not in (None, customer.personal_code) for customer in customers):
        yield "everybody got the code they wanted"

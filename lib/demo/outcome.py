"""All that came out, in one value: read from the database, from the payment service's books and from the mails."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from random import Random

from lib.demo.facts import Change, Facts, Letter, OrderFacts, Run
from lib.demo.mailbox import Mail, read_mails
from lib.demo.payments import Charge, PaymentService
from lib.giftcards.codes import candidates
from lib.giftcards.importing import Imported


@dataclass(frozen=True, slots=True, kw_only=True)
class Killed:
    """The process that was killed; `runs` are order and stage of what it had begun."""

    pid: int
    exit_code: int
    runs: list[tuple[str, str]]


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
    facts: Facts, payments: PaymentService, *, imported: Imported, mails: Path, killed: Killed | None
) -> Outcome:
    """Reads it."""
    changes = facts.changes()
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
        mails=read_mails(mails),
        killed=killed,
        open_jobs=facts.open_jobs(),
        waited={change.circuit: facts.waited(change.circuit) for change in changes},
    )


def wanted_code(customer: OrderFacts) -> str | None:
    """The code that a customer would have, were they alone; None: any four digits would do."""
    if not any(char.isascii() and char.isdigit() for char in customer.external_id or ""):
        return None
    # Only the later candidates are random.
    return candidates(customer.given_name, customer.external_id, attempt=1, rng=Random(0))[0]  # noqa: S311

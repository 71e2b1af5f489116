"""Import of orders from a file, row by row, and its dry run."""

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lib.config.settings import Settings
from lib.errors import Conflict, Invalid, Refused, StoreError
from lib.giftcards.order_files.customers import Survey
from lib.giftcards.order_files.file import OrderFile
from lib.giftcards.order_files.layout import Row
from lib.giftcards.order_files.rejects import Rejects, open_rejects
from lib.giftcards.order_files.text import FileError
from lib.giftcards.orders import Order, body_hash
from lib.giftcards.submit import preview_order, submit_order
from lib.jobs.registry import Registry
from lib.store.store import Store

_CONFLICT = "correlation_id belongs to another order, with other content"


@dataclass(slots=True)
class Imported:
    """The outcome of an import.

    `wrong`: {line, problem} of each rejected row. `skipped`: reason → rows that are no orders of gift cards.
    `sums`: currency → {created, repeated} in minor units. `rejects`: the file of the rejected rows, if there is one.
    """

    dry_run: bool = False
    created: int = 0
    repeated: int = 0
    skipped: dict[str, int] = field(default_factory=dict)
    sums: dict[str, dict[str, int]] = field(default_factory=dict)
    wrong: list[dict[str, Any]] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    rejects: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return asdict(self)

    def add(self, order: Order, *, created: bool) -> None:
        """Count an order."""
        self.created += created
        self.repeated += not created
        sums = self.sums.setdefault(order.amount.currency, {"created": 0, "repeated": 0})
        sums["created" if created else "repeated"] += order.amount.amount


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """Submits the orders of files.

    `tenant_id` applies to rows without one. `customers_may_change`: rows of one customer may differ in e-mail and name.
    `priority`: that of the orders' jobs.
    """

    store: Store
    registry: Registry
    settings: Settings
    tenant_id: str = "default"
    dry_run: bool = False
    customers_may_change: bool = False
    priority: int | None = None

    def run(
        self, file: OrderFile, *, rejects: Path | None = None, progress: Callable[[int, int], None] | None = None
    ) -> Imported:
        """Submit each row as an order; existing orders count as `repeated`, so that a file can be imported again.

        A row without a correlation id gets one from its content and its index among rows with the same content.
        `progress` takes the rows done and their number.

        Raises:
            FileError: nothing was imported.
            OSError: the file of rejected rows cannot be created; nothing was imported.
            Unavailable, Misconfigured: the database failed; the message has the line where the import stopped.
        """
        self._check_payment(file)
        # A shop's customer is who has the mail address, however the name is typed.
        may_change = self.customers_may_change or file.layout.is_paid
        survey = Survey(file, tenant_id=self.tenant_id, customers_may_change=may_change)
        outcome = Imported(dry_run=self.dry_run, notes=file.notes)
        with ExitStack() as stack:
            rejected = stack.enter_context(open_rejects(rejects, file)) if rejects else None
            submission = _Submission(self)
            for done, row in enumerate(file.rows(), start=1):
                self._take(row, survey.problem_of(row), submission, outcome, rejected)
                if progress:
                    progress(done, survey.rows)
            if rejected and not rejected.is_empty:
                outcome.rejects = str(rejects)
        return outcome

    def _check_payment(self, file: OrderFile) -> None:
        provider = self.settings.giftcard_payment_provider
        if file.layout.is_paid and provider != "ledger":
            raise FileError(
                f"{file.layout.title} has orders that are paid there, and GIFTCARD_PAYMENT_PROVIDER={provider} would "
                f"have them paid again: import them with GIFTCARD_PAYMENT_PROVIDER=ledger"
            )

    def _take(
        self, row: Row, problem: str | None, submission: "_Submission", outcome: Imported, rejected: Rejects | None
    ) -> None:
        if row.skipped:
            outcome.skipped[row.skipped] = outcome.skipped.get(row.skipped, 0) + 1
            return
        problem = row.problem or problem
        if row.order and not problem:
            try:
                outcome.add(row.order, created=submission.take(row, row.order))
                return
            except (Refused, Conflict, Invalid) as error:
                problem = _reason(error)
            except StoreError as error:
                error.args = (f"the import stopped at line {row.line}: {error}; {_so_far(outcome)}",)
                raise
        outcome.wrong.append({"line": row.line, "problem": problem})
        if rejected:
            rejected.write(row, problem or "")


class _Submission:
    """Submits orders, or finds out what would become of them."""

    def __init__(self, importer: Importer) -> None:
        self._importer = importer
        self._copies: Counter[tuple[str, str]] = Counter()
        # Of a dry run: what it would have created.
        self._previewed: dict[tuple[str, str], str] = {}

    def take(self, row: Row, order: Order) -> bool:
        """Return whether the order is new."""
        own = self._importer
        tenant_id, content = row.tenant_id or own.tenant_id, body_hash(order)
        self._copies[tenant_id, content] += 1
        correlation_id = row.correlation_id or f"csv-{content[:24]}-{self._copies[tenant_id, content]}"
        arguments: dict[str, Any] = {
            "store": own.store,
            "registry": own.registry,
            "settings": own.settings,
            "tenant_id": tenant_id,
            "correlation_id": correlation_id,
            "trigger_type": "csv",
        }
        if not own.dry_run:
            return bool(submit_order(order, body_hash=content, priority=own.priority, **arguments)["created"])
        before = self._previewed.get((tenant_id, correlation_id))
        if before is None:
            is_new = preview_order(order, **arguments)
            self._previewed[tenant_id, correlation_id] = content
            return is_new
        if before != content:
            raise Invalid(_CONFLICT, field="correlation_id")
        return False


def _reason(error: Exception) -> str:
    """Return a refusal as a problem of the row, without what the row holds."""
    if isinstance(error, Invalid) and error.field == "amount.amount":
        return f"amount is {str(error).partition(' is ')[2]}"
    if isinstance(error, Refused) and error.sqlstate == "GC409":
        return _CONFLICT
    if isinstance(error, Invalid):
        return str(error)
    return "the database refused the order's data"


def _so_far(outcome: Imported) -> str:
    done = outcome.created + outcome.repeated
    return f"{done:,} orders before it were taken: import the same file again, which orders nothing twice"

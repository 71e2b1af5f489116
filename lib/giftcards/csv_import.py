"""Import of orders from CSV, row by row."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from lib.config.settings import Settings
from lib.errors import Conflict, Invalid, Refused, StoreError
from lib.giftcards.orders import body_hash
from lib.giftcards.orders_csv import read_orders
from lib.giftcards.submit import submit_order
from lib.jobs.registry import Registry
from lib.store.store import Store


@dataclass(slots=True)
class Imported:
    """The counts of an import. `wrong`: {line, problem} of each rejected row."""

    created: int = 0
    repeated: int = 0
    wrong: list[dict[str, Any]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return asdict(self)


def import_csv(
    store: Store, registry: Registry, settings: Settings, lines: Iterable[str], *, tenant_id: str = "default"
) -> Imported:
    """Submit each row as an order; existing orders count as `repeated`, so that a file can be imported again.

    `tenant_id` applies to rows without one. A row without a correlation id gets one from its content and its index
    among rows with the same content.

    Raises:
        ValueError: the header is invalid; nothing was imported.
        Unavailable, Misconfigured: the database failed; the message has the line where the import stopped.
    """
    outcome = Imported()
    copies: Counter[str] = Counter()
    for row in read_orders(lines):
        if row.order is None:
            outcome.wrong.append({"line": row.line, "problem": row.problem})
            continue
        copies[body_hash(row.order)] += 1
        correlation_id = row.correlation_id or f"csv-{body_hash(row.order)[:24]}-{copies[body_hash(row.order)]}"
        try:
            submitted = submit_order(
                row.order,
                store=store,
                registry=registry,
                settings=settings,
                tenant_id=row.tenant_id or tenant_id,
                correlation_id=correlation_id,
                body_hash=body_hash(row.order),
                trigger_type="csv",
            )
        except (Refused, Conflict, Invalid) as error:
            outcome.wrong.append({"line": row.line, "problem": str(error)})
            continue
        except StoreError as error:
            error.args = (f"the import stopped at line {row.line}: {error}; {_so_far(outcome)}",)
            raise
        outcome.created += submitted["created"]
        outcome.repeated += not submitted["created"]
    return outcome


def _so_far(outcome: Imported) -> str:
    done = outcome.created + outcome.repeated
    return f"{done:,} orders before it were taken: import the same file again, which orders nothing twice"

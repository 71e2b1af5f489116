"""Takes the orders of a CSV file in, each row on its own."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from lib.config.settings import Settings
from lib.errors import Invalid, Refused
from lib.giftcards.orders import body_hash
from lib.giftcards.orders_csv import read_orders
from lib.giftcards.submit import submit_order
from lib.jobs.stage import Registry
from lib.store.store import Store


@dataclass(slots=True)
class Imported:
    """`wrong`: {line, problem} of each row that was not taken."""

    created: int = 0
    repeated: int = 0
    wrong: list[dict[str, Any]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """A plain object."""
        return asdict(self)


def import_csv(
    store: Store, registry: Registry, settings: Settings, lines: Iterable[str], *, tenant_id: str = "default"
) -> Imported:
    """Submits each row; one that is there already is counted as repeated, so a file may be imported again.

    `tenant_id` is for rows that name none. A row without a correlation id gets one from its content, and its place
    among rows of the same content.

    Raises:
        ValueError: the file has no usable header; nothing was taken in.
    """
    outcome = Imported()
    seen: Counter[str] = Counter()
    for row in read_orders(lines):
        if row.order is None:
            outcome.wrong.append({"line": row.line, "problem": row.problem})
            continue
        seen[body_hash(row.order)] += 1
        name = row.correlation_id or f"csv-{body_hash(row.order)[:24]}-{seen[body_hash(row.order)]}"
        try:
            submitted = submit_order(
                row.order,
                store=store,
                registry=registry,
                settings=settings,
                tenant_id=row.tenant_id or tenant_id,
                correlation_id=name,
                body_hash=body_hash(row.order),
                trigger_type="csv",
            )
        except (Refused, Invalid) as error:
            outcome.wrong.append({"line": row.line, "problem": str(error)})
            continue
        outcome.created += submitted["created"]
        outcome.repeated += not submitted["created"]
    return outcome

"""Order files for tests, and what becomes of their rows."""

from collections.abc import Sequence
from typing import Any

from lib.giftcards.order_files.customers import Survey
from lib.giftcards.order_files.file import open_orders
from lib.giftcards.order_files.importing import Imported, Importer
from lib.giftcards.order_files.layout import Layout, Row
from lib.giftcards.order_files.own import OwnColumns
from tests.support.world import World

COLUMNS = (
    "correlation_id",
    "external_id",
    "given_name",
    "family_name",
    "email",
    "amount",
    "currency",
    "message",
    "deliver_at",
    "tenant_id",
)
HEADER = ",".join(COLUMNS) + "\n"
GOOD = dict.fromkeys(COLUMNS, "") | {
    "correlation_id": "order-1",
    "external_id": "CUST-1520",
    "given_name": "Kate",
    "family_name": "Rodgers",
    "email": "kate@example.com",
    "amount": "25.00",
    "currency": "USD",
}


def line(delimiter: str = ",", **cells: str) -> str:
    """A row, each cell in quotation marks."""
    quoted = ('"' + cell.replace('"', '""') + '"' for cell in (GOOD | cells).values())
    return delimiter.join(quoted) + "\n"


def read(content: str | bytes, layout: Layout | None = None, **options: Any) -> list[Row]:
    data = content if isinstance(content, bytes) else content.encode()
    return list(open_orders(data, layout or OwnColumns(), **options).rows())


def notes(content: str | bytes, **options: Any) -> tuple[str, ...]:
    data = content if isinstance(content, bytes) else content.encode()
    return open_orders(data, OwnColumns(), **options).notes


def problem(**cells: str) -> str | None:
    """The problem of the one row; None: it is an order."""
    (row,) = read(HEADER + line(**cells))
    assert (row.order is None) == (row.problem is not None)
    return row.problem


def surveyed(content: str, layout: Layout | None = None, **options: Any) -> list[str | None]:
    """The problem of each row, also those that other rows make."""
    file = open_orders(content.encode(), layout or OwnColumns())
    survey = Survey(file, tenant_id="default", **options)
    return [row.problem or survey.problem_of(row) for row in file.rows()]


def import_lines(world: World, lines: Sequence[str]) -> Imported:
    """What the import of a file into the world's database returns."""
    file = open_orders("\n".join(lines).encode(), OwnColumns())
    return Importer(store=world.store, registry=world.registry, settings=world.settings).run(file)

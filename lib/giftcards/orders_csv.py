"""Orders from a spreadsheet. A bad row is reported with its line and field and does not stop the rest."""

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice

from pydantic import ConfigDict, TypeAdapter, ValidationError

from lib.giftcards.money import minor_digits
from lib.giftcards.orders import Order
from lib.validation import Identifier, field_errors

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
)
OPTIONAL_COLUMNS = ("tenant_id", "locale")

# An unclosed quotation mark would consume the rest of the file: a row with more lines is an error.
_MAX_LINES_OF_ROW = 200

_IDENTIFIER: TypeAdapter[str | None] = TypeAdapter(Identifier | None, config=ConfigDict(strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvRow:
    """A row: an order, or a problem that names the field without its content.

    `line` is the row's first line in the file, from 1. A row with a problem has no order and no ids.
    """

    line: int
    order: Order | None = None
    correlation_id: str | None = None
    tenant_id: str | None = None
    problem: str | None = None


def read_orders(lines: Iterable[str]) -> Iterator[CsvRow]:
    """Read rows from the lines of `open(path, newline="", encoding="utf-8")`; blank rows are skipped.

    The first row names the columns: COLUMNS, in any order, and optionally OPTIONAL_COLUMNS; `amount` is in major units
    (25.00). Raise ValueError at once if the header is invalid.
    """
    rows = _rows(lines)
    _, header = next(rows, (0, None))
    columns = _columns(header or [])
    return (_row(line, columns, cells) for line, cells in rows)


def _rows(lines: Iterable[str]) -> Iterator[tuple[int, list[str] | None]]:
    """Yield the first line and cells of each row that is not blank; None for cells that cannot be parsed."""
    pending = [line.removeprefix("\ufeff") if at == 0 else line for at, line in enumerate(lines)]
    at = 0
    while at < len(pending):
        reader = csv.reader(islice(pending, at, at + _MAX_LINES_OF_ROW), strict=True)
        try:
            cells, used = next(reader), reader.line_num
        except csv.Error:
            # Skip only the row's first line: what a stray quotation mark consumed is read again.
            cells, used = None, 1
        if cells is None or any(cell.strip() for cell in cells):
            yield at + 1, cells
        at += used


def _columns(header: Sequence[str]) -> list[str]:
    columns = [name.strip() for name in header]
    missing = [name for name in COLUMNS if name not in columns]
    unknown = [name for name in columns if name not in COLUMNS + OPTIONAL_COLUMNS]
    if missing or unknown or len(set(columns)) < len(columns):
        raise ValueError(
            f"the first line must name each of the columns {', '.join(COLUMNS)} once, and may name "
            f"{', '.join(OPTIONAL_COLUMNS)}; missing: {', '.join(missing) or 'none'}; "
            f"unknown: {', '.join(map(repr, unknown)) or 'none'}"
        )
    return columns


def _row(line: int, columns: Sequence[str], cells: Sequence[str] | None) -> CsvRow:
    if cells is None:
        return CsvRow(line=line, problem="the row has an unclosed quotation mark or an endless cell")
    if len(cells) != len(columns):
        return CsvRow(line=line, problem=f"the row has {len(cells)} cells, but the header has {len(columns)}")
    # An empty cell is a missing value.
    values = {name: cell if cell.strip() else None for name, cell in zip(columns, cells, strict=True)}
    try:
        return CsvRow(
            line=line,
            correlation_id=_identifier("correlation_id", values),
            tenant_id=_identifier("tenant_id", values),
            order=_order(values),
        )
    except ValidationError as error:
        problems = (f"{field.rpartition('.')[2]} {message}" for field, message in field_errors(error))
        return CsvRow(line=line, problem="; ".join(problems))
    except ValueError as error:
        return CsvRow(line=line, problem=str(error))


def _identifier(field: str, values: dict[str, str | None]) -> str | None:
    try:
        return _IDENTIFIER.validate_python(values.get(field))
    except ValidationError as error:
        raise ValueError(f"{field} {field_errors(error)[0][1]}") from None


def _order(values: dict[str, str | None]) -> Order:
    currency = (values["currency"] or "").strip()
    deliver_at = values["deliver_at"]
    return Order.model_validate(
        {
            "customer": {
                "external_id": values["external_id"],
                "given_name": values["given_name"] or "",
                "family_name": values["family_name"],
                "email": values["email"] or "",
            },
            "amount": {"amount": _minor_units(values["amount"] or "", currency), "currency": currency},
            "message": values["message"],
            "deliver_at": deliver_at and deliver_at.strip(),
            "locale": values.get("locale"),
        }
    )


def _minor_units(text: str, currency: str) -> int:
    """Convert `25.00` in USD to 2500. Only digits and one point: 1,000 and 25.000 are ambiguous by a factor of 1000."""
    digits = minor_digits(currency)
    matched = re.fullmatch(r"([0-9]{1,12})(?:\.([0-9]+))?", text.strip())
    if not matched:
        raise ValueError("amount is not a plain number like 25.00")
    if len(matched[2] or "") > digits:
        raise ValueError(f"amount has more decimals than its currency, which has {digits}")
    return int(Decimal(matched[0]).scaleb(digits))

"""This project's own columns."""

import re
from collections.abc import Iterator
from itertools import chain

from pydantic import ConfigDict, TypeAdapter, ValidationError

from lib.giftcards.order_files.amounts import minor_units
from lib.giftcards.order_files.cells import damage_of_address, damage_of_id, damage_of_text, trimmed
from lib.giftcards.order_files.file import OrderFile
from lib.giftcards.order_files.layout import Row
from lib.giftcards.order_files.table import Record
from lib.giftcards.orders import Order
from lib.validation import Identifier, field_errors

IDS = ("correlation_id", "tenant_id", "external_id")
CUSTOMER = ("external_id", "given_name", "family_name", "email")
# Optional fields of an order that a column holds as it is.
FIELDS = ("message", "deliver_at", "locale")

_IDENTIFIER: TypeAdapter[str | None] = TypeAdapter(Identifier | None, config=ConfigDict(strict=True))
# 46355.58, 29.11.2026 14:00, 11/29/2026 2:00 PM
_SHOWN_DATE = re.compile(r"\d{5}(?:[.,]\d+)?|\d{1,4}[./-]\d{1,2}[./-]\d{1,4}(?:,? +\d.*)?", re.ASCII)
_TOTALS = {"total", "totals", "grandtotal", "subtotal", "sum", "summe", "gesamt", "gesamtsumme", "total:", "somme"}


class OwnColumns:
    """One order per row."""

    title = "an order file"
    required: tuple[str, ...] = ("given_name", "email", "amount", "currency")
    optional: tuple[str, ...] = ("correlation_id", "tenant_id", "external_id", "family_name", *FIELDS)
    misspelled: tuple[str, ...] = optional
    has_many_columns = False
    is_paid = False

    def is_item(self, key: str) -> bool:
        """See `Layout`."""
        return False

    def rows(self, file: OrderFile) -> Iterator[Row]:
        """See `Layout`."""
        return (self._row(file, record) for record in file.records())

    def _row(self, file: OrderFile, record: Record) -> Row:
        if file.is_header(record):
            return Row(records=(record,), skipped="repeats the header")
        if record.fault:
            return Row(records=(record,), problem=record.fault)
        cells = file.values(record)
        if _is_total(cells):
            return Row(records=(record,), skipped="is a row of totals")
        problems = list(chain.from_iterable(_damage(name, cells[name]) for name in cells if name != "problem"))
        if not problems:
            try:
                return _read(record, cells, decimal_comma=file.has_decimal_commas)
            except ValidationError as error:
                problems = [f"{field.rpartition('.')[2]} {message}" for field, message in field_errors(error)]
            except ValueError as error:
                problems = [str(error)]
        return Row(records=(record,), problem="; ".join(problems))


def _is_total(cells: dict[str, str]) -> bool:
    """Return whether a row has no customer, and a word for a total instead."""
    if "@" in cells["email"]:
        return False
    words = {trimmed(cell).casefold().replace(" ", "") for cell in cells.values()}
    return bool(words & _TOTALS)


def _damage(name: str, cell: str) -> Iterator[str]:
    reason = (damage_of_address if name == "email" else damage_of_text)(cell) or (
        damage_of_id(cell) if name in IDS else None
    )
    if reason:
        yield f"{name} {reason}"
    elif name in ("given_name", "family_name", "email", "currency", "deliver_at") and _is_quoted(cell):
        yield f"{name} is in quotation marks twice"
    elif name == "deliver_at" and _SHOWN_DATE.fullmatch(trimmed(cell)):
        yield "deliver_at is a date as a spreadsheet shows or counts it: write it like 2026-12-24T18:00:00+01:00"


def _is_quoted(cell: str) -> bool:
    text = trimmed(cell)
    return len(text) > 1 and text[0] == text[-1] == '"'


def _read(record: Record, cells: dict[str, str], *, decimal_comma: bool) -> Row:
    # An empty cell is a missing value. A message keeps its blanks.
    values = {name: cell if name == "message" else trimmed(cell) for name, cell in cells.items() if trimmed(cell)}
    return Row(
        records=(record,),
        correlation_id=_identifier("correlation_id", values),
        tenant_id=_identifier("tenant_id", values),
        order=_order(values, decimal_comma=decimal_comma),
    )


def _identifier(field: str, values: dict[str, str]) -> str | None:
    try:
        return _IDENTIFIER.validate_python(values.get(field))
    except ValidationError as error:
        raise ValueError(f"{field} {field_errors(error)[0][1]}") from None


def _order(values: dict[str, str], *, decimal_comma: bool) -> Order:
    currency = values.get("currency", "")
    try:
        amount = minor_units(values.get("amount", ""), currency, decimal_comma=decimal_comma)
    except ValueError as error:
        raise ValueError(f"amount {error}") from None
    customer = {name: values[name] for name in CUSTOMER if name in values}
    return Order.model_validate(
        {
            "customer": {"given_name": "", "email": ""} | customer,
            "amount": {"amount": amount, "currency": currency},
        }
        | {name: values[name] for name in FIELDS if name in values}
    )

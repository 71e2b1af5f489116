"""Reports as CSV: one figure per row, so that spreadsheets can sort, filter and pivot them."""

import csv
import io
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from lib.giftcards.money import minor_digits
from lib.telemetry.redact import clean

Json = dict[str, Any]

COLUMNS = ("tenant_id", "day", "figure", "currency", "stage", "reason", "count", "amount", "amount_minor")

# Characters that may begin a formula in a spreadsheet, including their full-width forms.
_FORMULA = re.compile(r"[=+\-@\uff1d\uff0b\uff0d\uff20]")


def as_csv(report: Json) -> str:
    """Return the report as CSV (RFC 4180) with a header line and amounts in major and minor units."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, restval="")
    writer.writeheader()
    for figure in _figures(report):
        row = {"tenant_id": report["tenant_id"], "day": report["day"]} | figure
        writer.writerow({name: _escaped(value) for name, value in row.items()})
    return out.getvalue()


def _figures(report: Json) -> Iterator[Json]:
    for money in report["currencies"]:
        for figure in ("orders", "payments", "cards"):
            yield _money(figure, money["currency"], money[figure], money[f"{figure}_amount"])
    for found in report["differences"]:
        yield _money("differences", found["currency"], found["items"], found["amount"]) | {"reason": found["kind"]}
    for failure in report["failures"]:
        for figure in ("failures", "retries", "dead_letters"):
            where = {"stage": failure["stage"], "reason": failure["reason"]}
            yield {"figure": figure, "count": failure[figure]} | where


def _money(figure: str, currency: str, count: int, amount: int) -> Json:
    major = Decimal(amount).scaleb(-minor_digits(currency))
    return {"figure": figure, "currency": currency, "count": count, "amount": f"{major:f}", "amount_minor": amount}


def _escaped(value: Any) -> Any:
    """Return a cell value that no spreadsheet reads as a formula. `clean` strips leading blanks, which they skip."""
    if not isinstance(value, str):
        return value
    text = clean(value, secrets=[])
    return f"'{text}" if _FORMULA.match(text) else text

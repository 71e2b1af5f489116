"""Rows of one file that would become one customer with one code, although they name two people.

The stage customer_ingest finds a customer by external id, or without one by e-mail, and keeps what came last. Between
files that is a change of address or name. Within one file it is more often an id that was copied, or cut by a
spreadsheet, so that each of these rows is rejected.
"""

from dataclasses import dataclass

from lib.giftcards.order_files.file import OrderFile
from lib.giftcards.order_files.layout import Row
from lib.giftcards.orders import Customer

_IDS = ("correlation_id", "external_id")


@dataclass(slots=True)
class _Seen:
    """A customer: what the first row has, its line, and the first line that has something else."""

    fingerprint: int
    line: int
    other_line: int | None = None


class Survey:
    """What is known only after the whole file was read once. Keeps a few numbers per customer, and no row."""

    def __init__(self, file: OrderFile, *, tenant_id: str, customers_may_change: bool = False) -> None:
        self.rows = 0
        self._tenant_id = tenant_id
        self._may_change = customers_may_change
        self._seen: dict[int, _Seen] = {}
        # The lengths of the numbers with zeros at the left.
        self._widths: dict[str, set[int]] = {name: set() for name in _IDS}
        for row in file.rows():
            self.rows += 1
            if row.order:
                self._add(row, row.order.customer)

    def problem_of(self, row: Row) -> str | None:
        """Return why a row is rejected because of other rows."""
        if row.order is None:
            return None
        for name, value in _ids(row):
            (width, *others) = self._widths[name] or {0}
            if not others and value.isdigit() and not value.startswith("0") and len(value) < width:
                return f"{name} has lost zeros at the left, it seems: others in this column have {width} digits"
        customer = row.order.customer
        seen = self._seen[self._key(row, customer)]
        if self._may_change or seen.other_line is None:
            return None
        line = seen.other_line if _fingerprint(customer) == seen.fingerprint else seen.line
        if customer.external_id is None:
            return f"email is that of line {line} with another name: give each an external_id, or {_ALLOW}"
        return f"external_id is that of line {line} with another email or name: two people cannot share it; or {_ALLOW}"

    def _add(self, row: Row, customer: Customer) -> None:
        for name, value in _ids(row):
            if value.isdigit() and value.startswith("0"):
                self._widths[name].add(len(value))
        fingerprint = _fingerprint(customer)
        seen = self._seen.setdefault(self._key(row, customer), _Seen(fingerprint, row.line))
        if seen.fingerprint != fingerprint and seen.other_line is None:
            seen.other_line = row.line

    def _key(self, row: Row, customer: Customer) -> int:
        kind = ("email", customer.email.casefold()) if customer.external_id is None else ("id", customer.external_id)
        return hash((row.tenant_id or self._tenant_id, *kind))


_ALLOW = "allow it with --customers-may-change, which keeps the last one"


def _ids(row: Row) -> list[tuple[str, str]]:
    values = {"correlation_id": row.correlation_id, "external_id": row.order and row.order.customer.external_id}
    return [(name, value) for name, value in values.items() if value]


def _fingerprint(customer: Customer) -> int:
    return hash((customer.email.casefold(), _name(customer.given_name), _name(customer.family_name)))


def _name(name: str | None) -> str:
    return " ".join((name or "").casefold().split())

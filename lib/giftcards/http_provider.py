"""Payment and card providers over HTTP, for services that honour an Idempotency-Key."""

import re
from collections.abc import Set
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from lib.config.urls import HttpUrl
from lib.errors import Declined, Pending, PermanentError, TransientError, is_permanent_status
from lib.giftcards.cards import vault_of
from lib.giftcards.ledger import record_captured, record_payment, record_vendor_card
from lib.giftcards.money import format_money
from lib.giftcards.orders import Order
from lib.jobs.clients import raise_for_status
from lib.jobs.context import Context
from lib.validation import UNSAFE

Result = dict[str, Any]

# What a service may answer as `status`. Without one, a 2xx means that it is done.
_DONE = frozenset({"succeeded", "completed", "captured", "paid", "active"})
_BLOCKED = frozenset({"succeeded", "completed", "blocked"})
_PENDING = frozenset({"pending", "processing", "authorized", "approved"})
_REFUSED = frozenset({"failed", "declined", "canceled", "cancelled", "voided", "rejected"})

_MAX_ID_LENGTH = 200
# As the books are bounded.
_MAX_AMOUNT = 1_000_000_000_000_000


@dataclass(frozen=True, slots=True)
class Service:
    """The service to call. `lookup`: it can look up a key."""

    url: HttpUrl
    token: SecretStr | None
    lookup: bool


class HttpProvider:
    """A service with `POST url` (with an Idempotency-Key) and `GET url?idempotency_key=` (404: no such key)."""

    name = "http"

    def __init__(self, context: Context, service: Service, *, kind: str) -> None:
        self._context = context
        self._http = context.http
        self._order_id = context.job.correlation_id
        self._url = service.url
        self._headers = {"Authorization": f"Bearer {service.token.get_secret_value()}"} if service.token else {}
        self.supports_lookup = service.lookup
        self._label = f"the {kind} service"

    def submit(self, key: str, order: Order) -> Result:
        """Send one request for the order's amount. Return the body of a response that is done.

        Raises:
            Declined: the service returned 402, or a status that refuses, which it stores under the key.
            Pending: it has not decided; if it can look up keys, its present decision was asked for.
            PermanentError: it rejects the request, which has no effect.
            TransientError: the outcome is unknown, so retry under the same key.
        """
        body = {"amount": order.amount.amount, "currency": order.amount.currency, "reference": self._order_id}
        response = self._post(self._url.get_secret_value(), key, json=body)
        if response.status_code == 402:
            raise Declined(f"{self._label} declined (402)")
        if is_permanent_status(response.status_code):
            rejected = PermanentError(f"{self._label} answered {response.status_code}")
            rejected.without_effect = True
            raise rejected
        raise_for_status(response, who=self._label)
        try:
            return self._read(response)
        except Pending:
            # Repeated, the request has the same response: only a lookup knows what has become of it.
            found = self.find(key) if self.supports_lookup else None
            if found is None:
                raise
            return found

    def find(self, key: str) -> Result | None:
        """Return the result stored under a key, or None. Raise as `submit` does, except that no failure is permanent:
        whatever is wrong with a lookup, the effect may have happened."""
        response = self._http.request("GET", self._url.with_query(idempotency_key=key), headers=self._headers)
        if response.status_code == 404:
            return None
        if is_permanent_status(response.status_code):
            raise TransientError(f"{self._label} answered {response.status_code} to a lookup")
        raise_for_status(response, who=self._label)
        return self._read(response)

    def _post(self, url: str, key: str, **options: Any) -> Any:
        return self._http.request("POST", url, headers=self._headers | {"Idempotency-Key": key}, **options)

    def _read(self, response: Any) -> Result:
        body = self._body(response)
        self._check_status(body.get("status"), _DONE)
        if not _is_id(body.get("id")):
            # The effect has happened: a retry under the same key is safe, giving up is not.
            raise TransientError(f"{self._label} answered {response.status_code} without an id")
        return {**body, "id": str(body["id"])}

    def _body(self, response: Any) -> Result:
        """Return the JSON object of a response.

        Raises:
            TransientError: it is none, or about another order.
        """
        try:
            body = response.json()
        except ValueError:
            body = None
        if not isinstance(body, dict):
            raise TransientError(f"{self._label} answered {response.status_code} without a JSON object")
        if body.get("reference") not in (None, self._order_id):
            raise TransientError(f"{self._label} answered for another order")
        return body

    def _check_status(self, status: Any, done: Set[str]) -> None:
        known = status.lower() if isinstance(status, str) else ""
        if status is None or known in done:
            return
        if known in _PENDING:
            raise Pending(f"{self._label} to decide")
        if known in _REFUSED:
            raise Declined(f"{self._label} answered with the status {known}")
        raise TransientError(f"{self._label} answered with an unknown status")

    def _money(self, body: Result, order: Order) -> tuple[int, str]:
        """Return the amount and currency of a response; what it leaves out is the order's.

        Raises:
            TransientError: they cannot be read.
        """
        amount, currency = body.get("amount"), body.get("currency")
        amount = order.amount.amount if amount is None else amount
        currency = order.amount.currency if currency is None else currency
        readable = type(amount) is int and 0 <= amount <= _MAX_AMOUNT and isinstance(currency, str)
        if not readable or not re.fullmatch("[A-Za-z]{3}", currency):
            raise TransientError(f"{self._label} answered with an amount that cannot be read")
        return amount, currency.upper()


def _is_id(value: Any) -> bool:
    text = str(value) if type(value) in (str, int) else ""
    return 0 < len(text) <= _MAX_ID_LENGTH and UNSAFE.search(text) is None


def _text(money: tuple[int, str]) -> str:
    return format_money(*money)


class HttpPayments(HttpProvider):
    """A payment service that honours Idempotency-Key."""

    def charge(self, key: str, order: Order) -> Result:
        """See `PaymentProvider`. Money over another amount is recorded, too, and not accepted."""
        return self._believed(key, self.submit(key, order), order)

    def lookup(self, key: str, order: Order) -> Result | None:
        """See `PaymentProvider`."""
        body = self.find(key)
        return self._believed(key, body, order) if body else None

    def _believed(self, key: str, body: Result, order: Order) -> Result:
        taken, asked = self._money(body, order), (order.amount.amount, order.amount.currency)
        if taken != asked:
            amount, currency = taken
            if amount:
                record_captured(
                    self._context, provider=self.name, reference=body["id"], amount=amount, currency=currency
                )
            raise PermanentError(
                f"{self._label} took {_text(taken)} instead of {_text(asked)} as {body['id']}: refund it there"
            )
        # Recorded before the effect counts as done: money that cannot be kept leaves a row, whatever happens then.
        record_payment(self._context, order, key=key, provider=self.name, reference=body["id"])
        return {"reference": body["id"], "key": key}


class HttpCards(HttpProvider):
    """A card service that returns {id, number} and honours Idempotency-Key."""

    def __init__(self, context: Context, service: Service) -> None:
        super().__init__(context, service, kind="card")

    def issue(self, key: str, order: Order) -> Result:
        """See `CardProvider`."""
        return self._recorded(self.submit(key, order), order)

    def lookup(self, key: str, order: Order) -> Result | None:
        """See `CardProvider`."""
        body = self.find(key)
        return self._recorded(body, order) if body else None

    def block(self, key: str, reference: str) -> Result:
        """See `CardProvider`: `POST url/<reference>/block`."""
        response = self._post(self._url.with_path(reference, "block"), key)
        if response.status_code in (405, 501):
            raise PermanentError(f"{self._label} cannot block cards ({response.status_code}): block it there")
        raise_for_status(response, who=self._label)
        # A body is not required, but one that is no answer to this request is from someone else, such as a proxy.
        body = self._body(response) if response.content else {}
        self._check_status(body.get("status"), _BLOCKED)
        if str(body.get("id", reference)) != reference:
            raise TransientError(f"{self._label} answered for another card")
        balance = body.get("balance")
        known = type(balance) is int and 0 <= balance <= _MAX_AMOUNT
        return {"reference": reference, "balance": balance if known else None}

    def _recorded(self, body: Result, order: Order) -> Result:
        number = body.get("number")
        # ISO/IEC 7812: up to 19 digits. Check before storing: a stored card cannot be corrected by a retry.
        if not isinstance(number, str) or not re.fullmatch("[0-9]{12,19}", number):
            raise TransientError(f"{self._label} returned no card number")
        issued, asked = self._money(body, order), (order.amount.amount, order.amount.currency)
        if issued != asked:
            raise PermanentError(
                f"{self._label} issued {_text(issued)} instead of {_text(asked)} as {body['id']}: block it there"
            )
        sealed = vault_of(self._context.settings).seal(number, self._context.job.flow)
        card = {
            "reference": body["id"],
            "number_encrypted": sealed.encrypted,
            "number_hash": sealed.number_hash,
            "last4": sealed.last4,
        }
        record_vendor_card(self._context, order, provider=self.name, card=card)
        return card

"""Any payment or card service over HTTP that honours an Idempotency-Key."""

import re
from dataclasses import dataclass
from typing import Any

from pydantic import SecretStr

from lib.errors import Declined, TransientError
from lib.giftcards.cards import Vault
from lib.giftcards.orders import Order
from lib.jobs.clients import raise_for_status
from lib.jobs.context import Context

Result = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Access:
    """Where the service is. `lookup`: it can be asked what became of a key."""

    url: str
    token: SecretStr | None
    lookup: bool


class HttpVendor:
    """`POST url` with an Idempotency-Key; `GET url?idempotency_key=` for what became of one (404: nothing)."""

    name = "http"

    def __init__(self, context: Context, access: Access, *, what: str) -> None:
        self._http = context.http
        self._order_id = context.job.correlation_id
        self._url = access.url
        self._headers = {"Authorization": f"Bearer {access.token.get_secret_value()}"} if access.token else {}
        self.answers_lookups = access.lookup
        self._who = f"the {what} service"

    def ask(self, key: str, order: Order) -> Result:
        """One request for the order's amount.

        Raises:
            Declined: 402, kept by the vendor under the key.
            PermanentError, TransientError: as `raise_for_status` says; after a TransientError nobody knows whether it
                happened, so the same key is asked again.
        """
        response = self._http.request(
            "POST",
            self._url,
            json={"amount": order.amount.amount, "currency": order.amount.currency, "reference": self._order_id},
            headers=self._headers | {"Idempotency-Key": key},
        )
        if response.status_code == 402:
            raise Declined(f"{self._who} declined (402)")
        raise_for_status(response, who=self._who)
        return self._read(response)

    def find(self, key: str) -> Result | None:
        """What became of a key."""
        response = self._http.request("GET", self._url, params={"idempotency_key": key}, headers=self._headers)
        if response.status_code == 404:
            return None
        raise_for_status(response, who=self._who)
        return self._read(response)

    def _read(self, response: Any) -> Result:
        try:
            body = response.json()
            if type(body["id"]) not in (str, int) or body["id"] == "":
                raise ValueError("its id is none")
            return {**body, "id": str(body["id"])}
        except (ValueError, TypeError, KeyError) as error:
            # The effect has happened: asking again under the same key is safe, giving up is not.
            raise TransientError(f"{self._who} answered {response.status_code} without an id") from error


class HttpPayments(HttpVendor):
    """Any payment service that honours Idempotency-Key."""

    def charge(self, key: str, order: Order) -> Result:
        """See `PaymentProvider`."""
        return {"reference": self.ask(key, order)["id"], "key": key}

    def lookup(self, key: str) -> Result | None:
        """See `PaymentProvider`."""
        found = self.find(key)
        return {"reference": found["id"], "key": key} if found else None


class HttpCards(HttpVendor):
    """Any card service that answers {id, number} and honours Idempotency-Key."""

    def __init__(self, context: Context, access: Access, *, vault: Vault) -> None:
        super().__init__(context, access, what="card")
        self._vault = vault

    def issue(self, key: str, order: Order) -> Result:
        """See `CardProvider`."""
        return self._sealed(self.ask(key, order))

    def lookup(self, key: str) -> Result | None:
        """See `CardProvider`."""
        found = self.find(key)
        return self._sealed(found) if found else None

    def _sealed(self, body: Result) -> Result:
        number = body.get("number")
        # ISO/IEC 7812: up to 19 digits. What is written down of a card can never be changed by asking again.
        if not isinstance(number, str) or not re.fullmatch("[0-9]{12,19}", number):
            raise TransientError(f"{self._who} answered without a card number")
        sealed = self._vault.seal(number)
        return {
            "reference": body["id"],
            "number_encrypted": sealed.encrypted,
            "number_hash": sealed.number_hash,
            "last4": sealed.last4,
        }

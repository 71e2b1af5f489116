"""Payment and card providers over HTTP, for services that honour an Idempotency-Key."""

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
class Service:
    """The service to call. `lookup`: it can look up a key."""

    url: str
    token: SecretStr | None
    lookup: bool


class HttpProvider:
    """A service with `POST url` (with an Idempotency-Key) and `GET url?idempotency_key=` (404: no such key)."""

    name = "http"

    def __init__(self, context: Context, service: Service, *, kind: str) -> None:
        self._http = context.http
        self._order_id = context.job.correlation_id
        self._url = service.url
        self._headers = {"Authorization": f"Bearer {service.token.get_secret_value()}"} if service.token else {}
        self.supports_lookup = service.lookup
        self._label = f"the {kind} service"

    def submit(self, key: str, order: Order) -> Result:
        """Send one request for the order's amount.

        Raises:
            Declined: the service returned 402, which it stores under the key.
            PermanentError, TransientError: as in `raise_for_status`; after a TransientError the outcome is unknown, so
                retry under the same key.
        """
        response = self._http.request(
            "POST",
            self._url,
            json={"amount": order.amount.amount, "currency": order.amount.currency, "reference": self._order_id},
            headers=self._headers | {"Idempotency-Key": key},
        )
        if response.status_code == 402:
            raise Declined(f"{self._label} declined (402)")
        raise_for_status(response, who=self._label)
        return self._read(response)

    def find(self, key: str) -> Result | None:
        """Return the result stored under a key, or None."""
        response = self._http.request("GET", self._url, params={"idempotency_key": key}, headers=self._headers)
        if response.status_code == 404:
            return None
        raise_for_status(response, who=self._label)
        return self._read(response)

    def _read(self, response: Any) -> Result:
        try:
            body = response.json()
            if type(body["id"]) not in (str, int) or body["id"] == "":
                raise ValueError("invalid id")
            return {**body, "id": str(body["id"])}
        except (ValueError, TypeError, KeyError) as error:
            # The effect has happened: a retry under the same key is safe, giving up is not.
            raise TransientError(f"{self._label} answered {response.status_code} without an id") from error


class HttpPayments(HttpProvider):
    """A payment service that honours Idempotency-Key."""

    def charge(self, key: str, order: Order) -> Result:
        """See `PaymentProvider`."""
        return {"reference": self.submit(key, order)["id"], "key": key}

    def lookup(self, key: str) -> Result | None:
        """See `PaymentProvider`."""
        body = self.find(key)
        return {"reference": body["id"], "key": key} if body else None


class HttpCards(HttpProvider):
    """A card service that returns {id, number} and honours Idempotency-Key."""

    def __init__(self, context: Context, service: Service, *, vault: Vault) -> None:
        super().__init__(context, service, kind="card")
        self._vault = vault

    def issue(self, key: str, order: Order) -> Result:
        """See `CardProvider`."""
        return self._sealed(self.submit(key, order))

    def lookup(self, key: str) -> Result | None:
        """See `CardProvider`."""
        body = self.find(key)
        return self._sealed(body) if body else None

    def _sealed(self, body: Result) -> Result:
        number = body.get("number")
        # ISO/IEC 7812: up to 19 digits. Check before storing: a stored card cannot be corrected by a retry.
        if not isinstance(number, str) or not re.fullmatch("[0-9]{12,19}", number):
            raise TransientError(f"{self._label} returned no card number")
        sealed = self._vault.seal(number)
        return {
            "reference": body["id"],
            "number_encrypted": sealed.encrypted,
            "number_hash": sealed.number_hash,
            "last4": sealed.last4,
        }

"""Who takes the money and who makes the cards: our own ledger in Postgres, or any HTTP service with idempotency keys.

A provider is asked under a vendor key that is the same at every attempt, and answers the same under it.
`lookup(key)` says what became of a key: its result, or None when nothing happened.
"""

import re
from random import SystemRandom
from typing import Any, Protocol

from lib.clients import raise_for_status
from lib.context import Context
from lib.errors import Conflict, Declined, TransientError
from lib.giftcards.cards import Vault, new_number, vault_of
from lib.giftcards.orders import Order

Result = dict[str, Any]

_NUMBER_TRIES = 3


class PaymentProvider(Protocol):
    """Answers {reference}."""

    name: str

    def charge(self, key: str, order: Order) -> Result:
        """Takes the order's amount. Declined: a definite no, nothing was taken."""

    def lookup(self, key: str) -> Result | None:
        """What a charge under this key came to."""


class CardProvider(Protocol):
    """Answers {reference, number_encrypted, number_hash, last4}: a number is never stored or logged in clear."""

    name: str

    def issue(self, key: str, order: Order) -> Result:
        """Makes a card over the order's amount."""

    def lookup(self, key: str) -> Result | None:
        """The card that was made under this key."""


class LedgerPayments:
    """A row of `giftcard_payments` is the payment: unique by order and by key, so a repeat finds it."""

    name = "ledger"

    def __init__(self, context: Context) -> None:
        self._context = context

    def charge(self, key: str, order: Order) -> Result:
        """See `PaymentProvider`."""
        paid = record_payment(self._context, order, key=key, provider=self.name, reference=None)
        return {"reference": paid["reference"], "key": key}

    def lookup(self, key: str) -> Result | None:
        """See `PaymentProvider`."""
        paid = self._context.store.find_payment(key)
        return {"reference": paid["reference"], "key": key} if paid else None


class LedgerCards:
    """A row of `giftcard_cards` is the card, with a number made here."""

    name = "ledger"

    def __init__(self, context: Context, vault: Vault) -> None:
        self._context = context
        self._vault = vault

    def issue(self, key: str, order: Order) -> Result:
        """See `CardProvider`. Written down here, so that a number which another card has is noticed."""
        for _ in range(_NUMBER_TRIES):
            sealed = self._vault.seal(new_number(SystemRandom()))
            card = {
                "reference": f"ledger:{key}",
                "number_encrypted": sealed.encrypted,
                "number_hash": sealed.number_hash,
                "last4": sealed.last4,
            }
            try:
                return _card_of(record_card(self._context, order, provider=self.name, card=card))
            except Conflict:
                continue
        raise TransientError(f"{_NUMBER_TRIES} card numbers in a row were taken")

    def lookup(self, key: str) -> Result | None:
        """See `CardProvider`. The row is unique by order, and one order asks for one card."""
        row = self._context.store.card(self._context.job.tenant_id, self._context.job.correlation_id)
        return _card_of(row) if row else None


def _card_of(row: Result) -> Result:
    return {name: row[name] for name in ("reference", "number_encrypted", "number_hash", "last4")}


class HttpVendor:
    """`POST url` with an Idempotency-Key; `GET url?idempotency_key=` for what became of one (404: nothing)."""

    name = "http"

    def __init__(self, context: Context, *, url: str, token: str | None, what: str) -> None:
        self._http = context.http
        self._order_id = context.job.correlation_id
        self._url = url
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
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

    def __init__(self, context: Context, vault: Vault, *, url: str, token: str | None) -> None:
        super().__init__(context, url=url, token=token, what="card")
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


def payments(context: Context) -> PaymentProvider:
    """The payment provider that the settings choose."""
    settings = context.settings
    if settings.giftcard_payment_provider == "http" and settings.giftcard_payment_url:
        token = settings.giftcard_payment_token
        return HttpPayments(
            context,
            url=settings.giftcard_payment_url,
            token=token.get_secret_value() if token else None,
            what="payment",
        )
    return LedgerPayments(context)


def cards(context: Context) -> CardProvider:
    """The card provider that the settings choose."""
    settings = context.settings
    sealer = vault_of(settings)
    if settings.giftcard_card_provider == "http" and settings.giftcard_card_url:
        token = settings.giftcard_card_token
        return HttpCards(
            context, sealer, url=settings.giftcard_card_url, token=token.get_secret_value() if token else None
        )
    return LedgerCards(context, sealer)


def record_payment(context: Context, order: Order, *, key: str, provider: str, reference: str | None) -> Result:
    """Keeps the order's payment; a repeat finds the first."""
    return context.store.record_payment(
        tenant_id=context.job.tenant_id,
        correlation_id=context.job.correlation_id,
        idempotency_key=key,
        provider=provider,
        provider_ref=reference,
        amount=order.amount.amount,
        currency=order.amount.currency,
    )


def record_card(context: Context, order: Order, *, provider: str, card: Result) -> Result:
    """Keeps the order's card; a repeat finds the first. Conflict: another card has this number."""
    return context.store.record_card(
        tenant_id=context.job.tenant_id,
        correlation_id=context.job.correlation_id,
        customer_id=context.job.context.get("customer_id"),
        provider=provider,
        provider_ref=card["reference"],
        number_encrypted=card["number_encrypted"],
        number_hash=card["number_hash"],
        last4=card["last4"],
        amount=order.amount.amount,
        currency=order.amount.currency,
    )

"""Orders on their way, and whether they came out right."""

import base64
import os
import secrets
import time
from typing import Any

from lib.errors import Unavailable
from lib.giftcards.cards import Vault
from lib.giftcards.orders import Order, body_hash
from lib.store.postgres import PostgresWire
from lib.store.store import Store
from tests.crash import facts
from tests.crash.house import House
from tests.crash.vendors import Mailbox, Vendor

# Several scripts, and a name that many have; an external id for every two orders, and digits that collide.
_NAMES = ("Kate", "Kate", "Jürgen", "Мария", "小明", "Kate", "Zoë", "🎁")


class Shop:
    """Takes orders in and knows what must become of them."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.vendor = Vendor(house)
        self.mailbox = Mailbox(house)
        self.orders: list[str] = []
        self.refusals: list[str] = []
        key, lookup = base64.urlsafe_b64encode(os.urandom(32)).decode(), secrets.token_urlsafe(32)
        self._vault = Vault([key], lookup_key=lookup)
        self._store = Store(PostgresWire(house.environment["DATABASE_URL"]))
        house.environment |= {
            "GIFTCARD_ENCRYPTION_KEYS": key,
            "GIFTCARD_LOOKUP_KEY": lookup,
            "SMTP_URL": self.mailbox.url,
            "GIFTCARD_PAYMENT_PROVIDER": "http",
            "GIFTCARD_PAYMENT_URL": f"{self.vendor.url}/charges",
            "GIFTCARD_CARD_PROVIDER": "http",
            "GIFTCARD_CARD_URL": f"{self.vendor.url}/cards",
        }

    def order(self, *, until: float = 0.0) -> str:
        """Submits one more order; its correlation id. Sends it again, under the same key, while the database is away.

        `until`: so long (`time.monotonic()`), then the error is raised.
        """
        number = len(self.orders) + 1
        name = f"order-{number:03}"
        order = Order.model_validate(_order(number, email=f"{name}@example.com"))
        payload = order.model_dump(mode="json")
        facts = {"correlation_id": name, "body_hash": body_hash(order), "payload": payload, "idempotency_key": name}
        while True:
            try:
                self._store.submit_order(tenant_id="default", **facts)
            except Unavailable as error:
                self.refusals.append(str(error))
                if time.monotonic() >= until:
                    raise
                time.sleep(0.2)
                continue
            self.orders.append(name)
            return name

    def all_done(self) -> bool:
        """Every order's last job is completed."""
        done = self.house.value("select count(*) from giftcard_jobs where stage = 'email' and status = 'completed'")
        return bool(done == len(self.orders))

    def assert_all_is_right(self, *, ledger: bool = False, about: str = "") -> None:
        """One payment, one card, one code, every run counted, a mail: or the lines that say where not."""
        lines = self.broken(ledger=ledger)
        assert not lines, "\n".join([about, f"{len(lines)} facts are broken after {self.house.killed} kills:", *lines])

    def broken(self, *, ledger: bool = False) -> list[str]:
        """The lines that say where it is not so."""
        lines = facts.broken(self.house) + facts.broken_mails(self.house, self.mailbox)
        known = {row[0] for row in self.house.rows("select correlation_id from giftcard_orders")}
        lines += [f"order {order} was taken in and is gone" for order in self.orders if order not in known]
        if not ledger:
            lines += facts.broken_outside(self.house, self.vendor, self._vault)
        return lines

    def close(self) -> None:
        """Shuts the vendors."""
        self.vendor.close()
        self.mailbox.close()
        self._store.close()


def _order(number: int, *, email: str) -> dict[str, Any]:
    customer = (number + 1) // 2
    external_id = f"{'ABCDEFGH'[customer % 8]}{customer // 8:03}-1520" if customer % 3 else None
    given_name = _NAMES[customer % len(_NAMES)]
    return {
        "customer": {"external_id": external_id, "given_name": given_name, "family_name": "Rodgers", "email": email},
        "amount": {"amount": 1000 + number, "currency": "USD"},
    }

"""The story's chapters on money: an order's payment and card, what goes back, and what operators decide."""

from typing import Any

from tests.wires.narrator import Teller

FLOW = {"tenant_id": "shop", "correlation_id": "order-1"}
MONEY = {"provider": "ledger", "amount": 2**40, "currency": "EUR"}
EVENT = {"tenant_id": "shop", "provider": "ledger", "provider_ref": "ledger:pay-1", "currency": "EUR"}


def one_order(t: Teller) -> None:
    """The order of the chapter before is paid, and has a card."""
    t.do("record_payment", **FLOW, **(MONEY | {"amount": 1}), idempotency_key="pay-1")
    t.do("record_payment", **FLOW, **MONEY, idempotency_key="pay-1")
    t.do("record_payment", **FLOW, **MONEY, idempotency_key="pay-2")
    t.do("record_payment", tenant_id="shop", correlation_id="order-2", **MONEY, idempotency_key="pay-1")
    t.ask("find_payment", idempotency_key="pay-1")
    page_id = t.ask("books", **FLOW)["order"]["page_id"]
    t.do("card_page", page_id=page_id)
    card = {"provider_ref": "r", "number_encrypted": "é" * 300, "number_hash": "h", "last4": "4242"}
    t.do("record_card", **FLOW, **MONEY, **card)
    t.do("record_card", **FLOW, **MONEY, **(card | {"provider_ref": "another"}))
    t.do("record_card", **(FLOW | {"correlation_id": "order-2"}), **MONEY, **card)
    t.ask("books", **FLOW)
    t.do("card_page", page_id=page_id)


def _take(t: Teller, flow: str, details: dict[str, Any]) -> None:
    order = {"amount": {"amount": 5, "currency": "EUR"}} | details
    t.do("take_order", tenant_id="shop", correlation_id=flow, order=order, body_hash=flow)


def decisions(t: Teller) -> None:
    """Money goes back, orders become free, recipients are corrected, and a difference is accepted."""
    _take(t, "free", {"customer": {"given_name": "Ü", "email": "u@example.org"}, "locale": "zh-Hant-TW"})
    _take(t, "order-1", {})
    decided = {"by": "kate", "reason": "Ärger"}
    t.do("make_free_of_charge", tenant_id="shop", correlation_id="free", **decided)
    t.do("make_free_of_charge", **FLOW, **decided)
    t.do("make_free_of_charge", tenant_id="shop", correlation_id="none", **decided)
    who = {"tenant_id": "shop", "correlation_id": "free", "by": "kate"}
    t.do("correct_recipient", **who, customer={"email": "ü@example.org", "given_name": "Ü"})
    t.do("correct_recipient", **who, customer={"external_id": "C-2"})
    card = {"provider_ref": "free", "number_encrypted": "e", "number_hash": "h", "last4": "4242"}
    t.do("record_card", tenant_id="shop", correlation_id="free", **(MONEY | {"amount": 5}), **card)
    t.do("record_payment_event", **EVENT, event_id="r1", kind="refunded", amount=2**39)
    t.do("record_payment_event", **EVENT, event_id="r1", kind="refunded", amount=2**39)
    t.do("record_payment_event", **EVENT, event_id="r1", kind="refunded", amount=1)
    t.do("record_payment_event", **(EVENT | {"currency": "USD"}), event_id="r2", kind="refunded", amount=1)
    t.do("record_payment_event", **EVENT, event_id="r3", kind="vanished", amount=1)
    stray = {"provider_ref": "stray", "named_order": "none", "as_of": "2035-01-01T12:00:00Z", "is_total": True}
    t.do("record_payment_event", **(EVENT | stray), event_id="c1", kind="captured", amount=7)
    at_order = {"event_id": "r4", "kind": "refunded", "amount": 1, "currency": None, "provider": "http", "by": "kåte"}
    for name in ("order-1", "order-1", "free", "none"):
        t.do("record_order_event", tenant_id="shop", correlation_id=name, provider_ref=None, **at_order)
    at_order |= {"provider": "ledger", "provider_ref": "stray"}
    t.do("record_order_event", **FLOW, **at_order, is_total=True, as_of="2035-01-01T12:00:00Z")
    t.ask("list_differences", tenant_id="shop", verify=True, limit=1)
    for name in ("order-1", "order-1", "none"):
        t.do("request_block", tenant_id="shop", correlation_id=name, by="kåte")
    for text, tenant in (("order", None), ("Ü@example.org", "shop"), ("4242", "shop"), ("stray", None), ("none", None)):
        t.ask("find_orders", text=text, limit=1, tenant_id=tenant)
    t.ask("find_orders", text="", limit=1)
    mail = {"tenant_id": "shop", "correlation_id": "order-1", "stage": "email", "scheduled_at": "2036-01-01T00:00:00Z"}
    t.do("enqueue", jobs=[mail], replace=False)
    for name in ("order-1", "free", "none"):
        t.do("order_story", tenant_id="shop", correlation_id=name, stages={"email": 60}, missing={"payment": "É"})
        again = {"job": {"payload": {"é": 2**60}}, "email": "ö@example.org", "reason": "Ärger", "by": "kåte"}
        t.do("resend_mail", tenant_id="shop", correlation_id=name, **again)
    t.do("block_card", **FLOW, balance=2**40)
    t.do("block_card", tenant_id="shop", correlation_id="none", balance=None)
    accepted = {"kind": "money_without_order", "tenant_id": "shop", "item": "stray"}
    t.do("accept_difference", **accepted, **decided)
    t.do("accept_difference", **accepted, **decided)
    t.ask("list_differences", tenant_id="shop", verify=True, limit=10)

"""The exports of shops: a gift card for each unit that is paid, and no guess about the rest."""

from typing import Any

import pytest

from lib.giftcards.order_files.file import open_orders
from lib.giftcards.order_files.layout import Layout
from lib.giftcards.order_files.shopify import Shopify
from lib.giftcards.order_files.shops import ShopLayout
from lib.giftcards.order_files.square import Square
from lib.giftcards.order_files.woocommerce import WooCommerce
from tests.support.order_files import read
from tests.support.shops import GIFT_CARD, ORDERS, shop_file

LAYOUTS: dict[str, Layout] = {
    "shopify": ShopLayout(Shopify()),
    "woocommerce": ShopLayout(WooCommerce()),
    "square": ShopLayout(Square()),
}
SHOPS = list(LAYOUTS)


def _outcome(shop: str, *orders: dict[str, Any]) -> list[tuple[str | None, int | None, str | None]]:
    rows = read(shop_file(shop, *orders), LAYOUTS[shop])
    return [(row.correlation_id, row.order and row.order.amount.amount, row.problem or row.skipped) for row in rows]


@pytest.mark.parametrize("shop", SHOPS)
def test_each_unit_of_a_gift_card_is_an_order(shop: str) -> None:
    items = [("Mug", "1", "9.00"), (GIFT_CARD, "2", "25.00"), ("eGift-Card $50", "1", "50.00")]
    rows = read(shop_file(shop, {"items": items}), LAYOUTS[shop])
    assert [(row.correlation_id, row.line) for row in rows] == [(f"{shop}:#1001/{n}", 2) for n in (1, 2, 3)]
    orders = [row.order for row in rows if row.order]
    assert [order.amount.amount for order in orders] == [2500, 2500, 5000]
    for order in orders:
        assert order.model_dump(mode="json", exclude_none=True) == {
            "customer": {"given_name": "Kate", "family_name": "Rodgers", "email": "kate@example.com"},
            "amount": {"amount": order.amount.amount, "currency": "USD"},
        }


@pytest.mark.parametrize("shop", SHOPS)
def test_each_order_has_its_own_ids(shop: str) -> None:
    assert [one[0] for one in _outcome(shop, {}, {"number": "#1002"})] == [f"{shop}:#1001/1", f"{shop}:#1002/1"]


STATUSES = [
    ("shopify", {"Financial Status": "pending"}, "is not paid"),
    ("shopify", {"Financial Status": "authorized"}, "is not paid"),
    ("shopify", {"Financial Status": "refunded"}, "is cancelled or refunded"),
    ("shopify", {"Financial Status": "voided"}, "is cancelled or refunded"),
    ("shopify", {"Cancelled at": "2026-01-01 10:00:00 +0000"}, "is cancelled or refunded"),
    ("shopify", {"Financial Status": "partially_refunded"}, "the order is refunded in part"),
    ("shopify", {"Refunded Amount": "5.00"}, "the order is refunded in part"),
    ("shopify", {"Financial Status": "odd"}, "Financial Status is not one that is known"),
    ("woocommerce", {"status": "on-hold"}, "is not paid"),
    ("woocommerce", {"status": "wc-pending"}, "is not paid"),
    ("woocommerce", {"status": "processing", "paid_date": ""}, "is not paid"),
    ("woocommerce", {"status": "cancelled"}, "is cancelled or refunded"),
    ("woocommerce", {"refund_items": "total:5"}, "the order is refunded at least in part"),
    ("woocommerce", {"status": "odd"}, "status is not one that is known"),
    ("square", {"Fulfillment Status": "Canceled"}, "is cancelled or refunded"),
    ("square", {"Order Refunded Amount": "5.00"}, "the order is refunded at least in part"),
]


@pytest.mark.parametrize(("shop", "values", "reason"), STATUSES)
def test_only_orders_that_are_paid_and_stand_are_taken(shop: str, values: dict[str, str], reason: str) -> None:
    (found,) = _outcome(shop, {"values": values})
    assert found[:2] == (None, None)
    assert (found[2] or "").startswith(reason)


@pytest.mark.parametrize("shop", SHOPS)
@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (("Mug", "1", "9.00"), "has no gift card"),
        ((GIFT_CARD, "x", "9.00"), "the quantity of a gift card is not a whole number"),
        ((GIFT_CARD, "1.5", "9.00"), "the quantity of a gift card is not a whole number"),
        ((GIFT_CARD, "101", "2525"), "the quantity of a gift card is not from 1 to 100"),
        ((GIFT_CARD, "1", "1,000.00"), "the price of a gift card"),
        ((GIFT_CARD, "1", "2.5E+01x"), "the price of a gift card"),
    ],
)
def test_an_item_that_is_not_clear_rejects_its_order(shop: str, item: tuple[str, str, str], reason: str) -> None:
    (found,) = _outcome(shop, {"items": [item]})
    assert (found[2] or "").startswith(reason)


@pytest.mark.parametrize("shop", ["shopify", "woocommerce"])
def test_a_gift_card_with_a_discount_is_left_to_people(shop: str) -> None:
    (found,) = _outcome(shop, {"discount": "5.00"})
    assert (found[2] or "").startswith("a gift card has a discount")


@pytest.mark.parametrize("shop", SHOPS)
@pytest.mark.parametrize("cell", ["1.00E+12", "#REF!", "'1001"])
def test_an_order_number_that_is_damaged_is_refused(shop: str, cell: str) -> None:
    (found,) = _outcome(shop, {"number": cell})
    assert found[0] is None
    assert found[2]


@pytest.mark.parametrize("shop", SHOPS)
def test_an_order_without_mail_address_or_currency_is_rejected(shop: str) -> None:
    for name in (ORDERS[shop].email, ORDERS[shop].currency):
        (found,) = _outcome(shop, {"values": {name: ""}})
        assert (found[2] or "").startswith(f"{name} is empty")


def test_one_problem_rejects_the_whole_order_with_all_its_rows() -> None:
    items = [(GIFT_CARD, "1", "25.00"), (GIFT_CARD, "1", "odd")]
    (row,) = read(shop_file("shopify", {"items": items}), LAYOUTS["shopify"])
    assert row.problem
    assert [record.line for record in row.records] == [2, 3]


def test_rows_of_an_order_that_stand_apart_are_rejected() -> None:
    text = shop_file("shopify", {"items": [(GIFT_CARD, "1", "5"), (GIFT_CARD, "1", "7")]}, {"number": "#2"})
    header, first, second, other = text.splitlines()
    rows = read("\n".join([header, first, other, second]), LAYOUTS["shopify"])
    assert [row.correlation_id for row in rows] == ["shopify:#1001/1", "shopify:#2/1", None]
    assert "have to stand together" in (rows[2].problem or "")


def test_other_items_can_be_chosen() -> None:
    layout = ShopLayout(Shopify(), items="vip pass")
    rows = read(shop_file("shopify", {"items": [(GIFT_CARD, "1", "5"), ("VIP Pass", "1", "7")]}), layout)
    assert [row.order and row.order.amount.amount for row in rows] == [700]


@pytest.mark.parametrize("name", ["Anne Marie St. John", "Cher", ""])
def test_a_name_is_split_only_if_it_is_clear(name: str) -> None:
    (row,) = read(shop_file("shopify", {"values": {"Billing Name": name}}), LAYOUTS["shopify"])
    assert row.order is not None
    assert (row.order.customer.given_name, row.order.customer.family_name) == (name, None)


@pytest.mark.parametrize("shop", SHOPS)
def test_a_file_of_another_kind_is_refused(shop: str) -> None:
    others = [one for one in SHOPS if one != shop]
    for other in others:
        with pytest.raises(ValueError, match=r"the first line (is no header|does not name)"):
            open_orders(shop_file(other, {}).encode(), LAYOUTS[shop])

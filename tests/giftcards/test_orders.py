"""Orders: what is taken, what is refused, and with which words."""

import hashlib
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from lib.giftcards.orders import MAX_AMOUNT, Order, body_hash
from lib.validation import field_errors

ZONELESS = datetime(2026, 12, 24, 18)  # noqa: DTZ001 - that is the point


def _body(**changes: Any) -> dict[str, Any]:
    """A good order's JSON; `customer__email="…"` changes a nested field."""
    body: dict[str, Any] = {
        "customer": {
            "external_id": "CUST-1520",
            "given_name": "Kate",
            "family_name": "Rodgers",
            "email": "kate@example.com",
        },
        "amount": {"amount": 2500, "currency": "USD"},
        "message": "Happy birthday!",
        "deliver_at": "2026-12-24T18:00:00+01:00",
    }
    for path, value in changes.items():
        *parents, field = path.split("__")
        target = body
        for parent in parents:
            target = target[parent]
        target[field] = value
    return body


def _problems(**changes: Any) -> list[tuple[str, str]]:
    with pytest.raises(ValidationError) as raised:
        Order.model_validate(_body(**changes))
    return field_errors(raised.value)


def test_a_good_order_is_taken() -> None:
    order = Order.model_validate(_body())
    assert order.customer.given_name == "Kate"
    assert order.amount.amount == 2500
    assert order.deliver_at == datetime(2026, 12, 24, 17, tzinfo=UTC)


def test_only_name_address_and_amount_are_needed() -> None:
    order = Order.model_validate(
        {"customer": {"given_name": "", "email": "a@example.com"}, "amount": {"amount": 1, "currency": "JPY"}}
    )
    assert (order.customer.external_id, order.customer.family_name, order.message, order.deliver_at) == (None,) * 4


@pytest.mark.parametrize("field", ["customer", "amount", "customer__email", "customer__given_name", "amount__currency"])
def test_a_missing_field_is_named(field: str) -> None:
    body = _body()
    *parents, name = field.split("__")
    del (body[parents[0]] if parents else body)[name]
    with pytest.raises(ValidationError) as raised:
        Order.model_validate(body)
    assert [path for path, _ in field_errors(raised.value)] == [field.replace("__", ".")]


text = st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"]), max_size=200)
orders = st.builds(
    lambda name, family, message, amount, currency, moment, email: Order.model_validate(
        _body(
            customer__given_name=name,
            customer__family_name=family,
            customer__email=email,
            message=message,
            amount={"amount": amount, "currency": currency},
            deliver_at=moment and moment.isoformat(),
        )
    ),
    text,
    st.none() | text,
    st.none() | text,
    st.integers(1, MAX_AMOUNT),
    st.sampled_from(["USD", "JPY", "KWD"]),
    st.none() | st.datetimes(timezones=st.just(UTC)),
    st.sampled_from(["kate@example.com", "Kate+x@EXAMPLE.com", "jürgen@bücher.de", "a@xn--bcher-kva.de"]),
)


@settings(deadline=None)
@given(orders)
def test_a_payload_validates_again_to_the_same_order(order: Order) -> None:
    again = Order.model_validate(order.model_dump(mode="json"))
    assert again == order
    assert body_hash(again) == body_hash(order)


@pytest.mark.parametrize(
    "value", ["2026-12-24T18:00:00", "2026-12-24 18:00:00", ZONELESS, "2026-12-24", "tomorrow", ""]
)
def test_a_time_without_zone_is_refused(value: object) -> None:
    ((field, words),) = _problems(deliver_at=value)
    assert field == "deliver_at"
    assert "zone" in words


@pytest.mark.parametrize("value", ["2026-13-01T00:00:00Z", "2026-02-30T00:00:00Z", "2026-01-01T00:00:00+24:00"])
def test_a_time_that_no_calendar_has_is_refused(value: str) -> None:
    assert _problems(deliver_at=value) == [("deliver_at", "is no time of any calendar")]


def test_a_time_before_the_first_year_in_utc_is_refused() -> None:
    assert _problems(deliver_at="0001-01-01T00:00:00+14:00") == [("deliver_at", "is no time of any calendar")]


@pytest.mark.parametrize("value", [1_766_000_000, 1.5, True, [], "1766000000", "２026-12-24T18:00:00Z"])
def test_a_time_that_is_not_rfc_3339_is_refused(value: object) -> None:
    assert [field for field, _ in _problems(deliver_at=value)] == ["deliver_at"]


@pytest.mark.parametrize("value", [0, -1, MAX_AMOUNT + 1, 10**30, 25.0, "2500", True, None])
def test_an_amount_is_a_whole_number_within_bounds(value: object) -> None:
    assert [field for field, _ in _problems(amount__amount=value)] == ["amount.amount"]


@pytest.mark.parametrize("value", ["usd", "DEM", "XXX", "", "USDOLLAR", 840, None])
def test_a_currency_is_an_upper_case_code_in_use(value: object) -> None:
    assert [field for field, _ in _problems(amount__currency=value)] == ["amount.currency"]


@pytest.mark.parametrize(
    "value",
    ["", "kate", "kate@", "@example.com", "kate@localhost", "Kate <kate@example.com>", "a@example.com,b@example.com"],
)
def test_a_wrong_address_is_refused_and_not_repeated(value: str) -> None:
    assert _problems(customer__email=value) == [("customer.email", "is not a valid e-mail address")]


@pytest.mark.parametrize("field", ["customer__given_name", "customer__family_name", "customer__external_id", "message"])
@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ("a\0b", "contains a control character, U+0000"),
        ("a\x1b[31m", "contains a control character, U+001B"),
        ("a\x85", "contains a control character, U+0085"),
        ("a\u2028b", "contains a control character, U+2028"),
        ("a\ud83c", "contains half a character (lone surrogate), U+D83C"),
    ],
)
def test_control_characters_and_lone_surrogates_are_refused(field: str, bad: str, words: str) -> None:
    assert _problems(**{field: bad}) == [(field.replace("__", "."), words)]


def test_only_a_message_may_have_lines() -> None:
    assert Order.model_validate(_body(message="one\r\n\ttwo\n")).message == "one\r\n\ttwo\n"
    assert _problems(customer__given_name="Kate\n") == [("customer.given_name", "contains a control character, U+000A")]


@pytest.mark.parametrize(
    ("field", "limit"),
    [("customer__given_name", 200), ("customer__family_name", 200), ("customer__external_id", 200), ("message", 2000)],
)
def test_texts_have_a_longest_length(field: str, limit: int) -> None:
    Order.model_validate(_body(**{field: "é" * limit}))
    assert [path for path, _ in _problems(**{field: "é" * (limit + 1)})] == [field.replace("__", ".")]


@pytest.mark.parametrize("value", ["", "  "])
def test_an_external_id_is_not_blank(value: str) -> None:
    assert [field for field, _ in _problems(customer__external_id=value)] == ["customer.external_id"]


def test_an_emoji_is_a_name() -> None:
    assert Order.model_validate(_body(customer__given_name="🎁")).customer.given_name == "🎁"


def test_unknown_fields_are_refused_with_a_harmless_name() -> None:
    assert _problems(gift="x")[0][0] == "gift"
    assert _problems(customer__vip=True)[0][0] == "customer.vip"
    ((field, _),) = _problems(**{"x\0" + "y" * 500: 1})
    assert field == "x\N{REPLACEMENT CHARACTER}" + "y" * 48


def test_a_surrogate_in_a_fields_name_is_refused() -> None:
    assert _problems(**{"\ud800": 1})


@pytest.mark.parametrize("body", [None, [], "order", 5, {"customer": [], "amount": []}])
def test_a_body_of_another_type_is_refused(body: object) -> None:
    with pytest.raises(ValidationError):
        Order.model_validate(body)


def test_an_error_does_not_show_what_was_sent() -> None:
    with pytest.raises(ValidationError) as raised:
        Order.model_validate(_body(customer__email="kate.rodgers(at)example.com", amount__amount="secret"))
    shown = str(raised.value) + repr(field_errors(raised.value))
    assert "kate.rodgers" not in shown
    assert "secret" not in shown


def test_an_order_cannot_be_changed() -> None:
    order = Order.model_validate(_body())
    with pytest.raises(ValidationError):
        order.message = "another"  # type: ignore[misc]


def test_the_hash_is_that_of_what_the_order_says() -> None:
    order = Order.model_validate(_body())
    same = _body(deliver_at="2026-12-24T17:00:00Z", customer=dict(reversed(_body()["customer"].items())))
    assert body_hash(Order.model_validate(same)) == body_hash(order)
    assert body_hash(Order.model_validate(_body(amount__amount=2501))) != body_hash(order)
    assert body_hash(Order.model_validate(_body(message=None))) != body_hash(order)


def test_the_hash_leaves_out_what_the_order_does_not_say() -> None:
    """So that a field which a later release adds does not change the hash of a body sent before."""
    body = {"amount": {"amount": 1, "currency": "JPY"}, "customer": {"email": "a@example.com", "given_name": "Kate"}}
    written = '{"amount":{"amount":1,"currency":"JPY"},"customer":{"email":"a@example.com","given_name":"Kate"}}'
    assert body_hash(Order.model_validate(body)) == hashlib.sha256(written.encode()).hexdigest()

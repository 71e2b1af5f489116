"""How the values of variables are spelt: lists by comma, addresses, and what is said of one that is wrong."""

import pytest

from lib.config.load import load
from tests.config.test_settings import refused


def test_recipients_and_inlets_are_lists_by_comma(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPORT_RECIPIENTS", " ann@ops.example,ben+o'neill@xn--bcher-kva.example ,, ann@ops.example,")
    monkeypatch.setenv("GIFTCARD_PGMQ_QUEUES", "email_queue:email, payments-queue:payment:a b/c ,")
    monkeypatch.setenv("SQUARE_LOCATION_ID", " S8GWD5R9QB376, 81FN9BNFZTKS4,,S8GWD5R9QB376")
    settings = load()
    assert settings.square_location_id == ("S8GWD5R9QB376", "81FN9BNFZTKS4")
    assert settings.report_recipients == ("ann@ops.example", "ben+o'neill@xn--bcher-kva.example")
    assert settings.giftcard_pgmq_queues == (
        ("email_queue", "email", "default"), ("payments-queue", "payment", "a b/c"),
    )  # fmt: skip
    assert "ann" not in repr(settings)


@pytest.mark.parametrize(
    "address",
    ["ann", "ann@", "@ops.example", "Ann <ann@ops.example>", "a@b;c@d", "a..b@c.d", "ä@b.c", "a@b\nc", "a@b."],
)
def test_a_recipient_that_is_no_address_is_told_by_its_place_and_not_repeated(
    monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    said = refused(monkeypatch, REPORT_RECIPIENTS=f"kim@ops.example,{address}")
    assert said == "REPORT_RECIPIENTS: address 2 must be like name@example.com; separate addresses with commas"


def test_more_than_20_recipients_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    many = ",".join(f"ann{n}@ops.example" for n in range(21))
    assert "21 addresses are too many" in refused(monkeypatch, REPORT_RECIPIENTS=many)

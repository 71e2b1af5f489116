"""Every alert has a text, whatever its row holds."""

from typing import Any

import pytest

from lib.monitoring import alert_texts

CONDITIONS = [
    "dead_letters", "circuit:webhook:7", "no_tick", "late:work", "books:paid_twice", "limit", "denied_requests",
    "more:circuit",
    "check_failed:late", "", ":", "circuit:{0}", "new",
]  # fmt: skip


@pytest.mark.parametrize("kind", ["raised", "repeated", "resolved", "of a newer schema"])
@pytest.mark.parametrize(
    "detail",
    [{}, [], None, 7, "text", {"stages": [None, {}]}, {"seconds": float("inf")}, {"seconds": "x"}, {"cause": {"a": []}},
     {"subject": "{", "at_least": "yes"}, {"": 1}],
    ids=str,
)  # fmt: skip
def test_every_condition_has_a_text_whatever_its_detail_is(kind: str, detail: Any) -> None:
    for condition in CONDITIONS:
        text = alert_texts.text({"condition": condition, "kind": kind, "detail": detail})
        assert isinstance(text, str)
        assert condition.partition(":")[2].replace("_", " ") in text.replace("_", " ")


def test_texts_of_lists_that_are_cut_and_of_checks_that_fail() -> None:
    def raised(condition: str, **detail: Any) -> str:
        return alert_texts.text({"condition": condition, "kind": "raised", "detail": detail})

    assert raised("more:circuit", more=7).startswith("7 more alerts of the kind circuit are not listed.")
    assert raised("dead_letters", jobs=1000, at_least=True, stages=["a"]).startswith(
        "dead letters: 1000 or more, of a."
    )
    many = raised("dead_letters", jobs=30, at_least=False, stages=[f"s{number:02}" for number in range(30)])
    assert "s19 and 10 more stages." in many
    books = "money and cards do not match: refunded after issue: "
    assert raised("books:refunded_after_issue", items=2, at_least=False, first="order-1", spent=0) == (
        f"{books}2, the first is order order-1. See flask jobs orders reconcile"
    )
    assert raised("books:refunded_after_issue", items=1000, at_least=True, first="order-1", spent=3).startswith(
        f"{books}1000 or more (cards already spent: 3), the first"
    )
    assert raised("check_failed:late", sqlstate="22008", error="timestamp out of range").startswith(
        "the check of late fails, so its alerts are not known: 22008 timestamp out of range."
    )

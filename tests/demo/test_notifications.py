"""The demo's checks of schedules and notifications, and its receiver: as strict as a real one."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from demo.checks import all_checks
from demo.receivers import ALERTS, BOOKKEEPER, PING, SHOP, TRANSFER, Receiver
from demo.results import Deliveries, Outcome
from demo.scenario import CALL_FAILURES, SHOP_BUSY_TIMES
from demo.snapshot import Report
from lib.webhooks import signing
from tests.support.demo_outcome import DEAD_CALL, DEAD_WEBHOOK, REVIVED, call, good_outcome, mail, message

Spoil = Callable[[Deliveries], Deliveries]


def _report(**totals: int) -> Spoil:
    return lambda t: replace(t, report=replace(t.report, totals=t.report.totals | totals) if t.report else None)


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda t: replace(t, schedules=1), "no work is left"),
        (lambda t: replace(t, calls=t.calls[1:]), "scheduled call"),
        (lambda t: replace(t, calls=[*t.calls, call(4, 200, at=9.0)]), "scheduled call"),
        (lambda t: replace(t, calls=[t.calls[0], call(2, 503, at=0.9), *t.calls[3:]]), "scheduled call"),
        (lambda t: replace(t, calls=t.calls[:-1]), "scheduled call"),
        (lambda t: replace(t, calls=[*t.calls, call(2, 200, at=9.0, key="second")]), "scheduled call"),
        (lambda t: replace(t, calls=[]), "scheduled call"),
        (lambda t: replace(t, calls=[*t.calls, call(2, 500, at=9.0, path=TRANSFER)]), "at most once"),
        (lambda t: replace(t, report=None), "daily report"),
        (_report(cards=1), "daily report"),
        (_report(differences=1), "daily report"),
        (lambda t: replace(t, report_mails=[]), "daily report"),
        (lambda t: replace(t, report_mails=[mail(9, subject=t.report_mails[0].subject)]), "daily report"),
        (
            lambda t: replace(t, messages=[*t.messages, message("m5", "giftcard.issued", order="o1")]),
            "the shop got",
        ),
        (lambda t: replace(t, messages=t.messages[:2] + t.messages[3:]), "the shop got"),
        (lambda t: replace(t, messages=t.messages[:1] + t.messages[2:]), "the shop got"),
        (lambda t: replace(t, forged=["/shop"]), "the shop got"),
        (lambda t: replace(t, messages=t.messages[1:]), "too busy"),
        (lambda t: replace(t, messages=t.messages[:3] + t.messages[4:]), "too busy"),
        (lambda t: replace(t, messages=t.messages[:-1]), "one webhook is dead"),
        (lambda t: replace(t, messages=[*t.messages, t.messages[-1]]), "one webhook is dead"),
        (lambda t: replace(t, disabled={}), "one webhook is dead"),
        (lambda t: replace(t, disabled=t.disabled | {"http://127.0.0.1:1/shop": "?"}), "one webhook is dead"),
        (lambda t: replace(t, alerts=t.alerts[:1]), "operators got one alert"),
        (lambda t: replace(t, alerts=[*t.alerts, *t.alerts]), "operators got one alert"),
    ],
)
def test_each_spoiled_telling_is_noticed(spoil: Spoil, sentence: str) -> None:
    good = good_outcome()
    spoiled = replace(good, deliveries=spoil(good.deliveries))
    assert any(sentence in check.sentence for check in all_checks(spoiled) if not check.passed)


@pytest.mark.parametrize(
    ("letters", "sentence"),
    [
        ([REVIVED, DEAD_WEBHOOK], "at most once"),
        ([REVIVED, DEAD_WEBHOOK, replace(DEAD_CALL, attempts=2)], "at most once"),
        ([REVIVED, DEAD_WEBHOOK, replace(DEAD_CALL, revives_in=5.0)], "at most once"),
        ([REVIVED, DEAD_CALL], "one webhook is dead"),
        ([REVIVED, DEAD_CALL, DEAD_WEBHOOK, DEAD_WEBHOOK], "one webhook is dead"),
        ([REVIVED, DEAD_CALL, replace(DEAD_WEBHOOK, revives_in=5.0)], "one webhook is dead"),
    ],
)
def test_each_dead_letter_too_many_or_too_few_is_noticed(letters: list[Any], sentence: str) -> None:
    spoiled = replace(good_outcome(), letters=letters)
    assert any(sentence in check.sentence for check in all_checks(spoiled) if not check.passed)


def test_a_day_that_ends_in_the_middle_is_judged_by_what_was_of_it() -> None:
    """At midnight the report has the orders of its own day only, and so have the tables."""
    good = good_outcome()
    of_day = {"orders": 1, "payments": 0, "cards": 0}
    report = Report(day="2026-11-27", totals=of_day | {"differences": 0}, counted=of_day)
    outcome: Outcome = replace(good, deliveries=replace(good.deliveries, report=report))
    assert [check.problems for check in all_checks(outcome) if not check.passed] == []


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as running:
        yield running


def _tell(receiver: Receiver, path: str, *, secret: str, name: str = "m1") -> int:
    body = '{"type": "job.completed", "timestamp": "", "data": {}}'
    now = datetime.now(UTC).timestamp()
    headers = signing.headers(name, body, secrets=[secret], at=now)
    return httpx.post(receiver.url(path), content=body, headers=headers).status_code


def _call(receiver: Receiver, path: str, *, key: str) -> int:
    return httpx.post(receiver.url(path), headers={"Idempotency-Key": key, "X-Attempt": "1"}).status_code


def test_the_shop_is_busy_at_first_and_then_takes_what_is_signed(receiver: Receiver) -> None:
    secret = signing.new_secret()
    receiver.set_secret(SHOP, secret=secret)
    answers = [_tell(receiver, SHOP, secret=secret) for _ in range(SHOP_BUSY_TIMES + 1)]
    assert answers == [503] * SHOP_BUSY_TIMES + [204]
    assert [(came.id, came.status) for came in receiver.messages] == [("m1", status) for status in answers]


def test_what_is_signed_by_somebody_else_is_no_message(receiver: Receiver) -> None:
    receiver.set_secret(SHOP, secret=signing.new_secret())
    assert _tell(receiver, SHOP, secret=signing.new_secret()) == 403
    assert (receiver.messages, len(receiver.forged)) == ([], 1)


def test_the_bookkeeper_is_gone(receiver: Receiver) -> None:
    secret = signing.new_secret()
    receiver.set_secret(BOOKKEEPER, secret=secret)
    assert _tell(receiver, BOOKKEEPER, secret=secret) == 410


def test_only_the_first_ping_fails_and_every_transfer_does(receiver: Receiver) -> None:
    first = [_call(receiver, PING, key="a") for _ in range(CALL_FAILURES + 1)]
    assert first == [503] * CALL_FAILURES + [200]
    assert (_call(receiver, PING, key="b"), _call(receiver, TRANSFER, key="c")) == (200, 500)
    assert [came.status for came in receiver.calls] == [*first, 200, 500]


def test_alerts_are_kept(receiver: Receiver) -> None:
    assert httpx.post(receiver.url(ALERTS), json={"text": "x"}).status_code == 204
    assert receiver.alerts == [{"text": "x"}]

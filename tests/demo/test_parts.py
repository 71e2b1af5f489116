"""The demo's checks and its payment service: the checks must detect errors, the service must be like a real one."""

import io
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from rich.console import Console

from demo import intro
from demo.checks import all_checks
from demo.database import Database
from demo.display import FLOW, Display
from demo.payments import PaymentService
from demo.results import Killed, Outcome, preferred_code
from demo.screen import shown
from demo.summary import _retries
from lib.giftcards.order_files.importing import Imported
from tests.support.demo_outcome import REVIVED, charge, good_outcome, mail, order


@pytest.fixture
def good() -> Outcome:
    """Two orders that came to their cards, and one that was declined."""
    return good_outcome()


def test_a_good_outcome_passes_each_check(good: Outcome) -> None:
    assert [check.problems for check in all_checks(good) if not check.passed] == []


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda o: replace(o, imported=Imported(created=4)), "every good row"),
        (
            lambda o: replace(o, orders=[order(1), order(2, cards=0), o.orders[2]]),
            "one card, one payment and one mail",
        ),
        (lambda o: replace(o, mails=[mail(1), mail(2), mail(2)]), "one card, one payment and one mail"),
        (lambda o: replace(o, declined=set()), "declined orders"),
        (lambda o: replace(o, orders=[*o.orders[:2], order(3)]), "declined orders"),
        (
            lambda o: replace(o, orders=[order(1), order(2, personal_code="KATE1521"), o.orders[2]]),
            "no two customers",
        ),
        (lambda o: replace(o, charges=[charge(1), charge(2), charge(2)]), "records and ours agree"),
        (lambda o: replace(o, charges=[charge(1), replace(charge(2), amount=1)]), "records and ours agree"),
        (lambda o: replace(o, mails=[mail(1), mail(2, to="k1@example.com")]), "each mail"),
        (lambda o: replace(o, mails=[mail(1), mail(2, text="KATE1521")]), "each mail"),
        (lambda o: replace(o, open_jobs=1), "no work is left"),
        (lambda o: replace(o, circuits={"email": "open"}), "no work is left"),
        (lambda o: replace(o, changes=o.changes[:2]), "circuit of email"),
        (lambda o: replace(o, changes=[]), "circuit of email"),
        (lambda o: replace(o, killed=None), "killed process"),
        (lambda o: replace(o, killed=Killed(pid=1, exit_code=0, runs=o.killed.runs)), "killed process"),
        (lambda o: replace(o, runs=[]), "killed process"),
        (lambda o: replace(o, requests=Counter({"o1": 1, "o2": 2})), "killed process"),
        (lambda o: replace(o, requests=Counter({"o1": 2, "o2": 1})), "without a response"),
        (lambda o: replace(o, without_response=["o1"]), "without a response"),
        (lambda o: replace(o, letters=[replace(REVIVED, status="error")]), "a dead letter revived"),
        (lambda o: replace(o, letters=[]), "a dead letter revived"),
        (lambda o: replace(o, orders=[replace(order, external_id=None) for order in o.orders]), "same first choice"),
    ],
)
def test_each_spoiled_outcome_is_noticed(good: Outcome, spoil: Callable[[Outcome], Outcome], sentence: str) -> None:
    assert any(sentence in check.sentence for check in all_checks(spoil(good)) if not check.passed)


def test_who_has_digits_wants_them_in_the_code() -> None:
    assert preferred_code(order(1, external_id="C-42")) == "KATE0042"
    assert preferred_code(order(1, external_id="none")) is None


@pytest.fixture
def service() -> Iterator[PaymentService]:
    behaviors: dict[str, Any] = {"poor": "declined", "busy": "busy", "broken": "broken", "silent": "silent"}
    with PaymentService(behaviors, token="t", broken_times=2) as running:
        yield running


def _ask(
    service: PaymentService, reference: str, *, key: str = "k", amount: int = 5, timeout: float = 5
) -> httpx.Response:
    return httpx.post(
        service.url,
        json={"amount": amount, "currency": "USD", "reference": reference},
        headers={"Authorization": "Bearer t", "Idempotency-Key": key},
        timeout=timeout,
    )


def test_the_same_key_is_answered_the_same_and_charged_once(service: PaymentService) -> None:
    answers = [_ask(service, "good") for _ in range(3)]
    assert [(answer.status_code, answer.json()["id"]) for answer in answers] == [(201, "ch_0001")] * 3
    assert (len(service.charges), service.requests["good"]) == (1, 3)


def test_a_key_with_another_charge_is_refused(service: PaymentService) -> None:
    _ask(service, "good")
    assert _ask(service, "good", amount=6).status_code == 422


def test_a_no_is_kept_under_its_key(service: PaymentService) -> None:
    assert [_ask(service, "poor").status_code for _ in range(2)] == [402, 402]
    assert (service.charges, service.declined) == ([], {"poor"})


def test_trouble_is_not_kept_and_ends(service: PaymentService) -> None:
    assert [_ask(service, "busy", key="b").status_code for _ in range(3)] == [503, 503, 201]
    assert [_ask(service, "broken", key="x").status_code for _ in range(3)] == [500, 500, 201]


def test_money_is_taken_though_no_answer_comes(service: PaymentService) -> None:
    with pytest.raises(httpx.ReadTimeout):
        _ask(service, "silent", timeout=0.2)
    assert [charge.reference for charge in service.charges] == ["silent"]
    assert _ask(service, "silent").json()["id"] == service.charges[0].id
    assert len(service.charges) == 1


def test_strangers_and_requests_without_a_key_are_turned_away(service: PaymentService) -> None:
    headers = {"Authorization": "Bearer other", "Idempotency-Key": "k"}
    assert httpx.post(service.url, json={}, headers=headers).status_code == 401
    assert httpx.post(service.url, json={}, headers={"Authorization": "Bearer t"}).status_code == 400


def test_what_became_of_a_key_can_be_asked(service: PaymentService) -> None:
    taken = _ask(service, "good").json()
    headers = {"Authorization": "Bearer t"}
    found = [httpx.get(service.url, params={"idempotency_key": key}, headers=headers) for key in ("k", "other")]
    assert [answer.status_code for answer in found] == [201, 404]
    assert found[0].json() == taken


def test_the_summary_counts_the_retried_runs_and_neither_snoozes_nor_revivals(good: Outcome) -> None:
    failed = good.runs[0]
    runs = [
        replace(failed, retried=True),
        replace(failed, result="SNOOZED"),
        replace(failed, result="FAILED"),  # a dead letter that revived: its pause is that until then
    ]
    assert next(_retries(replace(good, runs=runs))) == "1 run failed and were retried: 1 of payment"


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_live_display_has_one_height(columns: int) -> None:
    console = Console(width=columns, file=io.StringIO(), highlight=False, markup=False)
    display = Display(console, total=114, verbose=False)
    busy = {"completed": 65, "running": 8, "queued": 40, "error": 1}
    heights = set()
    for counts in ({}, {stage: {"queued": 1} for stage in FLOW}, dict.fromkeys((*FLOW, "webhook"), busy)):
        with console.capture() as shown:
            console.print(display._render(counts, {}))
        heights.add(shown.get().count("\n"))
        assert "…" not in shown.get()
    assert len(heights) == 1


def test_the_mail_that_is_shown_does_not_depend_on_the_order_of_arrival() -> None:
    kate = "kate.rodgers@example.com"
    mails = [mail(1), mail(2, to=kate, text="Kate again"), mail(3, to=kate, text="Happy birthday, Kate!")]
    assert shown(mails) == shown(mails[::-1]) == [mails[2]]


@pytest.mark.parametrize(("leftovers", "shown"), [(7, True), (0, False)])
def test_jobs_of_a_stopped_demo_that_were_cancelled_are_counted(tmp_path: Path, leftovers: int, shown: bool) -> None:
    own = {"url": "", "supabase": {}, "where": "here", "version": "18", "migrations": []}
    console = Console(width=200, file=io.StringIO())
    database = Database(**own, tenant="demo-1", leftovers=leftovers)
    with console.capture() as printed:
        intro.setup(console, database, url="", payments="", mail_port=1, others="", log=tmp_path)
    assert ("(7 jobs of a stopped demo cancelled)" in printed.get()) == shown

"""A report as CSV that stays text in a spreadsheet, and as a mail that every mail program shows."""

import csv
import io
import re
from datetime import UTC, datetime
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.reports.csv import COLUMNS, as_csv
from lib.reports.mail import bars, report_mail

CARDS = [0, 1, 200, 0, 0, 0, 0, 0, 0, 0, 0, 0, 50, 118]

REPORT: dict[str, Any] = {
    "tenant_id": "acme",
    "day": "2026-01-31",
    "made_at": "2026-02-01T00:05:00+00:00",
    "complete": True,
    "totals": {"orders": 121, "payments": 120, "cards": 118, "failures": 9, "retries": 7, "dead_letters": 2}
    | {"differences": 2},
    "currencies": [
        {"currency": "JPY", "orders": 1, "orders_amount": 300, "payments": 1, "payments_amount": 300}
        | {"cards": 1, "cards_amount": 300},
        {"currency": "USD", "orders": 120, "orders_amount": 300005, "payments": 119, "payments_amount": 297505}
        | {"cards": 117, "cards_amount": 292505},
    ],
    "failures": [
        {"stage": "payment", "reason": "TransientError: answered 503", "failures": 9, "retries": 7, "dead_letters": 2}
    ],
    "differences": [{"kind": "paid_without_card", "currency": "USD", "items": 2, "amount": 5000}],
    "last_days": [{"day": f"2026-01-{18 + n}", "cards": cards} for n, cards in enumerate(CARDS)],
}
NOTHING = REPORT | {
    "totals": dict.fromkeys(REPORT["totals"], 0),
    **{name: [] for name in ("currencies", "failures", "differences")},
    "last_days": [{"day": day["day"], "cards": 0} for day in REPORT["last_days"]],
}


def read(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


# CSV


def test_each_figure_is_a_row() -> None:
    rows = read(as_csv(REPORT))
    assert {(row["tenant_id"], row["day"]) for row in rows} == {("acme", "2026-01-31")}
    told = [[row[name] for name in COLUMNS[2:]] for row in rows]
    assert told == [
        ["orders", "JPY", "", "", "1", "300", "300"],
        ["payments", "JPY", "", "", "1", "300", "300"],
        ["cards", "JPY", "", "", "1", "300", "300"],
        ["orders", "USD", "", "", "120", "3000.05", "300005"],
        ["payments", "USD", "", "", "119", "2975.05", "297505"],
        ["cards", "USD", "", "", "117", "2925.05", "292505"],
        ["differences", "USD", "", "paid_without_card", "2", "50.00", "5000"],
        ["failures", "", "payment", "TransientError: answered 503", "9", "", ""],
        ["retries", "", "payment", "TransientError: answered 503", "7", "", ""],
        ["dead_letters", "", "payment", "TransientError: answered 503", "2", "", ""],
    ]


def test_a_day_of_nothing_is_the_header_alone() -> None:
    assert as_csv(NOTHING) == ",".join(COLUMNS) + "\r\n"


def test_no_amount_is_rounded_or_written_with_an_exponent() -> None:
    money = {"orders": 1, "payments": 0, "payments_amount": 0, "cards": 0, "cards_amount": 0}
    huge = [{"currency": currency, "orders_amount": 10**24 + 1, **money} for currency in ("JPY", "KWD", "USD")]
    rows = [row for row in read(as_csv(NOTHING | {"currencies": huge})) if row["figure"] == "orders"]
    one = "1" + "0" * 21
    assert [row["amount"] for row in rows] == [f"{one}001", f"{one}.001", f"{one}0.01"]
    assert {row["amount_minor"] for row in rows} == {f"{one}001"}


FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "  =1", '"=1"', "'=1", "＝1+1", "＋1", "－1", "＠x"]


@pytest.mark.parametrize("text", FORMULAS)
def test_text_that_a_spreadsheet_could_take_for_a_formula_stays_text(text: str) -> None:
    failure = REPORT["failures"][0] | {"stage": text, "reason": text}
    money = REPORT["differences"][0] | {"currency": text, "kind": text}
    rows = read(as_csv(NOTHING | {"tenant_id": text, "failures": [failure], "differences": [money]}))
    cells = [cell for row in rows for cell in row.values()]
    assert len(cells) == 4 * len(COLUMNS)
    assert [cell for cell in cells if re.match(r"\s*[=+\-@＝＋－＠]|[\t\r\n]", cell)] == []


@given(st.text())
def test_whatever_a_tenant_is_called_rows_stay_rows(tenant: str) -> None:
    rows = read(as_csv(REPORT | {"tenant_id": tenant}))
    assert len(rows) == 10
    assert {row["figure"] for row in rows} == {"orders", "payments", "cards", "differences"} | {
        "failures",
        "retries",
        "dead_letters",
    }


# Mail


def mail(report: dict[str, Any] = REPORT) -> EmailMessage:
    """As it arrives."""
    sent = report_mail(
        sender="Gift cards <cards@example.com>",
        recipient="ann@ops.example",
        message_id="<k@x>",
        sent_at=datetime(2026, 1, 31, 12, tzinfo=UTC),
        report=report,
    )
    assert sent.as_bytes().isascii()
    found = message_from_bytes(sent.as_bytes(), policy=default)
    assert isinstance(found, EmailMessage)
    return found


def body(message: EmailMessage, kind: str) -> str:
    part = message.get_body((kind,))
    assert part
    return str(part.get_content())


def test_a_mail_says_the_same_as_text_and_as_html() -> None:
    message = mail()
    assert (message["Subject"], message["Message-ID"]) == ("Gift cards of acme on 2026-01-31", "<k@x>")
    assert message["Auto-Submitted"] == "auto-generated"
    for kind in ("plain", "html"):
        text = body(message, kind)
        for said in ("$3,000.05", "$2,975.05", "$2,925.05", "¥300", "$50.00", "TransientError: answered 503"):
            assert said in text, (kind, said)
        assert re.search(r"2 +paid without card, \$50\.00", text), kind
        assert re.search(r"Sat 31 Jan\s+118\b", re.sub("<[^>]*>", "", text)), kind
    assert [part.get_content_type() for part in message.walk()] == ["multipart/alternative", "text/plain", "text/html"]


def test_a_day_that_is_not_over_is_told_so() -> None:
    for kind in ("plain", "html"):
        assert "so far" not in body(mail(), kind)
        assert "so far" in body(mail(REPORT | {"complete": False}), kind)


def test_a_day_of_nothing_makes_a_mail_too() -> None:
    message = mail(NOTHING)
    assert "Money and cards match." in body(message, "html")
    assert "Differences between money and cards: 0" in body(message, "plain")
    assert "bgcolor" not in body(message, "html")
    assert "#" not in body(message, "plain")


class _Tags(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))


def test_the_chart_is_made_of_cells_of_tables_and_nothing_is_loaded() -> None:
    tags = _Tags(body(mail(), "html")).seen
    assert {tag for tag, _ in tags} <= set("html head meta title body div h1 h2 p strong bdi table tr td".split())
    widths = [attributes["width"] for tag, attributes in tags if tag == "table"]
    assert widths[-4:] == ["1%", "100%", "25%", "59%"]
    assert sum("bgcolor" in attributes for _, attributes in tags) == sum(1 for cards in CARDS if cards)
    assert "http" not in body(mail(), "html")


def test_bars_are_shares_of_the_longest_and_what_is_not_0_can_be_seen() -> None:
    found = bars([{"day": f"2026-01-0{n + 1}", "cards": cards} for n, cards in enumerate((0, 1, 500, 1000))])
    assert [(bar["label"], bar["percent"]) for bar in found] == [
        ("Thu 01 Jan", 0),
        ("Fri 02 Jan", 1),
        ("Sat 03 Jan", 50),
        ("Sun 04 Jan", 100),
    ]
    assert bars([]) == []


@pytest.mark.parametrize(
    "name", ["<b>&", "a\r\nBcc: x@example.com", "Ünï 日本 🎁", "kate@example.com", "=?utf-8?q?x?=", "x" * 200]
)
def test_a_tenants_name_does_no_harm(name: str) -> None:
    message = mail(REPORT | {"tenant_id": name, "failures": [REPORT["failures"][0] | {"stage": name, "reason": name}]})
    assert set(message.keys()) == {
        *("Subject", "From", "To", "Date", "Message-ID", "Auto-Submitted", "MIME-Version", "Content-Type"),
    }
    assert message["To"] == "ann@ops.example"
    assert "<b>" not in body(message, "html")
    assert len(str(message["Subject"])) < 100

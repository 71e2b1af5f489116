"""The first screen is light: all that a browser loads for it, uncompressed, with as much to show as there can be."""

import re
from pathlib import Path
from typing import Any

import pytest

import lib.web.page
from lib.operations import Operations
from tests.support.overviews import FLOW, a_circuit, a_group, a_minute, a_stage, a_tick, an_overview, before
from tests.support.world import World
from tests.web.page.conftest import Browser

MOST_BYTES = 150_000
STATIC = Path(lib.web.page.__file__).parent / "static"
CURRENCIES = "USD EUR GBP JPY CHF AUD CAD CNY CLP COP CZK DKK BRL AED HUF IDR ILS INR KRW MXN".split()
ERROR = "TransientError: the payment service of the shop gave no response within 30 seconds"


def runs(at: str) -> dict[str, Any]:
    return {"at": at, "succeeded": 12_345, "failed": 123, "interrupted": 45, "snoozed": 678}


def full() -> dict[str, Any]:
    """All that can be shown: each minute and hour has runs of each outcome, each stage a trouble."""
    stages = [*FLOW, "http_call", "report", "import"]
    ago = range(59, -1, -1)
    kinds = [
        {"started": 1234},
        {"failed": 1},
        {"doubled": 1, "ticks": 2},
        {"missing": True, "ticks": 0},
        {"late_s": 31},
    ]
    verdict = {
        "level": "error", "kind": "circuit", "sentence": f"payment is down since {{2026-11-29T13:05:10Z}}: {ERROR}",
        "next": "212 orders wait and lose no attempt; one is tried at {2026-11-29T14:05:42Z}.",
        "action": {"kind": "reset_circuit", "label": "Close the circuit", "target": "payment", "stage": None},
        "others": [ERROR] * 9,
    }  # fmt: skip
    return an_overview(
        ticks={"minutes": [a_minute(n, **kinds[n % len(kinds)]) for n in ago], "newest": a_tick(error=ERROR)},
        stages=[a_stage(name, waiting=1000, retrying=1000, dead=1000, running=99) for name in stages],
        circuits=[a_circuit(name, last_error=ERROR) for name in stages[:2]],
        dead=[a_group(kind=f"{ERROR} {n}", stage=stages[n % 8]) for n in range(10)],
        oldest_due={"job_id": 9, "stage": "payment", "since": before(hours=2), "text": ERROR},
        differences={"count": 1000, "capped": True, "lines": [
            {"kind": "paid_without_card", "correlation_id": f"order-{n}", "since": before(hours=n), "action": ERROR}
            for n in range(5)
        ]},
        checks=[{"level": "red", "check": f"check {n}", "message": ERROR, "fix": ERROR} for n in range(2)],
        runs={
            "minutes": [runs(before(minutes=n, seconds=10)) for n in ago],
            "hours": [runs(before(hours=n, minutes=5, seconds=10)) for n in range(167, -1, -1)],
        },
        starts=[
            {"at": before(minutes=n, seconds=10), "runs": 1234, "p50_ms": 200 + n, "p95_ms": 1900 * n, "max_ms": 99_000}
            for n in ago
        ],
        today=an_overview()["today"] | {"orders": 10_000, "capped": True, "sums": [
            {"currency": name, "ordered": 123_456_789, "paid": 123_456_789, "issued": 123_456_789}
            for name in CURRENCIES
        ]},
        verdict=verdict,
    )  # fmt: skip


@pytest.mark.parametrize("address", ["/", "/?runs=week", "/stages"])
def test_the_first_screen_and_all_it_loads_stay_under_150_kb(
    world: World, browser: Browser, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setattr(Operations, "overview", lambda _: full())
    html = browser.get(address)
    assert html.status_code == 200
    loaded = sum(path.stat().st_size for path in STATIC.iterdir())
    assert len(html.data) + loaded < MOST_BYTES, (len(html.data), loaded)


@pytest.mark.parametrize(("address", "rows"), [("/", 60), ("/?runs=week", 168)])
def test_all_numbers_of_a_full_picture_are_in_its_table(
    world: World, browser: Browser, monkeypatch: pytest.MonkeyPatch, address: str, rows: int
) -> None:
    monkeypatch.setattr(Operations, "overview", lambda _: full())
    html = browser.get(address).text
    table = re.search(r'id="runs-table".*?</table>', html, re.DOTALL)
    assert table
    assert table[0].count("<td>12,345<td>123<td>45<td>678") == rows


def test_the_currency_of_the_most_orders_comes_first_and_the_rest_can_be_opened(
    world: World, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Operations, "overview", lambda _: full())
    shown, summary, folded = browser.get("/").text.partition("15 more currencies</summary>")
    assert summary
    assert re.findall(r'scope="row">([A-Z]{3})<', shown) == CURRENCIES[:5]
    assert re.findall(r'scope="row">([A-Z]{3})<', folded) == CURRENCIES[5:]

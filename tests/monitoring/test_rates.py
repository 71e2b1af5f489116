"""The rates of the dashboard, the alerts and the page are of the runs that their names say."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = ["docs/watching/dashboard.json", "docs/watching/alerts.yml", "docs/watching.md"]
RATE = re.compile(r"rate\((giftcard_run(?:s|_seconds)_total)(\{[^}]*\})?\[\w+\]\)\)")
FAILED, ENDED = '{result=~"failed|interrupted"}', '{result=~"success|failed|interrupted"}'
HANDLED = '{result=~"success|failed"}'

# Numerator and denominator of each quotient of runs.
SHARE = [("giftcard_runs_total", FAILED), ("giftcard_runs_total", ENDED)]
MEAN = [("giftcard_run_seconds_total", HANDLED), ("giftcard_runs_total", HANDLED)]


def quotients(text: str) -> list[list[tuple[str, str]]]:
    """Each a / b of two rates of runs, with their selectors."""
    plain = text.replace('\\"', '"')
    return [
        [(one[1], one[2] or ""), (two[1], two[2] or "")]
        for one, two in pairwise(RATE.finditer(plain))
        if re.fullmatch(r"\s*/\s*sum(?: by \(\w+\) )?\(", plain[one.end() : two.start()])
    ]


@pytest.mark.parametrize(("path", "expected"), list(zip(FILES, [[SHARE, MEAN], [SHARE], [SHARE]], strict=True)))
def test_each_rate_of_runs_is_of_the_runs_that_its_name_says(path: str, expected: list[list[tuple[str, str]]]) -> None:
    assert quotients((ROOT / path).read_text(encoding="utf-8")) == expected

"""The report of a run: what the docs quote is what the file of the run holds."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench import report

REPORT: dict[str, Any] = {
    "date": "2026-11-29 21:05 UTC",
    "cores": 2,
    "load": {"begin": 0.1, "end": 2.3},
    "seconds": 1100,
    "versions": {"Python": "3.12.1", "pgqueuer": "1.6.0"},
    "skipped": "npm is not installed",
    "sections": [
        {
            "title": "Draining",
            "note": "few jobs",
            "lines": [
                {
                    "name": "ours", "unit": "jobs/s", "median": 4321.4, "least": 99.44, "most": 5000, "note": "",
                    "costs": {
                        "server_us": 169.4, "client_us": 90.2, "wal": 1454.2, "commits": 0.1051,
                        "inserted": 1.002, "updated": 2.2, "deleted": 0,
                    },
                    "writes": "the row twice",
                },
            ],
            "aims": [
                {"what": "of the peer", "figure": 1.449, "target": "at least 1.5", "met": False},
                {"what": "of others", "figure": 2, "target": "", "met": True},
            ],
        },
        {
            "title": "Claims",
            "note": "",
            "lines": [
                {
                    "name": "empty", "unit": "µs", "median": 1000, "least": 900, "most": 2000, "note": "× 1",
                    "costs": None, "writes": "",
                },
            ],
            "aims": [],
        },
    ],
}  # fmt: skip

MARKDOWN = """\
2026-11-29 21:05 UTC, 2 cores, load average 0.1 at the beginning and 2.3 at the end, 1100 s.
Python 3.12.1, pgqueuer 1.6.0. Left out: npm is not installed.

**Draining**: few jobs

|  | jobs/s | min – max | server µs | client µs | WAL kB | commits | rows: insert, update, delete \
| what it writes for a job |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |
| ours | 4,321 | 99.4 – 5,000 | 169 | 90 | 1.45 | 0.105 | 1, 2.2, 0 | the row twice |

- of the peer: 1.45 (aim: at least 1.5, **missed**)
- of others: 2

**Claims**

|  | µs | min – max |  |
| --- | --- | --- | --- |
| empty | 1,000 | 900 – 2,000 | × 1 |
"""


def test_a_report_is_a_page_of_tables() -> None:
    assert report.markdown(REPORT) == MARKDOWN


def test_the_page_quotes_the_file_of_the_run() -> None:
    published = json.loads(report.PUBLISHED.read_text(encoding="utf-8"))
    assert report.quoted() == report.markdown(published), "run make bench ARGS=--write, or see its --report"


def test_a_published_report_replaces_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "performance.md"
    page.write_text(f"# Before\n{report.BEGIN}old\n{report.END}\nafter\n", encoding="utf-8")
    monkeypatch.setattr(report, "PAGE", page)
    monkeypatch.setattr(report, "PUBLISHED", tmp_path / "bench.json")
    report.publish(REPORT)
    report.publish(REPORT)
    assert page.read_text(encoding="utf-8") == f"# Before\n{report.BEGIN}{MARKDOWN}{report.END}\nafter\n"
    assert report.quoted() == MARKDOWN
    assert json.loads(report.PUBLISHED.read_text(encoding="utf-8")) == REPORT


def test_a_run_is_saved_with_its_page(tmp_path: Path) -> None:
    report.save(REPORT, tmp_path / "run.json")
    assert json.loads((tmp_path / "run.json").read_text(encoding="utf-8")) == REPORT
    assert (tmp_path / "run.md").read_text(encoding="utf-8") == MARKDOWN

"""SQL is written to be read: lines that fit a screen, functions that fit a page."""

import re
from pathlib import Path

from dev import ROOT

WIDTH = 120
HEIGHT = 60

SCHEMAS = sorted((ROOT / "supabase/schemas").glob("*.sql"))
SCRIPTS = sorted((ROOT / "sql").glob("*.sql"))

# From `create function` to the line that closes its body.
FUNCTION = re.compile(r"^create (?:or replace )?function (?:public\.)?(\w+).*?\$\$;$", re.DOTALL | re.MULTILINE)


def wide_lines(text: str) -> dict[int, int]:
    """The width of each line that is too wide, by its number."""
    return {number: len(line) for number, line in enumerate(text.splitlines(), 1) if len(line) > WIDTH}


def heights(text: str) -> list[tuple[str, int]]:
    """Each function and how many lines it has."""
    return [(match[1], match[0].count("\n") + 1) for match in FUNCTION.finditer(text)]


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_every_line_is_at_most_120_characters_wide() -> None:
    files = SCHEMAS + SCRIPTS
    wide = [f"{path.name}:{line} has {width}" for path in files for line, width in wide_lines(read(path)).items()]
    assert wide == [], f"{len(wide)} lines are too wide\n" + "\n".join(wide)


def test_every_function_is_at_most_60_lines_high() -> None:
    high = [f"{path.name}: {name} has {n}" for path in SCHEMAS for name, n in heights(read(path)) if n > HEIGHT]
    assert high == [], f"{len(high)} functions are too high\n" + "\n".join(high)


def test_no_plan_without_sequential_scans_is_compiled() -> None:
    """Before PostgreSQL 18 a scan that cannot be avoided makes it so dear on paper that it would be: 60 ms to 2 s."""
    heads = [match[0].partition(" $$")[0] for path in SCHEMAS for match in FUNCTION.finditer(read(path))]
    without_scans = [head for head in heads if "set enable_seqscan = off" in head]
    assert len(without_scans) > 100
    assert [head for head in without_scans if "set jit = off" not in head] == []


def test_no_function_is_overlooked() -> None:
    words = re.compile(r"^create (?:or replace )?(?:function|procedure)\b", re.IGNORECASE | re.MULTILINE)
    for path in SCHEMAS:
        assert len(heights(read(path))) == len(words.findall(read(path))), path.name
    assert sum(len(heights(read(path))) for path in SCHEMAS) > 100
    assert len(SCRIPTS) > 10


MOVED_BY_DAYS = re.compile(
    r"[-+] *(?:interval '[^']*\b(?:day|week|month|year)|make_interval\((?:days|weeks|months|years))"
)


def test_no_time_is_moved_by_days() -> None:
    """A day has 23 or 25 hours when the clock of the session's time zone is changed: days are written in hours."""
    moved = [
        f"{path.name}:{number}"
        for path in SCHEMAS + SCRIPTS
        for number, line in enumerate(read(path).splitlines(), 1)
        if MOVED_BY_DAYS.search(line)
    ]
    assert moved == []
    assert MOVED_BY_DAYS.search("v_now + interval '1 day 1 minute'")


def test_a_wide_line_and_a_high_function_are_found() -> None:
    assert wide_lines("-" * 120 + "\n" + "ä" * 121 + "\n") == {2: 121}
    one = "create function public.one() returns integer\nlanguage sql as $$\n  select 1\n$$;\n"
    two = "create or replace function public.two() returns void as $$\nbegin\nend $$;\n"
    assert heights(f"-- a comment\n{one}\n{two}") == [("one", 4), ("two", 3)]

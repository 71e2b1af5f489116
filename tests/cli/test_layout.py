"""Every table of the command line, in narrow and in wide terminals, with the rows that tables do not like."""

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from lib.cli.layout import COMMAND, cell_width, column_widths, wrap
from lib.cli.tables import Table, print_parts

CLI = Path(__file__).parent.parent.parent / "lib" / "cli"
WIDTHS = (40, 80, 99, 100, 120)
# They print what is no table: CSV, JSON, an error, and the tables themselves.
MAY_ECHO = {"tables.py", "top.py", "group.py", "prompts.py", "reports.py", "import_orders.py"}

ID = "9223372036854775807"
FLOW = "order-" + "x" * 194
ERROR = "TransientError: the mail server mx.example.com:587 refuses this recipient: 451 4.7.1 try later, " * 10
ROWS: dict[str, Any] = {
    "realistic": lambda i: (ID, "customer_ingest", "queued", "2026-11-29 10:05:33Z", "order-4711", "3/5")[i % 6],
    "sentences": lambda i: ERROR if i % 3 else ID,
    "long names": lambda i: FLOW if i % 2 else ID,
    "one long name": lambda i: FLOW if i == 1 else "email",
    "wide": lambda i: "日本語の宛先 🎁🎁 ギフト券" if i % 2 else "結婚 おめでとう",
    "right to left": lambda i: "שלום עולם מתנה" if i % 2 else "بطاقة هدية",
    "empty": lambda i: None,
    "one value": lambda i: 0 if i == 0 else None,
    "lines": lambda i: ("2026-11-29T10:05", "$7.00", ERROR),
    "commands": lambda i: f"stopped → flask jobs show {ID} --reveal; then call somebody who knows this",
}


def tables() -> dict[str, tuple[str, ...]]:
    """The columns of each table that a module of the command line makes, by its place."""
    found = {}
    for path in sorted(CLI.glob("*.py")):
        names = vars(importlib.import_module(f"lib.cli.{path.stem}")) if path.stem != "__init__" else {}
        for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for node in ast.walk(function) if isinstance(function, ast.FunctionDef) else ():
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Table":
                    found[f"{path.name}:{node.lineno}"] = columns(node.args[1], function, names)
    return found


def columns(node: ast.expr, function: ast.FunctionDef, names: dict[str, Any]) -> tuple[str, ...]:
    """What an expression in a function comes to, with what is assigned there."""
    local = {
        target.id: statement.value
        for statement in ast.walk(function)
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    used = [name.id for name in ast.walk(node) if isinstance(name, ast.Name) and name.id in local]
    own = {name: columns(local[name], function, names) for name in used}
    return tuple(eval(compile(ast.Expression(node), "", "eval"), {**names, **own}))  # noqa: S307 - our own code


TABLES = tables()


def screen(monkeypatch: pytest.MonkeyPatch, parts: list[Table | str], room: int) -> list[str]:
    """The lines on a terminal without colours."""
    monkeypatch.setenv("COLUMNS", str(room))

    @click.command()
    def show() -> None:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        print_parts(parts)

    result = CliRunner().invoke(show, catch_exceptions=False)
    assert result.exit_code == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", result.stdout).splitlines()


def units(text: str) -> list[str]:
    """The words and commands of a text."""
    return [found[0].rstrip() for found in COMMAND.finditer(text)] + COMMAND.sub(" ", text).split()


def lines_of(cell: Any) -> Iterator[str]:
    yield from map(str, cell if isinstance(cell, tuple) else () if cell is None else (cell,))


def test_every_table_of_the_command_line_is_found() -> None:
    assert len(TABLES) >= 20
    assert {place.split(":")[0] for place in TABLES} >= {"views.py", "audit.py", "tokens.py", "reports.py"}


def test_nothing_but_the_tables_prints() -> None:
    """So a new view cannot miss what is checked here."""
    printing = {path.name for path in CLI.glob("*.py") if re.search(r"\becho\(|\bprint\(", path.read_text("utf-8"))}
    assert printing <= MAY_ECHO


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("room", WIDTHS)
def test_no_table_breaks_a_word_or_loses_one(monkeypatch: pytest.MonkeyPatch, kind: str, room: int) -> None:
    for place, names in TABLES.items():
        rows = [[ROWS[kind](i) for i in range(len(names))]] * 2
        shown = screen(monkeypatch, [Table("The title of a table", names, rows)], room)
        whole = {part for word in " ".join(shown).split() for part in (word, word.strip(":;"))}
        for line in (line for row in rows for cell in row for line in lines_of(cell)):
            for unit in filter(None, (unit.strip(";") for unit in units(line))):
                assert unit in whole or any(unit in each for each in shown if " " in unit), (place, unit, shown)
        for line in shown:
            # A line is only wider than the terminal if one unbreakable thing is.
            assert cell_width(line) <= room or len(units(line.split(": ", 1)[-1])) == 1, (place, line)


@pytest.mark.parametrize("room", WIDTHS)
def test_a_table_without_rows_is_its_head(monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    for names in TABLES.values():
        shown = screen(monkeypatch, [Table("Jobs", names, [])], room)
        assert shown[0] == "Jobs"


def test_a_list_is_a_table_where_there_is_room_and_records_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(7, "email", "error", "default", "2026-11-29 10:05:33Z", ERROR), (8, "email", "queued", "acme", "", "")]
    jobs = Table("Jobs", ("job", "stage", "status", "tenant", "next run", "error"), rows)
    for room in (100, 120, 200):
        assert screen(monkeypatch, [jobs], room)[1].split() == "job stage status tenant next run error".split()
    shown = screen(monkeypatch, [jobs], 60)
    assert shown[1:6] == [
        "job: 7",
        "stage: email",
        "status: error",
        "tenant: default",
        "next run: 2026-11-29 10:05:33Z",
    ]
    assert shown[6].startswith("error: TransientError: the mail server")
    assert shown[7].startswith("  ")
    assert shown[-6:] == ["", "job: 8", "stage: email", "status: queued", "tenant: acme", ""]
    # A table that fits stays one, however narrow the terminal is.
    assert screen(monkeypatch, [Table("Jobs", ("job", "stage"), [(7, "email")])], 40)[1:] == [
        "job  stage",
        "7    email",
    ]


def test_lines_of_a_cell_have_their_names_in_a_record(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table("Money", ("since, amount", "order, detail"), [(("2026-11-29", "$7.00"), (FLOW, "no card"))])
    assert screen(monkeypatch, [table], 80)[1:] == [
        *("since: 2026-11-29", "amount: $7.00", "order:", f"  {FLOW}", "detail: no card", "")
    ]


def test_the_widest_column_wraps_first() -> None:
    rows = [[["job"], ["error"]], [["12345678"], ["a sentence with several words in it, and more of them"]]]
    assert column_widths(rows, 100, gap=2) == [8, 53]
    assert column_widths(rows, 50, gap=2) == [8, 40]
    assert column_widths(rows, 30, gap=2) == [8, 20]
    assert column_widths(rows, 29, gap=2) is None


def test_sentences_wrap_at_words_and_commands_stand_alone() -> None:
    text = "stage email is paused: to resume it: flask jobs resume email --by ann; its jobs wait"
    assert wrap(text, 100) == [text]
    assert wrap(text, 40) == [
        "stage email is paused: to resume it:",
        "  flask jobs resume email --by ann",
        "its jobs wait",
    ]
    assert wrap("  to show it: flask jobs show 7 --reveal", 20) == ["  to show it:", "  flask jobs show 7 --reveal"]
    assert wrap("結婚おめでとう 結婚おめでとう", 20) == ["結婚おめでとう", "結婚おめでとう"]
    assert wrap(FLOW, 40) == [FLOW]

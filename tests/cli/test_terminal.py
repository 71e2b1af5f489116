"""What a terminal shows, what a pipe gets, and what is imported for it."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.cli.conftest import Door, Terminal, dead_letters
from tests.support.world import World

ROOT = Path(__file__).parent.parent.parent


def test_terminal_shows_tables_in_colour(world: World, direct: Door, terminal: Terminal) -> None:
    dead_letters(world, 2, error="[email] is refused, [bold]really")
    code, screen = terminal.run(direct.app, "list")
    assert code == 0
    assert "\x1b[31merror" in screen
    # Square brackets are text, not markup.
    assert "[email] is refused, [bold]really" in screen


@pytest.mark.parametrize("command", ["list", "status", "stages", "show 1", "history 1", "circuits"])
def test_every_view_can_be_drawn(world: World, direct: Door, terminal: Terminal, command: str) -> None:
    dead_letters(world, 1)
    assert terminal.run(direct.app, *command.split())[0] == 0


def test_names_stay_whole_on_a_terminal_of_80_columns(world: World, direct: Door, terminal: Terminal) -> None:
    dead_letters(world, 1, error="the mail server refuses this recipient, and the next one, too")
    world.add("customer_ingest", correlation_id="order-4711")
    screen = terminal.run(direct.app, "list", columns=80)[1]
    for name in ("customer_ingest", "order-4711", "queued", "default", "recipient"):
        assert name in screen, screen


@pytest.mark.parametrize("setting", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_terminal_without_colours_gets_none(
    world: World, direct: Door, terminal: Terminal, setting: dict[str, str]
) -> None:
    dead_letters(world, 1)
    code, screen = terminal.run(direct.app, "list", **setting)
    assert code == 0
    assert "\x1b[" not in screen
    heads, row = screen.splitlines()[1:3]
    assert heads.index("flow") == row.index("dead-1")


def test_json_on_a_terminal_is_json_alone(world: World, direct: Door, terminal: Terminal) -> None:
    dead_letters(world, 1)
    code, screen = terminal.run(direct.app, "list", "--json")
    assert (code, len(json.loads(screen)["jobs"])) == (0, 1)


def test_question_does_not_go_to_standard_output(world: World, direct: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    dead_letters(world, 1)
    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr("lib.cli.prompts.sys", SimpleNamespace(stdin=terminal, stderr=sys.stderr))
    result = direct.run("requeue", "--all", "--json", types="n\n")
    assert (result.stdout, "Requeue 1 dead letter?" in result.stderr) == ("", True)


def process(database_url: str, *args: bytes | str, **environ: str) -> subprocess.CompletedProcess[bytes]:
    """A real process, as people start it."""
    return subprocess.run(
        [sys.executable, "-m", "flask", "jobs", *args],
        env={"DATABASE_URL": database_url, "GIFTCARD_ENV": "test", "PATH": "", "PYTHONPATH": str(ROOT)} | environ,
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )


@pytest.mark.slow
def test_bytes_that_are_no_text_are_refused_with_one_sentence(database_url: str) -> None:
    for args in ([b"list", b"--error", b"\xff"], [b"circuits", b"reset", b"\xc3\x28"], [b"\xff"]):
        done = process(database_url, *args)
        assert (done.returncode, done.stdout) == (2, b"")
        assert done.stderr.startswith(b"Error: ")
        assert done.stderr.count(b"\n") == 1


@pytest.mark.slow
def test_terminal_that_knows_no_utf_8_gets_valid_json(world: World, database_url: str) -> None:
    world.enqueue("email", correlation_id="Zoë → ✓")
    for command in ("list", "show", "status"):
        args = [command, "1"] if command == "show" else [command]
        plain = process(database_url, *args, PYTHONIOENCODING="latin-1")
        assert (plain.returncode, plain.stderr) == (0, b"")
    found = process(database_url, "list", "--json", PYTHONIOENCODING="latin-1")
    assert json.loads(found.stdout)["jobs"][0]["correlation_id"] == "Zoë → ✓"


@pytest.mark.slow
def test_application_imports_neither_tables_nor_httpx(database_url: str) -> None:
    code = "import api.index, sys; print([name for name in ('lib.cli.tables', 'httpx') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_columns_of_one_value_make_room_for_the_others(world: World, direct: Door, terminal: Terminal) -> None:
    flow = "d18ac65e-9a30-4db1-abf2-748a7d441fa9"
    ids = [world.add(stage, correlation_id=flow) for stage in ("customer_ingest", "personal_code")]
    world.sql("update giftcard_jobs set status = 'completed', finished_at = now()")
    title, same, heads, *rows = terminal.run(direct.app, "list", columns=80, NO_COLOR="1")[1].splitlines()
    assert (title, same) == ("Jobs, the newest first (2)", "in all rows: tenant default")
    assert heads.split() == "job stage status attempts flow".split()
    assert [row.split()[0] for row in rows] == [str(job_id) for job_id in reversed(ids)]


def test_lists_of_commands_are_whole_sentences(direct: Door, terminal: Terminal) -> None:
    for group in ((), ("orders",), ("schedules",), ("webhooks",), ("keys",)):
        assert "..." not in terminal.run(direct.app, *group, "--help", columns=80)[1].partition("Commands:")[2]

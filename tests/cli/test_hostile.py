"""Whatever is typed: exit code 0, 1 or 2, never a traceback, never a half change, never a secret."""

from typing import Any

import click
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib.cli import jobs
from tests.cli.conftest import Door, dead_letters
from tests.support.world import ADMIN, API, CRON, ENCRYPTION_KEY, World, an_order

# Left out: what waits on purpose, and what reads files that are none of a test's business.
_NOT_HERE = ("--linger", "--no-linger", "--help", "--file")

ODD = st.sampled_from(
    [
        *("", " ", "-", "--", "@", "@-", "*", ".", "..", "/", "//", "%2e", "a/b", "?x=1", "#", "'", '"', "\\", "$(id)"),
        *("0", "-1", "1", "7", "1e3", "nan", "inf", "-inf", "1_0", "٣", str(2**63), str(2**64), "9" * 5000),
        *("\x00", "a\x00b", "\x1b[2J", "\n", "\u2028", "\udcff", "\ud800", "é", "日本", "🎁", "x" * 300, "%s", "{}"),
        *("[]", "null", '{"a": 1}', '{"a": NaN}', '{"a": "\\u0000"}', '{"a": "\\ud800"}', '{"a": 1, "a": 2}'),
        *("[" * 2000, "0x7", "1.5", "true", "None"),
        *("error", "email", "default", "running", "customer_ingest", "dead-1", "flow-1"),
        *("2026-01-01T00:00:00Z", "0000-00-00T00:00:00Z", "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"),
    ]
)
WORD = st.one_of(ODD, st.text(max_size=20), st.integers().map(str))


def _names() -> dict[str, list[str]]:
    found = {}
    for name in jobs.list_commands(click.Context(jobs)):
        command = jobs.commands[name]
        flags = [flag for param in command.params for flag in param.opts if flag.startswith("--")]
        found[name] = sorted(set(flags) - set(_NOT_HERE)) or ["--json"]
    return found


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """A command, more or less as it wants to be, with anything for its values."""
    names = _names()
    command = draw(st.sampled_from(sorted(names)))
    words = [command, *draw(st.lists(WORD, max_size=3))]
    for flag in draw(st.lists(st.sampled_from(names[command]), max_size=4)):
        words += [flag, *draw(st.lists(WORD, max_size=1))]
    return words


LINES = st.one_of(command_lines(), st.lists(WORD, max_size=4))


@pytest.fixture
def stocked(world: World) -> World:
    """A little of everything, so that commands find something."""
    world.enqueue("customer_ingest", an_order())
    dead_letters(world, 2)
    world.enqueue("email", {"deep": [[[{}]]]}, status="completed")
    return world


@pytest.mark.parametrize("examples", [200])
def test_no_command_line_brings_a_traceback(stocked: World, door: Door, examples: int) -> None:
    secrets = (ADMIN, API, CRON, ENCRYPTION_KEY)

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )
    @given(LINES)
    def holds(words: list[str]) -> None:
        result: Any = door.run(*words)
        assert result.exit_code in (0, 1, 2), result.output
        assert "Traceback" not in result.output
        if result.exit_code and result.stderr and "--help" not in words:
            assert result.stderr.count("\n") == 1 or result.stderr.startswith("Usage: "), result.stderr
        # 1 is for what cannot be reached, and everything can; for the doctor, who misses the clock; for what is stuck.
        assert result.exit_code != 1 or {"doctor", "stuck"} & set(words), result.output
        assert not any(secret in result.output for secret in secrets)

    holds()
    left = stocked.statuses()
    assert sum(left.values()) >= 4

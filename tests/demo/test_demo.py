"""`make demo`, as a newcomer runs it: a process of its own, stopped half-way, twice in a row, on a foreign database."""

import fcntl
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from dev import ROOT
from dev.postgres import Embedded, embedded
from tests.demo.playing import TIMEOUT, demo, environment, first_screen, one, stopped

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """Where this module's demos keep Postgres, mails and log."""
    with tempfile.TemporaryDirectory(prefix="giftcards-demo-") as path:
        yield Path(path)


@pytest.fixture(scope="module")
def foreign(postgres: Embedded) -> str:
    """The URL of an empty database, for `DATABASE_URL`."""
    return postgres.create_database("foreign")


@pytest.fixture(scope="module")
def half(folder: Path, foreign: str) -> tuple[int, str, int]:
    """The first demo, which is stopped half-way."""
    return stopped(folder, database_url=foreign)


@pytest.fixture(scope="module")
def runs(half: object, folder: Path, foreign: str) -> list[subprocess.CompletedProcess[str]]:
    """Two more demos: one screen on the database of the stopped one, and with everything on an embedded one.

    The embedded one has a database already, as after an earlier demo.
    """
    first = demo(folder, database_url=foreign)
    with embedded(folder / "postgres") as server, psycopg.connect(server.create_database("giftcards_demo")) as earlier:
        earlier.execute("create table giftcard_jobs (id integer)")
    return [first, demo(folder, "-v")]


def test_stopped_half_way_it_leaves_no_process_and_the_next_one_plays(
    half: tuple[int, str, int], runs: list[subprocess.CompletedProcess[str]], foreign: str
) -> None:
    exit_code, last_line, worker = half
    assert (exit_code, last_line) == (130, "Stopped.")
    assert worker
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)
    assert runs[0].returncode == 0, runs[0].stdout + runs[0].stderr
    count = "select count(*) from giftcard_jobs where status"
    assert one(foreign, f"{count} = 'cancelled'") != 0
    assert one(foreign, f"{count} in ('queued', 'running')") == 0
    assert one(foreign, "select count(distinct tenant_id) from giftcard_orders") == 2
    assert one(foreign, "select count(*) from giftcard_schedules") == 0


def test_it_comes_out_twice_in_a_row(runs: list[subprocess.CompletedProcess[str]]) -> None:
    for run in runs:
        assert (run.returncode, run.stderr) == (0, ""), run.stdout
        assert "✗" not in run.stdout
        assert "✓ All 19 checks passed" in run.stdout
    assert "114 orders → 112 cards, 112 charges" in runs[0].stdout
    assert "114 orders imported, 6 invalid rows skipped" in runs[1].stdout
    assert "114 orders of 104 customers → 112 gift cards, 112 charges, 112 mails" in runs[1].stdout


def test_it_fits_one_screen(runs: list[subprocess.CompletedProcess[str]]) -> None:
    lines = runs[0].stdout.splitlines()
    result = lines[next(at for at, line in enumerate(lines) if "Your $25.00 gift card, to kate.rodgers@" in line) :]
    # The folder of a test has a long name, which stands in the commands to try.
    commands = result.index("Next steps")
    assert len(result) <= 38
    assert max(map(len, result[:commands])) <= 80
    mail = "\n".join(result)
    assert re.search(r"Hello Kate,.*Amount: +\$25\.00.*Card number: +\d{4}.*Personal code: KATE1520", mail, re.DOTALL)
    failures = re.findall(r"^  (\w[\w ]+?)  ", "\n".join(result[:commands]), flags=re.MULTILINE)
    # On a busy machine another circuit may open, too, or another job fail for good and revive.
    usual = [name for name in dict.fromkeys(failures) if not name.endswith(" down") or name == "email down"]
    assert usual == [
        "function killed",
        "email down",
        "no response",
        "errors",
        "dead letter",
        "same code",
        "refused",
        "notified",
    ]


def test_it_names_each_wrong_row_and_its_reason(runs: list[subprocess.CompletedProcess[str]]) -> None:
    told = dict(re.findall(r"^ +line (\d+) +(\w+)", runs[1].stdout, flags=re.MULTILINE))
    assert told == {
        "13": "email",
        "31": "amount",
        "54": "currency",
        "73": "amount",
        "96": "amount",
        "111": "deliver_at",
    }


def test_it_shows_the_shortened_times_beside_the_real_ones(runs: list[subprocess.CompletedProcess[str]]) -> None:
    rows = re.findall(r"^ +(GIFTCARD_\w+): (\S+) instead of (\S+)$", runs[1].stdout, flags=re.MULTILINE)
    assert {name: tuple(values) for name, *values in rows} == {
        "GIFTCARD_STAGE_PAYMENT_BASE_SECONDS": ("0.2", "1"),
        "GIFTCARD_STAGE_PAYMENT_TTR_SECONDS": ("2", "60"),
        "GIFTCARD_CIRCUIT_COOLDOWN_SECONDS": ("3", "60"),
        "GIFTCARD_FAILED_JOB_RETRY_HOURS": ("0.002", "24"),
        "GIFTCARD_WEBHOOK_RETRY_SECONDS": ("0.5,1,2", "30,60,120"),
        "GIFTCARD_TICK_LINGER": ("0", "1"),
    }


def test_through_a_pipe_it_is_plain_text_without_secrets(
    runs: list[subprocess.CompletedProcess[str]], folder: Path
) -> None:
    secrets = json.loads((folder / "demo/secrets.json").read_text()).values()
    log = (folder / "demo/log.jsonl").read_text()
    for text in (*(run.stdout for run in runs), log):
        assert "\x1b" not in text
        assert not [secret for secret in secrets if secret in text]
    assert all(json.loads(line)["event"] for line in log.splitlines())


def test_the_database_tells_the_same_story(runs: list[subprocess.CompletedProcess[str]], folder: Path) -> None:
    with embedded(folder / "postgres") as server:
        url = server.url_of("giftcards_demo")
        assert one(url, "select count(distinct tenant_id) from giftcard_jobs") == 1
        assert one(url, "select count(*), count(distinct number_hash) from giftcard_cards") == (112, 112)
        assert one(url, "select count(*), count(distinct personal_code) from giftcard_customers") == (104, 104)
        assert one(url, "select array_agg(distinct status order by status) from giftcard_jobs") == [
            "completed",
            "error",
        ]
        declined = "select count(*) from giftcard_jobs where status = 'error' and last_error like 'Declined:%%'"
        assert one(url, declined) == 2
        kates = "select count(*) from giftcard_customers where personal_code ~ '^KATE' and external_id ~ '1520$'"
        assert one(url, kates) == 14
        states = "select array_agg(to_state order by id) from giftcard_circuit_changes where circuit = 'email'"
        changes = one(url, states)
        assert isinstance(changes, list)
        assert (changes[:3], changes[-1]) == (["open", "half_open", "open"], "closed")
        revived = "select array_agg(distinct status) from giftcard_jobs where revivals > 0"
        assert one(url, revived) == ["completed"]
        interrupted = "select count(distinct job_id) from giftcard_job_history where result = 'INTERRUPTED'"
        taken_over = re.search(r"(\d+) runs? taken over", runs[1].stdout)
        assert taken_over
        assert one(url, interrupted) == int(taken_over[1])
    assert len(list((folder / "demo/mails").glob("*.eml"))) == 113  # the report too


def test_it_ends_with_what_went_by_the_clock_and_who_was_told(
    runs: list[subprocess.CompletedProcess[str]], folder: Path
) -> None:
    ended = runs[1].stdout.split("Schedules and notifications")[1]
    answers = r"the first: 503 after 0\.0 s, 503 after (\S+) s, 200 after (\S+) s, with one key"
    first, second = map(float, re.search(answers, ended).groups())  # type: ignore[union-attr]
    assert first >= 1
    assert second - first > 1.9  # 2, as far as one decimal tells
    assert re.search(r"at most once +schedule:\S+: failed at attempt 1, not retried", ended)
    assert re.search(r"report +of 20\S+, 1 by mail: ", ended)
    assert re.search(r"dead webhook +schedule:\S+: PermanentError: 127\.0\.0\.1 answered 410", ended)
    assert re.search(r"alerts +(.*\n +)*circuit email is open.*(\n.*)*Resolved: circuit email is closed", ended)
    with embedded(folder / "postgres") as server:
        url = server.url_of("giftcards_demo")
        webhooks = "select status, count(*) from giftcard_jobs where stage = 'webhook' group by 1 order by 1"
        with psycopg.connect(url) as connection:
            assert connection.execute(webhooks).fetchall() == [("completed", 112 + 3 + 1), ("error", 1)]
        calls = "select array_agg(status || ' ' || attempts) from giftcard_jobs where stage = 'http_call'"
        outcomes = Counter(one(url, calls))  # type: ignore[arg-type]
        assert (outcomes["completed 3"], outcomes["error 1"], outcomes["completed 1"] > 0) == (1, 1, True)
        assert len(outcomes) == 3
        assert one(url, "select count(*) from giftcard_schedules") == 0
        assert one(url, "select (report -> 'totals' ->> 'cards')::int from giftcard_reports") == 112


def test_what_it_says_to_type_next_works(runs: list[subprocess.CompletedProcess[str]], folder: Path) -> None:
    typed = re.findall(r"^  \S*python\S* -m demo (.+?)  ", runs[1].stdout, flags=re.MULTILINE)
    page, *commands = typed
    assert [command.split(" jobs ")[1].split()[0] for command in commands] == ["status", "show", "requeue", "tick"]
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "demo", *shlex.split(command)],
            cwd=ROOT,
            env=environment(None),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    assert "3 completed" in done.stdout
    # the declined order has its card and its mail after all
    assert len(list((folder / "demo/mails").glob("*.eml"))) == 114
    assert 'class="verdict' in first_screen(shlex.split(page))


def test_a_database_with_jobs_of_its_own_is_left_alone(database_url: str, tmp_path: Path) -> None:
    insert = (
        "insert into giftcard_jobs (tenant_id, correlation_id, stage) values ('demo-shop', 'o1', 'customer_ingest')"
    )
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(insert)
    before = one(database_url, "select md5(string_agg(j::text, '')) from giftcard_jobs j")
    run = demo(tmp_path, database_url=database_url)
    assert run.returncode == 2
    assert "has jobs or orders of its own" in run.stdout
    assert one(database_url, "select md5(string_agg(j::text, '')) from giftcard_jobs j") == before
    assert one(database_url, "select count(*) from giftcard_ticks") == 0


def test_a_table_of_the_same_name_that_is_not_ours_is_refused(empty_database_url: str, tmp_path: Path) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute("create table giftcard_jobs (id integer)")
    run = demo(tmp_path, database_url=empty_database_url)
    assert (run.returncode, "is not ours" in run.stdout) == (2, True)


@pytest.mark.parametrize("url", ["postgresql://u:hidden@127.0.0.1:1/x", "hidden", "postgresql://u:hidden@[/x"])
def test_a_database_out_of_reach_is_told_without_its_password(url: str, tmp_path: Path) -> None:
    run = demo(tmp_path, database_url=url)
    assert (run.returncode, run.stderr) == (2, "")
    assert "hidden" not in run.stdout.replace('database "hidden" does not exist', "")


def test_two_demos_in_one_folder_do_not_meet(database_url: str, tmp_path: Path) -> None:
    (tmp_path / "demo").mkdir()
    with (tmp_path / "demo/lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        run = demo(tmp_path, database_url=database_url)
    assert (run.returncode, "another demo is running here" in run.stdout) == (2, True)

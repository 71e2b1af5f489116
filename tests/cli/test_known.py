"""Names that do not exist are refused with the closest that do; the shell completes the ones that exist."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lib.jobs.audit import ACTIONS
from tests.cli.conftest import Door, NoDatabase
from tests.cli.test_terminal import ROOT
from tests.support.acts import ACTS
from tests.support.world import World

WRONG = {
    "list --stage emial": "email",
    "list --circuit emial": "email",
    "list --status eror": "error",
    "errors --stage emial": "email",
    "requeue --stage emial --dry-run": "email",
    "requeue --circuit emial --dry-run": "email",
    "requeue --status cancelld --dry-run": "cancelled",
    "pause emial": "email",
    "resume emial": "email",
    "enqueue emial order-1": "email",
    "enqueue email order-1 --semantics at_least_onse": "at_least_once",
    "circuits reset emial": "email",
    "audit --action requeu": "requeue",
    "schedules list --name nigthly": "nightly",
    "schedules list --status pausd": "paused",
    "schedules create @daily --stage emial": "email",
    "schedules update 1 --stage emial": "email",
    "schedules update 1 --missed-policy skipp": "skip",
    "tokens revoke grafanna --yes": "grafana",
    "tokens create x --scope jobs:raed": "jobs:read",
    "webhooks update 1 --event job.complete": "job.completed",
    "lst": "list",
    "schedules crate": "create",
    "list --stauts error": "--status",
    "--ulr https://example.com list": "--url",
}


@pytest.fixture
def known(world: World, door: Door) -> Door:
    """Something of each kind that has a name."""
    world.sql("insert into public.giftcard_schedules (name, schedule, stage) values ('nightly', '0 3 * * *', 'report')")
    world.sql("insert into public.giftcard_jobs (correlation_id, stage) values ('o', 'a_stage_of_older_code')")
    door.json("tokens", "create", "grafana", "--scope", "metrics")
    door.json("webhooks", "create", "https://93.184.215.14/hook", "--event", "job.completed")
    return door


def test_a_name_that_does_not_exist_is_refused_with_the_closest(known: Door) -> None:
    for typed, close in WRONG.items():
        assert f"did you mean {close}" in known.refuses(*typed.split()), typed
    assert "did you mean email?" in known.refuses("tick", "--stage", "emial")
    for typed in ("list --stage zzz", "list --circuit zzz", "audit --action nonsense", "requeue --stage zzz --dry-run"):
        assert "there is no" in known.refuses(*typed.split())


def test_a_name_that_exists_but_finds_nothing_is_no_error(known: Door) -> None:
    assert known.says("list", "--stage", "email") == "No job matches.\n"
    assert known.says("audit", "--action", "cancel") == "No act matches.\n"
    for stage in ("email", "a_stage_of_older_code"):
        assert known.says("errors", "--stage", stage) == "There are no errors.\n"
    # A stage that only the database knows has waiting jobs: it is real.
    assert "a_stage_of_older_code" in known.says("list", "--stage", "a_stage_of_older_code")
    known.says("requeue", "--stage", "a_stage_of_older_code", "--dry-run")


def test_a_token_that_may_not_list_the_stages_finds_nothing(remote: Door, make_world: Callable[..., World]) -> None:
    made = remote.json("tokens", "create", "acme", "--tenant", "acme", "--scope", "jobs:read")
    elsewhere = make_world(wire=NoDatabase(), GIFTCARD_ADMIN_TOKEN=made["token"])
    acme = Door(elsewhere.app, elsewhere, url=remote.url)
    assert acme.says("list", "--stage", "emial") == "No job matches.\n"
    assert acme.says("errors", "--stage", "emial") == "There are no errors.\n"


def test_actions_are_those_of_the_audit() -> None:
    assert {act.action for act in ACTS.values()} <= set(ACTIONS)


# Completion


def completed(words: str, **environ: str) -> tuple[list[str], str]:
    """What a shell gets for a line that ends with the word to complete."""
    done = subprocess.run(
        [str(Path(sys.executable).parent / "flask")],
        env={
            "GIFTCARD_ENV": "test",
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT),
            "_FLASK_COMPLETE": "bash_complete",
            "COMP_WORDS": f"flask {words}",
            "COMP_CWORD": str(len(words.split(" "))),
            **environ,
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return [line.removeprefix("plain,") for line in done.stdout.splitlines() if line], done.stderr


@pytest.mark.slow
def test_the_shell_completes_what_exists(known: Door, database_url: str) -> None:
    where = {"GIFTCARD_URL": known.url, "GIFTCARD_ADMIN_TOKEN": "x"} if known.url else {"DATABASE_URL": database_url}
    if known.url:
        from tests.support.world import ADMIN

        where["GIFTCARD_ADMIN_TOKEN"] = ADMIN
    for words, found in {
        "jobs sched": ["schedules"],
        "jobs list --sta": ["--status", "--stage"],
        "jobs list --status e": ["error"],
        "jobs pause emai": ["email"],
        "jobs list --stage a_stage": ["a_stage_of_older_code"],
        "jobs schedules list --name ni": ["nightly"],
        "jobs tokens revoke gra": ["grafana"],
        "jobs webhooks show ": ["1"],
        "jobs audit --action requ": ["requeue"],
    }.items():
        # On a busy machine a completion can run out of time, as for people, who press the key again.
        assert any(completed(words, **where) == (found, "") for _ in range(5)), words


@pytest.mark.slow
def test_completion_prints_nothing_without_a_database() -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    assert completed("jobs tokens revoke ", DATABASE_URL=nowhere) == ([], "")
    assert completed("jobs pause emai", DATABASE_URL=nowhere) == (["email"], "")

"""Passwords of URLs are in no log, no row, no answer and no output of a command, whatever fails."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dev import ROOT
from tests.support.world import ADMIN, API, World, an_order, bearer

pytestmark = pytest.mark.slow

Make = Callable[..., World]
Log = Callable[[], list[dict[str, Any]]]

# Long, short, and one that needs %….
PASSWORDS = {"Sesame7Open9": "Sesame7Open9", "q7Z": "q7Z", "p@9/Word": "p%409%2FWord"}


def everything(world: World) -> str:
    """All rows of all tables."""
    tables = world.sql("select tablename as name from pg_tables where tablename like 'giftcard%%'")
    return str([world.sql(f"select to_jsonb(t)::text as row from public.{table['name']} t") for table in tables])


@pytest.mark.parametrize(("password", "written"), PASSWORDS.items())
def test_password_of_a_url_is_nowhere(
    make_world: Make, log: Log, database_url: str, password: str, written: str
) -> None:
    def says(payload: Any, context: Any) -> None:
        urls = [
            getattr(context.settings, name) for name in type(context.settings).model_fields if name.endswith("_url")
        ]
        raise ValueError("; ".join(f"no: {url.get_secret_value()}" for url in urls if url))

    urls = {
        "DATABASE_URL": database_url.replace("postgres@", f"postgres:{written}@"),
        "SMTP_URL": f"smtp://kim:{written}@127.0.0.1:9",
        **{
            f"GIFTCARD_{name}_URL": f"http://kim:{written}@127.0.0.1:9/{name}?k=1"
            for name in ("PAYMENT", "CARD", "ALERT")
        },
        "SENTRY_DSN": f"https://key:{written}@127.0.0.1:9/1",
        "SQUARE_WEBHOOK_URL": f"https://kim:{written}@shop.example.com/",
    }
    providers = {"GIFTCARD_PAYMENT_PROVIDER": "http", "GIFTCARD_CARD_PROVIDER": "http", "GIFTCARD_CIRCUIT_THRESHOLD": 1}
    world = make_world(GIFTCARD_ALERT_RECIPIENTS="ann@ops.example", **urls, **providers)
    world.submit(an_order())
    loud = make_world(handlers={"work": says}, **urls)
    loud.enqueue("work")
    loud.run()
    world.run()
    paths = ("/api/status", "/api/overview", "/api/health/deep", "/api/metrics", "/api/v1/stages", "/api/v1/jobs")
    answers = [world.client.get(path, headers=bearer(token)).text for path in paths for token in (ADMIN, API)]
    assert "ValueError" in (told := f"{everything(world)} {log()} {answers} {world.settings!r}")
    for secret in (password, written):
        assert f":{secret}@" not in told
        assert len(secret) < 6 or secret not in told


COMMANDS = {
    "flask": ["-m", "flask", "--app", "api.index", "jobs", "status"],
    "migrate": ["-m", "dev.migrate"],
    "dev": ["-m", "dev.serve"],
    "demo": ["-m", "demo"],
}
UNUSABLE = [
    "postgresql://kim:Sesame7Open9@127.0.0.1:1/x",
    "postgresql://kim:Sesame7Open9@x/Sesame7Open9@db.invalid/x",
    "host=127.0.0.1 password=Sesame7Open9",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_command_that_cannot_use_its_database_does_not_repeat_the_url(command: str, tmp_path: Path) -> None:
    folder = ["--folder", str(tmp_path)] if command == "demo" else []
    for url in UNUSABLE:
        ended = subprocess.run(
            [sys.executable, *COMMANDS[command], *folder],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"], "DATABASE_URL": url},
            capture_output=True,
            text=True,
            timeout=60,
        )
        said = ended.stdout + ended.stderr
        assert ended.returncode in (1, 2), said
        assert "Sesame7Open9" not in said
        assert "Traceback" not in said
        assert "DATABASE_URL: must" in said or "127.0.0.1" in said

"""The Supabase CLI itself pushes our migrations, and it and `make migrate` know each other's work."""

import fcntl
import os
import shutil
import subprocess
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from dev import LOCAL, ROOT
from dev.migrate import migrate
from dev.postgres import Embedded
from tests.sql.test_schema import catalog
from tests.support.optional import lacks
from tests.support.postgrest.roles import make_like_supabase
from tests.upgrade.conftest import MIGRATIONS, NEXT
from tests.wires.proxy import proxy

# As npm has it; its program comes with the package.
CLI = "2.117.0"

Cli = Callable[..., str]


@pytest.fixture(scope="session")
def program() -> Path:
    """The CLI, installed into .local/ the first time. A machine without npm skips these tests; CI never does."""
    if shutil.which("npm") is None:
        lacks("npm is not installed (Debian, Ubuntu: apt install nodejs npm)")
    folder = LOCAL / f"supabase-{CLI}"
    program = folder / "node_modules/.bin/supabase"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the workers of xdist share it
        if not program.exists():
            options = ("--save-exact", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
            subprocess.run(["npm", "install", *options, "--prefix", str(folder), f"supabase@{CLI}"], check=True)
    return program


@pytest.fixture
def supabase(program: Path, empty_database_url: str, tmp_path: Path) -> Iterator[Cli]:
    """Runs it on a copy of our folder, for a database like a fresh project of Supabase's; what it said."""
    make_like_supabase(empty_database_url)
    shutil.copytree(ROOT / "supabase", tmp_path / "supabase")
    parts = urlsplit(empty_database_url)
    (folder,) = parse_qs(parts.query)["host"]
    quiet = {"HOME": str(tmp_path), "SUPABASE_TELEMETRY_DISABLED": "1", "DO_NOT_TRACK": "1"}
    with proxy(Path(folder, ".s.PGSQL.5432")) as line:
        url = f"postgresql://postgres@127.0.0.1:{line.port}{parts.path}?sslmode=disable"

        def run(*words: str) -> str:
            ended = subprocess.run(
                [program, *words, "--db-url", url],
                cwd=tmp_path, env=os.environ | quiet, capture_output=True, text=True, timeout=120,
            )  # fmt: skip
            said = ended.stdout + ended.stderr
            assert ended.returncode == 0, said
            return said

        yield run


@pytest.fixture
def another_database_url(postgres: Embedded) -> Iterator[str]:
    """A second database like a fresh project of Supabase's: privileges are compared, too."""
    url = postgres.create_database("made_by_make_migrate")
    make_like_supabase(url)
    yield url
    postgres.drop_database("made_by_make_migrate")


def test_the_settings_of_the_cli_lead_to_what_is_there() -> None:
    settings = tomllib.loads((ROOT / "supabase/config.toml").read_text())
    assert 15 <= settings["db"]["major_version"] <= 18
    assert "public" in settings["api"]["schemas"]
    (pattern,) = settings["db"]["migrations"]["schema_paths"]
    assert sorted((ROOT / "supabase").glob(pattern)) == sorted((ROOT / "supabase/schemas").glob("*.sql"))
    assert not settings["db"]["seed"]["enabled"]


@pytest.mark.slow
def test_what_the_cli_pushes_is_what_make_migrate_makes(
    supabase: Cli, empty_database_url: str, another_database_url: str
) -> None:
    said = supabase("db", "push", "--yes")
    assert [path.name for path in MIGRATIONS if f"Applying migration {path.name}" in said] == [
        p.name for p in MIGRATIONS
    ]
    assert migrate(empty_database_url) == [], "and make migrate knows it again"
    assert "is up to date" in supabase("db", "push", "--yes")
    migrate(another_database_url)
    pushed, made = catalog(empty_database_url), catalog(another_database_url)
    for what in made:
        assert pushed[what] == made[what], what


@pytest.mark.slow
def test_the_cli_goes_on_where_make_migrate_stopped(
    supabase: Cli, empty_database_url: str, next_release: Path, tmp_path: Path
) -> None:
    assert migrate(empty_database_url) == [path.name for path in MIGRATIONS]
    shutil.copy(next_release / NEXT, tmp_path / "supabase/migrations")
    printed = supabase("db", "push", "--yes")
    assert f"Applying migration {NEXT}" in printed
    assert [path.name for path in MIGRATIONS if f"Applying migration {path.name}" in printed] == []
    assert migrate(empty_database_url, directory=next_release) == []


@pytest.mark.slow
def test_the_cli_builds_an_index_concurrently_and_make_migrate_knows_it(
    supabase: Cli, empty_database_url: str, tmp_path: Path
) -> None:
    migrate(empty_database_url)
    index = tmp_path / "supabase/migrations/29990101000001_index.sql"
    index.write_text(
        "-- squawk-disable-assume-in-transaction\n"
        "set lock_timeout = '1min';\n"
        "drop index concurrently if exists public.giftcard_jobs_noted;\n"
        "create index concurrently if not exists giftcard_jobs_noted on public.giftcard_jobs (id) where id < 0;\n"
    )
    assert f"Applying migration {index.name}" in supabase("db", "push", "--yes")
    assert migrate(empty_database_url, directory=index.parent) == []

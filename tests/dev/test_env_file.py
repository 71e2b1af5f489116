"""`make dev` leads `flask jobs` in another terminal to its database; a terminal that names another keeps it."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from dev import ROOT
from dev.env_file import MARK, Foreign, check_no_other, env_file
from dev.migrate import place
from dev.postgres import check_is_local
from lib.errors import Refused, Unavailable
from tests.support.world import ENCRYPTION_KEY, LOOKUP_KEY

URL = "http://127.0.0.1:8123"
OTHER_KEY = "b3RoZXIga2V5IG9mIGV4YWN0bHkgdGhpcnR5LXR3byE="
SECRETS = {"GIFTCARD_ENCRYPTION_KEYS": ENCRYPTION_KEY, "GIFTCARD_LOOKUP_KEY": LOOKUP_KEY}


def jobs(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """`flask jobs …` in another terminal, whose folder is this one."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "FLASK_APP": "api.index", **environ}
    command = [sys.executable, "-m", "flask", "jobs", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture
def variables(database_url: str) -> Mapping[str, str]:
    return {"DATABASE_URL": database_url, "GIFTCARD_ENV": "development", **SECRETS}


@pytest.fixture
def running(tmp_path: Path, variables: Mapping[str, str]) -> Iterator[Path]:
    """The folder of a `make dev` that runs."""
    with env_file(variables, url=URL, path=tmp_path / ".env"):
        yield tmp_path


def test_file_is_the_owners_and_is_removed_in_the_end(tmp_path: Path) -> None:
    path = tmp_path / ".env"
    path.write_text(MARK + "OLD=1\n")  # of one that was killed
    path.chmod(0o644)
    with env_file({"A": "it's \\ x", "EMPTY": ""}, url=URL, path=path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert path.read_text() == f"{MARK}# {URL}\nGIFTCARD_DEV_ENV='{path}'\nA='it\\'s \\\\ x'\n"
        with pytest.raises(Refused, match=rf"^make dev is running already at {URL}, in another terminal"):
            check_no_other(path)
        with pytest.raises(Refused), env_file({}, url=URL, path=path):
            pass
    assert not path.exists()
    check_no_other(path)


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_what_make_dev_did_not_write_is_left_alone(tmp_path: Path, kind: str) -> None:
    path, target = tmp_path / ".env", tmp_path / "mine"
    target.write_text("MINE=1\n")
    {"file": lambda: path.write_text("MINE=1\n"), "link": lambda: path.symlink_to(target), "folder": path.mkdir}[kind]()
    with pytest.raises(Foreign), env_file({"A": "1"}, url=URL, path=path):
        pass
    check_no_other(path)
    assert target.read_text() == "MINE=1\n"
    assert kind == "folder" or path.read_text() == "MINE=1\n"


@pytest.mark.slow
def test_another_terminal_works_on_the_same_database(running: Path, variables: Mapping[str, str]) -> None:
    where = place(variables["DATABASE_URL"])
    status = jobs(running, "status")
    assert (status.returncode, status.stderr) == (0, "")
    assert status.stdout.startswith(f"Working on {where}\n")
    orders = running / "orders.csv"
    rows = (ROOT / "data/orders.csv").read_text(encoding="utf-8-sig").splitlines()[:2]
    orders.write_text("\n".join(rows))
    assert jobs(running, "import-orders", str(orders)).returncode == 0
    assert "customer_ingest  1" in jobs(running, "status").stdout
    doctor = jobs(running, "doctor").stdout
    assert f"{where} responded within" in doctor


@pytest.mark.slow
def test_terminal_that_names_another_database_gets_nothing_of_the_file(running: Path, empty_database_url: str) -> None:
    for other in ({"DATABASE_URL": empty_database_url}, {"POSTGRES_URL": empty_database_url}):
        ended = jobs(running, "doctor", GIFTCARD_ENV="test", **other)
        assert place(empty_database_url) in ended.stdout
        assert "GIFTCARD_ENCRYPTION_KEYS is not set" in ended.stdout
    ended = jobs(running, "status", GIFTCARD_ENCRYPTION_KEYS=OTHER_KEY)
    assert "no database: set DATABASE_URL" in ended.stderr


@pytest.mark.slow
def test_file_of_a_killed_make_dev_is_explained(tmp_path: Path, variables: Mapping[str, str]) -> None:
    path = tmp_path / ".env"
    with env_file(variables, url=URL, path=path):
        text = path.read_text()
    path.write_text(text)
    ended = jobs(tmp_path, "status")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr.startswith("Error: make dev is not running: start it again, or delete its .env")
    assert ended.stderr.count("\n") == 1
    assert "make dev is not running" in jobs(tmp_path, "doctor").stdout


@pytest.mark.slow
def test_make_dev_writes_the_file_and_removes_it(empty_database_url: str, tmp_path: Path) -> None:
    # A copy: commands of other tests, which run beside this one, must not find the file.
    for folder in ("api", "lib", "dev", "supabase"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    file = tmp_path / ".env"
    environment = {"PATH": os.environ["PATH"], "DATABASE_URL": empty_database_url, "PORT": "8300"}
    command = [sys.executable, "-m", "dev.serve"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        lines = iter(served.stdout.readline, "")
        assert next(lines) == f"Working on {place(empty_database_url)}\n"
        assert any(".env has its settings" in line for line in lines)
        assert file.exists()
        status = jobs(tmp_path, "status")
        second = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        served.terminate()
        served.wait(30)
    assert status.stdout.startswith(f"Working on {place(empty_database_url)}\n")
    assert (second.returncode, "make dev is running already at http" in second.stderr) == (1, True)
    assert not file.exists()


REMOTE = "postgresql://kim:sesame-open@db.example.com/shop"


@pytest.mark.parametrize(
    ("environ", "error", "says"),
    [
        ({"DATABASE_URL": REMOTE}, Refused, "DATABASE_URL leads to the database shop on db.example.com"),
        ({"GIFTCARD_ENV": "production"}, Refused, "GIFTCARD_ENV is production"),
        ({"GIFTCARD_ENV": " Preview\n"}, Refused, "GIFTCARD_ENV is preview"),
        ({"DATABASE_URL": "localhost"}, Unavailable, "DATABASE_URL: must be a URL like"),
    ],
)
def test_development_never_works_on_a_database_of_others(
    monkeypatch: pytest.MonkeyPatch, environ: dict[str, str], error: type[Exception], says: str
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(error, match=says) as caught:
        check_is_local("make demo")
    assert "sesame" not in str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["demo", "--folder", "{}"], ["demo", "--folder", "{}", "jobs", "status"], ["dev.serve"]]
)
def test_commands_of_development_refuse_the_database_of_production(tmp_path: Path, command: list[str]) -> None:
    environment = {"PATH": os.environ["PATH"], "DATABASE_URL": REMOTE, "COLUMNS": "300"}
    words = [word.format(tmp_path) for word in command]
    ended = subprocess.run(
        [sys.executable, "-m", *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60
    )
    assert ended.returncode in (1, 2)
    said = " ".join((ended.stdout + ended.stderr).split())
    assert "DATABASE_URL leads to the database shop on db.example.com" in said
    assert "Traceback" not in ended.stderr
    assert "sesame" not in ended.stdout + ended.stderr

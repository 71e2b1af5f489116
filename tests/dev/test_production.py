"""`make secrets`: adds what a file lacks, shows nothing, and changes no key that is there."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from dev import ROOT
from lib.monitoring.doctor.tokens import estimated_bits

NAMES = [
    *("CRON_SECRET", "GIFTCARD_ADMIN_TOKEN", "GIFTCARD_API_TOKEN", "GIFTCARD_METRICS_TOKEN"),
    *("GIFTCARD_ENCRYPTION_KEYS", "GIFTCARD_LOOKUP_KEY"),
]


def make_secrets(folder: Path, *, umask: int = 0o022) -> subprocess.CompletedProcess[str]:
    """As `make secrets` runs it."""
    command = [sys.executable, "-m", "dev.production"]
    environ = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, umask=umask)


def values(folder: Path) -> dict[str, str]:
    """The file, as a shell reads it."""
    script = ". ./.env.production; for name in " + " ".join(NAMES) + '; do printenv "$name"; done'
    found = subprocess.run(["sh", "-c", script], cwd=folder, env={"PATH": os.environ["PATH"]}, capture_output=True)
    return dict(zip(NAMES, found.stdout.decode().splitlines(), strict=True))


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_the_file_is_made_for_its_owner_only_and_shows_nothing(tmp_path: Path, umask: int) -> None:
    ended = make_secrets(tmp_path, umask=umask)
    file = tmp_path / ".env.production"
    assert (ended.returncode, ended.stderr) == (0, "")
    assert (file.stat().st_mode & 0o777, [path.name for path in tmp_path.iterdir()]) == (0o600, [".env.production"])
    made = values(tmp_path)
    assert list(made) == NAMES == re.findall(r"(?m)^export (\w+)=", file.read_text())
    assert all(name in ended.stdout for name in NAMES)
    assert not any(value in ended.stdout for value in made.values())
    assert len(set(made.values())) == len(made)
    assert all(len(value) >= 43 and estimated_bits(value) > 100 for value in made.values())
    Fernet(made["GIFTCARD_ENCRYPTION_KEYS"])


def test_a_second_time_it_changes_nothing(tmp_path: Path) -> None:
    make_secrets(tmp_path)
    before = (tmp_path / ".env.production").read_bytes()
    ended = make_secrets(tmp_path)
    assert (ended.returncode, (tmp_path / ".env.production").read_bytes()) == (0, before)
    assert ended.stdout == ".env.production has all secrets: nothing was added\n"


@pytest.mark.parametrize("end", ["\n", ""])
def test_what_is_there_stays_to_the_byte_and_its_mode_is_tightened(tmp_path: Path, end: str) -> None:
    file = tmp_path / ".env.production"
    text = (
        "# ours\nexport GIFTCARD_ENCRYPTION_KEYS='old,older'\n  export CRON_SECRET=\"short\"\n"
        f"# export GIFTCARD_API_TOKEN=x\nexport MAIL_FROM='Käte <k@example.com>'{end}"
    )
    file.write_bytes(text.encode() + (b"# \xff\n" if end else b""))
    file.chmod(0o644)
    assert make_secrets(tmp_path).returncode == 0
    assert file.read_bytes().startswith(text.encode())
    assert file.stat().st_mode & 0o777 == 0o600
    made = values(tmp_path)
    assert (made["GIFTCARD_ENCRYPTION_KEYS"], made["CRON_SECRET"].strip()) == ("old,older", "short")
    assert len(made["GIFTCARD_API_TOKEN"]) == 43


def test_a_name_without_a_value_is_named_and_left(tmp_path: Path) -> None:
    file = tmp_path / ".env.production"
    file.write_text("export CRON_SECRET=\n")
    ended = make_secrets(tmp_path)
    assert (ended.returncode, ended.stderr) == (1, "without a value: CRON_SECRET; remove the line, then repeat this\n")
    assert file.read_text().count("CRON_SECRET") == 1


def test_where_no_file_can_be_written_it_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / ".env.production").mkdir()
    ended = make_secrets(tmp_path)
    assert (ended.returncode, ended.stderr) == (1, ".env.production cannot be written: Is a directory\n")


@pytest.mark.slow
def test_two_at_once_add_one_of_each(tmp_path: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        assert {ended.returncode for ended in pool.map(make_secrets, [tmp_path] * 4)} == {0}
    text = (tmp_path / ".env.production").read_text()
    assert sorted(re.findall(r"(?m)^export (\w+)=.{43,}$", text)) == sorted(NAMES)


def test_neither_git_nor_vercel_takes_the_file() -> None:
    for name in (".gitignore", ".vercelignore"):
        lines = {line.rstrip("/") for line in (ROOT / name).read_text().splitlines()}
        assert lines >= {".env", ".env.*", ".local", ".venv", ".vercel", "node_modules"}, name

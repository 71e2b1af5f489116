"""Invalid settings: the doctor lists all of them, every other command and every request names the first."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from dev import ROOT
from lib.errors import SettingsError
from lib.web.invalid import create_invalid_app
from lib.web.services import services

pytestmark = pytest.mark.slow

WRONG = {
    "GIFTCARD_CONCURRENCY": "0",
    "MAIL_FROM": "sesame@a.example, b@b.example",
    "SMTP_URL": "sesame.example.com:587",
    "GIFTCARD_ENCRYPTION_KEYS": "sesame-open",
    "GIFTCARD_STAGE_EMAIL_JITTER": "2",
    "GIFTCARD_SECRET_CRM": "sesame",
}


def jobs(folder: Path, *words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "FLASK_APP": "api.index", **environ}
    command = [sys.executable, "-m", "flask", "jobs", *words]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


def test_doctor_lists_all_and_goes_on(tmp_path: Path, database_url: str) -> None:
    given = WRONG | {"SMPT_URL": "x", "DATABASE_URL": database_url, "GIFTCARD_ENV": "test"}
    ended = jobs(tmp_path, "doctor", "--json", **given)
    assert (ended.returncode, ended.stderr) == (1, "")
    lines = json.loads(ended.stdout)["checks"]
    wrong = [line for line in lines if line["check"] == "settings"]
    assert {line["message"].partition(":")[0] for line in wrong} == set(WRONG)
    assert {line["level"] for line in wrong} == {"red"}
    assert lines[: len(wrong)] == wrong
    found = {line["check"]: line for line in lines}
    assert "SMPT_URL (did you mean SMTP_URL?)" in found["variables"]["message"]
    assert found["database"]["level"] == "green"
    assert "sesame" not in ended.stdout


@pytest.mark.parametrize(
    "words", [["status"], ["tick"], ["list"], ["show", "1"], ["--url", "http://127.0.0.1:1", "doctor"]]
)
def test_every_other_command_is_one_sentence(tmp_path: Path, words: list[str]) -> None:
    ended = jobs(tmp_path, *words, **WRONG)
    assert (ended.returncode, ended.stdout) == (1, "")
    sentence = "GIFTCARD_STAGE_EMAIL_JITTER: must be a number from 0 to 1, like 1"
    assert ended.stderr == f"Error: {sentence} (5 more; for all of them: flask jobs doctor)\n"


def test_examples_of_urls_are_not_covered(tmp_path: Path) -> None:
    ended = jobs(tmp_path, "status", SMTP_URL="smtp.example.com")
    assert "must be a URL like smtp://user:password@host:587 or" in ended.stderr


def test_every_request_is_a_problem() -> None:
    app = create_invalid_app(SettingsError("GIFTCARD_CONCURRENCY: must be a whole number"))
    client = app.test_client()
    for method, path in (("GET", "/api/health"), ("POST", "/api/v1/giftcards"), ("GET", "/nowhere"), ("OPTIONS", "/")):
        answer = client.open(path, method=method)
        assert (answer.status_code, answer.content_type) == (503, "application/problem+json")
        assert answer.json["detail"] == "GIFTCARD_CONCURRENCY: must be a whole number"
        assert answer.headers["Retry-After"] == "60"
    with pytest.raises(SettingsError):
        services(app)

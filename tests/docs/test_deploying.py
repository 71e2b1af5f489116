"""The README's way to a deployment, typed as it stands there: only Vercel is played, by a folder and a local server."""

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from dev import ROOT
from tests.support.mail_server import a_mail_server
from tests.support.optional import lacks
from tests.support.pages import TEXTS

# Keeps what it is told as `vercel env add NAME production --sensitive` would, to the byte.
VERCEL = """#!/bin/sh
[ "$1 $2" = "env add" ] || exit 0
[ "$4 $5" = "production --sensitive" ] && cat > "$VERCEL_FOLDER/$3"
"""


def step(name: str) -> str:
    """What a step of the README gives to type; `$URL` is set by the test."""
    text = TEXTS["README"].split(f"**{name}")[1].split("\n**")[0]
    lines = re.findall(r"(?m)^    (.*)$", text)
    return "\n".join(line for line in lines if not re.match(r"\. \.venv|npm |export URL|curl .*cron", line))


class Newcomer:
    """A terminal in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.vercel = folder / "vercel"
        self.vercel.mkdir()
        programs = folder / "programs"
        programs.mkdir()
        (programs / "vercel").write_text(VERCEL)
        (programs / "vercel").chmod(0o755)
        (programs / "make").write_text(
            "#!/bin/sh\n"
            f'[ "$1" = migrate ] && exec {sys.executable} -m dev.migrate\n'
            f'[ "$1" = secrets ] && exec {sys.executable} -m dev.production\n'
        )
        (programs / "make").chmod(0o755)
        path = os.pathsep.join([str(programs), str(Path(sys.executable).parent), "/usr/bin", "/bin"])
        self.environ = {"PATH": path, "PYTHONPATH": str(ROOT), "FLASK_APP": "api.index", "HOME": str(folder)}
        self.environ |= {"VERCEL_FOLDER": str(self.vercel)}

    def types(self, text: str, *, loaded: bool = True, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs it in a shell that has loaded the settings."""
        script = f"{'. ./.env.production' if loaded else ''}\n{text}"
        return subprocess.run(
            ["bash", "-c", script], cwd=self.folder, env=self.environ | variables, capture_output=True, text=True
        )

    def doctor(self, *, url: str | None = None) -> dict[str, str]:
        """The levels that are not green, by check."""
        ended = self.types(f"flask jobs {'--url ' + url if url else ''} doctor --json")
        assert ended.returncode in (0, 1), ended.stderr
        return {line["check"]: line["level"] for line in json.loads(ended.stdout)["checks"] if line["level"] != "green"}

    @contextmanager
    def deployed(self) -> Iterator[str]:
        """A server with the variables that Vercel was given, and no others; its address."""
        given = {path.name: path.read_text() for path in self.vercel.iterdir()}
        with closing(socket.create_server(("127.0.0.1", 0))) as free:
            port = free.getsockname()[1]
        environ = {"PATH": self.environ["PATH"], "FLASK_APP": "api.index", "VERCEL_ENV": "production"} | given
        command = [sys.executable, "-m", "flask", "run", "--port", str(port)]
        with subprocess.Popen(command, cwd=ROOT, env=environ, stderr=subprocess.DEVNULL) as server:
            try:
                yield wait_for(f"http://127.0.0.1:{port}")
            finally:
                server.terminate()


def wait_for(url: str) -> str:
    until = time.monotonic() + 30
    while True:
        try:
            assert httpx.get(f"{url}/api/health").json() == {"status": "up"}
        except httpx.HTTPError:
            assert time.monotonic() < until, "the server never came up"
            time.sleep(0.05)
        else:
            return url


@pytest.fixture
def newcomer(tmp_path: Path) -> Newcomer:
    return Newcomer(tmp_path)


@pytest.mark.slow
def test_the_readmes_steps_lead_from_nothing_to_a_card(newcomer: Newcomer, empty_database_url: str) -> None:
    if shutil.which("curl") is None:
        lacks("curl is not installed (Debian, Ubuntu: apt install curl)")
    typed = newcomer.types(step("1. The settings").split(". ./.env")[0], loaded=False)
    assert (typed.returncode, typed.stderr) == (0, "")
    assert (newcomer.folder / ".env.production").stat().st_mode & 0o777 == 0o600
    with a_mail_server() as mails:
        with (newcomer.folder / ".env.production").open("a") as file:
            file.write(f"export DATABASE_URL='{empty_database_url}'\nexport SMTP_URL='{mails.url}'\n")
            file.write("export MAIL_FROM='Gift cards <cards@example.com>'\nexport GIFTCARD_LEDGER_IS_MEANT=1\n")
        assert newcomer.doctor() == {"database": "red"}, "secrets, variables and keys are green"

        found = newcomer.types(step("2. The database")).stdout
        assert re.match(r"migrating the database \S+ on \S+\napplied 2\d+_initial\.sql\n", found)
        assert newcomer.doctor() == {"ticks": "red"}

        assert newcomer.types(step("3. Vercel").split("flask jobs")[0]).returncode == 0
        with newcomer.deployed() as url:
            assert newcomer.doctor(url=url) == {"ticks": "red"}, "the deployment has all that the file has"
            mend = newcomer.types(f"flask jobs --url {url} doctor").stdout.splitlines()[-1]
            call = re.search(r"Next, ticks: deploy, .* call it: (curl .*?);", mend)
            assert call
            assert "200 OK" in newcomer.types(call[1], URL=url).stdout
            assert newcomer.types(f"flask jobs --url {url} doctor").stdout.endswith("All is well.\n")

            order, _, look = step("5. The first order").partition("flask jobs")
            assert json.loads(newcomer.types(order, URL=url).stdout)["correlation_id"] == "first"
            newcomer.types(call[1], URL=url)
            listed = newcomer.types(f"flask jobs{look} --json", URL=url)
            assert statuses(listed.stdout) == ["completed"] * 5
            assert newcomer.doctor(url=url) == {}
        assert len(mails.mails) == 1


def statuses(stdout: str) -> list[Any]:
    return [job["status"] for job in json.loads(stdout)["jobs"]]


def test_what_the_loop_gives_vercel_is_what_the_file_says(newcomer: Newcomer) -> None:
    (newcomer.folder / ".env.production").write_text(
        "export CRON_SECRET=a-secret\nexport MAIL_FROM='Gift cards <cards@example.com>'\n# export SMTP_URL=x\n"
    )
    assert newcomer.types(step("3. Vercel").split("flask jobs")[0]).returncode == 0
    given = {path.name: path.read_text() for path in newcomer.vercel.iterdir()}
    assert given == {"CRON_SECRET": "a-secret", "MAIL_FROM": "Gift cards <cards@example.com>"}

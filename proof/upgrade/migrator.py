"""The next release's migrator, run as its command beside the ticks."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from proof.upgrade.waits import MIGRATOR

# A migration that ran into its bounds is run again, as CONTRIBUTING.md states.
_TRIES = 10
_IN_ITS_WAY = "Other sessions were in its way"


class Migrator:
    """`python -m dev.migrate` in a folder. `spans`: each try, from when to when (`time.monotonic()`)."""

    def __init__(self, folder: Path, url: str) -> None:
        self.spans: list[tuple[float, float]] = []
        self.problem = ""
        """What it could not do; empty if all is done."""
        self._folder, self._url = folder, url
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        """Begin to migrate."""
        self._thread.start()

    @property
    def has_ended(self) -> bool:
        """Whether it has done what it could."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        environment = os.environ | {"DATABASE_URL": self._url, "PGAPPNAME": MIGRATOR}
        command = [sys.executable, "-m", "dev.migrate"]
        for _ in range(_TRIES):
            began = time.monotonic()
            ended = subprocess.run(command, cwd=self._folder, env=environment, capture_output=True, text=True)
            self.spans.append((began, time.monotonic()))
            self.problem = ended.stderr if ended.returncode else ""
            if _IN_ITS_WAY not in self.problem:
                return

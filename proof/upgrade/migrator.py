"""The next release's migrator, run as its command beside the ticks."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg

from proof.upgrade.waits import MIGRATOR

# A migration that ran into its bounds is run again, as CONTRIBUTING.md states.
_TRIES = 10
_IN_ITS_WAY = "Other sessions were in its way"
# Seconds that a transaction is in its way at most, if the first try does not give up before.
_IN_THE_WAY = 6.0
_LOOK_SECONDS = 0.05


class Migrator:
    """`python -m dev.migrate` in a folder. `spans`: each try, from when to when (`time.monotonic()`)."""

    def __init__(self, folder: Path, url: str) -> None:
        self.spans: list[tuple[float, float]] = []
        self.problem = ""
        """What it could not do; empty if all is done."""
        self._folder, self._url = folder, url
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        """Begin to migrate, with another session's transaction in the way of the first try."""
        is_in_the_way = threading.Event()
        threading.Thread(target=self._stand_in_the_way, args=[is_in_the_way]).start()
        is_in_the_way.wait()
        self._thread.start()

    def join(self) -> None:
        """Wait until it has ended."""
        self._thread.join()

    @property
    def has_ended(self) -> bool:
        """Whether it has done what it could."""
        return not self._thread.is_alive()

    def _stand_in_the_way(self, is_in_the_way: threading.Event) -> None:
        with psycopg.connect(self._url) as reader:
            reader.execute("select from giftcard_jobs limit 1")
            is_in_the_way.set()
            give_way = time.monotonic() + _IN_THE_WAY
            while not self.spans and time.monotonic() < give_way:
                time.sleep(_LOOK_SECONDS)

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

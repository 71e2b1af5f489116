"""Runs a program in a process of its own, and again after each edit of a file. What this process holds stays."""

import os
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from dev import ROOT
from lib.config import project
from lib.config.cleaning import bare

_INTERVAL = 0.3
_KINDS = (".py", ".txt", ".html")


def watched_folders() -> list[Path]:
    """Return the folders of the application: the product's, those of GIFTCARD_STAGES, and GIFTCARD_TEMPLATES."""
    folders = [ROOT / "api", ROOT / "lib"]
    try:  # a value that is not valid is for the application to refuse
        packages = project.packages(bare(os.environ.get("GIFTCARD_STAGES", "")))
        folders += [ROOT / package.split(".")[0] for package in packages]
        if templates := bare(os.environ.get("GIFTCARD_TEMPLATES", "")):
            folders.append(project.folder(templates))
    except ValueError:
        pass
    return list(dict.fromkeys(folders))


def run_reloading(
    command: Sequence[str], folders: Iterable[Path], *, pass_fds: Sequence[int], log: Callable[[str], None]
) -> int:
    """Run a command until KeyboardInterrupt; end it with SIGTERM and start it again when a file is edited.

    Returns the exit code of a command that ends before any edit. One that ends later is started by the next edit.
    """
    folders = list(folders)
    seen, first = _files(folders), True
    child = _start(command, pass_fds)
    try:
        while True:
            time.sleep(_INTERVAL)
            now = _files(folders)
            if now != seen:
                edited = min(str(path) for path, _ in now ^ seen)
                seen, first = now, False
                log(f"Reloading: {os.path.relpath(edited, ROOT)} was edited.")
                _end(child)
                child = _start(command, pass_fds)
            elif first and child.poll() is not None:
                return child.returncode
    finally:
        _end(child)


def _start(command: Sequence[str], pass_fds: Sequence[int]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, pass_fds=pass_fds)  # noqa: S603 - our own program


def _files(folders: Iterable[Path]) -> set[tuple[Path, int]]:
    """Return the files and when each was written."""
    found = set()
    for folder in folders:
        for path in folder.rglob("*"):
            if path.suffix in _KINDS:
                try:
                    found.add((path, path.stat().st_mtime_ns))
                except OSError:  # just renamed by an editor
                    continue
    return found


def _end(child: subprocess.Popen[bytes]) -> None:
    """End a process with SIGTERM, and wait for the jobs that it runs."""
    child.terminate()
    child.wait()

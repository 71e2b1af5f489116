"""The two pictures of README.md: the demo's page in light and dark, taken by Chromium.

python -m demo.pictures           after `make demo`
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from dev import ROOT

_PORT = 8077
_SIZE = "1240,640"
# What Chromium calls the preferred scheme of colours.
_SCHEMES = {"light": 1, "dark": 0}
_MOST_BYTES = 200_000


def main() -> int:
    """Write the pictures and return the exit code."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("no Chromium is installed (Debian: apt install chromium)", file=sys.stderr)
        return 1
    folder = ROOT / "docs/pictures"
    folder.mkdir(exist_ok=True)
    with _page() as url:
        files = [_taken(browser, url, scheme, folder / f"page-{scheme}.png") for scheme in _SCHEMES]
    size = sum(file.stat().st_size for file in files)
    print(f"{', '.join(str(file.relative_to(ROOT)) for file in files)}: {size:,} bytes (at most {_MOST_BYTES:,})")
    return 0 if size <= _MOST_BYTES else 1


def _taken(browser: str, url: str, scheme: str, file: Path) -> Path:
    options = [
        "--headless",
        "--no-sandbox",
        "--hide-scrollbars",
        f"--window-size={_SIZE}",
        "--virtual-time-budget=2000",
    ]
    colours = f"--blink-settings=preferredColorScheme={_SCHEMES[scheme]}"
    command = [browser, *options, colours, f"--screenshot={file}", url]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL, timeout=60)  # noqa: S603 - our own words
    return file


@contextmanager
def _page() -> Iterator[str]:
    """Serve the demo's page; yield its address."""
    url = f"http://127.0.0.1:{_PORT}"
    environment = os.environ | {"PORT": str(_PORT)}
    page = subprocess.Popen([sys.executable, "-m", "demo", "page"], cwd=ROOT, env=environment)
    try:
        _await(url, page)
        yield url
    finally:
        page.terminate()
        page.wait(30)


def _await(url: str, page: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        if page.poll() is not None:
            raise SystemExit("the demo's page has ended: run make demo first")
        try:
            httpx.get(url, timeout=5)
            return
        except httpx.TransportError:
            time.sleep(0.1)
    raise SystemExit("the demo's page does not answer")


if __name__ == "__main__":
    sys.exit(main())

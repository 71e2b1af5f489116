"""The page in a real browser: Chromium, the real application behind a real server, and the embedded Postgres."""

import json
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest
from werkzeug.serving import make_server

from dev import LOCAL
from tests.browser.site import Site
from tests.support.optional import lacks
from tests.support.world import World

AXE = "4.14.1"
# A page asks each 5 s for what is new; a test does not wait for that long.
_POLLS_SOONER = """
    const slow = window.setInterval;
    window.setInterval = (work, every, ...rest) => slow(work, every === 5000 ? 1000 : every, ...rest);
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


def _no_browser() -> NoReturn:
    lacks("no Chromium is installed (Debian: apt install chromium chromium-driver)")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """A browser for all tests of this worker."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not program or not driver:
        _no_browser()
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--lang=en-GB"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options, Service(driver))
    browser.set_page_load_timeout(60)
    browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": _POLLS_SOONER})
    yield browser
    browser.quit()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, which npm has."""
    folder = LOCAL / f"axe-{AXE}"
    program = folder / "node_modules/axe-core/axe.min.js"
    if not program.exists():
        if not shutil.which("npm"):
            lacks("axe-core comes by npm, which is not installed (Debian: apt install npm)")
        folder.mkdir(parents=True, exist_ok=True)
        options = ("--save-exact", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error")
        subprocess.run(["npm", "install", *options, "--prefix", str(folder), f"axe-core@{AXE}"], check=True)
    return program.read_text(encoding="utf-8")


@contextmanager
def served(world: World) -> Iterator[str]:
    """Serve a world's application, with a thread a request, as Vercel does; its address."""
    server = make_server("127.0.0.1", 0, world.app, threaded=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.shutdown()
        thread.join()


@pytest.fixture
def make_site(make_world: Callable[..., World], chromium: Any) -> Iterator[Callable[..., Site]]:
    """Opens the page of a world in the browser; its arguments are those of `make_world`."""
    with ExitStack() as stack:

        def make(**options: Any) -> Site:
            world = make_world(**options)
            chromium.delete_all_cookies()
            # What another test has left: a width, a scheme of colours, no scripts.
            chromium.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
            chromium.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
            chromium.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
            return Site(world, stack.enter_context(served(world)), chromium)

        yield make
        refused = [entry["message"] for entry in chromium.get_log("browser") if "Content Security" in entry["message"]]
        assert refused == [], "a page needs what its policy forbids"


@pytest.fixture
def site(make_site: Callable[..., Site]) -> Site:
    """The page of the application as it comes."""
    return make_site()


def axe_findings(site: Site, source: str, *, schemes: tuple[str, ...] = ()) -> list[str]:
    """What axe-core finds on the present view, in each of these schemes of colours, in a line each."""
    site.browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": True})
    site.browser.execute_script(source)
    found = []
    for scheme in schemes or (None,):
        if scheme:
            site.scheme(scheme)
        found += [f"{scheme}: {line}" if scheme else line for line in _run_axe(site)]
    site.browser.execute_cdp_cmd("Page.setBypassCSP", {"enabled": False})
    return found


def _run_axe(site: Site) -> list[str]:
    found = site.browser.execute_async_script(
        "const done = arguments[0];"
        "axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})"
        ".then((r) => done(JSON.stringify(r.violations)), (e) => done(JSON.stringify([{id: String(e), nodes: []}])))"
    )
    return [
        f"{violation['id']}: {node['html'][:200]} ({node.get('failureSummary', '')[:300]})"
        for violation in json.loads(found)
        for node in violation["nodes"] or [{"html": ""}]
    ]

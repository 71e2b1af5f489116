"""What all pages share: headers, static files, polls, problems."""

import hashlib
import re
from pathlib import Path

import pytest

import lib.web.page
from lib.web.page import render
from tests.support.world import World
from tests.web.page.conftest import Browser

ROOM = Path(lib.web.page.__file__).parent


def test_no_page_loads_from_elsewhere_or_runs_what_it_holds(browser: Browser) -> None:
    policy = browser.get("/").headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "//" not in policy


def test_no_template_holds_scripts_styles_or_addresses_of_others() -> None:
    for path in (ROOM / "templates").glob("*.html"):
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"<script(?![^>]*\ssrc=)|<style|\sstyle=|\son[a-z]+=|https?://", text), path.name


def test_all_static_files_together_are_small_and_those_of_others_are_as_they_were_published() -> None:
    sizes = {path.name: path.stat().st_size for path in (ROOM / "static").iterdir()}
    assert sum(sizes.values()) < 100_000, sizes
    listed = re.findall(r"^([0-9a-f]{64})  (\S+)$", (ROOM / "static/VENDORED").read_text(), re.MULTILINE)
    assert {name for _, name in listed} == {"htmx.js", "hx-ptag.js"}
    for digest, name in listed:
        assert hashlib.sha256((ROOM / "static" / name).read_bytes()).hexdigest() == digest


def test_static_files_are_kept_for_good_under_their_own_address(browser: Browser) -> None:
    for address in re.findall(r'"(/static/[^"]+)"', browser.get("/").text):
        response = browser.get(address)
        assert response.status_code == 200
        assert response.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert browser.get("/static/page.css").headers["Cache-Control"] == "no-cache"
    for missing in ("/static/nothing.css", "/static/../app.py", "/static/%2e%2e/app.py"):
        assert browser.get(missing).status_code == 404


def test_an_unchanged_page_is_not_sent_again(browser: Browser) -> None:
    tag = browser.get("/").headers["HX-PTag"]
    assert f'hx-ptag="{tag}"' in browser.get("/").text
    unchanged = browser.get("/", HX_PTag=tag)
    assert (unchanged.status_code, unchanged.text) == (304, "")


def test_problems_are_pages(browser: Browser, world: World) -> None:
    response = browser.get("/nothing")
    assert response.status_code == 404
    assert response.mimetype == "text/html"
    assert browser.post("/").status_code == 405


@pytest.mark.parametrize("address", ["/api/nothing", "/api"])
def test_the_api_answers_problems_in_json(world: World, address: str) -> None:
    assert world.client.get(address).content_type == "application/problem+json"


@pytest.mark.parametrize(
    "value", ["infinity", "-infinity", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", ""]
)
def test_what_is_no_time_is_a_dash(value: str) -> None:
    assert render.time(value) == "–"

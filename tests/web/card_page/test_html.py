"""The page as a document: headers, languages, text of any script, and nothing that runs or comes from elsewhere."""

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from lib.web.card_page.page import _TEMPLATES, OPEN
from tests.support.world import World, an_order

Visit = Callable[..., Any]
Make = Callable[..., World]

STATES = {
    *("received", "paid", "late", "ready", "refunded", "cancelled", "blocked", "spent", "erased"),
    *("unknown", "too_many", "unavailable"),
}
HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(1)>\u202e\u2066\" ' & {{ 7 * 7 }} <a href=javascript:x>"


class Tags(HTMLParser):
    """The tags of a page, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def a_card(shop: World, visit: Visit, **changes: Any) -> Any:
    link = shop.submit(an_order(**changes)).json["page_url"]
    shop.drain()
    answer = visit(shop, link)
    assert answer.status_code == 200
    return answer


def check_is_closed(text: str) -> None:
    """Nothing runs, nothing is styled in place, and every address is of this page."""
    for tag, attributes in Tags(text).found:
        assert tag not in ("script", "style", "iframe", "form", "img", "object"), tag
        for name, value in attributes.items():
            assert not name.startswith("on"), name
            assert name != "style", tag
            if name in ("href", "src"):
                assert re.fullmatch(r"/o/card_page\.(css|svg)\?[0-9a-f]{12}|\?(still)?", value or ""), value


def test_headers_keep_the_page_to_itself(shop: World, visit: Visit) -> None:
    link = shop.submit().json["page_url"]
    for answer in (visit(shop, link), visit(shop, "wrong")):
        assert answer.content_type == "text/html; charset=utf-8"
        assert answer.headers["Cache-Control"] == "no-store"
        assert answer.headers["Referrer-Policy"] == "no-referrer"
        assert answer.headers["X-Robots-Tag"].startswith("noindex")
        assert answer.headers["X-Content-Type-Options"] == "nosniff"
        policy = answer.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; ")
        assert "unsafe" not in policy
        assert "script-src" not in policy
        assert "Set-Cookie" not in answer.headers
        assert '<meta name="robots" content="noindex' in answer.text


def test_page_is_small_and_loads_two_files_that_may_be_kept(shop: World, visit: Visit) -> None:
    answer = a_card(shop, visit)
    files = re.findall(r'href="/o/(card_page\.\w+\?\w+)"', answer.text)
    loaded = [visit(shop, name) for name in files]
    assert [(file.status_code, file.mimetype) for file in loaded] == [(200, "image/svg+xml"), (200, "text/css")]
    assert all("immutable" in file.headers["Cache-Control"] for file in loaded)
    assert len(answer.data) + sum(len(file.data) for file in loaded) < 25_000
    assert not re.search(r"url\(|@import", loaded[1].text)


def test_what_people_write_is_text(shop: World, visit: Visit) -> None:
    plain = a_card(shop, visit, message="x").text
    customer = {"given_name": f"Kate{HOSTILE}", "external_id": "C-2"}
    hostile = a_card(shop, visit, message=HOSTILE, customer=customer).text
    assert [tag for tag, _ in Tags(hostile).found] == [tag for tag, _ in Tags(plain).found]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in hostile
    assert "{{ 7 * 7 }}" in hostile
    assert not re.search("[\u202e\u2066]", hostile)
    check_is_closed(hostile)
    check_is_closed(plain)


@pytest.mark.parametrize("name", ["ليلى", "שרה", "山田", "Łukasz", "O'Brien-Ünal", "🎁", ""])
def test_name_of_any_script_stands_apart(shop: World, visit: Visit, name: str) -> None:
    text = a_card(shop, visit, customer={"given_name": name}).text
    assert (f"Hello <bdi>{name.replace(chr(39), '&#39;')}</bdi>, here" in text) is bool(name)
    assert ("Hello, here is your gift card." in text) is not bool(name)


def test_page_is_in_the_orders_language(shop: World, make_shop: Make, visit: Visit) -> None:
    german = a_card(shop, visit, locale="de-AT").text
    assert '<html lang="de" dir="ltr">' in german
    assert "hier ist Ihre Geschenkkarte" in german
    assert "$ 25,00" in german
    assert "Diese Seite gibt es nicht" in visit(make_shop(GIFTCARD_LOCALE="de-CH"), "wrong").text


def test_project_adds_a_language_that_runs_the_other_way(make_shop: Make, visit: Visit, tmp_path: Path) -> None:
    words = (_TEMPLATES / "card_page.en.html").read_text().replace("Hello", "مرحبا")
    (tmp_path / "card_page.ar.html").write_text(words)
    (tmp_path / "card_page.css").write_text("body { color: teal; }")
    shop = make_shop(GIFTCARD_TEMPLATES=tmp_path)
    answer = a_card(shop, visit, locale="ar-EG", message="عيد ميلاد سعيد")
    assert '<html lang="ar" dir="rtl">' in answer.text
    assert "مرحبا <bdi>Kate</bdi>" in answer.text
    assert '<bdi dir="ltr">9900' in answer.text
    assert '<blockquote dir="auto">' in answer.text
    assert visit(shop, "card_page.css").text == "body { color: teal; }"


@pytest.mark.parametrize("path", sorted(_TEMPLATES.glob("card_page.*.html")), ids=lambda path: path.name)
def test_each_language_has_a_sentence_for_each_state(path: Path) -> None:
    from lib.templates import templates

    module = templates(_TEMPLATES).get_template(path.name).make_module(
        {"language": "en", "direction": "ltr", "state": "blocked", "card": None, "is_open": False, "versions": {
            "card_page.css": "", "card_page.svg": ""}}
    )  # fmt: skip
    states: dict[str, dict[str, str]] = module.states  # type: ignore[attr-defined]
    assert set(states) == STATES
    assert STATES >= OPEN
    for state, words in states.items():
        assert words["title"]
        assert state == "ready" or words["text"].endswith(".")

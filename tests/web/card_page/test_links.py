"""The link is all that opens a page: what it is made of, what is refused, and where it never appears."""

import base64
import email
import email.policy
import re
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.fernet import Fernet

from lib.giftcards.card_links import page_id_of, page_url
from tests.support.world import ADMIN, API, ENCRYPTION_KEY, World, an_order, bearer, settings_of

Visit = Callable[..., Any]
Make = Callable[..., World]

ON = {"GIFTCARD_PUBLIC_URL": "https://cards.example.com"}
LINK = re.compile(r"https://cards\.example\.com/o/[A-Za-z0-9_-]{32}")


def token_of(link: str | None) -> str:
    assert link
    assert LINK.fullmatch(link)
    return link[-32:]


@pytest.mark.parametrize("page_id", [0, 1, -1, 2**63 - 1, -(2**63)])
def test_token_is_read_with_each_key_that_is_still_there(page_id: int) -> None:
    newer = Fernet.generate_key().decode()
    before, after = settings_of(**ON), settings_of(**ON, GIFTCARD_ENCRYPTION_KEYS=f"{newer},{ENCRYPTION_KEY}")
    token = token_of(page_url(page_id, before))
    assert page_id_of(token, before) == page_id_of(token, after) == page_id
    assert page_id_of(token, settings_of(**ON, GIFTCARD_ENCRYPTION_KEYS=newer)) is None
    assert page_id_of(token_of(page_url(page_id, after)), before) is None


def test_no_bit_of_a_token_can_be_changed() -> None:
    settings = settings_of(**ON)
    content = base64.urlsafe_b64decode(token_of(page_url(7, settings)))
    for bit in range(8 * len(content)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        assert page_id_of(base64.urlsafe_b64encode(changed).decode(), settings) is None


WRONG = [
    *("", "a", "A/B", "../x", "A" * 31, "A" * 32, "A" * 33, "A" * 31 + "=", "x" * 5000),
    *("é" * 32, "%00" * 32, "\u202e" * 32),
]


def test_whatever_is_wrong_with_a_link_the_answer_is_the_same(shop: World, visit: Visit, log: Any) -> None:
    link = shop.submit().json["page_url"]
    foreign = token_of(page_url(123, shop.settings))
    answers = [visit(shop, wrong) for wrong in (*WRONG, foreign, link[-32:-1], link[-32:].swapcase())]
    assert {answer.status_code for answer in answers} == {404}
    (text,) = {answer.text for answer in answers}
    assert "There is no such page" in text
    denied = [line for line in log() if line["event"] == "request_denied"]
    assert {(line["reason"], line["path"]) for line in denied} <= {
        ("signature", "/o/<path:token>"), ("signature", "/o/"),
    }  # fmt: skip
    assert len(denied) == len(answers)


def test_who_guesses_has_to_wait_and_right_links_open(shop: World, visit: Visit) -> None:
    link = shop.submit().json["page_url"]
    answers = [visit(shop, "A" * 32) for _ in range(21)]
    assert [answer.status_code for answer in answers] == [404] * 20 + [429]
    assert 0 < int(answers[-1].headers["Retry-After"]) <= 300
    assert "Too many wrong links" in answers[-1].text
    assert visit(shop, link).status_code == 200


@pytest.mark.parametrize(
    "off", [{"GIFTCARD_CUSTOMER_PAGE": "off"}, {"GIFTCARD_PUBLIC_URL": None}, {"GIFTCARD_LOOKUP_KEY": None}]
)
def test_page_that_is_off_is_no_page(shop: World, make_shop: Make, visit: Visit, off: dict[str, Any]) -> None:
    link = shop.submit().json["page_url"]
    without = make_shop(**off)
    assert without.submit().json["page_url"] is None
    answer = visit(without, link)
    assert answer.status_code == 404
    assert "There is no such page" in answer.text


def test_order_sent_again_has_the_same_link_and_who_only_reads_gets_none(shop: World) -> None:
    first, second = (shop.submit(an_order(correlation_id="order-1")).json for _ in range(2))
    assert first["page_url"] == second["page_url"]
    assert "page" not in str(shop.flow("order-1"))


def test_mail_has_the_link_in_text_and_html(shop: World, make_shop: Make, tmp_path: Any) -> None:
    links = [shop.submit(an_order(locale=locale)).json["page_url"] for locale in ("en", "de")]
    shop.drain()
    mails = [email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
             for path in (tmp_path / "mails").glob("*.eml")]  # fmt: skip
    for kind in ("plain", "html"):
        parts = [mail.get_body((kind,)).get_content() for mail in mails]  # type: ignore[attr-defined]
        assert sorted(LINK.findall("".join(parts))) == sorted(links)
    without = make_shop(GIFTCARD_PUBLIC_URL=None)
    without.submit()
    without.drain()
    assert sum("/o/" in path.read_text() for path in (tmp_path / "mails").glob("*.eml")) <= 2


def test_token_is_in_no_log_and_in_no_answer_but_the_orders(shop: World, visit: Visit, log: Any) -> None:
    link = shop.submit(an_order(correlation_id="order-1")).json["page_url"]
    shop.drain()
    number = re.search(r"9900 \d{4} \d{4} \d{4}", visit(shop, link).text)[0]  # type: ignore[index]
    shop.sql("alter function giftcard_card_page(bigint, timestamptz) rename to giftcard_card_page_away")
    visit(shop, link)
    visit(shop, link[-32:-1])
    seen = str(log()) + str([dict(row) for table in ("giftcard_jobs", "giftcard_job_history", "giftcard_effects")
                             for row in shop.sql(f"select * from {table}")])  # fmt: skip
    for path in ("giftcards/order-1", "jobs", "audit"):
        seen += shop.client.get(f"/api/v1/{path}", headers=bearer(ADMIN)).text
    for hidden in (link[-32:], link[-32:-1], number, number.replace(" ", "")):
        assert hidden not in seen


def test_link_in_an_error_is_covered() -> None:
    from lib.telemetry.redact import clean, covered

    link = page_url(7, settings_of(**ON)) or ""
    for text in (link, f"GET {link} failed", link.replace("/", "%2F"), f"href='{link}?still'", link[:-10]):
        assert link[-32:-10] not in clean(text, secrets=[])
        assert link[-32:-10] not in str(covered({"text": [text]}))


def test_scopes_that_may_order_get_the_link(shop: World) -> None:
    created = shop.client.post(
        "/api/v1/tokens", json={"name": "shop", "scopes": ["orders:write"]}, headers=bearer(ADMIN)
    )
    assert LINK.fullmatch(shop.submit(token=created.json["token"]).json["page_url"])
    assert LINK.fullmatch(shop.submit(token=API).json["page_url"])

"""The mail of an order as it looks: what was sent, with its number covered unless it is revealed."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lib.caller import Caller
from lib.errors import Forbidden, Invalid, Refused
from lib.giftcards.stories import Stories
from tests.support.mail_server import MailServer, a_mail_server
from tests.support.world import World, an_order

FLOW = "order-7"


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    with a_mail_server() as server:
        yield server


def stories(world: World, tenant: str | None = None) -> Stories:
    return Stories(world.store, lambda: world.registry, world.settings, caller=Caller("kim", tenant))


def test_what_is_shown_is_what_was_sent(make_world: Callable[..., World], mail_server: MailServer) -> None:
    world = make_world(SMTP_URL=mail_server.url, GIFTCARD_PUBLIC_URL="https://cards.test")
    order = an_order(correlation_id=FLOW, locale="de", message="Für dich, <b>Kate</b>: oma@example.com")
    world.submit(order)
    world.drain()
    (mail,) = mail_server.mails
    sent: Any = mail.get_body(("plain",))
    shown = stories(world).mail(None, FLOW, reveal=True)
    assert (shown["subject"], shown["to"]) == (mail["Subject"], "kate@example.com")
    assert shown["text"].splitlines() == sent.get_content().splitlines()
    assert world.sql("select by, action, subject from giftcard_audit") == [
        {"by": "kim", "action": "reveal", "subject": "order order-7"}
    ]
    (number,) = re.findall(r"9900(?: \d{4}){3}", shown["text"])
    (link,) = set(re.findall(r"https://cards\.test/o/\S+", shown["text"]))
    covered = stories(world).mail(None, FLOW)
    assert "https://cards.test/o/••••" in covered["text"]
    for part in ("subject", "to", "text", "html"):
        assert number not in covered[part]
        assert link not in covered[part], "who has it sees the card"
        assert number.replace(" ", "") not in covered[part]
        assert "example.com" not in covered[part]
    assert f"•••• •••• •••• {number[-4:]}" in covered["text"]
    assert f"•••• •••• •••• {number[-4:]}" in covered["html"]
    assert "&lt;b&gt;Kate&lt;/b&gt;: [email]" in covered["html"]
    images = [re.findall('src="(.*?)"', mail["html"]) for mail in (shown, covered)]
    assert [image.startswith("data:image/png;base64,") for (image,) in images] == [True, True]
    assert images[0] != images[1], "the covered code is none of the card"
    assert world.value("select count(*) from giftcard_audit") == 1


def test_a_mail_that_is_still_to_come_has_no_number(world: World) -> None:
    world.submit(an_order(correlation_id=FLOW))
    for reveal in (False, True):
        shown = stories(world).mail(None, FLOW, reveal=reveal)
        assert ("•••• •••• •••• ••••" in shown["text"], shown["has_card"]) == (True, False)


def test_a_mail_that_cannot_be_shown_is_one_sentence(make_world: Callable[..., World], tmp_path: Path) -> None:
    world = make_world(GIFTCARD_TEMPLATES=str(tmp_path))
    world.submit(an_order(correlation_id=FLOW))
    (tmp_path / "mail.en.txt").write_text("{% set subject %}x{% endset %}{{ nothing }}", encoding="utf-8")
    (tmp_path / "mail.en.html").write_text("x", encoding="utf-8")
    with pytest.raises(Invalid, match="a template of the mail is broken: UndefinedError"):
        stories(world).mail(None, FLOW)
    world.sql("update giftcard_orders set details = '{}'")
    with pytest.raises(Invalid, match="the mail cannot be shown: the customer of this order was erased"):
        stories(world).mail(None, FLOW)
    with pytest.raises(Refused, match="no order has the correlation id none"):
        stories(world).mail(None, "none")
    with pytest.raises(Forbidden):
        stories(world, "shop").mail("other", FLOW)

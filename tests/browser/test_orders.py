"""An order's story, as a person meets it: find it, see its mail, send that again."""

from tests.browser.conftest import axe_findings
from tests.browser.site import Site
from tests.support.world import an_order


def test_a_person_finds_an_order_and_sends_its_mail_again(site: Site, axe: str) -> None:
    site.world.submit(an_order(correlation_id="order-7", message="Alles Gute"))
    site.world.drain()
    site.sign_in()
    site.open("/orders")
    site.type("text", "KATE@example.com")
    site.press("Find")
    site.wait_for_text("K… R…")
    assert site.address == "/orders"
    assert axe_findings(site, axe) == []
    site.press("order-7")
    site.arrive("/orders/default/order-7")
    frame = site.find("iframe.mail")
    site.browser.execute_script("arguments[0].scrollIntoView()", frame)
    site.browser.switch_to.frame(frame)
    site.wait_for_text("Alles Gute")
    assert "•••• ••••" in site.text
    assert site.find("img").size["width"] == 174, "its code is shown"
    site.browser.switch_to.default_content()
    assert axe_findings(site, axe, schemes=("light", "dark")) == []
    site.press("Send the mail again")
    site.type("reason", "lost")
    site.press("Send the mail again", within="details.action form")
    site.wait_for_text("sends the mail again with the next tick.")
    site.wait_for_text("email (resend:1): due: the next tick takes it")

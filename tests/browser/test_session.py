"""Sign-in, sign-out and the end of a session, as a person meets them."""

from selenium.webdriver.common.keys import Keys

from tests.browser.conftest import axe_findings
from tests.browser.site import Site
from tests.support.world import ADMIN


def test_a_person_signs_in_and_out(site: Site, axe: str) -> None:
    site.open("/?hour=1")
    assert site.address == "/sign-in?next=/?hour%3D1"
    assert axe_findings(site, axe) == []
    site.type("token", "wrong")
    site.press("Sign in")
    site.wait_for_text("this token is not known here")
    site.type("token", ADMIN)
    site.press("Sign in")
    site.arrive("/?hour=1")
    cookie = site.browser.get_cookie("giftcards")
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    site.press("Sign out")
    site.arrive("/sign-in")
    assert site.open("/").address == "/sign-in"


def test_a_page_that_polls_leaves_when_its_session_has_ended(site: Site) -> None:
    site.sign_in()
    site.browser.delete_all_cookies()
    site.wait(lambda: site.address.startswith("/sign-in"), "the sign-in")


def test_escape_closes_a_form_and_leaves_the_focus_on_its_button(site: Site) -> None:
    site.sign_in().open("/stages")
    button = site.find("summary.button")
    button.send_keys(Keys.ENTER)
    site.find("details[open] input[name=reason]").send_keys("a", Keys.ESCAPE)
    assert site.all("details.action[open]") == []
    assert site.browser.switch_to.active_element == button


def test_the_stages_of_an_order_stand_in_one_row_on_a_laptop(site: Site) -> None:
    site.sign_in()
    site.width(1280)
    for address in ("/", "/stages"):
        site.open(address)
        tops = {stage.location["y"] for stage in site.all(".pipeline.flow .stage")}
        assert len(tops) == 1, address

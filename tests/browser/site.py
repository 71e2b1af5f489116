"""What a person does on the page: opens, clicks, types, waits."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from selenium.common.exceptions import TimeoutException, WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.support.world import ADMIN, World

SECONDS = 30


class Site:
    """The page of `world` in a browser."""

    def __init__(self, world: World, url: str, browser: Any) -> None:
        self.world = world
        self.url = url
        self.browser = browser

    def open(self, address: str = "/") -> "Site":
        self.browser.get(self.url + address)
        return self

    def sign_in(self, token: str = ADMIN) -> "Site":
        self.open("/sign-in")
        self.type("token", f"{token}\n")  # a click may miss while the window changes its size
        self.wait(lambda: not self.address.startswith("/sign-in"), "the end of the sign-in")
        return self

    @property
    def address(self) -> str:
        """The path of the present page."""
        return str(self.browser.current_url).removeprefix(self.url)

    @property
    def text(self) -> str:
        """What can be read on the present page."""
        for _ in range(20):  # the page may change while it is read: Chrome has several errors for it
            with suppress(WebDriverException):
                return str(self.browser.find_element(By.TAG_NAME, "body").text)
            time.sleep(0.1)
        raise AssertionError(f"no page at {self.address}")

    @property
    def title(self) -> str:
        return str(self.browser.title)

    def find(self, selector: str) -> Any:
        self.wait(lambda: self.all(selector), f"element {selector}")
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def all(self, selector: str) -> list[Any]:
        found: list[Any] = self.browser.find_elements(By.CSS_SELECTOR, selector)
        return found

    def type(self, name: str, text: str) -> None:
        """Replace what a field holds; of several fields of this name, the one that can be seen."""
        self.wait(lambda: any(each.is_displayed() for each in self.all(f"[name='{name}']")), f"the field {name}")
        field = next(each for each in self.all(f"[name='{name}']") if each.is_displayed())
        field.clear()
        field.send_keys(text)

    def press(self, label: str, within: str = "body") -> None:
        """Press the first visible button, link or summary with this text, as soon as there is one.

        A click goes to a place on the screen, where a page that refreshes itself may have something else by then: a
        summary is pressed until it has opened.
        """
        self.wait(lambda: self._press(label, within), f"{label!r} to press on {self.address}")

    def _press(self, label: str, within: str) -> bool:
        for element in self.all(f"{within} button, {within} a, {within} summary"):
            if element.is_displayed() and element.text.strip().rstrip("…") == label:
                self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
                summary = element.tag_name == "summary"
                element.click()
                return not summary or self.browser.execute_script("return arguments[0].parentElement.open", element)
        return False

    def wait(self, until: Callable[[], Any], what: str) -> None:
        """Wait for a change that the page makes by itself."""

        def look(_browser: Any) -> bool:
            try:
                return bool(until())
            except WebDriverException:  # the page has changed meanwhile
                return False

        try:
            WebDriverWait(self.browser, SECONDS, poll_frequency=0.1).until(look)
        except TimeoutException:
            raise AssertionError(f"no {what} on {self.address}:\n{self.text}") from None

    def arrive(self, address: str) -> None:
        """Wait until the page has this path."""
        self.wait(lambda: self.address == address, f"way to {address}")

    def wait_for_text(self, text: str) -> None:
        self.wait(lambda: text in self.text, f"the text {text!r}")

    def scheme(self, name: str) -> None:
        """Prefer `light` or `dark`."""
        features = [{"name": "prefers-color-scheme", "value": name}]
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def width(self, pixels: int) -> None:
        metrics = {"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def too_wide(self, widths: tuple[int, ...]) -> list[str]:
        """At which of these widths the present view would be scrolled sideways."""
        wide = {}
        for width in widths:
            self.width(width)
            wide[width] = self.browser.execute_script("return document.documentElement.scrollWidth")
        return [f"{self.address} is {found} px wide at {width}" for width, found in wide.items() if found > width]

    def scripts(self, enabled: bool) -> None:
        self.browser.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": not enabled})

"""A browser without scripts: a session of the page, which follows forms."""

import re
from typing import Any

import pytest
from werkzeug.test import Client, TestResponse

from tests.support.world import ADMIN, World


class Browser:
    """A client of the page with cookies. `world.app` serves both areas."""

    def __init__(self, world: World) -> None:
        self._client = Client(world.app)

    def get(self, address: str, **headers: str) -> TestResponse:
        return self._client.get(address, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def post(self, address: str, fields: dict[str, Any] | None = None, *, csrf: str | None = None) -> TestResponse:
        """Send a form, with the CSRF token of the last page that had one."""
        sent = {"csrf": self.csrf() if csrf is None else csrf} | (fields or {})
        return self._client.post(address, data=sent)

    def follow(self, response: TestResponse) -> TestResponse:
        assert response.status_code == 303, response.text
        return self.get(response.headers["Location"])

    def sign_in(self, token: str = ADMIN) -> TestResponse:
        return self._client.post("/sign-in", data={"token": token})

    def csrf(self) -> str:
        found = re.search(r'name="csrf" value="([^"]+)"', self.get("/nothing").text)
        return found[1] if found else ""

    def cookie(self) -> Any:
        return self._client.get_cookie("giftcards") or self._client.get_cookie("__Host-giftcards")


@pytest.fixture
def browser(world: World) -> Browser:
    """A browser that has signed in as the admin."""
    own = Browser(world)
    assert own.sign_in().status_code == 303
    return own

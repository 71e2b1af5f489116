"""The application of a new process, whose first request is mostly the clock's: it serves ticks and health by itself.

Anything else goes to the Flask application, which is built when the first such request comes: another address or
method, a token that is not the clock's, the problem of a tick that has failed. Flask's routes of ticks and of health
respond with the same bytes (`tests/web/test_first.py`), so it does not matter which of the two serves them.
"""

import hmac
import json
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from lib.web import clock
from lib.web.services import Services

if TYPE_CHECKING:
    from flask import Flask

T = TypeVar("T")
Environ = dict[str, Any]

# What Flask and `lib.web.app` set.
_HEADERS = [
    ("Content-Type", "application/json"),
    ("X-Content-Type-Options", "nosniff"),
    ("Cache-Control", "no-store"),
]
# What code around an application asks it for, of all that Flask's has.
_OF_FLASK = frozenset(
    {
        *("app_context", "cli", "config", "extensions", "test_cli_runner", "test_client", "test_request_context"),
        *("url_map", "view_functions"),
    }
)
_STATUS_LINES = {200: "200 OK", 503: "503 SERVICE UNAVAILABLE"}


class FirstApplication:
    """A WSGI application. `create_app` returns the Flask application, the same one at each call.

    Some of what Flask's application has, like `test_client`, is that one's. No other name builds it: Vercel's runtime
    asks an application for `asgi` and for marks of a coroutine, before the first request.
    """

    def __init__(self, services: Services, create_app: "Callable[[], Flask]") -> None:
        self._services, self._create_app = services, create_app

    def __getattr__(self, name: str) -> Any:
        """Return what the Flask application has under one of these names."""
        if name not in _OF_FLASK:
            raise AttributeError(f"{type(self).__name__} has no {name}: ask the application of create_app", name=name)
        return getattr(self._create_app(), name)

    def __call__(self, environ: Environ, start_response: Any) -> Iterable[bytes]:
        """Respond to a request."""
        try:
            served = _served(self._services, environ)
        except Exception as error:  # noqa: BLE001 - as Flask responds to it
            from lib.web.problems import responded

            return responded(self._create_app(), environ, error)(environ, start_response)
        if served is None:
            return self._create_app()(environ, start_response)
        value, status = served
        body = f"{json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(',', ':'))}\n".encode()
        start_response(_STATUS_LINES[status], [*_HEADERS, ("Content-Length", str(len(body)))])
        return [body]


def _served(own: Services, environ: Environ) -> tuple[dict[str, Any], int] | None:
    """Return the response to a request of the clock or for health; None: it is another one."""
    path, method = environ["PATH_INFO"], environ["REQUEST_METHOD"]
    if path == clock.CRON_PATH and method in ("GET", "POST") and _is_clock(own, environ):
        return clock.tick_of_clock(own, environ), 200
    if path == clock.HEALTH_PATH and method == "GET":
        return clock.state(own)
    return None


def _is_clock(own: Services, environ: Environ) -> bool:
    secret = own.settings.cron_secret
    value = secret.get_secret_value() if secret else ""
    return bool(value.strip()) and hmac.compare_digest(clock.bearer_token(environ), value.encode())


def once(create: Callable[[], T]) -> Callable[[], T]:
    """Return a function that returns what `create` makes when it is first called; other threads wait for it."""
    creating = threading.RLock()  # a `create` that asks for what it makes recurses, and so ends
    created: list[T] = []

    def get() -> T:
        if not created:
            with creating:
                if not created:
                    created.append(create())
        return created[0]

    return get

"""The application with invalid settings: every response has the sentence."""

from flask import Flask, Response

from lib.errors import SettingsError
from lib.telemetry import events
from lib.web.problems import problem


def create_invalid_app(error: SettingsError) -> Flask:
    """Return an application whose every response is a 503 that names the setting."""
    app = Flask("giftcards", static_folder=None)
    app.extensions["services"] = error

    @app.before_request
    def refuse() -> Response:
        events.emit("request_failed", error=str(error), sqlstate=None)
        response = problem(503, "a setting is not valid", detail=str(error))
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response

    return app

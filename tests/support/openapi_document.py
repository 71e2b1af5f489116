"""The OpenAPI document, of an application without a database."""

from typing import Any

from lib import stages
from lib.store.connect import connect
from lib.web.app import create_app
from lib.web.services import Services
from tests.support.world import settings_of


def openapi_document() -> Any:
    """Return the document as it is served."""
    settings = settings_of()
    app = create_app(Services(settings, connect(settings), stages.load))
    return app.test_client().get("/api/openapi.json").json


def operations(document: Any) -> list[tuple[str, str, Any]]:
    """Return each operation with its path and its method."""
    return [(path, method, each) for path, methods in document["paths"].items() for method, each in methods.items()]

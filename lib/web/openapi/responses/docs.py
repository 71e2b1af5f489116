"""The API's document itself."""

from lib.web.openapi.responses.base import Json, Response


class OpenApiDocument(Response):
    """An OpenAPI 3.1 document."""

    openapi: str
    info: Json
    paths: Json

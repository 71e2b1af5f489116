"""Schemathesis reads the API's description and tries every operation: what fits the description, and what does not."""

import io
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import positive_data_acceptance

from lib import stages
from lib.local.postgres import Embedded
from lib.store.connect import connect
from lib.web.app import create_app
from lib.web.parts import Giftcards
from tests.webhooks.square import SETTINGS, signature
from tests.world import ADMIN, API, CRON, World, a_world, an_order, bearer, settings_of

pytestmark = pytest.mark.slow

TOKENS = {"cron": CRON, "admin": ADMIN, "api": API, "metrics": ADMIN}
SIGNATURE = "X-Square-Hmacsha256-Signature"


@pytest.fixture(scope="module")
def world(postgres: Embedded, template: str) -> Iterator[World]:
    """One for all examples, with something in it."""
    postgres.start()
    url = postgres.create_database("schemathesis", template=template)
    with a_world(url, GIFTCARD_TICK_BUDGET_SECONDS=0.5, **SETTINGS) as world:
        world.submit(an_order(correlation_id="order-1"))
        world.tick()
        yield world


def signed(world: World) -> Any:
    """The application; what comes with the signature `true` is signed as Square does, whatever its body."""

    def called(environ: Any, start_response: Any) -> Iterable[bytes]:
        if environ.get("HTTP_X_SQUARE_HMACSHA256_SIGNATURE") == "true":
            body = environ["wsgi.input"].read()
            environ["wsgi.input"] = io.BytesIO(body)
            environ["HTTP_X_SQUARE_HMACSHA256_SIGNATURE"] = signature(body)
        return world.app(environ, start_response)

    return called


def description() -> Any:
    """As the application serves it; that needs no database."""
    without_database = settings_of()
    app = create_app(Giftcards(without_database, connect(without_database), stages.load))
    return schemathesis.openapi.from_wsgi("/api/openapi.json", app, config=SchemathesisConfig.from_dict({}))


# Formats that JSON Schema does not know, or that it reads more widely than we do.
FORMATS = {
    "email": st.from_regex(r"[a-z]{1,10}@[a-z]{1,10}\.(com|org|de)", fullmatch=True),
    "iso-4217": st.sampled_from(["USD", "EUR", "JPY", "KWD"]),
    "cron": st.sampled_from(["* * * * *", "*/10 * * * * *", "0 9 * * 1-5"]),
    "iana-time-zone": st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]),
    "cursor": st.dates().map(lambda day: f"{day}/default"),
}
for name, strategy in FORMATS.items():
    schemathesis.openapi.format(name, strategy)

# Fields with rules that no schema of a body tells; None: a rule between fields.
BEYOND: dict[str, set[str | None]] = {
    "GET /api/v1/jobs": {None},
    "POST /api/v1/jobs": {"stage", "payload"},
    "POST /api/v1/jobs/requeue": {"filter", "status"},
    "POST /api/v1/jobs/{job_id}/requeue": {"payload"},
    "POST /api/v1/stages/{stage}/pause": {"stage"},
    "POST /api/v1/reports": {"day", "tenant_id"},
    "POST /api/v1/schedules": {"stage", "payload", "api", "overlapPolicy"},
    "PATCH /api/v1/schedules/{schedule_id}": {"stage", "payload", "api", "overlapPolicy"},
    "POST /api/v1/webhook-endpoints": {"url"},
    "PATCH /api/v1/webhook-endpoints/{endpoint_id}": {"url", None},
}

schema = description()


def is_beyond_schemas(case: Any, refusal: Any) -> bool:
    """Whether a refusal has a reason that the description cannot hold."""
    if refusal.status_code not in (400, 422):
        return False
    problem = refusal.json()
    if problem.get("detail", "").endswith("should be a valid integer"):
        return True  # JSON Schema takes 1.0 for one, and we do not
    field = problem.get("field")
    names = [None] if field is None else re.sub(r"^jobs\.\d+\.", "", field).split(".")[:1]
    return not BEYOND.get(case.operation.label, set()).isdisjoint(names)


@schema.parametrize()
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_operation_does_as_it_is_described(world: World, case: Any) -> None:
    doors = [scheme for door in case.operation.definition.raw["security"] for scheme in door]
    headers = {SIGNATURE: "true"} if doors == ["square"] else bearer(TOKENS[doors[0]]) if doors else {}
    app = signed(world)
    answer = case.call(app=app, headers=headers)
    beyond = [positive_data_acceptance] if is_beyond_schemas(case, answer) else []
    case.validate_response(answer, excluded_checks=beyond, headers=headers, transport_kwargs={"app": app, "headers": headers})

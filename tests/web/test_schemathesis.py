"""Schemathesis reads the API's description and tries every operation: what fits the description, and what does not."""

import io
import itertools
import re
from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from schemathesis.config import SchemathesisConfig
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from dev.postgres import Embedded
from tests.support.square import SETTINGS, signature
from tests.support.world import ADMIN, CRON, World, a_world, an_order, bearer

pytestmark = pytest.mark.slow

TOKENS = {"cron": CRON, "token": ADMIN}
SIGNATURE = "X-Square-Hmacsha256-Signature"


# All checks are on. 503 is how this door says that something is wrong.
_TROUBLED = {"checks": {"not_a_server_error": {"expected-statuses": ["2xx", "4xx", "503"]}}}
CONFIG: dict[str, Any] = {
    "generation": {"deterministic": True},
    "operations": [{"include-name": "GET /api/health/deep", **_TROUBLED}],
}


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
    """The application; what comes with the signature `true` is signed as Square does, whatever its body.

    Each call comes from an address of its own: wrong tokens and signatures are part of what is tried.
    """
    addresses = (str(IPv4Address("10.0.0.0") + number) for number in itertools.count())

    def called(environ: Any, start_response: Any) -> Iterable[bytes]:
        environ["REMOTE_ADDR"] = next(addresses)
        if environ.get("HTTP_X_SQUARE_HMACSHA256_SIGNATURE") == "true":
            body = environ["wsgi.input"].read()
            environ["wsgi.input"] = io.BytesIO(body)
            environ["HTTP_X_SQUARE_HMACSHA256_SIGNATURE"] = signature(body)
        return world.app(environ, start_response)

    return called


@pytest.fixture(scope="module")
def api(world: World) -> Any:
    """The description as the application serves it."""
    document = simpler(world.client.get("/api/openapi.json").json)
    schema = schemathesis.openapi.from_dict(document, config=SchemathesisConfig.from_dict(CONFIG))
    schema.app = signed(world)
    return schema


@pytest.fixture
def _node(request: pytest.FixtureRequest) -> None:
    """Schemathesis looks for an item's name where pytest kept it before its version 9."""
    request.node._nodeid = request.node.nodeid


def simpler(told: Any) -> Any:
    """Patterns as formats, and formats alone: drawn of a certain length, by trial and error, they take minutes.

    What does not fit a pattern is tried by tests of the doors.
    """
    if isinstance(told, list):
        return [simpler(each) for each in told]
    if not isinstance(told, dict):
        return told
    if isinstance(told.get("pattern"), str):
        kind = "harmless" if told["pattern"].startswith(r"^[^\u0000") else "word"
        return {"type": "string", "format": kind}
    if told.get("format") in FORMATS:
        return {"type": "string", "format": told["format"]}
    return {name: simpler(each) for name, each in told.items()}


# Formats that JSON Schema does not know, or that it reads more widely than we do.
FORMATS = {
    "word": st.text("abcdefghij", min_size=2, max_size=20),
    "harmless": st.text("abz-_.:@ 09éß漢🎁", min_size=2, max_size=30).filter(str.strip),
    "email": st.from_regex(r"[a-z]{1,10}@[a-z]{1,10}\.(com|org|de)", fullmatch=True),
    "language-tag": st.sampled_from(["de", "de-AT", "en-GB", "zh-Hant-TW", "sr-Latn"]),
    "iso-4217": st.sampled_from(["USD", "EUR", "JPY", "KWD"]),
    "cron": st.sampled_from(["* * * * *", "*/10 * * * * *", "0 9 * * 1-5"]),
    "iana-time-zone": st.sampled_from(["UTC", "Europe/Berlin", "America/New_York"]),
    "cursor": st.dates().map(lambda day: f"{day}/default"),
    "run-cursor": st.builds("{0}T00:00:00Z/{1}/{2}".format, st.dates(), st.integers(0, 10**18 - 1), st.integers(0, 9)),
}
for name, strategy in FORMATS.items():
    schemathesis.openapi.format(name, strategy)

# Fields with rules that no schema of a body tells, such as the currency of an amount, for which it may reuse any text
# of a response; None: a rule between fields.
BEYOND: dict[str, set[str | None]] = {
    "POST /api/v1/giftcards": {"Idempotency-Key", "amount", "locale"},
    "POST /api/v1/giftcards/{correlation_id}/payment-events": {"amount"},
    "PATCH /api/v1/giftcards/{correlation_id}/recipient": {None},
    "POST /api/v1/batches": {"jobs", "stage", "payload", "tenant_id", "follow_up"},
    "POST /api/v1/batches/{batch_id}/jobs": {"stage", "payload", "tenant_id"},
    "POST /api/v1/batches/{batch_id}/cancel": {"Idempotency-Key"},
    "POST /api/v1/batches/{batch_id}/requeue": {"Idempotency-Key"},
    "GET /api/v1/jobs": {None},
    "POST /api/v1/jobs": {"stage", "payload"},
    "POST /api/v1/jobs/requeue": {"filter", "status"},
    "POST /api/v1/jobs/{job_id}/requeue": {"payload"},
    "GET /api/v1/limits": {"older"},
    "PUT /api/v1/limits": {"name", "tenant_id", "runs", "burst", "until", "for_seconds"},
    "POST /api/v1/limits/remove": {"name", "tenant_id"},
    "POST /api/v1/operations": {"reason", "filter", "job_ids", "all", None},
    "POST /api/v1/stages/{stage}/pause": {"stage"},
    "POST /api/v1/reports": {"day", "tenant_id"},
    "POST /api/v1/schedules": {"stage", "payload", "api", "overlap_policy"},
    "PATCH /api/v1/schedules/{schedule_id}": {"stage", "payload", "api", "overlap_policy"},
    "POST /api/v1/tokens": {"scopes", None},
    "POST /api/v1/webhook-endpoints": {"url"},
    "PATCH /api/v1/webhook-endpoints/{endpoint_id}": {"url", None},
}

schema = schemathesis.pytest.from_fixture("api")


def is_beyond_schemas(case: Any, refusal: Any) -> bool:
    """Whether a refusal has a reason that the description cannot hold."""
    if refusal.status_code not in (400, 422):
        return False
    problem = refusal.json()
    if problem.get("detail", "").endswith("must be a whole number"):
        return True  # JSON Schema takes 1.0 for one, and we do not
    field = problem.get("field")
    names = [None] if field is None else re.sub(r"^jobs\.\d+\.", "", field).split(".")[:1]
    return not BEYOND.get(case.operation.label, set()).isdisjoint(names)


def takes_everything(case: Any) -> bool:
    """Whether the operation accepts each signed body: what cannot be used is kept as ignored."""
    return str(case.operation.label) == "POST /api/webhooks/square"


@schema.parametrize()
@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@pytest.mark.usefixtures("_node")
def test_every_operation_does_as_it_is_described(case: Any) -> None:
    doors = [scheme for door in case.operation.definition.raw["security"] for scheme in door]
    headers = {SIGNATURE: "true"} if doors == ["square"] else bearer(TOKENS[doors[0]]) if doors else {}
    answer = case.call(headers=headers)
    excluded = [positive_data_acceptance] if is_beyond_schemas(case, answer) else []
    excluded += [negative_data_rejection] if takes_everything(case) else []
    case.validate_response(answer, excluded_checks=excluded, headers=headers, transport_kwargs={"headers": headers})

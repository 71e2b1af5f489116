"""No endpoint lets a token of one tenant see or change anything of another: every route of the document is called."""

import re
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from psycopg import sql

from lib.tokens.schemas import Scope
from tests.support.openapi_document import openapi_document, operations
from tests.support.tenants import Request, Tenant, create_token, requests_of, settle
from tests.support.world import World, bearer

DOCUMENT = openapi_document()
PUBLIC = {"get_health", "get_openapi_document", "get_docs_page"}
# Not with a token of the API.
OTHERWISE = {"trigger_cron_tick", "trigger_cron_tick_post", "receive_square_event"}
ALPHA, BETA = "alpha", "beta"


def scope_of(operation: Any) -> str:
    scope: str = operation["security"][0]["token"][0]
    return scope


def guarded() -> Iterator[tuple[str, str, Any]]:
    """Each operation that needs a token, with path and method."""
    for path, method, operation in operations(DOCUMENT):
        if operation["operationId"] not in PUBLIC | OTHERWISE:
            yield path, method.upper(), operation


def of_all_tenants() -> set[str]:
    """The operations that a token of one tenant may not use at all."""
    return {each["operationId"] for *_, each in guarded() if "Requires a token of all" in each.get("description", "")}


def send(world: World, path: str, method: str, request: Request, *, token: str) -> Any:
    body = {} if request.body is None else {"json": request.body}
    concrete = path.format_map({name: str(value) for name, value in request.path.items()})
    return world.client.open(concrete, method=method, query_string=request.query, headers=bearer(token), **body)


def rows_of(world: World, tenant: str) -> dict[str, list[Any]]:
    """Every row of the tenant, of every table that names one, and the runs of its jobs."""
    tables = world.sql(
        """select table_name as name from information_schema.columns
            where table_schema = 'public' and column_name = 'tenant_id' and table_name like 'giftcard%%' order by 1"""
    )
    found = {}
    for table in (row["name"] for row in tables):
        query = sql.SQL("select to_jsonb(t) as row from {} t where tenant_id = %s order by 1").format(
            sql.Identifier("public", table)
        )
        found[table] = world._execute(query, (tenant,))
    found["runs"] = world.sql(
        """select to_jsonb(h) as row from giftcard_job_history h join giftcard_jobs j on j.id = h.job_id
            where j.tenant_id = %s order by h.job_id, h.run_no""",
        tenant,
    )
    return found


@pytest.fixture
def tenants(world: World) -> list[Tenant]:
    return settle(world, ALPHA, BETA)


def test_every_operation_is_called_here() -> None:
    known = {"name": BETA, "order": "", "unpaid": ""} | dict.fromkeys(("job", "dead", "archived"), 1)
    called = set(requests_of(Tenant(**known, schedule=1, endpoint=1, operation=1, batch=1)))
    ids = {operation["operationId"] for *_, operation in guarded()}
    assert called | of_all_tenants() == ids
    assert not called & of_all_tenants()


@pytest.mark.slow
def test_a_token_of_one_tenant_sees_and_changes_nothing_of_another(world: World, tenants: list[Tenant]) -> None:
    token = create_token(world, ALPHA, "admin", tenant=ALPHA)
    before = rows_of(world, BETA)
    assert all(before[table] for table in ("giftcard_orders", "giftcard_jobs", "giftcard_reports", "runs"))
    requests = requests_of(tenants[1])
    for path, method, operation in guarded():
        for request in requests.get(operation["operationId"], [Request(path=_any(path))]):
            answer = send(world, path, method, request, token=token)
            what = f"{method} {path} {request} → {answer.status_code} {answer.text[:300]}"
            names_beta = request.path or f"'tenant_id': '{BETA}'" in f"{request.query}{request.body}"
            assert answer.status_code in ((403, 404) if names_beta else (200, 202, 403, 404)), what
            if answer.status_code < 400:
                assert BETA not in answer.text, what
            assert rows_of(world, BETA) == before, what


@pytest.mark.slow
def test_a_token_of_one_tenant_does_all_of_it_with_its_own(world: World, tenants: list[Tenant]) -> None:
    """The requests of the other test are right: they fail for the tenant alone."""
    token = create_token(world, ALPHA, "admin", tenant=ALPHA)
    requests = requests_of(tenants[0])
    routes = {operation["operationId"]: (path, method) for path, method, operation in guarded()}
    for name, each in requests.items():
        path, method = routes[name]
        answers = [send(world, path, method, request, token=token) for request in each]
        found = [(answer.status_code, answer.text[:300]) for answer in answers]
        assert not [status for status, _ in found if status in (400, 401, 403, 422, 500, 503)], (name, found)
        if name != "accept_difference":  # they have none
            assert [status for status, _ in found if status < 300 or status == 409], (name, found)
    assert set(requests) <= set(routes)


@pytest.mark.slow
def test_each_scope_allows_its_own_operations_and_no_other(world: World) -> None:
    for number, scope in enumerate(get_args(Scope)):
        token = create_token(world, f"t{number}", scope)
        for path, method, operation in guarded():
            answer = send(world, path, method, Request(path=_any(path)), token=token)
            required = scope_of(operation)
            what = f"{scope}: {method} {path} → {answer.status_code} {answer.text[:200]}"
            assert (answer.status_code == 403) is (scope not in (required, "admin")), what
            if answer.status_code == 403:
                assert answer.json["detail"] == f"this requires a token with the scope {required}", what


def test_what_is_about_all_tenants_is_closed_to_one(world: World) -> None:
    token = create_token(world, ALPHA, "admin", tenant=ALPHA)
    names = of_all_tenants()
    assert {"get_status", "trigger_tick", "pause_stage", "reset_circuit", "create_token", "get_metrics"} <= names
    for path, method, operation in guarded():
        if operation["operationId"] in names:
            answer = send(world, path, method, Request(path=_any(path)), token=token)
            assert answer.status_code == 403, path
            assert (
                answer.json["detail"]
                == f"this token is for the tenant {ALPHA} only, and this endpoint is about all tenants"
            )


def test_an_unknown_and_a_missing_token_open_nothing(world: World) -> None:
    for number, (path, method, _) in enumerate(guarded()):
        concrete = re.sub(r"{\w+}", "1", path)
        for headers in ({}, bearer("gct_" + "x" * 43), bearer("wrong")):
            address = {"REMOTE_ADDR": f"10.0.{number}.1"}
            answer = world.client.open(concrete, method=method, headers=headers, environ_base=address)
            assert answer.status_code == 401, f"{method} {path}"
    assert {operation["operationId"] for *_, operation in operations(DOCUMENT) if not operation["security"]} == PUBLIC


def _any(path: str) -> dict[str, Any]:
    """Values of a path that name nothing."""
    return dict.fromkeys(re.findall(r"{(\w+)}", path), 2**62)

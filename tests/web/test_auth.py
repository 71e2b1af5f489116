"""Who may come in. A door whose token is not set is shut, and a token opens its own doors only."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.world import ADMIN, API, CRON, World, an_order, bearer

Make = Callable[..., World]

# door → (method, path, the token it asks for, its variable)
DOORS = {
    "cron": ("GET", "/api/cron/giftcard-jobs", CRON, "CRON_SECRET"),
    "cron by POST": ("POST", "/api/cron/giftcard-jobs", CRON, "CRON_SECRET"),
    "trigger": ("POST", "/api/jobs/run", ADMIN, "GIFTCARD_ADMIN_TOKEN"),
    "status": ("GET", "/api/status", ADMIN, "GIFTCARD_ADMIN_TOKEN"),
    "order": ("POST", "/api/v1/giftcards", API, "GIFTCARD_API_TOKEN"),
    "flow": ("GET", "/api/v1/giftcards/order-1", API, "GIFTCARD_API_TOKEN"),
}
TOKENS = ("CRON_SECRET", "GIFTCARD_ADMIN_TOKEN", "GIFTCARD_API_TOKEN")


def knock(world: World, door: str, *, address: str = "127.0.0.1", **headers: str) -> Any:
    method, path, _, _ = DOORS[door]
    body = {"json": an_order()} if door == "order" else {}
    return world.client.open(path, method=method, headers=headers, environ_base={"REMOTE_ADDR": address}, **body)


def is_problem(response: Any, status: int) -> bool:
    assert response.status_code == status, response.text
    assert response.content_type == "application/problem+json"
    assert response.json["status"] == status
    assert response.json["title"]
    return True


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_right_token_opens_its_door_however_the_scheme_is_written(world: World, scheme: str) -> None:
    world.submit(an_order(correlation_id="order-1"))
    for door, (_, _, token, _) in DOORS.items():
        assert knock(world, door, Authorization=f"{scheme} {token}").status_code in (200, 202), door


@pytest.mark.parametrize("unset", [None, "", " "])
def test_door_without_its_token_is_shut_for_everybody(make_world: Make, unset: str | None) -> None:
    world = make_world(**dict.fromkeys(TOKENS, unset))
    for door, presented in itertools.product(DOORS, ("", " ", "None", "undefined", "null", CRON, ADMIN, API)):
        for headers in ({"Authorization": f"Bearer {presented}"}, {}):
            response = knock(world, door, **headers)
            assert is_problem(response, 503)
            assert DOORS[door][3] in response.json["detail"]
    assert world.row_counts()["giftcard_jobs"] == world.row_counts()["giftcard_ticks"] == 0


LOOK_ALIKES = [
    "",
    "Bearer",
    "Bearer ",
    "Bearer None",
    "Bearer undefined",
    "Bearer null",
    "Bearer {token}x",
    "Bearer {token} ",
    "Bearer  {token}",
    "Bearer {short}",
    "Bearer {token},{token}",
    "Basic {token}",
    "Basic OnRva2Vu",
    "Token {token}",
    "{token}",
    "Bearer\t{token}",
    "Bearer \u00e9\u00ff",
    "Bearer " + "x" * 7000,
]


def test_anything_else_is_not_allowed(world: World) -> None:
    for door, presented in itertools.product(DOORS, LOOK_ALIKES):
        token = DOORS[door][2]
        authorization = presented.format(token=token, short=token[:-1])
        response = knock(world, door, address=f"10.0.0.{list(DOORS).index(door)}", Authorization=authorization)
        assert is_problem(response, 401)
        assert response.headers["WWW-Authenticate"] == "Bearer"
        assert token not in response.text


OTHER_HEADERS = [
    {"User-Agent": "vercel-cron/1.0"},
    {"x-vercel-cron": "1"},
    {"x-vercel-cron-schedule": "* * * * *", "User-Agent": "vercel-cron/1.0"},
    {"x-vercel-execution-id": "exec-1"},
    {"X-Authorization": "Bearer {token}"},
    {"Proxy-Authorization": "Bearer {token}"},
    {"Cookie": "Authorization=Bearer {token}"},
    {"apikey": "{token}"},
    {"X-Forwarded-For": "127.0.0.1", "Host": "localhost"},
    {"X-HTTP-Method-Override": "GET"},
]


def test_no_other_header_is_a_way_in(world: World) -> None:
    for door, headers in itertools.product(DOORS, OTHER_HEADERS):
        given = {name: value.format(token=DOORS[door][2]) for name, value in headers.items()}
        assert is_problem(knock(world, door, **given), 401)
    assert world.row_counts()["giftcard_ticks"] == 0


def test_token_in_the_address_is_no_way_in(world: World) -> None:
    for method, path, token, _ in DOORS.values():
        for name in ("token", "secret", "access_token", "Authorization"):
            assert is_problem(world.client.open(path, method=method, query_string={name: token}), 401)


OPENS = {
    ("order", ADMIN): True,
    ("flow", ADMIN): True,
    ("status", API): False,
    ("trigger", API): False,
    ("cron", API): False,
    ("cron", ADMIN): False,
    ("order", CRON): False,
    ("status", CRON): False,
    ("trigger", CRON): False,
}


def test_token_opens_its_own_doors_and_the_admins_those_of_the_tenants(world: World) -> None:
    world.submit(an_order(correlation_id="order-1"))
    for (door, token), opens in OPENS.items():
        assert knock(world, door, **bearer(token)).status_code in ((200, 202) if opens else (403,)), (door, token)


def test_admin_token_opens_the_tenants_doors_even_if_theirs_is_not_set(make_world: Make) -> None:
    world = make_world(GIFTCARD_API_TOKEN=None)
    assert knock(world, "order", **bearer(ADMIN)).status_code == 202
    assert is_problem(knock(world, "order", **bearer(API)), 401)


def test_missing_admin_token_does_not_shut_the_tenants_doors(make_world: Make) -> None:
    world = make_world(GIFTCARD_ADMIN_TOKEN=None)
    assert knock(world, "order", **bearer(API)).status_code == 202
    assert is_problem(knock(world, "status", **bearer(ADMIN)), 503)


def test_token_of_other_letters_is_compared_as_it_is(make_world: Make) -> None:
    world = make_world(CRON_SECRET="schlüssel-für-die-uhr")
    # A header carries bytes; werkzeug hands them over as Latin-1.
    sent = "schlüssel-für-die-uhr".encode().decode("latin-1")
    assert knock(world, "cron", **bearer(sent)).status_code == 200
    assert is_problem(knock(world, "cron", **bearer("schlussel-fur-die-uhr")), 401)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_preview_deployment_runs_no_tick(make_world: Make, method: str) -> None:
    world = make_world(GIFTCARD_ENV=None, VERCEL_ENV="preview")
    response = world.client.open("/api/cron/giftcard-jobs", method=method, headers=bearer(CRON))
    assert is_problem(response, 403)
    assert is_problem(world.client.post("/api/jobs/run", headers=bearer(ADMIN)), 403)
    assert world.row_counts()["giftcard_ticks"] == 0


def test_preview_deployment_runs_ticks_once_it_is_allowed(make_world: Make) -> None:
    world = make_world(GIFTCARD_ENV=None, VERCEL_ENV="preview", GIFTCARD_ALLOW_PREVIEW=1)
    assert world.tick()["stopped_because"] == "drained"


def test_preview_that_is_no_caller_of_ours_is_not_told_so(make_world: Make) -> None:
    world = make_world(GIFTCARD_ENV=None, VERCEL_ENV="preview")
    assert is_problem(knock(world, "cron"), 401)


OTHER_METHODS = [
    ("DELETE", "/api/cron/giftcard-jobs", {"GET", "POST"}),
    ("PUT", "/api/v1/giftcards", {"POST"}),
    ("GET", "/api/jobs/run", {"POST"}),
    ("POST", "/api/health", {"GET"}),
    ("PATCH", "/api/status", {"GET"}),
    ("DELETE", "/api/v1/giftcards/order-1", {"GET"}),
]


def test_other_methods_are_a_problem_that_names_those_allowed(world: World) -> None:
    for method, path, allowed in OTHER_METHODS:
        response = world.client.open(path, method=method, headers=bearer(ADMIN))
        assert is_problem(response, 405)
        assert {name.strip() for name in response.headers["Allow"].split(",")} >= allowed


def test_other_paths_are_a_problem(world: World) -> None:
    for path in ("/api", "/api/", "/api/nothing", "/api/v1/giftcards/", "/api/v1/giftcards/a/b", "/api/.env"):
        assert is_problem(world.client.get(path, headers=bearer(ADMIN)), 404)


def test_head_of_the_clocks_door_runs_no_tick_without_the_secret(world: World) -> None:
    assert world.client.head("/api/cron/giftcard-jobs").status_code == 401
    assert world.row_counts()["giftcard_ticks"] == 0

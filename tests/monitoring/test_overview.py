"""The overview of a real database: one call, the verdict on it, no personal data, and the API's response."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from lib.errors import Unavailable
from lib.monitoring.overview import read
from lib.store.wire import Wire
from tests.support.tenants import create_token
from tests.support.world import ADMIN, API, World, an_order, bearer

KATE, CARD = "kate@example.com", "4111 1111 1111 1111"
Make = Callable[..., World]


def overview(world: World) -> dict[str, Any]:
    return read(world.store, world.registry, world.settings)


def kinds(world: World) -> tuple[str, list[str]]:
    """The verdict's kind and its sentences, without times."""
    verdict = overview(world)["verdict"]
    return verdict["kind"], [re.sub(r"\{.*?\}", "…", text) for text in (verdict["sentence"], *verdict["others"])]


def test_quiet_deployment_is_well_after_its_first_tick(world: World) -> None:
    world.submit()
    assert kinds(world) == ("no_tick", ["No tick has run yet: no clock calls."])
    assert overview(world)["verdict"]["next"].startswith("1 job waits and loses no attempt; ")
    while world.tick()["started"]:
        pass
    assert kinds(world) == ("ok", ["All is well: the last tick ended … and ran no job; no job is due."])
    found = overview(world)
    assert (found["today"]["orders"], found["today"]["cards"], found["flow"][0]) == (1, 1, "customer_ingest")
    assert "doctor" not in found


def test_killed_run_and_endpoint_that_is_off(world: World) -> None:
    world.tick()
    (job_id,) = world.enqueue("payment", an_order())
    world.sql(
        """update giftcard_jobs set status = 'running', attempts = 1, run_no = 1, lease_id = gen_random_uuid(),
           lock_owner = 'x', locked_at = now() - interval '9 min', lease_expires_at = now() - interval '5 min'
           where id = %s""",
        job_id,
    )
    for reason in ("the receiver responded with 410", "turned off by hand", "made off"):
        world.sql(
            """insert into giftcard_webhook_endpoints
                 (tenant_id, url, events, enabled, disabled_reason, secret_encrypted, created_at, updated_at)
               values ('default', 'https://example.com/' || %s, '{giftcard.issued}', false, %s, 'sealed', now(),
                       now())""",
            reason,
            reason,
        )
    assert kinds(world) == (
        "killed",
        [
            f"1 run was killed and not taken over since … (job {job_id} of payment).",
            "Webhook endpoint 1 is off since …: the receiver responded with 410.",
        ],
    )
    found = overview(world)
    assert (found["killed"]["count"], found["endpoints_off"]["count"]) == (1, 1)


def test_stage_without_its_setting_and_paused_stages(make_world: Make) -> None:
    world = make_world(GIFTCARD_ENV="production", GIFTCARD_LEDGER_IS_MEANT=1)
    world.tick()
    world.enqueue("email", an_order())
    world.client.post("/api/v1/stages/payment/pause", json={"by": KATE, "reason": "x"}, headers=bearer(ADMIN))
    _, sentences = kinds(world)
    assert "email cannot run: the setting SMTP_URL is missing." in sentences
    assert "payment is paused by [email] since …: x." in sentences


def test_everything_is_paused_by_the_setting(make_world: Make) -> None:
    assert kinds(make_world(GIFTCARD_PAUSED=1)) == (
        "all_paused",
        ["Everything is paused by the setting GIFTCARD_PAUSED."],
    )


def test_texts_hold_no_personal_data(world: World) -> None:
    world.tick()
    world.enqueue("email", an_order(), status="error", last_error=f"PermanentError: {KATE} refuses {CARD}")
    world.sql(
        "insert into giftcard_stages (stage, paused_at, paused_by, reason) values ('*', now(), %s, %s)", KATE, CARD
    )
    found = str(overview(world))
    assert KATE not in found
    assert CARD not in found


def test_one_call_of_the_database(make_world: Make, world: World) -> None:
    calls: list[str] = []

    class Counted:
        def call(self, function: str, /, **arguments: Any) -> Any:
            calls.append(function)
            return world.store._wire.call(function, **arguments)

        def close(self) -> None:
            pass

    wire: Wire = Counted()
    counted = make_world(wire=wire)
    overview(counted)
    assert calls == ["giftcard_overview"]


def test_endpoint_needs_jobs_read_for_all_tenants(world: World) -> None:
    path = "/api/overview"
    token = create_token(world, "grafana", "jobs:read")
    found = world.client.get(path, headers=bearer(token)).json
    assert (found["schema"], found["verdict"]["kind"]) == (1, "no_tick")
    assert world.client.get(path).status_code == 401
    assert world.client.get(path, headers=bearer(API)).status_code == 403
    of_one = create_token(world, "shop", "jobs:read", tenant="acme")
    assert world.client.get(path, headers=bearer(of_one)).status_code == 403


def test_database_that_is_away_is_503(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> Any:
        raise Unavailable("connection refused")

    monkeypatch.setattr(world.store, "overview", away)
    response = world.client.get("/api/overview", headers=bearer(ADMIN))
    assert (response.status_code, response.json["title"]) == (503, "the database is away")

"""Requests with an Idempotency-Key that make a secret: repeated, they return it."""

from typing import Any

import pytest

from tests.support.world import ADMIN, World, bearer

BODY = {"url": "https://shop.example.com/hooks", "events": ["giftcard.issued"]}
PATH = "/api/v1/webhook-endpoints"


def post(world: World, path: str = PATH, body: Any = None, key: str | None = "k") -> tuple[int, Any]:
    headers = bearer(ADMIN) | ({} if key is None else {"Idempotency-Key": key})
    response = world.client.post(path, json=BODY if body is None else body, headers=headers)
    return response.status_code, response.json


def test_the_same_key_and_body_return_the_same_endpoint_and_secret(world: World) -> None:
    first = post(world)
    assert first[0] == 201
    assert post(world, body=dict(reversed(BODY.items()))) == first
    assert world.value("select count(*) from public.giftcard_webhook_endpoints") == 1


def test_the_same_key_with_another_body_is_refused(world: World) -> None:
    post(world)
    status, problem = post(world, body=BODY | {"events": ["report.ready"]})
    assert (status, problem["field"]) == (422, "Idempotency-Key")


def test_another_key_is_another_request(world: World) -> None:
    post(world)
    assert post(world, key="other")[0] == 409
    assert post(world, key=None)[0] == 409
    assert post(world, body=BODY | {"tenant_id": "acme"})[0] == 201


def test_a_key_that_is_none_is_refused(world: World) -> None:
    assert post(world, key=" ")[0] == 400
    number = post(world)[1]["id"]
    assert post(world, f"{PATH}/{number}/rotate-secret", {}, key="ö")[0] == 400


def test_a_repeated_rotation_returns_the_secret_and_moves_no_other(world: World) -> None:
    number = post(world)[1]["id"]
    first = post(world, f"{PATH}/{number}/rotate-secret", {})
    assert first[0] == 200
    row = world.sql("select * from public.giftcard_webhook_endpoints")
    assert post(world, f"{PATH}/{number}/rotate-secret", {}) == first
    assert world.sql("select * from public.giftcard_webhook_endpoints") == row
    assert post(world, f"{PATH}/{number}/rotate-secret", {"former_hours": 1})[0] == 422
    assert post(world, f"{PATH}/{number}/rotate-secret", {}, key="next")[1]["secret"] != first[1]["secret"]


@pytest.mark.parametrize(("hours", "signing"), [(23, 3), (25, 2), (49, 1)])
def test_former_secrets_sign_until_their_time(world: World, hours: int, signing: int) -> None:
    number = post(world)[1]["id"]
    for key in ("1", "2"):
        post(world, f"{PATH}/{number}/rotate-secret", {"former_hours": 24 if key == "1" else 48}, key=key)
    (job_id,) = world.enqueue(
        "webhook", {}, status="running", lease_id="00000000-0000-0000-0000-000000000001", circuit="webhook:1"
    )
    target = world.value(
        "select public.giftcard_webhook_target(%s, '00000000-0000-0000-0000-000000000001', %s,"
        " now() + make_interval(hours => %s))",
        *(job_id, number, hours),
    )
    assert len(target["secrets"]) == signing


def test_a_secret_that_no_key_fits_is_refused_with_the_way_out(world: World) -> None:
    post(world)
    world.sql("update public.giftcard_webhook_endpoints set secret_encrypted = 'odd'")
    status, problem = post(world)
    assert (status, "rotate it" in problem["title"]) == (409, True)

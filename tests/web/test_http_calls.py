"""A call that may not be made is refused at the door, with its field named, and nothing is stored."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.world import ADMIN, World, bearer


def sent(world: World, payload: dict[str, Any]) -> Any:
    job = {"stage": "http_call", "correlation_id": "call-1", "payload": payload}
    return world.client.post("/api/v1/jobs", json={"jobs": [job]}, headers=bearer(ADMIN))


@pytest.mark.parametrize(
    ("field", "payload"),
    [
        ("url", {"url": "http://169.254.169.254/latest/meta-data/"}),
        ("url", {"url": "http://[::ffff:127.0.0.1]/"}),
        ("url", {"url": "http://localhost:8000/"}),
        ("url", {"url": "https://example.com/?key={{secret:KEY}}"}),
        ("headers", {"url": "https://example.com/", "headers": {"Host": "inside"}}),
        ("timeout_seconds", {"url": "https://example.com/", "timeout_seconds": "30"}),
    ],
)
def test_call_that_may_not_be_made_is_refused_by_field(world: World, field: str, payload: dict[str, Any]) -> None:
    response = sent(world, payload)
    assert response.status_code == 422, response.text
    assert f"jobs.0.payload.{field}" in response.text
    assert world.row_counts()["giftcard_jobs"] == 0


def test_call_into_a_network_that_is_allowed_is_taken(make_world: Callable[..., World]) -> None:
    world = make_world(GIFTCARD_ALLOWED_NETWORKS="127.0.0.0/8")
    assert sent(world, {"url": "http://127.0.0.1:8000/"}).status_code < 300
    assert world.job()["circuit"] == "http_call:127.0.0.1"


def test_call_that_is_requeued_with_another_address_hangs_on_the_circuit_of_its_host(world: World) -> None:
    assert sent(world, {"url": "https://one.example.com/"}).status_code == 202
    job_id = world.job()["id"]
    world.sql("update giftcard_jobs set status = 'error'")
    body = {"payload": {"url": "https://two.example.com/"}}
    response = world.client.post(f"/api/v1/jobs/{job_id}/requeue", json=body, headers=bearer(ADMIN))
    assert response.status_code == 200, response.text
    assert world.job()["circuit"] == "http_call:two.example.com"
    world.sql("update giftcard_jobs set status = 'error'")
    world.client.post(f"/api/v1/jobs/{job_id}/requeue", json={}, headers=bearer(ADMIN))
    assert world.job()["circuit"] == "http_call:two.example.com"

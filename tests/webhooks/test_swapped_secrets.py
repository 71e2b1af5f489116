"""A webhook secret that someone moves to another endpoint in the database signs nothing and is shown to nobody."""

from itertools import permutations
from typing import Any

import pytest

from tests.support.acts import KIM
from tests.support.ciphertexts import as_before, webhook_secrets
from tests.support.receiver import Receiver, an_endpoint, ask, signed_with, told_of_one
from tests.support.world import ADMIN, World, bearer

REFUSED = "PermanentError: the webhook secret was changed in the database, or is that of another row"


@pytest.fixture
def endpoints(telling: World, receiver: Receiver) -> list[dict[str, Any]]:
    """Two of one tenant, one of another; their rows."""
    an_endpoint(telling, receiver, path="a")
    an_endpoint(telling, receiver, path="b")
    an_endpoint(telling, receiver, path="c", tenant_id="acme")
    return telling.sql("select * from giftcard_webhook_endpoints order by id")


def put(world: World, endpoint: dict[str, Any], encrypted: str) -> None:
    world.sql("update giftcard_webhook_endpoints set secret_encrypted = %s where id = %s", encrypted, endpoint["id"])


def deliver(world: World, endpoint: dict[str, Any]) -> dict[str, Any]:
    """A test event's job, after its run."""
    job_id = world.store.test_webhook_endpoint(endpoint["id"], caller=KIM)["job_id"]
    world.run(only_job_id=job_id, limit=1)
    return world.job(job_id)


def test_a_secret_swapped_between_any_two_endpoints_is_refused_and_nothing_is_sent(
    telling: World, receiver: Receiver, endpoints: list[dict[str, Any]]
) -> None:
    for one, other in permutations(endpoints, 2):
        put(telling, one, other["secret_encrypted"])
        job = deliver(telling, one)
        assert (job["status"], job["revive_at"], job["last_error"]) == ("error", None, REFUSED)
        put(telling, one, one["secret_encrypted"])
    assert receiver.asked == []
    assert [deliver(telling, endpoint)["status"] for endpoint in endpoints] == ["completed"] * 3


@pytest.mark.parametrize("column", ["previous_secret", "oldest_secret"])
def test_a_former_secret_of_another_endpoint_is_refused_too(
    telling: World, receiver: Receiver, endpoints: list[dict[str, Any]], column: str
) -> None:
    one, other, _ = endpoints
    telling.sql(
        f"update giftcard_webhook_endpoints set {column}_encrypted = %s, {column}_until = 'infinity' where id = %s",
        other["secret_encrypted"],
        one["id"],
    )
    assert deliver(telling, one)["last_error"] == REFUSED
    assert receiver.asked == []


def test_a_repeated_request_returns_no_secret_of_another_endpoint(telling: World) -> None:
    def create(path: str) -> Any:
        body = {"url": f"https://shop.example/{path}", "events": ["giftcard.issued"]}
        headers = bearer(ADMIN) | {"Idempotency-Key": path}
        return telling.client.post("/api/v1/webhook-endpoints", json=body, headers=headers)

    made = [create(path).json for path in ("a", "b")]
    rows = telling.sql("select * from giftcard_webhook_endpoints order by id")
    put(telling, rows[0], rows[1]["secret_encrypted"])
    response = create("a")
    assert (response.status_code, "is that of another row" in response.json["title"]) == (409, True)
    assert made[1]["secret"] not in response.text
    put(telling, rows[0], rows[0]["secret_encrypted"])
    assert create("a").json["secret"] == made[0]["secret"]
    assert ask(telling, "POST", f"/{made[0]['id']}/rotate-secret")["secret"] == webhook_secrets(telling)[0]


def test_secrets_of_the_former_form_sign(telling: World, receiver: Receiver) -> None:
    secret = an_endpoint(telling, receiver)["secret"]
    telling.sql("update giftcard_webhook_endpoints set secret_encrypted = %s", as_before(secret))
    told_of_one(telling, receiver)
    assert signed_with(receiver.asked[0], secret)

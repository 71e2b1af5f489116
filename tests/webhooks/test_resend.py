"""Webhooks that a person sends again: dead ones under their id, delivered ones never."""

from collections.abc import Callable
from typing import Any

import pytest

from lib.errors import Refused
from tests.support.acts import KIM
from tests.support.receiver import Receiver, an_endpoint, ask, webhooks
from tests.support.world import ADMIN, World, bearer

Make = Callable[..., World]


@pytest.fixture
def dead(telling: World, receiver: Receiver) -> dict[str, Any]:
    """A webhook that its receiver did not want."""
    made = an_endpoint(telling, receiver)
    ask(telling, "POST", f"/{made['id']}/test")
    receiver.then(404)
    telling.run()
    (job,) = webhooks(telling)
    assert job["status"] == "error"
    return job


def delivered_again(world: World, receiver: Receiver, job: dict[str, Any]) -> None:
    world.run()
    assert world.job(job["id"])["status"] == "completed"
    first, again = receiver.asked
    assert (first.headers["webhook-id"], first.body) == (again.headers["webhook-id"], again.body)
    assert receiver.refused == []


def refused(world: World, job: dict[str, Any], **wish: Any) -> str:
    answer = world.client.post(f"/api/v1/jobs/{job['id']}/requeue", json=wish, headers=bearer(ADMIN))
    assert answer.status_code == 409
    return str(answer.json["title"])


def test_dead_webhook_is_delivered_under_its_id_by_requeue(
    telling: World, receiver: Receiver, dead: dict[str, Any]
) -> None:
    assert telling.client.post(f"/api/v1/jobs/{dead['id']}/requeue", headers=bearer(ADMIN)).status_code == 200
    delivered_again(telling, receiver, dead)


def test_dead_webhooks_are_delivered_by_requeue_of_many(
    telling: World, receiver: Receiver, dead: dict[str, Any]
) -> None:
    telling.client.post("/api/v1/jobs/requeue", json={"filter": {"stage": "webhook"}}, headers=bearer(ADMIN))
    delivered_again(telling, receiver, dead)


def test_dead_webhook_is_delivered_after_the_update_by_hand(
    telling: World, receiver: Receiver, dead: dict[str, Any]
) -> None:
    by_hand = "UPDATE giftcard_jobs SET status='queued', scheduled_at=NOW(), attempts=0, last_error=NULL WHERE id=%s"
    telling.sql(by_hand, dead["id"])
    delivered_again(telling, receiver, dead)


def test_dead_webhook_comes_back_from_the_archive_and_is_delivered(
    telling: World, receiver: Receiver, dead: dict[str, Any]
) -> None:
    archive(telling)
    telling.store.restore(dead["id"], caller=KIM)
    telling.requeue(dead["id"])
    delivered_again(telling, receiver, dead)


def archive(world: World) -> None:
    world.move(400 * 86_400)
    world.store.prune({"jobs": "1 day", "dead_letters": "1 day"}, limit=100, dry_run=False)
    assert webhooks(world) == []


@pytest.mark.parametrize("force", [False, True])
def test_delivered_webhook_is_refused(telling: World, receiver: Receiver, dead: dict[str, Any], force: bool) -> None:
    telling.requeue(dead["id"])
    telling.run()
    says = "is a webhook that was delivered: it is not sent again" if force else "is completed: use force"
    assert says in refused(telling, dead, force=force)
    archive(telling)
    assert "is archived: restore it first" in refused(telling, dead, force=force)
    telling.store.restore(dead["id"], caller=KIM)
    assert says in refused(telling, dead, force=force)
    found = telling.client.post("/api/v1/jobs/requeue", json={"all": True}, headers=bearer(ADMIN)).json
    assert found["matched"] == 0
    telling.run()
    assert len(receiver.asked) == 2


def test_what_a_webhook_says_cannot_be_changed(telling: World, receiver: Receiver, dead: dict[str, Any]) -> None:
    payload = dead["payload"] | {"body": '{"type": "giftcard.issued", "data": {"amount": 1000000}}'}
    assert "is sent as it was written" in refused(telling, dead, payload=payload)
    row = {name: dead[name] for name in ("stage", "tenant_id", "correlation_id", "dedup_key")}
    with pytest.raises(Refused, match="is sent as it was written"):
        telling.store.enqueue([row | {"payload": payload}], replace=True)
    telling.requeue(dead["id"], payload=dead["payload"])
    delivered_again(telling, receiver, dead)

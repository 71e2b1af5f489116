"""Webhooks go to https only, outside development."""

import socket
from collections.abc import Callable

import pytest

from tests.support.receiver import PATH, Receiver, an_endpoint, told_of_one
from tests.support.world import ADMIN, World, bearer

Make = Callable[..., World]

CLEAR = "http://hooks.example.com/giftcards"


def test_endpoint_in_clear_is_refused(make_world: Make, receiver: Receiver) -> None:
    world = make_world(GIFTCARD_ENV="production", GIFTCARD_ALLOWED_NETWORKS="127.0.0.0/8")
    made = an_endpoint(world, receiver)["id"]  # at this machine
    new = {"url": CLEAR, "events": ["job.completed"]}
    for method, path, body in (("POST", "", new), ("PATCH", f"/{made}", {"url": CLEAR})):
        refusal = world.client.open(f"{PATH}{path}", method=method, json=body, headers=bearer(ADMIN))
        assert (refusal.status_code, refusal.json["field"]) == (422, "url")
        assert "url must begin with https://" in refusal.json["detail"]
    assert len(world.sql("select * from giftcard_webhook_endpoints")) == 1


def test_endpoint_from_before_gets_nothing(
    make_world: Make, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest, **more: resolve("127.0.0.1", *rest, **more))
    url = receiver.url.replace("127.0.0.1", "hooks.example.com")
    development = make_world(GIFTCARD_ENV="development", GIFTCARD_ALLOWED_NETWORKS="127.0.0.0/8")
    made = an_endpoint(development, receiver)["id"]
    development.sql("update giftcard_webhook_endpoints set url = %s where id = %s", url, made)
    assert told_of_one(development, receiver)["status"] == "completed"
    heard = len(receiver.asked)
    production = make_world(GIFTCARD_ENV="production", GIFTCARD_ALLOWED_NETWORKS="127.0.0.0/8")
    production.client.post(f"{PATH}/{made}/test", headers=bearer(ADMIN))
    production.run()
    (job,) = production.sql(
        "select status, last_error, revive_at from giftcard_jobs where stage = 'webhook' and status = 'error'"
    )
    said = "PermanentError: the URL of the endpoint must begin with https://: secrets do not travel in clear"
    assert (job["last_error"], job["revive_at"]) == (said, None)
    assert len(receiver.asked) == heard

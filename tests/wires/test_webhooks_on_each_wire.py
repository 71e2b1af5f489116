"""The calls about webhooks mean the same on each wire: arrays, flags, nulls, numbers."""

from typing import Any

import pytest

from lib.errors import LeaseLost, Refused
from lib.store.store import Store
from tests.support.acts import KIM
from tests.support.books import take
from tests.support.factory import World


def made(store: Store, **fields: Any) -> dict[str, Any]:
    usual = {"tenant_id": "default", "url": "https://example.com/ü", "events": ("job.completed", "report.ready")}
    return store.create_webhook_endpoint(caller=KIM, **usual | {"enabled": True, "secret_encrypted": "sealed"} | fields)


def test_endpoint_comes_back_as_it_was_given(store: Store) -> None:
    endpoint = made(store, enabled=False)
    assert (endpoint["url"], endpoint["events"]) == ("https://example.com/ü", ["job.completed", "report.ready"])
    assert (endpoint["enabled"], endpoint["disabled_reason"]) == (False, "made off")
    number = endpoint["id"]
    assert endpoint.pop("secret_encrypted") == "sealed"
    assert store.webhook_endpoint(number, tenant_id=None) == endpoint
    assert store.list_webhook_endpoints(tenant_id=None, older=None, limit=1)["endpoints"] == [endpoint]
    changed = store.update_webhook_endpoint(number, enabled=True, events=("job.completed",), caller=KIM)
    assert changed["events"] == ["job.completed"]
    rotated = store.rotate_webhook_secret(number, caller=KIM, secret_encrypted="new", former_seconds=0.5)
    assert rotated["previous_secret_until"]
    assert store.test_webhook_endpoint(number, caller=KIM)["event_id"].startswith("msg_")
    store.disable_webhook_endpoint(number, url="https://example.com/ü", reason="gone")
    with pytest.raises(Refused, match="is off") as caught:
        store.test_webhook_endpoint(number, caller=KIM)
    assert (caught.value.sqlstate, caught.value.field) == ("GC409", "enabled")
    assert store.delete_webhook_endpoint(number, caller=KIM) == {"id": number, "deleted": True}


def test_delivery_learns_where_to_and_that_there_is_nobody(store: Store, world: World) -> None:
    number = made(store)["id"]
    job = world.claimed("webhook", circuit=f"webhook:{number}")
    target = store.webhook_target(job, endpoint_id=number)
    assert target is not None
    assert (target["url"], target["secrets"]) == ("https://example.com/ü", ["sealed"])
    assert isinstance(target["at"], float | int)
    store.delete_webhook_endpoint(number, caller=KIM)
    assert store.webhook_target(job, endpoint_id=number) is None
    world.by_hand(job.id)
    with pytest.raises(LeaseLost):
        store.webhook_target(job, endpoint_id=number)


def test_event_is_taken_in_once_and_its_payment_is_found(store: Store, world: World) -> None:
    job = world.claimed("payment", correlation_id="order-ü")
    take(world, "order-ü")
    assert store.find_offered_payment(job, provider="square") == {"reference": None, "instead": None}
    moved = {"provider_ref": "p1", "event_id": "captured:p1", "kind": "captured", "amount": 2400, "currency": "USD"}
    moved |= {"named_order": "order-ü", "as_of": "2035-01-01T12:30:00+00:00"}
    sent: dict[str, Any] = {"source": "square", "type": "payment.updated", "tenant_id": "default"}
    first = {"event_id": "e1", "action": {"movements": [moved]}}
    assert store.receive_event(**sent, **first) == {"kind": "payment", "repeated": False, "refused": None}
    assert store.receive_event(**sent, **first) == {"kind": "payment", "repeated": True, "refused": None}
    refused = store.receive_event(event_id="e2", **sent, action={"movements": [moved | {"currency": "EUR"}]})
    assert refused == {"kind": "ignored", "repeated": False, "refused": "payment p1 is in USD, not in EUR"}
    instead = {"amount": 2400, "currency": "USD"}
    assert store.find_offered_payment(job, provider="square") == {"reference": None, "instead": instead}
    right = moved | {"provider_ref": "p2", "event_id": "captured:p2", "amount": 2500}
    store.receive_event(event_id="e3", **sent, action={"movements": [right]})
    assert store.find_offered_payment(job, provider="square")["reference"] == "p2"
    assert store.find_offered_payment(job, provider="http") == {"reference": None, "instead": None}

"""Who takes the money, how services are called, and what jobs may reach."""

from collections.abc import Callable
from typing import Any

import pytest

from lib.errors import SettingsError
from tests.monitoring.doctor.conftest import Examine
from tests.support import square
from tests.support.square import SETTINGS as SQUARE
from tests.support.world import World, settings_of

Make = Callable[..., World]

# An intended ledger, so that only the URLs count.
PRODUCTION = {"GIFTCARD_ENV": "production", "GIFTCARD_LEDGER_IS_MEANT": 1}


# Payments


@pytest.mark.parametrize(
    ("environ", "level"),
    [
        ({"GIFTCARD_ENV": "production"}, "red"),
        ({"GIFTCARD_ENV": None}, "red"),
        ({"GIFTCARD_ENV": None, "VERCEL_ENV": "production"}, "red"),
        ({"GIFTCARD_ENV": "production", "GIFTCARD_LEDGER_IS_MEANT": 0}, "red"),
        (PRODUCTION, "green"),
        ({"GIFTCARD_ENV": "production", "GIFTCARD_PAYMENT_PROVIDER": "http"}, "green"),
        ({"GIFTCARD_ENV": "production", "GIFTCARD_PAYMENT_PROVIDER": "square"}, "green"),
        ({"GIFTCARD_ENV": None, "VERCEL_ENV": "preview"}, "green"),
        ({"GIFTCARD_ENV": "development"}, "green"),
    ],
)
def test_production_that_takes_no_money_has_to_be_meant(
    make_world: Make, examined: Examine, environ: dict[str, Any], level: str
) -> None:
    line = examined(make_world(**environ))["vendors"]
    assert line["level"] == level
    assert line["message"].startswith("customers do not pay: ") is (level == "red")
    assert ("GIFTCARD_LEDGER_IS_MEANT=1" in line["fix"]) is (level == "red")


@pytest.mark.parametrize(
    "name", ["GIFTCARD_PAYMENT_URL", "GIFTCARD_CARD_URL", "GIFTCARD_ALERT_URL", "SQUARE_WEBHOOK_URL", "SUPABASE_URL"]
)
def test_production_does_not_start_with_a_service_in_clear(name: str) -> None:
    for url in ("http://vendor.example", "HTTP://vendor.example", "http://10.0.0.7:8080"):
        with pytest.raises(SettingsError, match=f"{name}: must begin with https://"):
            settings_of(**(PRODUCTION | {name: url}))
    for url in ("https://vendor.example", "http://127.0.0.1:8080", "http://localhost", "http://[::1]"):
        assert settings_of(**(PRODUCTION | {name: url}))
    assert settings_of(**(PRODUCTION | {name: "http://vendor.example", "GIFTCARD_ENV": "development"}))


# Square


@pytest.mark.parametrize(
    ("missing", "found"),
    [
        ("SQUARE_WEBHOOK_URL", "SQUARE_WEBHOOK_URL is not set: events from Square are rejected"),
        ("SQUARE_WEBHOOK_SIGNATURE_KEY", "SQUARE_WEBHOOK_SIGNATURE_KEY is not set: events from Square are rejected"),
        ("SQUARE_MERCHANT_ID", "SQUARE_MERCHANT_ID is not set: events of every merchant count"),
        ("SQUARE_LOCATION_ID", "SQUARE_LOCATION_ID is not set: payments at every location count"),
        (None, "Square is configured"),
    ],
)
def test_square_needs_all_of_its_settings(make_world: Make, examined: Examine, missing: str | None, found: str) -> None:
    line = examined(make_world(**{name: value for name, value in SQUARE.items() if name != missing}))["square"]
    assert (line["level"], line["message"]) == ("red" if missing else "green", found)


def test_a_deployment_without_square_has_no_such_line(make_world: Make, examined: Examine) -> None:
    assert "square" not in examined(make_world())
    assert examined(make_world(GIFTCARD_PAYMENT_PROVIDER="square"))["square"]["level"] == "red"
    assert examined(make_world(SQUARE_MERCHANT_ID="S8GWD5R9QB376"))["square"]["level"] == "red"


def test_events_that_cannot_be_used_are_counted_for_a_day(make_world: Make, examined: Examine) -> None:
    world = make_world(**SQUARE)
    missing = square.payment() | {"type": "payment.updated"}
    del missing["data"]["object"]
    square.send(world, b"no json")
    square.send(world, square.event("catalog.version.updated", object={"catalog": {}}))
    line = examined(world)["square"]
    assert (line["level"], line["message"]) == (
        "yellow",
        "1 event of Square within the last day could not be used, the last: unreadable, "
        "not as expected: the body is no object",
    )
    for _ in range(2):
        square.send(world, missing)  # repeated: it counts once
    line = examined(world)["square"]
    assert line["message"].startswith("2 events of Square")
    assert line["message"].endswith("the last: payment.updated, not as expected: object")
    assert line["fix"]

    world.sql(
        "insert into giftcard_inbound_events (source, event_id, type, kind, tenant_id, facts, received_at)"
        """ select 'square', n, 'x', 'ignored', 'default', '{"why": "not as expected: id"}', now()"""
        " from generate_series(1, 1200) n"
    )
    assert examined(world)["square"]["message"].startswith("at least 1000 events of Square")
    world.sql("update giftcard_inbound_events set received_at = received_at - interval '25 hours'")
    assert examined(world)["square"]["level"] == "green"


# Networks

INNER = "10.0.0.0/8,127.0.0.0/8,169.254.0.0/16,172.16.0.0/12,192.168.0.0/16"


@pytest.mark.parametrize(
    ("networks", "level"),
    [
        ("0.0.0.0/0", "red"),
        ("::/0", "red"),
        ("127.0.0.0/8,::/0", "red"),
        ("0.0.0.0/1,128.0.0.0/1", "red"),
        (INNER, "red"),
        ("::1,fc00::/7,fe80::/10", "red"),
        ("10.0.0.0/8,127.0.0.0/8", "green"),
        ("127.0.0.0/8,::1,10.20.0.0/16", "green"),
    ],
)
def test_networks_that_leave_none_out_are_red(make_world: Make, examined: Examine, networks: str, level: str) -> None:
    line = examined(make_world(GIFTCARD_ALLOWED_NETWORKS=networks))["networks"]
    assert line["level"] == level


def test_without_allowed_networks_there_is_no_such_line(make_world: Make, examined: Examine) -> None:
    assert "networks" not in examined(make_world())

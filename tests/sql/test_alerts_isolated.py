"""One row that cannot be written costs its own channel and condition, and floods no one."""

import pytest

from tests.support.due import ANN, BEN, check, notified, set_circuit
from tests.support.factory import World


def refuse(world: World, table: str, event: str, condition: str, *, silently: bool = False) -> None:
    body = "return null" if silently else "raise exception 'not this row'"
    world.run(f"create function public.no_alert() returns trigger language plpgsql as $$ begin {body}; end $$")
    world.run(
        f"create trigger no_alert before {event} on public.{table} for each row when ({condition})"
        " execute function public.no_alert()"
    )


def faults(world: World) -> list[str]:
    return [row["row_id"] for row in world.rows("select row_id from giftcard_faulty_rows where kind = 'alert'")]


@pytest.mark.parametrize("silently", [False, True])
def test_channel_whose_row_is_refused_is_named_and_the_other_is_notified_once(world: World, silently: bool) -> None:
    set_circuit(world, "open")
    refuse(world, "giftcard_alert_notifications", "insert", f"new.channel = '{ANN}'", silently=silently)
    assert notified(world, ANN, BEN) == {BEN: {"circuit:email": "raised"}}
    assert notified(world, ANN, BEN) == {}
    assert faults(world) == [f"{ANN} circuit:email"]


@pytest.mark.parametrize("silently", [False, True])
def test_notification_that_cannot_be_recorded_is_not_sent_each_minute(world: World, silently: bool) -> None:
    set_circuit(world, "open")
    refuse(
        world,
        "giftcard_alert_notifications",
        "update",
        f"new.channel = '{ANN}' and new.notified_at is not null",
        silently=silently,
    )
    both = {"circuit:email": "raised"}
    assert notified(world, ANN, BEN) == {ANN: both, BEN: both}
    for _ in range(5):
        world.later(70)
        assert notified(world, ANN, BEN) == {}
    assert faults(world) == [f"{ANN} circuit:email"]
    world.later(3600)
    assert check(world, ANN, BEN) == {ANN: both}


def test_condition_whose_row_is_refused_stops_no_other(world: World) -> None:
    set_circuit(world, "open", "a")
    set_circuit(world, "open", "b")
    refuse(world, "giftcard_alerts", "insert", "new.condition = 'circuit:a'")
    assert notified(world) == {ANN: {"circuit:b": "raised"}}
    assert faults(world) == [" circuit:a"]

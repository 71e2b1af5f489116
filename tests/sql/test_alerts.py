"""Which notifications are due, on each channel for itself, at times that a test chooses."""

from datetime import timedelta

from tests.support.due import ANN, BEN, alerts, check, dead_letter, notified, record, set_circuit
from tests.support.factory import STAGES, World

MINUTE, HOUR = 60, 3600


# Each channel counts for itself


def test_each_channel_is_notified_once_and_what_failed_is_due_only_there(world: World) -> None:
    set_circuit(world, "open")
    due = check(world, ANN, BEN)
    assert due == {ANN: {"circuit:email": "raised"}, BEN: {"circuit:email": "raised"}}
    record(world, {ANN: due[ANN]})
    record(world, {BEN: due[BEN]}, sent=False)
    assert check(world, ANN, BEN) == {BEN: {"circuit:email": "raised"}}
    record(world, {BEN: due[BEN]})
    assert notified(world, ANN, BEN) == {}
    world.later(24 * HOUR)
    assert notified(world, ANN, BEN) == {ANN: {"circuit:email": "repeated"}, BEN: {"circuit:email": "repeated"}}
    set_circuit(world, "closed")
    due = check(world, ANN, BEN)
    assert due == {ANN: {"circuit:email": "resolved"}, BEN: {"circuit:email": "resolved"}}
    record(world, {ANN: due[ANN]})
    record(world, {BEN: due[BEN]}, sent=False)
    assert notified(world, ANN, BEN) == {BEN: {"circuit:email": "resolved"}}
    assert notified(world, ANN, BEN) == {}


def test_new_channel_is_notified_of_what_still_holds_and_a_removed_one_keeps_nothing_open(world: World) -> None:
    set_circuit(world, "open")
    assert notified(world, ANN) == {ANN: {"circuit:email": "raised"}}
    assert notified(world, ANN, BEN) == {BEN: {"circuit:email": "raised"}}
    world.later(2 * HOUR)
    set_circuit(world, "closed")
    assert notified(world, ANN) == {ANN: {"circuit:email": "resolved"}}
    assert notified(world, ANN) == {}
    world.later(24 * HOUR)
    assert notified(world, ANN) == {}
    assert alerts(world) == []


def test_check_for_other_channels_forgets_no_end(world: World) -> None:
    """Such as that of a second deployment on the same database, or of one without a channel."""
    set_circuit(world, "open")
    notified(world, ANN)
    set_circuit(world, "closed")
    assert notified(world, BEN) == {}
    assert world.call("check_alerts", stages=STAGES) == []
    assert notified(world, ANN) == {ANN: {"circuit:email": "resolved"}}


def test_channel_that_was_never_notified_gets_no_end(world: World) -> None:
    set_circuit(world, "open")
    due = check(world, ANN, BEN)
    record(world, {ANN: due[ANN]})
    record(world, {BEN: due[BEN]}, sent=False)
    set_circuit(world, "closed")
    assert notified(world, ANN, BEN) == {ANN: {"circuit:email": "resolved"}}
    assert notified(world, ANN, BEN) == {}


def test_channels_that_failed_come_last_the_longest_ago_first(world: World) -> None:
    set_circuit(world, "open")
    for channel in ("mail:c", "mail:a", "mail:b"):
        record(world, check(world, channel), sent=False)
        world.later(MINUTE)
    due = check(world, "mail:a", "mail:b", "mail:c", "mail:d")
    assert list(due) == ["mail:d", "mail:c", "mail:a", "mail:b"]
    record(world, due, sent=None)
    assert list(check(world, "mail:a", "mail:b", "mail:c", "mail:d")) == list(due), "not tried is not failed"


def test_notifications_that_are_not_confirmed_are_due_again_after_a_minute(world: World) -> None:
    set_circuit(world, "open")
    assert check(world)
    assert check(world) == {}
    world.later(MINUTE - 1)
    assert check(world) == {}
    world.later(1)
    assert check(world) == {ANN: {"circuit:email": "raised"}}


def test_condition_that_ends_while_its_alert_is_sent_is_resolved_afterwards(world: World) -> None:
    set_circuit(world, "open")
    due = check(world)
    set_circuit(world, "closed")
    assert check(world) == {}
    record(world, due)
    assert notified(world) == {ANN: {"circuit:email": "resolved"}}


def test_end_that_a_channel_does_not_accept_is_given_up_after_a_day(world: World) -> None:
    set_circuit(world, "open")
    notified(world)
    set_circuit(world, "closed")
    for _ in range(24):
        assert check(world) == {ANN: {"circuit:email": "resolved"}}
        record(world, {ANN: {"circuit:email": "resolved"}}, sent=False)
        world.later(HOUR)
    assert check(world) == {}
    assert alerts(world) == []


# At most one alert an hour


def test_condition_that_comes_and_goes_each_minute_raises_one_alert_an_hour(world: World) -> None:
    sent: list[str] = []
    for minute in range(180):
        set_circuit(world, "closed" if minute % 2 else "open")
        sent += notified(world).get(ANN, {}).values()
        world.later(MINUTE)
    assert sent == ["raised", "resolved"] * 3


def test_dead_letters_that_come_and_go_raise_one_alert_an_hour(world: World) -> None:
    sent: list[str] = []
    for minute in range(120):
        if minute % 2:
            world.run("update giftcard_jobs set status = 'cancelled' where status = 'error'")
        else:
            dead_letter(world)
        sent += notified(world, repeat_hours=0.1).get(ANN, {}).values()
        world.later(MINUTE)
    assert sent == ["raised", "resolved"] * 2


def test_dead_letters_are_repeated_once_an_hour_at_most_however_short_the_interval(world: World) -> None:
    dead_letter(world)
    set_circuit(world, "open", "other")
    kinds: list[tuple[str, str]] = []
    for _ in range(61):
        kinds += notified(world, repeat_hours=0.5).get(ANN, {}).items()
        world.later(MINUTE)
    assert [kind for condition, kind in kinds if condition == "dead_letters"] == ["raised", "repeated"]
    assert [kind for condition, kind in kinds if condition == "circuit:other"] == ["raised", "repeated", "repeated"]


def test_since_is_of_the_present_time_that_it_holds(world: World) -> None:
    since = "select since from giftcard_alerts"
    set_circuit(world, "open")
    notified(world)
    first = world.rows(since)[0]["since"]
    world.later(HOUR)
    world.run("update giftcard_circuits set changed_at = %s", world.now)
    notified(world)
    assert world.rows(since)[0]["since"] == first
    set_circuit(world, "closed")
    notified(world)
    set_circuit(world, "open")
    notified(world)
    assert world.rows(since)[0]["since"] == first + timedelta(hours=1)

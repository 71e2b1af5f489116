"""Alerts whatever the clock does, whatever a row holds, and however many there are."""

import pytest

from tests.support.due import ANN, alerts, check, dead_letter, notified, set_circuit
from tests.support.factory import STAGES, World

HOUR = 3600
KINDS = {
    "dead_letters": "giftcard_dead_letters_condition(timestamptz)",
    "circuit": "giftcard_circuit_conditions()",
    "no_tick": "giftcard_no_tick_condition(timestamptz)",
    "late": "giftcard_late_conditions(jsonb, interval, timestamptz)",
    "books": "giftcard_books_conditions(timestamptz)",
    "limit": "giftcard_limit_condition(jsonb, timestamptz)",
    "denied_requests": "giftcard_denied_condition(timestamptz)",
}


# The clock


@pytest.mark.parametrize("by", ["1 day", "100 years"])
def test_clock_that_goes_back_silences_no_alert(world: World, by: str) -> None:
    dead_letter(world)
    notified(world)
    world.run(
        """update giftcard_alert_notifications set notified_at = notified_at + %s::interval,
                  notified_through = notified_through + %s::interval, failed_at = 'infinity'""",
        by,
        by,
    )
    assert notified(world) == {ANN: {"dead_letters": "raised"}}
    assert notified(world) == {}
    world.run("update giftcard_alert_notifications set notified_through = notified_through + %s::interval", by)
    world.later(HOUR)
    dead_letter(world)
    assert notified(world) == {ANN: {"dead_letters": "repeated"}}


def test_claim_from_before_the_clock_went_back_does_not_hold(world: World) -> None:
    set_circuit(world, "open")
    assert check(world)
    world.later(-2)
    assert check(world) == {ANN: {"circuit:email": "raised"}}


@pytest.mark.parametrize("time", ["infinity", "-infinity", "4713-01-01 BC", "294276-01-01"])
@pytest.mark.parametrize("state", ["open", "closed"])
@pytest.mark.parametrize(
    "column",
    ["notified_at", "notified_through", "end_notified_at", "failed_at", "sending_until", "sending_through", "since",
     "newest", "resolved_at"],
)  # fmt: skip
def test_no_time_in_a_row_stops_the_check(world: World, column: str, time: str, state: str) -> None:
    set_circuit(world, "open", "a")
    notified(world)
    set_circuit(world, state, "a")
    table = "alerts" if column in ("since", "newest", "resolved_at") else "alert_notifications"
    world.run(f"update giftcard_{table} set {column} = %s", time)
    set_circuit(world, "open", "b")
    assert notified(world)[ANN]["circuit:b"] == "raised"
    assert "circuit:b" in [alert["condition"] for alert in world.ask("active_alerts")]
    for _ in range(26):
        world.later(HOUR)
        notified(world)
    assert alerts(world) == (["circuit:a", "circuit:b"] if state == "open" else ["circuit:b"])


# What one row, or one kind, holds


@pytest.mark.parametrize("detail", ["[]", "null", "1", '"text"', '{"newest": "never"}', '{"a": 1e400}'])
def test_no_detail_in_a_row_stops_the_check(world: World, detail: str) -> None:
    for condition in ("dead_letters", "circuit:gone", "no such condition", "", ":", "more:more"):
        world.run(
            "insert into giftcard_alerts (condition, since, detail) values (%s, '-infinity', %s)", condition, detail
        )
        world.run(
            "insert into giftcard_alert_notifications (condition, channel, notified_at) values (%s, %s, %s)",
            condition,
            ANN,
            world.now,
        )
    assert len(world.ask("active_alerts")) == 6
    set_circuit(world, "open")
    due = world.call("check_alerts", stages=STAGES, channels=(ANN,))
    assert all(isinstance(alert["detail"], dict) for alert in due[0]["alerts"])
    kinds = {alert["condition"]: alert["kind"] for alert in due[0]["alerts"]}
    assert kinds["circuit:email"] == "raised"
    assert kinds["dead_letters"] == "resolved"
    assert [alert["condition"] for alert in world.ask("active_alerts")] == ["circuit:email"]


def test_huge_detail_is_left_out(world: World) -> None:
    set_circuit(world, "open")
    notified(world)
    set_circuit(world, "closed")
    world.run("""update giftcard_alerts set detail = jsonb_build_object('text', repeat('x', 10000000))""")
    ((alert,),) = [item["alerts"] for item in world.call("check_alerts", stages=STAGES, channels=(ANN,))]
    assert (alert["kind"], alert["detail"]["unreadable"]) == ("resolved", "too large")


@pytest.mark.parametrize("kind", KINDS)
def test_kind_whose_check_fails_is_a_condition_itself_and_stops_no_other(world: World, kind: str) -> None:
    set_circuit(world, "open")
    dead_letter(world)
    assert notified(world) == {ANN: {"circuit:email": "raised", "dead_letters": "raised"}}
    body = f"public.{KINDS[kind]}"
    (row,) = world.rows(
        "select pg_get_functiondef(%s::regprocedure) as text, pg_get_function_arguments(%s::regprocedure) as a",
        body,
        body,
    )
    world.run(
        f"create or replace function public.{KINDS[kind].partition('(')[0]}({row['a']}) "
        "returns table (condition text, since timestamptz, detail jsonb) language sql stable as "
        "$$ select 'x', now(), jsonb_build_object('x', 1 / (select 0)) $$"
    )
    assert notified(world) == {ANN: {f"check_failed:{kind}": "raised"}}
    assert notified(world) == {}, "what cannot be checked is not over"
    failed = {alert["condition"]: alert["detail"] for alert in world.ask("active_alerts")}[f"check_failed:{kind}"]
    assert failed == {"sqlstate": "22012", "error": "division by zero"}
    world.run(row["text"].replace("%", "%%"))
    assert notified(world) == {ANN: {f"check_failed:{kind}": "resolved"}}


@pytest.mark.parametrize("name", ["x" * 2600, "{0} {subject} {braces!r}", "a\tb\x07c", "email:%s%%"])
def test_no_name_of_a_circuit_stops_the_check(world: World, name: str) -> None:
    set_circuit(world, "open", name)
    set_circuit(world, "open")
    due = notified(world)[ANN]
    assert len(due) == 2
    assert due["circuit:email"] == "raised"
    assert notified(world) == {}


# Lists that are cut


def test_more_circuits_than_are_listed_are_an_alert_of_their_own(world: World) -> None:
    world.run(
        """insert into giftcard_circuits (circuit, state, changed_at, open_until)
           select 'c' || lpad(n::text, 3, '0'), 'open', %s, 'infinity' from generate_series(1, 107) n""",
        world.now,
    )
    due = notified(world)[ANN]
    assert len(due) == 101
    assert due["more:circuit"] == "raised"
    detail = {alert["condition"]: alert["detail"] for alert in world.ask("active_alerts")}
    assert detail["more:circuit"] == {"more": 7}
    world.run("update giftcard_circuits set state = 'closed' where circuit > 'c100'")
    assert notified(world) == {ANN: {"more:circuit": "resolved"}}


def test_more_late_stages_than_are_listed_are_an_alert_of_their_own(world: World) -> None:
    stages = {f"s{number:03}": 60 for number in range(103)}
    for stage in stages:
        world.enqueue(stage)
    world.later(HOUR)
    due = world.call("check_alerts", stages=stages, channels=(ANN,))
    late = {alert["condition"]: alert for alert in due[0]["alerts"]}
    assert len([condition for condition in late if condition.startswith("late:")]) == 100
    assert late["more:late"]["detail"] == {"more": 3}


def test_active_alerts_say_how_many_more_there_are(world: World) -> None:
    world.run("insert into giftcard_alerts (condition, since) select n::text, 'epoch' from generate_series(1, 212) n")
    *listed, last = world.ask("active_alerts")
    assert len(listed) == 200
    assert (last["condition"], last["detail"], last["notified_at"]) == ("more:alerts", {"more": 12}, None)


def test_number_of_dead_letters_that_is_capped_is_marked(world: World) -> None:
    world.run(
        """insert into giftcard_jobs (correlation_id, stage, circuit, status, finished_at)
           select n::text, 'email', 'email', 'error', %s::timestamptz - interval '1 hour'
             from generate_series(1, 1001) n""",
        world.now,
    )
    (detail,) = [item["alerts"][0]["detail"] for item in world.call("check_alerts", stages=STAGES, channels=(ANN,))]
    assert (detail["jobs"], detail["at_least"]) == (1000, True)

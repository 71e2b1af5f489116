"""The table itself: a plain INSERT is a good job, and a bad value is refused by a name that says why."""

from datetime import UTC, datetime, timedelta

import psycopg
import pytest

from tests.support.factory import World

# A plain INSERT


def test_a_plain_insert_is_a_good_job(world: World) -> None:
    world.run("""insert into giftcard_jobs (correlation_id, stage, payload) values ('flow-1', 'email', '{"n": 1}')""")
    (row,) = world.rows("select * from giftcard_jobs")
    assert (row["tenant_id"], row["dedup_key"], row["circuit"], row["status"]) == ("default", "", "email", "queued")
    assert (row["attempts"], row["run_no"], row["semantics"], row["ttr_seconds"]) == (0, 0, "at_least_once", None)
    assert abs(row["scheduled_at"] - datetime.now(UTC)) < timedelta(minutes=1)
    (claimed,) = world.claim()
    assert (claimed.payload, claimed.context, claimed.attempts) == ({"n": 1}, {}, 1)


def test_a_plain_insert_of_several_rows_fills_each_circuit(world: World) -> None:
    world.run("insert into giftcard_jobs (correlation_id, stage) values ('a', 'email'), ('b', 'payment')")
    assert [r["circuit"] for r in world.rows("select circuit from giftcard_jobs order by id")] == ["email", "payment"]


def test_a_plain_insert_may_name_its_circuit(world: World) -> None:
    world.run("insert into giftcard_jobs (correlation_id, stage, circuit) values ('a', 'http_call', 'http_call:7')")
    assert world.rows("select circuit from giftcard_jobs") == [{"circuit": "http_call:7"}]


# Values that are refused

NAMED = [
    ("status", "'done'", "giftcard_jobs_status_is_known"),
    ("semantics", "'twice'", "giftcard_jobs_semantics_is_known"),
    ("tenant_id", "''", "giftcard_jobs_ids_are_not_empty"),
    ("correlation_id", "''", "giftcard_jobs_ids_are_not_empty"),
    ("stage", "''", "giftcard_jobs_ids_are_not_empty"),
    ("circuit", "'payment'", "giftcard_jobs_circuit_belongs_to_stage"),
    ("circuit", "'emails'", "giftcard_jobs_circuit_belongs_to_stage"),
    ("payload", "'[1]'", "giftcard_jobs_payload_is_an_object"),
    ("payload", "'null'", "giftcard_jobs_payload_is_an_object"),
    ("context", "'1'", "giftcard_jobs_payload_is_an_object"),
    ("attempts", "-1", "giftcard_jobs_attempts_are_counted"),
    ("run_no", "-1", "giftcard_jobs_runs_are_counted"),
    ("revivals", "-1", "giftcard_jobs_attempts_are_counted"),
    ("max_attempts", "0", "giftcard_jobs_max_attempts_is_positive"),
    ("max_attempts", "-3", "giftcard_jobs_max_attempts_is_positive"),
    ("ttr_seconds", "0", "giftcard_jobs_ttr_is_positive"),
    ("ttr_seconds", "-60", "giftcard_jobs_ttr_is_positive"),
    ("retry_delays", "'{5,-1}'", "giftcard_jobs_retry_delays_are_positive"),
    ("retry_delays", "'{5,null}'", "giftcard_jobs_retry_delays_are_positive"),
    ("retry_delays", "'{NaN}'", "giftcard_jobs_retry_delays_are_positive"),
    ("retry_delays", "'{Infinity}'", "giftcard_jobs_retry_delays_are_positive"),
    ("retry_delays", "'{{1,2},{3,4}}'", "giftcard_jobs_retry_delays_are_positive"),
]


@pytest.mark.parametrize(("column", "value", "constraint"), NAMED)
def test_a_bad_value_is_refused_by_a_named_constraint(world: World, column: str, value: str, constraint: str) -> None:
    columns, values = ["correlation_id", "stage"], ["'flow-1'", "'email'"]
    if column in columns:
        values[columns.index(column)] = value
    else:
        columns, values = [*columns, column], [*values, value]
    with pytest.raises(psycopg.errors.CheckViolation) as caught:
        world.run(f"insert into giftcard_jobs ({', '.join(columns)}) values ({', '.join(values)})")
    assert caught.value.diag.constraint_name == constraint


@pytest.mark.parametrize("how", ["insert", "update"])
def test_a_payload_nested_too_deeply_is_refused_however_it_comes(world: World, how: str) -> None:
    deep = '{"a":' * 120 + "1" + "}" * 120
    statements = {
        "insert": "insert into giftcard_jobs (correlation_id, stage, payload) values ('flow-2', 'email', %s)",
        "update": "update giftcard_jobs set payload = %s",
    }
    before = world.snapshot(world.enqueue())
    with pytest.raises(psycopg.errors.CheckViolation) as caught, world.connection.transaction():
        world.run(statements[how], deep)
    assert caught.value.diag.constraint_name == "giftcard_jobs_payload_is_not_too_deep"
    assert before == world.snapshot(before[0][0]["id"])


UNREADABLE = {
    "is_not_too_deep": '{"a":' * 120 + "1" + "}" * 120,
    "numbers_are_short": '{"n": [' + "9" * 400 + "]}",
    "numbers_are_short, exponents too": '{"a": {"n": -1e5000}}',
}


@pytest.mark.parametrize("name", UNREADABLE)
@pytest.mark.parametrize("table", ["jobs", "schedules"])
def test_a_payload_that_clients_cannot_read_is_refused(world: World, table: str, name: str) -> None:
    world.run("insert into giftcard_schedules (schedule, stage) values ('* * * * *', 'email')")
    world.enqueue()
    columns, values = "correlation_id, stage", "'flow-2', 'email'"
    if table == "schedules":
        columns, values = "schedule, stage", "'* * * * *', 'email'"
    for statement in (
        f"insert into giftcard_{table} ({columns}, payload) values ({values}, %s)",
        f"update giftcard_{table} set payload = %s",
    ):
        with pytest.raises(psycopg.errors.CheckViolation) as caught, world.connection.transaction():
            world.run(statement, UNREADABLE[name])
        assert caught.value.diag.constraint_name == f"giftcard_{table}_payload_{name.partition(',')[0]}"


def test_a_payload_at_the_limits_is_stored(world: World) -> None:
    for number, payload in enumerate(
        ('{"a":' * 99 + "1" + "}" * 99, '{"n": [' + "9" * 308 + ", 1e307, 0." + "1" * 500 + "]}")
    ):
        statement = "insert into giftcard_jobs (correlation_id, stage, payload) values (%s, 'email', %s)"
        world.run(statement, f"limit-{number}", payload)


@pytest.mark.parametrize("column", ["payload", "status", "scheduled_at", "attempts", "correlation_id"])
def test_an_explicit_null_is_refused(world: World, column: str) -> None:
    others = [c for c in ("correlation_id", "stage") if c != column]
    places = ", ".join(["%s"] * len(others))
    with pytest.raises(psycopg.errors.NotNullViolation) as caught:
        world.run(f"insert into giftcard_jobs ({', '.join([*others, column])}) values ({places}, null)", *others)
    assert caught.value.diag.column_name == column


@pytest.mark.parametrize("table", ["giftcard_jobs", "giftcard_schedules"])
@pytest.mark.parametrize("by", ["insert", "update"])
def test_payload_that_a_claim_could_not_carry_is_refused(world: World, table: str, by: str) -> None:
    names = {"giftcard_jobs": "correlation_id", "giftcard_schedules": "schedule"}
    large = "jsonb_build_object('a', repeat(chr(1), 2000000))"
    first, values = f"{names[table]}, stage", "'* * * * *', 'email'"
    statement = f"insert into {table} ({first}, payload) values ({values}, {large})"
    if by == "update":
        world.run(f"insert into {table} ({first}) values ({values})")
        statement = f"update {table} set payload = {large}"
    with pytest.raises(psycopg.errors.CheckViolation, match="more than 8,000,000 bytes") as caught:
        world.run(statement)
    assert caught.value.diag.constraint_name == f"{table}_payload_is_not_too_large"

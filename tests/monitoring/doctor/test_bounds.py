"""Secrets of jobs that no job can send, and queues that anyone may write."""

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from tests.monitoring.doctor.conftest import Examine
from tests.support.postgrest.roles import make_like_supabase
from tests.support.queues import Queues
from tests.support.world import World

Make = Callable[..., World]
OPEN = "grant usage on schema pgmq to {role}; grant insert on pgmq.q_calls to {role}"


def test_without_secrets_of_jobs_there_is_no_line(healthy: World, examined: Examine) -> None:
    assert "job_secrets" not in examined(healthy)


def test_secrets_without_hosts_are_red(make_world: Make, examined: Examine) -> None:
    secrets = {f"GIFTCARD_SECRET_{name}": f"value-of-{name}" for name in "BAC"}
    line = examined(make_world(**secrets, GIFTCARD_SECRET_C_HOSTS="api.example.com"))["job_secrets"]
    assert (line["level"], line["message"]) == (
        "red", "no job can send these secrets, because they have no hosts: A, B"
    )  # fmt: skip
    assert "GIFTCARD_SECRET_A_HOSTS" in line["fix"]
    assert "value-of" not in str(line)
    hosts = {f"{name}_HOSTS": "api.example.com" for name in secrets}
    assert examined(make_world(**secrets, **hosts))["job_secrets"]["level"] == "green"


def test_hosts_of_a_secret_that_is_not_set_name_the_secret(make_world: Make, examined: Examine) -> None:
    line = examined(make_world(GIFTCARD_SECRET_CRM_HOSTS="api.example.com"))["variables"]
    assert (line["level"], line["message"]) == (
        "red", "unknown variables: GIFTCARD_SECRET_CRM_HOSTS (GIFTCARD_SECRET_CRM is not set)"
    )  # fmt: skip


@pytest.fixture
def world(make_world: Make, connection: psycopg.Connection[Any]) -> World:
    Queues(connection).create("calls")
    made = make_world(GIFTCARD_PGMQ_QUEUES="calls:http_call")
    make_like_supabase(made.url)
    return made


def found(world: World, examined: Examine) -> tuple[str, str]:
    line = examined(world)["pgmq"]
    return line["level"], line["message"]


@pytest.mark.parametrize("role", ["anon", "authenticated", "public"])
def test_a_queue_that_a_web_role_may_write_is_red(world: World, examined: Examine, role: str) -> None:
    assert found(world, examined)[0] == "green"
    for statement in OPEN.format(role=role).split(";"):
        world.sql(f"{statement}; select 1")
    level, message = found(world, examined)
    assert (level, f"{role}" in message, "may write messages into calls" in message) == ("red", True, True)


@pytest.mark.parametrize(
    ("change", "level"),
    [
        ("revoke usage on schema pgmq from anon", "green"),
        ("revoke insert on pgmq.q_calls from anon", "green"),
        ("alter table pgmq.q_calls enable row level security", "green"),
        ("alter table pgmq.q_calls enable row level security; create policy p on pgmq.q_calls for select", "green"),
        ("alter table pgmq.q_calls enable row level security; create policy p on pgmq.q_calls for insert to"
         " authenticated with check (true)", "green"),
        ("alter table pgmq.q_calls enable row level security; create policy p on pgmq.q_calls for insert to anon"
         " with check (true)", "red"),
        ("alter table pgmq.q_calls enable row level security; create policy p on pgmq.q_calls", "red"),
    ],
)  # fmt: skip
def test_a_grant_counts_where_nothing_takes_it_back(world: World, examined: Examine, change: str, level: str) -> None:
    for statement in (*OPEN.format(role="anon").split(";"), *change.split(";")):
        world.sql(f"{statement}; select 1")
    assert found(world, examined)[0] == level

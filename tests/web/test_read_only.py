"""A database that only reads, as Supabase makes it at 95 % of its disk: known to all, nobody's fault, and soon over."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from lib.cli import jobs
from lib.store.postgres import PostgresWire
from tests.support.world import ADMIN, API, CRON, World, an_order, bearer

Make = Callable[..., World]
CSV = """correlation_id,external_id,given_name,family_name,email,amount,currency,message,deliver_at
,C-1,Kate,Rodgers,kate@example.com,25.00,USD,,
"""


@contextmanager
def read_only(world: World) -> Iterator[None]:
    """New connections only read. So do those of that time, for as long as they live."""
    name = world.value("select current_database()")
    with psycopg.connect(world.url, autocommit=True) as connection:
        connection.execute(f"alter database {name} set default_transaction_read_only = on".encode())
        world.store.close()
        try:
            yield
        finally:
            connection.execute(f"alter database {name} reset default_transaction_read_only".encode())


def doctor(world: World) -> dict[str, Any]:
    checks = world.client.get("/api/status", headers=bearer(ADMIN)).json["doctor"]
    return {check["check"]: check for check in checks}


def test_everybody_is_told_and_nobody_is_at_fault(world: World) -> None:
    job_id = world.add("email", an_order())
    with read_only(world):
        answers = [
            world.client.post("/api/v1/giftcards", json=an_order(), headers=bearer(API)),
            world.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON)),
            world.client.post(f"/api/v1/jobs/{job_id}/cancel", headers=bearer(ADMIN)),
        ]
        assert [answer.status_code for answer in answers] == [503, 503, 503]
        assert {answer.json["title"] for answer in answers} == {"the database is read-only"}
        health = world.client.get("/api/health")
        assert (health.status_code, health.json) == (503, {"status": "read_only"})
        line = doctor(world)["writable"]
        assert (line["level"], line["fix"] != "") == ("red", True)
    assert world.client.get("/api/health").json == {"status": "up"}
    assert doctor(world)["writable"]["level"] == "green"
    assert world.job(job_id)["attempts"] == 0


@pytest.mark.parametrize("call", ["order", "tick", "cancel", "pause"])
def test_the_next_call_works_whatever_connections_are_left(make_world: Make, database_url: str, call: str) -> None:
    wire = PostgresWire(database_url)
    world = make_world(wire=wire)
    job_id = world.add("email", an_order())
    with read_only(world):
        held = [wire._connections.take(until=time.monotonic() + 10) for _ in range(12)]
        for connection in held:
            wire._connections.give_back(connection)
    answer = {
        "order": lambda: world.submit(),
        "tick": lambda: world.client.get("/api/cron/giftcard-jobs", headers=bearer(CRON)),
        "cancel": lambda: world.client.post(f"/api/v1/jobs/{job_id}/cancel", headers=bearer(ADMIN)),
        "pause": lambda: world.client.post("/api/v1/stages/email/pause", json={"by": "k"}, headers=bearer(ADMIN)),
    }[call]()
    assert answer.status_code in (200, 202), answer.text


def test_the_import_of_a_file_stops_and_counts_no_row_as_wrong(world: World) -> None:
    world.app.cli.add_command(jobs)

    def run() -> Any:
        return world.app.test_cli_runner().invoke(args=["jobs", "import-orders", "-", "--json"], input=CSV)

    with read_only(world):
        ended = run()
        assert ended.exit_code == 1, ended.output
        assert "the import stopped at line 2: the database " in ended.stderr
        assert "0 orders before it were taken: import the same file again" in ended.stderr
    outcome = json.loads(run().stdout)
    assert (outcome["created"], outcome["repeated"], outcome["wrong"]) == (1, 0, [])


def test_the_doctor_sees_that_it_is_over(world: World) -> None:
    with read_only(world):
        assert doctor(world)["writable"]["level"] == "red"
    assert doctor(world)["writable"]["level"] == "green"


def test_a_replica_is_told_by_its_name(world: World) -> None:
    world.sql("create function in_recovery() returns boolean language sql as 'select true'")
    for function in ("giftcard_health", "giftcard_doctor"):
        source = world.value("select pg_get_functiondef(oid) from pg_proc where proname = %s", function)
        world.sql(source.replace("pg_is_in_recovery()", "public.in_recovery()").replace("%", "%%"))
    health = world.client.get("/api/health")
    assert (health.status_code, health.json) == (503, {"status": "in_recovery"})
    line = doctor(world)["writable"]
    assert (line["level"], "recovery" in line["message"]) == ("red", True)


def test_a_limit_of_temporary_files_is_no_full_disk(world: World) -> None:
    name = world.value("select current_database()")
    world.sql(f"alter database {name} set temp_file_limit = 0")
    world.store.close()
    health = world.client.get("/api/health")
    assert (health.status_code, health.json) == (200, {"status": "up"})
    assert doctor(world)["writable"]["level"] == "green"


def test_a_full_disk_has_its_own_words(world: World) -> None:
    assert world.value("select public.giftcard_disk_is_full()") is False
    world.sql(
        """create or replace function public.giftcard_disk_is_full() returns boolean language sql as 'select true'"""
    )
    health = world.client.get("/api/health")
    assert (health.status_code, health.json) == (503, {"status": "disk_full"})
    line = doctor(world)["writable"]
    assert (line["level"], line["message"]) == (
        "red",
        "the disk of the database is full: no order is taken and no job ends",
    )
    world.sql("""create function refuse() returns trigger language plpgsql as
                 $$ begin raise disk_full using message = 'could not extend file: No space left on device'; end $$""")
    world.sql("create trigger refuse before insert on giftcard_orders for each row execute function refuse()")
    answer = world.submit()
    assert (answer.status_code, answer.json["title"]) == (503, "the disk of the database is full")
    assert answer.json["detail"] == "nothing was changed: repeat the request"

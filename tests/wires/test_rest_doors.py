"""The doors over HTTP: whoever is not service_role reads no table, runs no function and sees no row."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import httpx
import psycopg
import pytest

from dev.postgres import Embedded
from tests.support.postgrest.caller import ANON_KEY, PUBLISHABLE_KEY, SECRET_KEY, SERVICE_ROLE_KEY, jwt
from tests.support.postgrest.server import stand_in

FORGED = jwt("service_role", secret="guessed-guessed-guessed-guessed-guessed")
# What is said, and how it may be answered.
STRANGERS: Mapping[str, tuple[Mapping[str, str], int]] = {
    "no key": ({}, 401),
    "a publishable key": ({"apikey": PUBLISHABLE_KEY}, 401),
    "an anon key": ({"apikey": ANON_KEY, "Authorization": f"Bearer {ANON_KEY}"}, 401),
    "a user": ({"apikey": PUBLISHABLE_KEY, "Authorization": f"Bearer {jwt('authenticated')}"}, 403),
    "a forged token": ({"apikey": PUBLISHABLE_KEY, "Authorization": f"Bearer {FORGED}"}, 401),
    "a forged key": ({"apikey": FORGED, "Authorization": f"Bearer {FORGED}"}, 401),
    "a token for no project": ({"apikey": "", "Authorization": f"Bearer {SERVICE_ROLE_KEY}"}, 401),
    "an older key without its token": ({"apikey": SERVICE_ROLE_KEY}, 401),
}
REFUSED = {"42501", "PGRST301", None}
FUNCTIONS = """
    select p.proname, (
             select coalesce(array_agg(a.name), '{}') from unnest(p.proargnames, p.proargtypes::oid[]) a(name, type)
              where a.type is not null and a.type <> 0)
      from pg_proc p
     where p.pronamespace = 'public'::regnamespace and p.proname like 'giftcard%' and p.prorettype <> 'trigger'::regtype
     order by 1
"""


@dataclass(frozen=True, slots=True)
class House:
    """What there is to guard, behind its HTTP address. Functions with the names of their arguments."""

    client: httpx.Client
    functions: Mapping[str, list[str]]
    tables: list[str]


@pytest.fixture(scope="module")
def house(postgres: Embedded, template: str) -> Iterator[House]:
    """With a job in it that somebody could see."""
    url = postgres.create_database("guarded", template=template)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("insert into giftcard_jobs (correlation_id, stage) values ('kates-order', 'email')")
        functions = dict(connection.execute(FUNCTIONS.encode()).fetchall())
        tables = [r[0] for r in connection.execute("select tablename from pg_tables where tablename like 'giftcard%%'")]
    with stand_in(url) as server, httpx.Client(base_url=f"{server.url}/rest/v1/") as client:
        yield House(client, functions, tables)
    postgres.drop_database("guarded")


def is_refused(response: httpx.Response, status: int) -> bool:
    assert "kates-order" not in response.text
    return response.status_code == status and response.json().get("code") in REFUSED


def test_there_is_something_to_guard(house: House) -> None:
    assert len(house.functions) > 30
    assert len(house.tables) > 10


@pytest.mark.parametrize("who", STRANGERS)
def test_a_stranger_runs_no_function(house: House, who: str) -> None:
    headers, status = STRANGERS[who]
    ran = [
        (name, response.text)
        for name, arguments in house.functions.items()
        for response in [house.client.post(f"rpc/{name}", json=dict.fromkeys(arguments), headers=headers)]
        if not is_refused(response, status)
    ]
    assert ran == []


@pytest.mark.parametrize("who", STRANGERS)
def test_a_stranger_reads_no_table(house: House, who: str) -> None:
    headers, status = STRANGERS[who]
    read = [table for table in house.tables if not is_refused(house.client.get(table, headers=headers), status)]
    assert read == []


def test_the_service_role_runs_functions_and_reads_tables(house: House) -> None:
    headers = {"apikey": SECRET_KEY}
    assert house.client.post("rpc/giftcard_status", headers=headers).json()["counts"] == {"email": {"queued": 1}}
    assert house.client.get("giftcard_jobs", headers=headers).json()[0]["correlation_id"] == "kates-order"


def test_what_the_service_role_was_answered_is_not_kept_for_a_stranger(house: House) -> None:
    """PostgREST prepares statements, and the plan of an immutable function without arguments is its answer."""
    headers, status = STRANGERS["a publishable key"]
    bare = [name for name, arguments in house.functions.items() if not arguments]
    assert bare
    for name in bare:
        for _ in range(10):
            house.client.post(f"rpc/{name}", headers={"apikey": SECRET_KEY})
        assert is_refused(house.client.post(f"rpc/{name}", headers=headers), status), name

"""The stand-in answers as PostgREST does: fact by fact, over plain HTTP."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from dev.postgres import Embedded
from tests.support.postgrest.caller import ANON_KEY, SECRET_KEY, jwt
from tests.support.postgrest.roles import make_like_supabase
from tests.support.postgrest.server import Server, stand_in
from tests.wires import facts
from tests.wires.facts import ANY, Fact, of

TABLE = [
    fact
    for group in (
        facts.LOOKUP,
        facts.ARGUMENTS,
        facts.RESULTS,
        facts.ASKING,
        facts.TRANSACTION,
        facts.ERRORS,
        facts.CALLERS,
    )
    for fact in group
]


@pytest.fixture(scope="module")
def database(postgres: Embedded) -> Iterator[str]:
    """With the functions of `facts.sql`."""
    url = postgres.create_database("facts")
    make_like_supabase(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute((Path(__file__).parent / "facts.sql").read_bytes())
    yield url
    postgres.drop_database("facts")


@pytest.fixture(scope="module")
def server(database: str) -> Iterator[Server]:
    with stand_in(database) as server:
        yield server


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{server.url}/rest/v1/", timeout=10) as client:
        yield client


def ask(client: httpx.Client, fact: Fact) -> httpx.Response:
    headers = {"apikey": SECRET_KEY} | fact.headers
    if fact.method != "POST":
        return client.request(fact.method, fact.path, headers=headers)
    if isinstance(fact.content, bytes):
        return client.post(fact.path, content=fact.content, headers={"Content-Type": "application/json"} | headers)
    return client.post(fact.path, json=fact.content, headers=headers)


def fits(said: Any, expected: Any) -> bool:
    if isinstance(expected, dict) and isinstance(said, dict):
        return list(said) == list(expected) and all(fits(said[key], expected[key]) for key in expected)
    return expected is ANY or (type(said), said) == (type(expected), expected)


@pytest.mark.parametrize("fact", TABLE, ids=lambda fact: fact.says)
def test_it_answers_as_postgrest_does(client: httpx.Client, fact: Fact) -> None:
    response = ask(client, fact)
    assert response.status_code == fact.status, response.text
    told = {name: response.headers.get(name) for name in fact.answered}
    assert told == dict(fact.answered)
    said = response.json() if response.content else None
    assert fits(said, fact.body), said


def test_every_error_of_postgrest_is_named_in_proxy_status(client: httpx.Client) -> None:
    for fact in TABLE:
        code = fact.body.get("code") if isinstance(fact.body, dict) else None
        if fact.status >= 300 and code:
            assert ask(client, fact).headers["Proxy-Status"] == f"PostgREST; error={code}", fact.says


def test_facts_are_told_apart_by_their_names() -> None:
    names = [fact.says for fact in TABLE]
    assert len(names) == len(set(names)) > 100


def test_nothing_is_left_of_a_call_that_fails(client: httpx.Client, database: str) -> None:
    """Also if PostgREST finds that only when the function has ended."""
    one = {"Accept": "application/vnd.pgrst.object+json", "apikey": SECRET_KEY}
    assert client.post("rpc/add_things", json={"ids": [70, 71]}, headers=one).status_code == 406
    assert client.post("rpc/add_things", json={"ids": [72, 1]}, headers=one).status_code == 409
    with psycopg.connect(database) as connection:
        assert connection.execute("select count(*) from things where id between 70 and 72").fetchone() == (0,)


def test_headers_are_told_in_lower_case(client: httpx.Client) -> None:
    response = client.post(
        "rpc/setting", json={"name": "request.headers"}, headers={"apikey": SECRET_KEY, "X-Client-Info": "tests"}
    )
    assert '"x-client-info": "tests"' in response.json()


@pytest.mark.parametrize(("ago", "status"), [(10, 200), (40, 401)])
def test_clocks_may_differ_by_half_a_minute(client: httpx.Client, ago: int, status: int) -> None:
    token = jwt("service_role", exp=int(time.time()) - ago)
    assert client.post("rpc/who", headers=of(ANON_KEY, token)).status_code == status


def test_the_schema_is_read_anew_when_it_changes(client: httpx.Client, database: str) -> None:
    def call() -> int:
        return client.post("rpc/later", headers={"apikey": SECRET_KEY}).status_code

    assert call() == 404
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("create function public.later() returns integer language sql as 'select 1'")
    deadline = time.monotonic() + 5
    while call() == 404 and time.monotonic() < deadline:
        time.sleep(0.02)
    assert call() == 200


def test_a_database_that_is_away_is_503(database: str) -> None:
    with stand_in(database) as server, psycopg.connect(database, autocommit=True) as connection:
        headers = {"apikey": SECRET_KEY}
        assert httpx.post(f"{server.url}/rest/v1/rpc/nothing", headers=headers).status_code == 204
        connection.execute("alter role authenticator nologin")
        connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where usename = 'authenticator'")
        try:
            codes = [httpx.post(f"{server.url}/rest/v1/rpc/nothing", headers=headers).json()["code"] for _ in range(3)]
        finally:
            connection.execute("alter role authenticator login")
    assert codes[-1] == "PGRST000"
    assert set(codes) <= {"PGRST000", "PGRST001", "57P01"}

"""Databases of tests: each is a copy of its own, also after a test has stopped the server."""

import psycopg
import pytest

from dev.postgres import Embedded
from dev.testing.databases import Databases


def tables(url: str) -> int:
    with psycopg.connect(url) as connection:
        row = connection.execute("select count(*) from pg_tables where tablename like 'giftcard%'").fetchone()
    assert row
    found: int = row[0]
    return found


def names(postgres: Embedded) -> set[str]:
    with psycopg.connect(postgres.url) as connection:
        rows = connection.execute("select datname from pg_database where datname like 'test%'").fetchall()
    return {name for (name,) in rows}


def test_each_test_has_a_copy_that_is_dropped_with_the_next(
    databases: Databases, postgres: Embedded, template: str
) -> None:
    with databases.fresh(template) as first, databases.fresh("template1") as second:
        assert tables(first) > 20
        assert tables(second) == 0
        used = {url.split("/")[3].partition("?")[0] for url in (first, second)}
        assert used <= names(postgres)
    with databases.fresh("template1"):
        assert not used & names(postgres)


@pytest.mark.slow
def test_a_copy_is_made_after_a_test_has_stopped_the_server(
    databases: Databases, postgres: Embedded, template: str
) -> None:
    with databases.fresh(template) as url:
        assert tables(url) > 20
    postgres.stop()
    with databases.fresh(template) as url:
        assert tables(url) > 20

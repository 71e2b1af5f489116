"""The database of a simulation: the product's own schema, with a clock that the simulation sets.

The schema's files are loaded as they are, but for two words: `clock_timestamp()` and `now()` become a function of ours
that returns `giftcard_proof.now`, and `gen_random_uuid()` one that draws from the seed.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

import psycopg
from psycopg import pq

from dev import ROOT
from dev.postgres import Settings
from lib.store.exchange import Values
from lib.store.statements import encode

# No transaction is ever committed, and nothing has to outlive the server.
SETTINGS: Settings = {
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "autovacuum": "off",
    "max_connections": 20,
    # Each claim of a night leaves its advisory lock to the one transaction.
    "max_locks_per_transaction": 4096,
    "shared_buffers": "64MB",
    "jit": "off",
}
_OURS = """
create schema giftcard_proof;
create function giftcard_proof.clock() returns timestamptz language sql stable
  return current_setting('giftcard_proof.now')::timestamptz;
create function giftcard_proof.uuid() returns uuid language sql volatile
  return md5(random()::text)::uuid;
"""
# A function that stages may call as they settle.
_PAID = """
create table giftcard_proof.paid (job bigint);
create function public.pay(p_arguments jsonb) returns void language sql as $$
  insert into giftcard_proof.paid values ((p_arguments ->> 'job')::bigint) $$;
"""
_CLOCKS = re.compile(r"\b(?:pg_catalog\.)?(?:clock_timestamp|now)\(\)")
_UUIDS = re.compile(r"\bgen_random_uuid\(\)")
# What functions leave for the rest of their transaction, which is one call's in production.
_BEGIN = (
    "savepoint call; set local giftcard_proof.now = '{}'; set local giftcard.writer = '';"
    " set local giftcard.wakes = ''; set local giftcard.commits_at = ''"
)
_COMMIT = b"set constraints all immediate; set constraints all deferred; release savepoint call"
_ROLLBACK = b"rollback to savepoint call; release savepoint call"
_FINE = (pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK)


def schema() -> str:
    """Return the schema, with our clock."""
    files = sorted((ROOT / "supabase" / "schemas").glob("*.sql"))
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    return _UUIDS.sub("giftcard_proof.uuid()", _CLOCKS.sub("giftcard_proof.clock()", text))


class Database:
    """One connection, whose calls are subtransactions of a transaction that a seed rolls back."""

    def __init__(self, url: str) -> None:
        self._connection = psycopg.connect(url, autocommit=True)
        self._prepared: dict[bytes, bytes] = {}
        self._now = ""

    def load(self, changes: Sequence[tuple[str, str, str]] = ()) -> None:
        """Load the schema into an empty database, with what a planted bug changes in it."""
        if self._connection.execute("select to_regclass('public.giftcard_jobs')").fetchone() != (None,):
            self._connection.execute("select set_config('giftcard_proof.now', '2031-03-04 00:00:00+00', false)")
            return
        self._connection.execute("select set_config('giftcard_proof.now', '2031-03-04 00:00:00+00', false)")
        self._connection.execute(_OURS)
        self._connection.execute(changed(schema(), changes).encode())
        self._connection.execute(_PAID)

    @contextmanager
    def night(self, seed: int) -> Iterator[None]:
        """Begin the transaction of a seed; roll it back at the end."""
        self._exec(b"begin; select setseed(%.6f)" % (seed % 999_983 / 999_983))
        self._exec(_RESTART)
        try:
            yield
        finally:
            self._exec(b"rollback")

    def call(self, statement: bytes, values: Values, *, at: datetime, read_only: bool = False) -> bytes | None:
        """Call a function as a transaction of its own, which commits. Return what it returns, as text.

        Raises:
            psycopg.Error: it is refused, and was rolled back.
        """
        self._exec(_BEGIN.format(at.isoformat()).encode())
        try:
            if read_only:
                self._exec(b"set local transaction_read_only = on")
            result = self._run(statement, values)
            self._exec(_COMMIT)
        except psycopg.Error:
            self._exec(_ROLLBACK)
            raise
        return result.get_value(0, 0) if result.ntuples else None

    def run(self, statement: str, *, at: datetime) -> None:
        """Run a statement of an operator's own, as a transaction of its own."""
        self.call(statement.encode(), [], at=at)

    def rows(self, query: str, *arguments: object) -> list[tuple[str | None, ...]]:
        """Return the rows of a query, as text."""
        result = self._run(query.encode(), encode(arguments))
        count = range(result.nfields)
        texts = ([result.get_value(row, column) for column in count] for row in range(result.ntuples))
        return [tuple(None if text is None else text.decode() for text in row) for row in texts]

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _exec(self, statement: bytes) -> None:
        _checked(self._connection.pgconn.exec_(statement))

    def _run(self, statement: bytes, values: Values) -> pq.abc.PGresult:
        pgconn = self._connection.pgconn
        name = self._prepared.get(statement)
        if name is None:
            name = self._prepared[statement] = b"s%d" % len(self._prepared)
            _checked(pgconn.prepare(name, statement))
        return _checked(pgconn.exec_prepared(name, values))  # type: ignore[arg-type]


# Each night counts its rows from 1.
_RESTART = b"""
do $$ declare r record; begin
  for r in select s.oid::regclass as name from pg_catalog.pg_class s where s.relkind = 'S'
             and s.relnamespace = 'public'::regnamespace loop
    execute format('alter sequence %s restart', r.name);
  end loop;
end $$"""


def changed(text: str, changes: Sequence[tuple[str, str, str]]) -> str:
    """Return the schema with the changes of a planted bug: in each function so named, text becomes other text.

    Without a name, anywhere. A text that is not there is an error: the bug would not be planted.
    """
    for function, old, new in changes:
        begin = text.index(f"create function public.{function}(") if function else 0
        end = text.find("\ncreate function ", begin) if function else -1
        body = text[begin : end if end > 0 else len(text)]
        assert old in body, f"{function} has no text {old!r}: the bug cannot be planted"
        text = text[:begin] + body.replace(old, new) + text[begin + len(body) :]
    return text


def _checked(result: pq.abc.PGresult) -> pq.abc.PGresult:
    if result.status not in _FINE:
        raise psycopg.errors.error_from_result(result)
    return result

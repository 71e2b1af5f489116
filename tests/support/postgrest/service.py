"""One request: a transaction of one call, as the caller's role."""

import json
from dataclasses import dataclass, field
from typing import Any

import psycopg

from tests.support.postgrest import statements
from tests.support.postgrest.caller import Caller, identify
from tests.support.postgrest.database import SCHEMAS, Database
from tests.support.postgrest.problems import Problem, of_postgres
from tests.support.postgrest.requests import Request
from tests.support.postgrest.routines import Routine

_JSON = {"Content-Type": "application/json; charset=utf-8"}
_OBJECT = {"Content-Type": "application/vnd.pgrst.object+json; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class Answer:
    """`content` None: there is none, and nothing is said of its type and length."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    content: bytes | None = None


class Service:
    """Answers requests over one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def answer(self, request: Request) -> Answer:
        """Never raises but for a fault of its own."""
        try:
            return self._answer(request, identify(request.headers))
        except Problem as problem:
            return Answer(problem.status, problem.headers, json.dumps(problem.body).encode())

    def _answer(self, request: Request, caller: Caller) -> Answer:
        match request.path.strip("/").split("/"):
            case ["rpc", name]:
                return self._call(name, request, caller)
            case [table] if table and request.method == "GET":
                return self._read(table, request, caller)
        raise Problem(404, "PGRST125", "Invalid path specified in request URL")

    def _call(self, name: str, request: Request, caller: Caller) -> Answer:
        if request.method not in ("GET", "HEAD", "POST"):
            raise Problem(405, "PGRST101", f"Cannot use the {request.method} method on RPC")
        schema = request.schema(SCHEMAS)
        posted = request.content_type if request.method == "POST" else None
        routine = self._database.cache.find(schema, name, request.names(), posted=posted)
        one = request.wants_one_object()
        prefer = request.prefer
        prefer.refuse_unknown(request.headers.get("prefer", ""))
        if prefer.strict and prefer.max_affected is not None and not routine.many:
            raise Problem(
                400,
                "PGRST128",
                "Function must return SETOF or TABLE when max-affected preference is used with handling=strict",
            )
        statement, values = statements.call(routine, request, one=one, count=prefer.exact_count)
        row = self._run(request, caller, statement, values, routine=routine, one=one)
        answer = _told(row, prefer_applied=prefer.applied, one=one, head=request.method == "HEAD")
        if not routine.void:
            return answer
        headers = {name: value for name, value in answer.headers.items() if name != "Content-Type"}
        return Answer(204 if answer.status == 200 else answer.status, headers)

    def _read(self, table: str, request: Request, caller: Caller) -> Answer:
        schema = request.schema(SCHEMAS)
        if (schema, table) not in self._database.cache.tables:
            raise Problem(404, "PGRST205", f"Could not find the table '{schema}.{table}' in the schema cache")
        statement = statements.read(schema, table, count=request.prefer.exact_count)
        row = self._run(request, caller, statement, [], routine=None, one=False)
        return _told(row, prefer_applied=request.prefer.applied, one=False, head=False)

    def _run(
        self, request: Request, caller: Caller, statement: Any, values: list[Any], *, routine: Routine | None, one: bool
    ) -> tuple[Any, ...]:
        """The transaction. What ends it early rolls it back."""
        prefer = request.prefer
        try:
            with self._database.transaction(request, caller, routine) as connection:
                row = connection.execute(statement, values).fetchone()
                assert row
                if one and row[1] != 1:
                    details = f"The result contains {row[1]} rows"
                    raise Problem(406, "PGRST116", "Cannot coerce the result to a single JSON object", details=details)
                if prefer.strict and prefer.max_affected is not None and row[1] > prefer.max_affected:
                    message = "Query result exceeds max-affected preference constraint"
                    raise Problem(400, "PGRST124", message, details=f"The query affects {row[1]} rows")
                return row
        except psycopg.Error as error:
            raise of_postgres(error, authenticated=caller.authenticated) from None


def _told(row: tuple[Any, ...], *, prefer_applied: str, one: bool, head: bool) -> Answer:
    """The answer, with what the function has set itself: response.status and response.headers."""
    total, rows, body, own_headers, own_status = row
    headers = {"Content-Range": f"{f'0-{rows - 1}' if rows else '*'}/{'*' if total is None else total}"}
    headers |= {"Preference-Applied": prefer_applied} if prefer_applied else {}
    headers |= _OBJECT if one else _JSON
    status = 206 if total is not None and rows < total else 200
    if own_headers is not None:
        headers |= _own_headers(own_headers)
    if own_status is not None:
        if not own_status.isdigit():
            raise Problem(500, "PGRST112", "response.status guc must be a valid status code")
        status = int(own_status)
    return Answer(status, headers, b"" if head else body.encode())


def _own_headers(text: str) -> dict[str, str]:
    message = "response.headers guc must be a JSON array composed of objects with a single key and a string value"
    try:
        given = json.loads(text)
        pairs = [pair for item in given for pair in item.items()]
        if any(len(item) != 1 for item in given) or not all(isinstance(value, str) for _, value in pairs):
            raise ValueError(message)
    except (ValueError, AttributeError, TypeError):
        raise Problem(500, "PGRST111", message) from None
    return dict(pairs)

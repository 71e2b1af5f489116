"""The SQL of one call: as PostgREST writes it, as far as the answer depends on it."""

import json
from typing import Any

from psycopg.sql import SQL, Composable, Composed, Identifier, Placeholder

from tests.support.postgrest.requests import Request
from tests.support.postgrest.routines import Parameter, Routine

# The rows of a set that are answered at most: Supabase's default.
MAX_ROWS = 1000

_ANSWER = SQL(
    "with source as ({source}) select {total}, count(*), {body}::text,"
    " nullif(current_setting('response.headers', true), ''), nullif(current_setting('response.status', true), '')"
    " from (select * from source limit {limit}) _postgrest_t"
)


def call(routine: Routine, request: Request, *, one: bool, count: bool) -> tuple[Composed, list[Any]]:
    """A statement that answers (rows in all or null, rows answered, body, response.headers, response.status)."""
    function = Identifier(routine.schema, routine.name)
    before, arguments, values = _arguments(routine, request)
    if routine.composite:
        source = SQL("select c.* from {}{}({}) c").format(before, function, arguments)
        element: Composable = SQL("_postgrest_t")
    else:
        source = SQL("select c.scalar from {}(select {}({}) as scalar) c").format(before, function, arguments)
        element = SQL("_postgrest_t.scalar")
    return _answer(source, element, many=routine.many and not one, count=count), values


def read(schema: str, table: str, *, count: bool) -> Composed:
    """The same of a table."""
    source = SQL("select * from {}").format(Identifier(schema, table))
    return _answer(source, SQL("_postgrest_t"), many=True, count=count)


def _answer(source: Composed, element: Composable, *, many: bool, count: bool) -> Composed:
    body = SQL("coalesce(json_agg({}), '[]')" if many else "coalesce(json_agg({})->0, 'null')")
    return _ANSWER.format(
        source=source,
        total=SQL("(select count(*) from source)" if count else "null::bigint"),
        body=body.format(element),
        limit=MAX_ROWS,
    )


def _arguments(routine: Routine, request: Request) -> tuple[Composable, Composable, list[Any]]:
    """What stands before the call in its FROM, its arguments, and the values of its placeholders."""
    if routine.takes_the_body:
        text = request.content.decode() or ("{}" if request.content_type == "application/json" else "")
        return SQL(""), SQL("%s::") + SQL(routine.parameters[0].type), [text]  # type: ignore[arg-type]
    names = request.names()
    given = [parameter for parameter in routine.parameters if parameter.name in names]
    if not given:
        return SQL(""), SQL(""), []
    if request.method != "POST":
        values: list[Any] = [request.query[parameter.name] for parameter in given]
        return (
            SQL(""),
            SQL(", ").join(_assign(parameter, Placeholder() + _cast(parameter)) for parameter in given),
            values,
        )
    columns = SQL(", ").join(Identifier(parameter.name) + SQL(" ") + SQL(parameter.type) for parameter in given)
    before = SQL("(select %s::json as body) p, lateral (select * from json_to_record(p.body) as _({})) b, lateral ")
    arguments = SQL(", ").join(_assign(parameter, Identifier("b", parameter.name)) for parameter in given)
    return before.format(columns), arguments, [_first_object(request.content)]


def _assign(parameter: Parameter, value: Composable) -> Composed:
    variadic = SQL("variadic " if parameter.variadic else "")
    return variadic + Identifier(parameter.name) + SQL(" := ") + value


def _cast(parameter: Parameter) -> SQL:
    return SQL("::" + parameter.type)  # type: ignore[arg-type]


def _first_object(content: bytes) -> str:
    """The text as it came: reading and writing it again could change its numbers."""
    text = content.decode()
    return text if text.lstrip().startswith("{") else json.dumps(json.loads(text)[0])

"""How PostgREST 14 to 16 answers, as a table: read in its source and tests. `facts.sql` has the functions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.postgrest.caller import ANON_KEY, PUBLISHABLE_KEY, SECRET_KEY, SERVICE_ROLE_KEY, jwt

ANY: Any = object()
JSON = "application/json; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A request and its answer. `body` is read as JSON; None: there is none. A header that is None is absent."""

    says: str
    path: str
    status: int = 200
    body: Any = ANY
    method: str = "POST"
    content: Any = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    answered: Mapping[str, str | None] = field(default_factory=dict)


def rpc(says: str, function: str, content: Any = None, **more: Any) -> Fact:
    """A call with the secret key. `content`: JSON, or the body as it is."""
    return Fact(says=says, path=f"rpc/{function}", content={} if content is None else content, **more)


def error(code: str, message: Any = ANY, details: Any = None, hint: Any = None) -> dict[str, Any]:
    """The body of an error, key by key in this order."""
    return {"code": code, "message": message, "details": details, "hint": hint}


def missing(function: str, *names: str, hint: Any = None) -> dict[str, Any]:
    listed = ", ".join(names)
    told = f"public.{function}({listed})" if names else f"public.{function} without parameters"
    searched = f"parameter{'s' if len(names) > 1 else ''} {listed}"
    with_names = f"with {searched}" if names else "without parameters"
    return error(
        "PGRST202",
        f"Could not find the function {told} in the schema cache",
        f"Searched for the function public.{function} {with_names} or with a single unnamed json/jsonb parameter, "
        "but no matches were found in the schema cache.",
        hint,
    )


LOOKUP = [
    rpc("all required arguments, an optional one missing", "add", {"a": 1}, body=11),
    rpc("all arguments", "add", {"a": 1, "b": 2}, body=3),
    rpc("a required argument is missing", "add", {"b": 2}, status=404, body=missing("add", "b", hint=ANY)),
    rpc("one too many: names are told in order", "add", {"z": 0, "a": 1}, status=404,
        body=missing("add", "a", "z", hint=ANY)),
    rpc("a like name is a hint", "adds", status=404,
        body=missing("adds", hint="Perhaps you meant to call the function public.add")),
    rpc("nothing is like it", "xyzzy", status=404, body=missing("xyzzy"),
        answered={"Proxy-Status": "PostgREST; error=PGRST202"}),
    rpc("overloaded: the names decide", "over", {"b": "x"}, body="text"),
    rpc("overloaded with the same names: nobody can choose", "twice", {"a": 1}, status=300, body=error("PGRST203",
        "Could not choose the best candidate function between: public.twice(a => integer), public.twice(a => text)",
        hint=ANY)),
    rpc("no argument has to be given if none is required", "optional", body=[1, 2]),
    rpc("one unnamed json takes the whole body", "whole_json", {"a": [1]}, body={"a": [1]}),
    rpc("one unnamed text takes a text/plain body", "whole_text", b"abc", body="ABC",
        headers={"Content-Type": "text/plain"}),
    rpc("a variadic is one array", "many_of", {"p": ["a", "b"]}, body=2),
    rpc("a procedure is not a function", "a_procedure", status=404, body=missing("a_procedure", hint=ANY)),
    rpc("a trigger is not called", "a_trigger", status=404, body=missing("a_trigger", hint=ANY)),
]  # fmt: skip

ARGUMENTS = [
    rpc("text is cast to the argument's type", "add", {"a": "5"}, body=15),
    rpc("text that is no number is refused", "add", {"a": "five"}, status=400,
        body=error("22P02", 'invalid input syntax for type integer: "five"')),
    rpc("null is passed, the default is not taken", "is_null", {"p": None}, body=True),
    rpc("what is not there takes the default", "is_null", body=False),
    rpc("a JSON array becomes an SQL array", "of_array", {"p": ["a", "b,c"]}, body="a|b,c"),
    rpc("jsonb stays what it is", "echo", {"p": {"a": [None, 1.5, "é𝄞"]}}, body={"a": [None, 1.5, "é𝄞"]}),
    rpc("a big id is not rounded", "of_big", {"p": 2**63 - 1}, body=2**63 - 1),
    rpc("one that is too big is refused", "of_big", {"p": 2**63}, status=400, body=error("22003")),
    rpc("NaN as text is a float", "of_float", {"p": "NaN"}, body="NaN"),
    rpc("NUL cannot be text", "of_array", {"p": ["a\0"]}, status=400,
        body=error("22P05", details="\\u0000 cannot be converted to text.")),
    rpc("of an array of objects the first counts", "add", [{"a": 1}, {"a": 2}], body=11),
    rpc("whose keys must match", "add", [{"a": 1}, {"b": 2}], status=400,
        body=error("PGRST102", "All object keys must match")),
    rpc("an empty body is no arguments", "optional", b"", body=[1, 2]),
    rpc("a body that is no JSON", "add", b"{a: 1}", status=400, body=error("PGRST102", "Empty or invalid json")),
    rpc("NaN is no JSON", "echo", b'{"p": NaN}', status=400, body=error("PGRST102", "Empty or invalid json")),
    rpc("GET takes arguments from the query", "add?a=1&b=2", method="GET", body=3),
]  # fmt: skip

RESULTS = [
    rpc("void has no body, and says nothing of one", "nothing", status=204, body=None,
        answered={"Content-Type": None, "Content-Length": None, "Content-Range": "0-0/*"}),
    rpc("a scalar is bare JSON", "add", {"a": 1}, body=11, answered={"Content-Type": JSON, "Content-Range": "0-0/*"}),
    rpc("null is null", "no_number", body=None, answered={"Content-Length": "4"}),
    rpc("a set of scalars is an array", "numbers", {"n": 3}, body=[1, 2, 3], answered={"Content-Range": "0-2/*"}),
    rpc("an empty set is an empty array", "numbers", {"n": 0}, body=[], answered={"Content-Range": "*/*"}),
    rpc("OUT arguments are an object", "pair", body={"x": 1, "y": "one"}),
    rpc("one OUT argument is an object too", "single_out", body={"x": 7}),
    rpc("a composite is an object", "a_composite", body={"a": 1, "b": "x"}),
    rpc("no composite is an object of nulls", "no_composite", body={"a": None, "b": None}),
    rpc("a table is an array of objects", "table_of", {"n": 1}, body=[{"i": 1, "t": "row 1"}]),
    rpc("a set is cut at 1,000 rows", "numbers", {"n": 1500}, body=list(range(1, 1001)),
        answered={"Content-Range": "0-999/*"}),
    rpc("a table too", "table_of", {"n": 1500}, answered={"Content-Range": "0-999/*"}),
    rpc("one JSON value is not", "a_list", {"n": 1500}, body=list(range(1, 1501))),
    rpc("one object, if one is asked for", "table_of", {"n": 1}, body={"i": 1, "t": "row 1"},
        headers={"Accept": "application/vnd.pgrst.object+json"}),
    rpc("and there are more", "table_of", {"n": 2}, status=406, headers={"Accept": "application/vnd.pgrst.object+json"},
        body=error("PGRST116", "Cannot coerce the result to a single JSON object", "The result contains 2 rows")),
    rpc("response.status and response.headers are the function's own", "set_reply",
        {"status": "418", "headers": '[{"X-Tea": "green"}]'}, status=418, body=1, answered={"X-Tea": "green"}),
    rpc("a status that is none", "set_reply", {"status": "tea"}, status=500, body=error("PGRST112")),
    rpc("headers that are none", "set_reply", {"headers": '{"X-Tea": 1}'}, status=500, body=error("PGRST111")),
]  # fmt: skip

ASKING = [
    rpc("another method is refused", "add", method="DELETE", status=405,
        body=error("PGRST101", "Cannot use the DELETE method on RPC")),
    rpc("HEAD has no body", "add?a=1", method="HEAD", body=None, answered={"Content-Type": JSON}),
    rpc("a media type that is not to be had", "add", {"a": 1}, status=406, headers={"Accept": "image/png"},
        body=error("PGRST107", "None of these media types are available: image/png")),
    rpc("a body that cannot be read", "add", b"a=1", status=400, headers={"Content-Type": "image/png"},
        body=error("PGRST102", "Content-Type not acceptable: image/png")),
    rpc("a schema that is not exposed", "add", {"a": 1}, status=406, headers={"Content-Profile": "secret"},
        body=error("PGRST106", "Invalid schema: secret", None, "Only the following schemas are exposed: public")),
    rpc("POST does not look at Accept-Profile", "add", {"a": 1}, headers={"Accept-Profile": "secret"}, body=11),
    rpc("GET does", "add?a=1", method="GET", status=406, headers={"Accept-Profile": "secret"},
        body=error("PGRST106", hint=ANY)),
    Fact(says="a path that leads nowhere", path="rpc/add/more", status=404,
         body=error("PGRST125", "Invalid path specified in request URL")),
    Fact(says="a table is read", path="things", method="GET", body=[{"id": 1, "name": "one"}]),
    Fact(says="a table that is not there", path="nothings", method="GET", status=404,
         body=error("PGRST205", "Could not find the table 'public.nothings' in the schema cache")),
    rpc("rows are counted if asked", "numbers", {"n": 1500}, status=206, headers={"Prefer": "count=exact"},
        answered={"Content-Range": "0-999/1500", "Preference-Applied": "count=exact"}),
    rpc("a time zone, if asked", "setting", {"name": "timezone"}, headers={"Prefer": "timezone=Asia/Tokyo"},
        body="Asia/Tokyo"),
    rpc("nobody may ask for a rollback", "add_thing", {"id": 80}, headers={"Prefer": "tx=rollback"}, body=80,
        answered={"Preference-Applied": None}),
    rpc("a preference that is none is ignored", "add", {"a": 1}, headers={"Prefer": "anything"}, body=11),
    rpc("unless handling is strict", "add", {"a": 1}, headers={"Prefer": "handling=strict, anything"}, status=400,
        body=error("PGRST122", "Invalid preferences given with handling=strict", "Invalid preferences: anything")),
    rpc("max-affected is for sets", "add", {"a": 1}, status=400, body=error("PGRST128"),
        headers={"Prefer": "handling=strict, max-affected=1"}),
    rpc("and ends what has more", "numbers", {"n": 2}, status=400,
        headers={"Prefer": "handling=strict, max-affected=1"},
        body=error("PGRST124", details="The query affects 2 rows")),
]  # fmt: skip

TRANSACTION = [
    rpc("it is the role of the key", "who", body="service_role"),
    rpc("settings of the function are those of the transaction", "sleep", {"seconds": 1}, status=500,
        body=error("57014", "canceling statement due to statement timeout")),
    rpc("isolation too", "isolated", body="serializable"),
    rpc("else it is read committed", "setting", {"name": "transaction_isolation"}, body="read committed"),
    rpc("stable and immutable functions read only", "read_only", body="on"),
    rpc("so they cannot write", "add_thing_quietly", {"id": 90}, status=405, body=error("25006")),
    rpc("GET reads only", "setting?name=transaction_read_only", method="GET", body="on"),
    rpc("the path holds schema and extensions", "setting", {"name": "search_path"}, body='"public", "extensions"'),
    rpc("service_role has the time limit of the login", "setting", {"name": "statement_timeout"}, body="8s"),
    rpc("anon has one of its own", "setting", {"name": "statement_timeout"}, body="3s",
        headers={"apikey": PUBLISHABLE_KEY}),
    rpc("the method is told", "setting", {"name": "request.method"}, body="POST"),
    rpc("the path is told", "setting", {"name": "request.path"}, body="/rpc/setting"),
]  # fmt: skip

ERRORS = [
    rpc("a unique constraint is named by the message alone", "add_thing", {"id": 1}, status=409, body=error("23505",
        'duplicate key value violates unique constraint "things_pkey"', "Key (id)=(1) already exists.")),
    rpc("a foreign key", "add_part", {"thing_id": 9}, status=409, body=error("23503", details=ANY)),
    rpc("a check", "add_thing", {"id": 2, "name": "too long"}, status=400, body=error("23514", details=ANY)),
    rpc("our own code, with its detail and hint", "fail",
        {"state": "GC404", "message": "gone", "detail": "id", "hint": "look"}, status=400,
        body=error("GC404", "gone", "id", "look"), answered={"Proxy-Status": "PostgREST; error=GC404"}),
    rpc("PT is a status", "fail_plainly", {"state": "PT418", "message": "tea"}, status=418, body=error("PT418", "tea")),
    rpc("or none", "fail_plainly", {"state": "PT40A", "message": "tea"}, status=500, body=error("PT40A", "tea")),
    rpc("PGRST says everything itself", "fail",
        {"state": "PGRST", "message": '{"code": "X1", "message": "tea"}',
         "detail": '{"status": 418, "headers": {"X-Tea": "1"}}'},
        status=418, body=error("X1", "tea"), answered={"X-Tea": "1"}),
    rpc("if it can be read", "fail", {"state": "PGRST", "message": "tea"}, status=500,
        body=error("PGRST121", ANY, ANY, ANY)),
    rpc("as a role that is not there is told", "fail_plainly", {"state": "22023", "message": 'role "x" does not exist'},
        status=401, body=error("22023", 'role "x" does not exist')),
    rpc("without WHERE, with safeupdate", "fail_plainly",
        {"state": "21000", "message": "DELETE requires a WHERE clause"}, status=400, body=error("21000", ANY)),
    rpc("forbidden to a known caller", "forbidden", status=403,
        body=error("42501", "permission denied for function forbidden")),
    rpc("forbidden to an unknown one", "forbidden", status=401, headers={"apikey": PUBLISHABLE_KEY},
        body=error("42501"), answered={"WWW-Authenticate": "Bearer"}),
    *(
        rpc(f"SQLSTATE {state}", "fail_plainly", {"state": state, "message": "no"}, status=status,
            body=error(state, "no"))
        for state, status in {
            "08006": 503, "09000": 500, "0L000": 403, "0P000": 403, "21000": 500, "22023": 400, "22P02": 400,
            "25006": 405, "25P02": 500, "28000": 403, "2D000": 500, "38000": 500, "39000": 500, "3B000": 500,
            "40001": 500, "40P01": 500, "42883": 404, "42P01": 404, "42P17": 500, "42501": 403, "42601": 400,
            "53300": 503, "53400": 500, "54000": 500, "55P03": 500, "57014": 500, "57P01": 503, "58000": 500,
            "F0000": 500, "HV000": 500, "P0001": 400, "P0002": 500, "XX000": 500, "GC400": 400, "GC410": 400,
        }.items()
    ),
]  # fmt: skip


def of(key: str | None, token: str | None = None) -> dict[str, str]:
    """The headers of a caller. `token`: what is said as Bearer."""
    return ({"apikey": key} if key else {}) | ({"Authorization": f"Bearer {token}"} if token else {})


def refused(says: str, status: int, body: Any, headers: Mapping[str, str]) -> Fact:
    return rpc(says, "who", status=status, body=body, headers=headers)


STRANGER = jwt("service_role", secret="of another project, with at least 32 characters")
NO_KEY = {"message": "No API key found in request", "hint": ANY}

CALLERS = [
    rpc("a secret key is service_role", "who", body="service_role", headers=of(SECRET_KEY)),
    rpc("also if it is said twice", "who", body="service_role", headers=of(SECRET_KEY, SECRET_KEY)),
    rpc("a publishable key is anon", "who", body="anon", headers=of(PUBLISHABLE_KEY)),
    rpc("the older keys are JWTs", "who", body="service_role", headers=of(SERVICE_ROLE_KEY, SERVICE_ROLE_KEY)),
    rpc("alone they say nothing of the role", "who", body="anon", headers=of(SERVICE_ROLE_KEY)),
    rpc("a user's JWT has its own role", "who", body="authenticated", headers=of(ANON_KEY, jwt("authenticated"))),
    rpc("a JWT without a role is anon", "who", body="anon", headers=of(ANON_KEY, jwt(None))),
    rpc("claims are told, always with the role", "setting", {"name": "request.jwt.claims"},
        body='{"iss": "supabase", "role": "anon"}', headers=of(ANON_KEY, jwt(None))),
    refused("no key", 401, NO_KEY, {"apikey": ""}),
    refused("a key of another project", 401, {"message": "Invalid API key", "hint": ANY}, of("sb_secret_other")),
    refused("a JWT signed by another", 401, error("PGRST301", "No suitable key or wrong key type"),
            of(ANON_KEY, STRANGER)),
    refused("no JWT at all", 401, error("PGRST301", "Expected 3 parts in JWT; got 1"), of(ANON_KEY, "abc")),
    refused("a JWT that has expired", 401, error("PGRST303", "JWT expired"), of(ANON_KEY, jwt("service_role", exp=9))),
    refused("a JWT of tomorrow", 401, error("PGRST303", "JWT not yet valid"),
            of(ANON_KEY, jwt("anon", nbf=4_102_444_800))),
    refused("a role that is not there", 401, error("22023", 'role "boss" does not exist'), of(ANON_KEY, jwt("boss"))),
    refused("a role that authenticator may not take", 403, error("42501", ANY), of(ANON_KEY, jwt("postgres"))),
]  # fmt: skip

"""What is Supabase's own: keys, the gateway before PostgREST, and what is sent."""

import json
import traceback
from collections.abc import Iterator
from contextlib import closing

import httpx
import pytest

from lib.errors import GiftcardError, Misconfigured, Refused, Unavailable
from lib.store.supabase import SupabaseWire
from supabase import ClientOptions, create_client
from tests.support.postgrest.caller import ANON_KEY, PUBLISHABLE_KEY, SECRET_KEY, SERVICE_ROLE_KEY, jwt
from tests.support.postgrest.server import Server
from tests.wires.script import Script, scripted


@pytest.fixture
def script() -> Iterator[Script]:
    with scripted() as script:
        yield script


def a_wire(url: str, key: str = SECRET_KEY, *, variable: str = "SUPABASE_SECRET_KEY") -> "closing[SupabaseWire]":
    return closing(SupabaseWire(url, key, key_variable=variable))


def refused(url: str, key: str = SECRET_KEY, **more: str) -> GiftcardError:
    """The error of a call, after a look that it holds no key."""
    with a_wire(url, key, **more) as wire, pytest.raises(GiftcardError) as raised:
        wire.call("giftcard_schema_version")
    told = "".join(traceback.format_exception(raised.value))
    assert key not in f"{told} {raised.value!r} {vars(raised.value)}"
    assert raised.value.__cause__ is None
    return raised.value


# What is sent


def test_a_call_is_what_the_whole_of_supabase_py_sends(script: Script) -> None:
    arguments = {"p_jobs": [{"payload": {"é": 2**60}}], "p_replace": None}
    with httpx.Client() as client:
        whole = create_client(script.url, SERVICE_ROLE_KEY, ClientOptions(httpx_client=client))
        whole.rpc("giftcard_enqueue", arguments).execute()
    with a_wire(script.url + "/", SERVICE_ROLE_KEY) as wire:
        wire.call("giftcard_enqueue", jobs=arguments["p_jobs"], replace=None)
    (theirs, ours) = script.asked
    assert (ours[0], ours[1], json.loads(ours[3])) == (theirs[0], theirs[1], json.loads(theirs[3]))
    assert ours[1] == "/rest/v1/rpc/giftcard_enqueue"
    names = ("apikey", "authorization", "content-type", "content-profile", "accept")
    assert [ours[2].get(name) for name in names] == [theirs[2].get(name) for name in names]


def test_a_new_key_is_no_token_of_its_own(script: Script) -> None:
    with a_wire(script.url) as wire:
        wire.call("giftcard_schema_version")
    headers = script.asked[0][2]
    assert headers["apikey"] == SECRET_KEY
    assert "authorization" not in headers


def test_an_older_key_is(script: Script) -> None:
    with a_wire(script.url, SERVICE_ROLE_KEY) as wire:
        wire.call("giftcard_schema_version")
    assert script.asked[0][2]["authorization"] == f"Bearer {SERVICE_ROLE_KEY}"


@pytest.mark.parametrize("key", [SECRET_KEY, SERVICE_ROLE_KEY], ids=["new", "older"])
def test_either_key_may_call(supabase: Server, key: str) -> None:
    with a_wire(supabase.url, key) as wire:
        assert wire.call("giftcard_schema_version")["version"] >= 1


# Keys that will not do


@pytest.mark.parametrize(
    ("key", "says"),
    [
        (PUBLISHABLE_KEY, "the role of SUPABASE_SECRET_KEY may not call .* not the publishable or anon key"),
        (ANON_KEY, "the role of SUPABASE_SECRET_KEY may not call .* not the publishable or anon key"),
        ("sb_secret_of_another_project", "SUPABASE_SECRET_KEY is not a key of the project .* Invalid API key"),
        (jwt("service_role", secret="x" * 40), "SUPABASE_SECRET_KEY is not a key of the project .* Invalid API key"),
    ],
    ids=["publishable", "anon", "another project's", "another project's JWT"],
)
def test_a_wrong_key_is_told_by_its_variable(supabase: Server, key: str, says: str) -> None:
    error = refused(supabase.url, key)
    assert isinstance(error, Misconfigured)
    with pytest.raises(Misconfigured, match=says):
        raise error


def test_the_variable_is_the_one_that_was_set(supabase: Server) -> None:
    error = refused(supabase.url, "sb_secret_other", variable="SUPABASE_SERVICE_ROLE_KEY")
    assert "SUPABASE_SERVICE_ROLE_KEY is not a key" in str(error)


# Whoever else may answer

HTML = {"Content-Type": "text/html"}
JSON = {"Content-Type": "application/json; charset=utf-8"}


def pgrst(code: str) -> bytes:
    return json.dumps({"code": code, "message": "the reason", "details": None, "hint": None}).encode()


ANSWERS = {
    "a gateway that is down": (502, HTML, b"<h1>Bad gateway</h1>", Unavailable, "502"),
    "a paused project": (540, HTML, b"paused", Unavailable, "540"),
    "a gateway's own JSON": (503, JSON, b'{"message": "no upstream"}', Unavailable, "503 no upstream"),
    "too many requests": (429, JSON, b'{"message": "slow down"}', Unavailable, "429 slow down"),
    "a gateway's timeout": (504, JSON, b"", Unavailable, "504"),
    "an unknown key": (401, JSON, b'{"message": "Invalid API key", "hint": "x"}', Misconfigured, "SUPABASE_SECRET_KEY"),
    "a firewall": (403, HTML, b"no", Misconfigured, "SUPABASE_SECRET_KEY is not a key"),
    "another site": (404, HTML, b"no", Misconfigured, "no PostgREST at SUPABASE_URL: 404"),
    "a page of HTML": (200, HTML, b"welcome", Misconfigured, "no PostgREST at SUPABASE_URL: 200"),
    "a redirect": (301, {"Location": "/x"}, b"", Misconfigured, "no PostgREST at SUPABASE_URL: 301"),
    "JSON of another kind": (422, JSON, b'{"code": 422, "msg": "x"}', Misconfigured, "422"),
    "half of an answer": (200, JSON | {"Content-Length": "99"}, b'{"version"', Unavailable, "RemoteProtocolError"),
    "no connection": (503, JSON, pgrst("PGRST000"), Unavailable, "the reason"),
    "a lost connection": (503, JSON, pgrst("PGRST001"), Unavailable, "the reason"),
    "no schema cache": (503, JSON, pgrst("PGRST002"), Unavailable, "the reason"),
    "a full pool": (504, JSON, pgrst("PGRST003"), Unavailable, "the reason"),
    "a stale schema": (404, JSON, pgrst("PGRST202"), Misconfigured, r"make migrate.*notify pgrst, 'reload schema'"),
    "two of one name": (300, JSON, pgrst("PGRST203"), Misconfigured, "run the migrations"),
    "a schema that is shut": (406, JSON, pgrst("PGRST106"), Misconfigured, "public is not exposed"),
    "a wrong path": (404, JSON, pgrst("PGRST125"), Misconfigured, "check SUPABASE_URL"),
    "a token of another": (401, JSON, pgrst("PGRST301"), Misconfigured, "SUPABASE_SECRET_KEY is not a key"),
    "a token of yesterday": (401, JSON, pgrst("PGRST303"), Misconfigured, "or has expired"),
    "a role that may not": (403, JSON, pgrst("42501"), Misconfigured, "the role of SUPABASE_SECRET_KEY may not call"),
    "a refusal": (400, JSON, pgrst("GC409"), Refused, "the reason"),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_every_answer_is_told_for_what_it_is(script: Script, what: str) -> None:
    script.status, script.headers, script.body, kind, says = ANSWERS[what]
    error = refused(script.url)
    assert type(error) is kind
    with pytest.raises(kind, match=says):
        raise error


def test_a_redirect_is_not_followed_with_the_key(script: Script) -> None:
    script.status, script.headers = 307, {"Location": script.url + "/elsewhere"}
    refused(script.url)
    assert [path for _, path, _, _ in script.asked] == ["/rest/v1/rpc/giftcard_schema_version"]


def test_a_host_that_is_not_there_is_unavailable() -> None:
    assert isinstance(refused("http://no-such-project.invalid"), Unavailable)


def test_a_schema_that_is_not_read_anew_is_told_with_what_to_do(supabase: Server) -> None:
    with a_wire(supabase.url) as wire, pytest.raises(Misconfigured) as raised:
        wire.call("giftcard_of_tomorrow", job_id=1)
    assert "Could not find the function public.giftcard_of_tomorrow(p_job_id) in the schema cache" in str(raised.value)

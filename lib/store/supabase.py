"""The wire over supabase-py: each call is an RPC of PostgREST, a POST of JSON over HTTPS.

Of supabase-py only its client of PostgREST is imported. `supabase.Client.rpc` hands each call to that and does nothing
else, while importing the whole takes twice as long (auth, storage, realtime, functions): a user's cold start.
"""

import math
from typing import Any

import httpx
from postgrest import APIError, SyncPostgrestClient

from lib.errors import GiftcardError, Misconfigured, Refused, Unavailable
from lib.store.sqlstate import from_sqlstate
from lib.store.wire import repeated

# Seconds. Supabase ends a statement of ours after 8: it shall give up first, and say so.
_TIMEOUT = httpx.Timeout(10, connect=5)
# A connection outlives the second between two looks of a tick. One of a function that was frozen for long is not used.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=30)


class SupabaseWire:
    """Safe across threads: the HTTP client keeps connections, and gives each to one call at a time.

    `key_variable` is the name of the setting that the key came from: messages say it, never the key.
    """

    def __init__(self, url: str, key: str, *, key_variable: str) -> None:
        self._key_variable = key_variable
        self._http = httpx.Client(timeout=_TIMEOUT, limits=_LIMITS, event_hooks={"response": [_sift]})
        # A new key (sb_…) is no JWT: Supabase's gateway makes one of it, unless we say that we have one.
        authorization = {} if key.startswith("sb_") else {"Authorization": f"Bearer {key}"}
        self._client = SyncPostgrestClient(
            f"{url.rstrip('/')}/rest/v1",
            headers={"apikey": key, **authorization},
            http_client=self._http,
            retry_enabled=False,
        )

    def call(self, function: str, /, *, repeat: bool = False, **arguments: Any) -> Any:
        """See `lib.store.wire.Wire`."""
        return repeated(lambda: self._once(function, arguments), repeat=repeat)

    def close(self) -> None:
        """Closes all connections; no more calls."""
        self._http.close()

    def _once(self, function: str, arguments: dict[str, Any]) -> Any:
        try:
            return self._client.rpc(function, _adapt(arguments)).execute().data
        except _NoContent:
            return None
        # None of these as the cause: what an HTTP error remembers holds the key.
        except APIError as error:
            raise self._told_by_postgrest(error, function) from None
        except _NotPostgrest as error:
            raise self._told_by_another(error.status, error.said, function) from None
        except httpx.HTTPError as error:
            said = f"{type(error).__name__} {error}".strip()
            raise Unavailable(f"Supabase cannot be reached or gave up during {function}: {said}") from None
        except ValueError as error:
            raise _not_sent(error) from None

    def _told_by_postgrest(self, error: APIError, function: str) -> GiftcardError:
        state, said = error.code or "", error.message or ""
        key = self._key_variable
        if state == "42501":
            return Misconfigured(
                f"the role of {key} may not call {function}: it must be the project's secret key (sb_secret_…) or "
                f"service_role key, not the publishable or anon key. {said}"
            )
        if not state.startswith("PGRST"):
            return from_sqlstate(state, said, detail=error.details, function=function, check=f"SUPABASE_URL and {key}")
        if state in ("PGRST000", "PGRST001", "PGRST002", "PGRST003", "PGRSTX00"):
            return Unavailable(f"PostgREST cannot reach the database or gave up during {function}: {said}")
        if state in ("PGRST202", "PGRST203"):
            return Misconfigured(
                f"{function} is missing: run the migrations (make migrate), or reload PostgREST's schema cache "
                f"(notify pgrst, 'reload schema'). {said}"
            )
        if state.startswith("PGRST3"):
            return Misconfigured(f"{key} is not a key of the project at SUPABASE_URL, or has expired. {said}")
        if state == "PGRST106":
            return Misconfigured(f"the schema public is not exposed by this project's Data API. {said}")
        return Misconfigured(f"PostgREST does not take the call of {function}: is SUPABASE_URL right? {state} {said}")

    def _told_by_another(self, status: int, said: str, function: str) -> GiftcardError:
        """Whoever stands before PostgREST: the gateway of Supabase, a proxy, or something else altogether."""
        if status in (408, 429) or status >= 500:
            return Unavailable(f"Supabase cannot be reached or gave up during {function}: {status} {said}")
        if status in (401, 403):
            return Misconfigured(f"{self._key_variable} is not a key of the project at SUPABASE_URL. {status} {said}")
        return Misconfigured(f"nobody speaks PostgREST at SUPABASE_URL: {status} {said}")


class _NoContent(Exception):
    """The function returns void. supabase-py would make an empty list of it."""


class _NotPostgrest(Exception):
    """Not an answer of PostgREST. supabase-py's error would lack the status, and a page of HTML would be no error."""

    def __init__(self, status: int, said: str) -> None:
        super().__init__(status)
        self.status = status
        self.said = said


def _sift(response: httpx.Response) -> None:
    """Lets pass what PostgREST says: JSON, with a code if it is an error."""
    response.read()  # or the connection could not be used again
    if response.status_code == 204:
        raise _NoContent
    is_json = response.headers.get("content-type", "").startswith("application/json")
    if is_json and response.is_success:
        return
    try:
        body = response.json() if is_json else None
    except ValueError:
        body = None
    body = body if isinstance(body, dict) else {}
    if response.is_success or not isinstance(body.get("code"), str):
        raise _NotPostgrest(response.status_code, str(body.get("message") or response.reason_phrase))


def _adapt(arguments: dict[str, Any]) -> dict[str, Any]:
    """As JSON can hold it: numbers that are none become text, which Postgres reads as such where the type has them."""

    def one(value: Any) -> Any:
        if isinstance(value, tuple):
            return [one(item) for item in value]
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    return {f"p_{name}": one(value) for name, value in arguments.items()}


def _not_sent(error: ValueError) -> Exception:
    """What JSON cannot hold is refused as Postgres would refuse it."""
    if isinstance(error, UnicodeEncodeError):
        return Refused("text with half a surrogate pair in it cannot be stored", sqlstate="22P02")
    if "JSON compliant" in str(error):
        return Refused("a number that is not finite cannot be stored as JSON", sqlstate="22P02")
    return error

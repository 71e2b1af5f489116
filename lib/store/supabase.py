"""The wire over supabase-py: each call is an RPC of PostgREST, a POST of JSON over HTTPS.

Only the PostgREST client of supabase-py is imported. `supabase.Client.rpc` only delegates to it, and importing all of
supabase-py (auth, storage, realtime, functions) takes twice as long, which slows down cold starts.
"""

import math
from typing import Any

import httpx
from postgrest import APIError, SyncPostgrestClient

from lib.errors import GiftcardError, Misconfigured, Refused, Unavailable
from lib.store.deadline import CALL_SECONDS, CONNECT_SECONDS
from lib.store.network import Network, http_client
from lib.store.sqlstate import from_sqlstate
from lib.store.wire import with_retries

# Seconds. Supabase ends a statement after 8: longer than that, so that its error arrives.
_TIMEOUT = httpx.Timeout(10, connect=CONNECT_SECONDS)
# A connection outlives the second between two scans of a tick, but not a long freeze of the function.
_LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=30)


class SupabaseWire:
    """Thread-safe: the HTTP client reuses connections, each for one call at a time.

    `key_variable` is the name of the setting that holds the key: messages name it and never contain the key.
    """

    def __init__(self, url: str, key: str, *, key_variable: str) -> None:
        self._key_variable = key_variable
        self._secrets = [key]
        self._network = Network()
        self._http = http_client(
            self._network, timeout=_TIMEOUT, limits=_LIMITS, event_hooks={"response": [_check_response]}
        )
        # A new key (sb_…) is not a JWT: Supabase's gateway creates the JWT, unless Authorization is set.
        authorization = {} if key.startswith("sb_") else {"Authorization": f"Bearer {key}"}
        self._client = SyncPostgrestClient(
            f"{url.rstrip('/')}/rest/v1",
            headers={"apikey": key, **authorization},
            http_client=self._http,
            retry_enabled=False,
        )

    def call(self, function: str, /, *, repeat: bool = False, within: float | None = None, **arguments: Any) -> Any:
        """See `lib.store.wire.Wire`. `within` is PostgREST's: it reads the time-out that the function has."""
        return with_retries(lambda: self._once(function, arguments), repeat=repeat, secrets=self._secrets)

    def close(self) -> None:
        """Close all connections; no call may follow."""
        self._http.close()

    def _once(self, function: str, arguments: dict[str, Any]) -> Any:
        self._network.begin(CALL_SECONDS)
        try:
            return self._client.rpc(function, _adapt(arguments)).execute().data
        except _NoContent:
            return None
        # `from None`: an HTTP error holds the request and its key.
        except APIError as error:
            raise self._postgrest_error(error, function) from None
        except _NotPostgrest as error:
            raise self._proxy_error(error.status, error.message, function) from None
        except httpx.HTTPError as error:
            message = f"{type(error).__name__} {error}".strip()
            text = f"Supabase cannot be reached or gave up during {function}: {message}"
            # Without a connection nothing was sent.
            raise Unavailable(text, undone=isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)) from None
        except ValueError as error:
            raise _unsendable(error) from None

    def _postgrest_error(self, error: APIError, function: str) -> GiftcardError:
        state, text = error.code or "", error.message or ""
        key = self._key_variable
        if state == "42501":
            return Misconfigured(
                f"the role of {key} may not call {function}: it must be the project's secret key (sb_secret_…) or "
                f"service_role key, not the publishable or anon key. {text}",
                sqlstate=state,
            )
        if state == "22023" and text.startswith("role "):
            return Misconfigured(f"{key} is of a role that the project does not have. {text}", sqlstate=state)
        if not state.startswith("PGRST"):
            return from_sqlstate(state, text, detail=error.details, function=function, check=f"SUPABASE_URL and {key}")
        if state in ("PGRST000", "PGRST001", "PGRST002", "PGRST003", "PGRSTX00"):
            text = f"PostgREST cannot reach the database or gave up during {function}: {text}"
            return Unavailable(text, undone=state in ("PGRST000", "PGRST002", "PGRST003"))
        if state in ("PGRST202", "PGRST203"):
            return Misconfigured(
                f"{function} is missing: run the migrations (make migrate), or reload PostgREST's schema cache "
                f"(notify pgrst, 'reload schema'). {text}"
            )
        if state.startswith("PGRST3"):
            return Misconfigured(f"{key} is not a key of the project at SUPABASE_URL, or has expired. {text}")
        if state == "PGRST106":
            return Misconfigured(f"the schema public is not exposed by this project's Data API. {text}")
        return Misconfigured(f"PostgREST rejects the call of {function}: check SUPABASE_URL. {state} {text}")

    def _proxy_error(self, status: int, text: str, function: str) -> GiftcardError:
        """Return the exception for a response from something else: Supabase's gateway, a proxy, another server."""
        if status in (408, 429) or status >= 500:
            return Unavailable(f"Supabase cannot be reached or gave up during {function}: {status} {text}")
        if status in (401, 403):
            return Misconfigured(f"{self._key_variable} is not a key of the project at SUPABASE_URL. {status} {text}")
        return Misconfigured(f"no PostgREST at SUPABASE_URL: {status} {text}")


class _NoContent(Exception):
    """The function returns void, which supabase-py would turn into an empty list."""


class _NotPostgrest(Exception):
    """The response is not from PostgREST. supabase-py's error lacks the status, and it accepts a page of HTML."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(status)
        self.status = status
        self.message = message


def _check_response(response: httpx.Response) -> None:
    """Accept PostgREST's responses only: JSON, with a code if it is an error."""
    response.read()  # otherwise the connection cannot be reused
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
    """Convert arguments to JSON: numbers that are not finite become text, which Postgres parses by the type."""

    def one(value: Any) -> Any:
        if isinstance(value, tuple):
            return [one(item) for item in value]
        return str(value) if isinstance(value, float) and not math.isfinite(value) else value

    return {f"p_{name}": one(value) for name, value in arguments.items()}


def _unsendable(error: ValueError) -> Exception:
    """Return the exception of Postgres for a value that JSON cannot hold."""
    if isinstance(error, UnicodeEncodeError):
        return Refused("text with an unpaired surrogate cannot be stored", sqlstate="22P02")
    if "JSON compliant" in str(error):
        return Refused("a number that is not finite cannot be stored as JSON", sqlstate="22P02")
    return error

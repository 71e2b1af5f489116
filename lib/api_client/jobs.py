"""What `lib.operations` does, done by a deployment through its API: the same methods, answers and refusals."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from pydantic import SecretStr

from lib.errors import GiftcardError, Invalid, Misconfigured, Refused, Unavailable
from lib.jobs.schemas import BulkRequeueRequest, EnqueueRequest, Filter, Page

if TYPE_CHECKING:  # imported when used: the application never is its own client
    import httpx

Json = dict[str, Any]

# Seconds. A tick answers when its budget and its last handler have ended, bulk work when its part is done.
_CONNECT, _WAIT, _LONG_WAIT = 5.0, 30.0, 900.0
_SQLSTATES = {400: "GC400", 404: "GC404", 409: "GC409", 422: "GC422"}
_HERE = ("localhost", "127.0.0.1", "::1")


class RemoteOperations:
    """Over one deployment. Who asks is known there by the token.

    Raises, as every method: Invalid and Refused with the API's words; Unavailable: nobody answers, or another than this
    application; Misconfigured: it answers that it cannot work.
    """

    def __init__(self, url: str, *, token: SecretStr | None) -> None:
        self._host = _checked(url)
        secret = token.get_secret_value() if token else ""
        if not secret:
            raise Invalid(f"set GIFTCARD_ADMIN_TOKEN to the admin token of {self._host}", field="token")
        if not (secret.isascii() and secret.isprintable()):
            raise Invalid("GIFTCARD_ADMIN_TOKEN holds characters that no header can carry", field="token")
        import httpx

        # Reading the certificates costs more than a request, and on this machine itself there are none to check.
        encrypted = urlsplit(url).scheme == "https"
        try:
            self._client = httpx.Client(
                base_url=url, headers={"Authorization": f"Bearer {secret}"}, timeout=_WAIT, verify=encrypted
            )
        except (httpx.InvalidURL, ValueError) as error:
            raise Invalid(f"--url is not an address: {error}", field="url") from None

    def close(self) -> None:
        """Ends the connection."""
        self._client.close()

    # Finding

    def list_jobs(self, wanted: Filter, page: Page, *, reveal: bool = False) -> Json:
        """See `Operations`, as for each of these."""
        return self._get("/api/v1/jobs", reveal, **wanted.as_json(), **page.model_dump(exclude_none=True))

    def job(self, job_id: int, *, reveal: bool = False) -> Json:
        """One job."""
        return self._get(f"/api/v1/jobs/{job_id}", reveal)

    def history(self, job_id: int, *, limit: int = 10) -> Json:
        """Its runs."""
        return self._get(f"/api/v1/jobs/{job_id}/history", limit=limit)

    def status(self) -> Json:
        """The whole picture."""
        return self._get("/api/status")

    def doctor(self) -> Json:
        """What is wrong there. Also when its database is away, so long as the application answers."""
        response, found = self._ask("GET", "/api/status")
        if "doctor" not in found:
            raise self._failure(response.status_code, found)
        return {"checks": found["doctor"]}

    def circuits(self) -> Json:
        """Those that are not well."""
        return self._get("/api/v1/circuits")

    def stages(self) -> Json:
        """The rules in force there."""
        return self._get("/api/v1/stages")

    # Enqueueing and running

    def enqueue(self, wanted: EnqueueRequest, *, trigger_type: str) -> Json:
        """Their trigger type is the API's: `trigger_type` is for those who enqueue without it."""
        return self._post("/api/v1/jobs", wanted.model_dump(mode="json", exclude_none=True))

    def tick(
        self,
        *,
        limit: int | None,
        only_stage: str | None,
        only_job_id: int | None,
        budget: float | None,
        linger: bool,
    ) -> Json:
        """One pass over due work, over there; its report."""
        wish = {"limit": limit, "stage": only_stage, "job_id": only_job_id, "budget_seconds": budget, "linger": linger}
        return self._post(
            "/api/jobs/run", {name: value for name, value in wish.items() if value is not None}, wait=_LONG_WAIT
        )

    # Mending

    def requeue(self, job_id: int, *, payload: Json | None = None, force: bool = False) -> Json:
        """Back to the queue."""
        return self._post(f"/api/v1/jobs/{job_id}/requeue", {"payload": payload, "force": force})

    def requeue_jobs(
        self, wanted: BulkRequeueRequest, *, budget: float, progress: Callable[[int], None] = lambda done: None
    ) -> Json:
        """One request after the other until all is done, or `budget` seconds are over."""
        ends = time.monotonic() + budget
        total: Json = {"matched": 0, "requeued": 0, "done": False, "after": wanted.after, "dry_run": wanted.dry_run}
        while True:
            wish = wanted.model_dump(exclude={"filter"}) | {
                "filter": wanted.filter.as_json(),
                "after": total["after"],
                "already": wanted.already + total["requeued"],
            }
            step = self._post("/api/v1/jobs/requeue", wish, wait=_LONG_WAIT)
            step["matched"] += total["matched"]
            step["requeued"] += total["requeued"]
            stuck = step["after"] == total["after"]
            total |= step
            progress(total["matched"])
            if total["done"] or "stopped_at" in total or stuck or time.monotonic() >= ends:
                return total

    def cancel(self, job_id: int) -> Json:
        """Now, or by a wish."""
        return self._post(f"/api/v1/jobs/{job_id}/cancel")

    def cancel_flow(self, tenant_id: str, correlation_id: str) -> Json:
        """What is left of a flow."""
        return self._post(f"/api/v1/flows/{_part(correlation_id)}/cancel", tenant_id=tenant_id)

    def restore(self, job_id: int) -> Json:
        """From the archive."""
        return self._post(f"/api/v1/jobs/{job_id}/restore", {})

    def pause(self, stage: str, *, by: str, reason: str | None) -> Json:
        """A stage, or '*'."""
        return self._post(f"/api/v1/stages/{_part(stage)}/pause", {"by": by, "reason": reason})

    def resume(self, stage: str, *, by: str) -> Json:
        """The end of a pause."""
        return self._post(f"/api/v1/stages/{_part(stage)}/resume", {"by": by})

    def reset_circuit(self, circuit: str) -> Json:
        """Closed by a person."""
        return self._post(f"/api/v1/circuits/{_part(circuit)}/reset")

    # The wire

    def _get(self, path: str, reveal: bool = False, /, **query: Any) -> Json:
        return self._call("GET", path, params=query | ({"reveal": "true"} if reveal else {}))

    def _post(self, path: str, body: Json | None = None, /, *, wait: float = _WAIT, **query: Any) -> Json:
        return self._call("POST", path, params=query, json=body, wait=wait)

    def _call(self, method: str, path: str, *, wait: float = _WAIT, **what: Any) -> Json:
        response, found = self._ask(method, path, wait=wait, **what)
        if response.is_success:
            return found
        raise self._failure(response.status_code, found)

    def _ask(self, method: str, path: str, *, wait: float = _WAIT, **what: Any) -> tuple["httpx.Response", Json]:
        """An answer of this application's, whatever it says."""
        import httpx

        try:
            response = self._client.request(method, path, timeout=httpx.Timeout(wait, connect=_CONNECT), **what)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Unavailable(f"{self._host} cannot be reached: {error or type(error).__name__}") from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            known = "" if method == "GET" else "; it may have been carried out: look before you repeat it"
            raise Unavailable(f"no answer from {self._host}: {error or type(error).__name__}{known}") from error
        if response.is_redirect:
            where = response.headers.get("location", "")[:200]
            raise Invalid(f"{self._host} sends this request elsewhere, to {where}: is --url right?", field="url")
        found = _json(response)
        if not isinstance(found, dict) or (not response.is_success and "title" not in found):
            raise Unavailable(
                f"{self._host} answered {response.status_code}, and not as this application does: is --url right?"
            )
        return response, found

    def _failure(self, status: int, problem: Json) -> GiftcardError:
        """The exception that the same call on the database would have raised, as far as it can be told."""
        title, detail, field = (str(problem.get(name) or "") for name in ("title", "detail", "field"))
        if status == 401:
            return Invalid(f"GIFTCARD_ADMIN_TOKEN is not the admin token of {self._host}", field="token")
        # What the API found itself has a general title, with the sentence in the detail.
        said = detail if detail and title.endswith("not valid") else f"{title}: {detail}" if detail else title
        if status == 413:
            return Refused(f"{said}: send fewer jobs at a time", sqlstate="GC400")
        if status == 422 and field:
            return Invalid(said, field=field)
        if status < 500 and status != 429:
            return Refused(said, sqlstate=_SQLSTATES.get(status, "GC400"), field=field or None)
        return Misconfigured(f"{self._host}: {said}") if status == 503 else Unavailable(f"{self._host}: {said}")


def _checked(url: str) -> str:
    """Its host, if it is an address that a token may be sent to."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise Invalid(f"--url is not an address: {error}", field="url") from None
    if parts.scheme not in ("http", "https") or not host:
        raise Invalid("--url must be an address like https://giftcards.example.com", field="url")
    if parts.scheme == "http" and host not in _HERE:
        raise Invalid(f"--url must begin with https://: the token would reach {host} in clear", field="url")
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise Invalid(
            "--url must hold no user, password, query or fragment: the token is in the environment", field="url"
        )
    return host


def _part(name: str) -> str:
    """One segment of a path, whatever is in it; a dot alone would be taken for a step up."""
    return quote(name, safe="").replace(".", "%2E") if name.strip(".") == "" else quote(name, safe="")


def _json(response: "httpx.Response") -> Any:
    try:
        return response.json()
    except (ValueError, RecursionError):
        return None

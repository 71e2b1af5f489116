"""Calls an address that the job names."""

import hashlib
import json
import time
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue, SecretStr, ValidationInfo

from lib.config import job_secrets
from lib.errors import TransientError
from lib.job import Complete, Job
from lib.jobs.context import Context
from lib.jobs.retry_policy import RetryPolicy
from lib.jobs.stage import stage
from lib.safe_http import headers as outside_headers
from lib.safe_http import url as outside_url
from lib.safe_http.client import Request, call_with_detail
from lib.safe_http.response import failure_of_response
from lib.validation import StrictModel

# What a redirect takes along to another host, if it names no secret; any other header may be meant for the first only.
_COMMON = frozenset({"accept", "accept-language", "content-type", "user-agent"})


def _url(value: str, info: ValidationInfo) -> str:
    if "{{" in value:
        raise ValueError("must not name a secret: addresses are shown and logged, give it in a header")
    url = outside_url.parse(value)
    # Where a job is saved the settings are known; where it runs the address is checked once more, by the call.
    if info.context:
        outside_url.check(url, allowed=info.context["settings"].giftcard_allowed_networks)
    return value


def _headers(value: dict[str, str]) -> dict[str, str]:
    outside_headers.check(value)
    for text in value.values():
        job_secrets.check(text)
    return value


def _body(value: Any, info: ValidationInfo) -> Any:
    if value is not None and info.data.get("method") in ("GET", "HEAD"):
        raise ValueError(f"must be left out: {info.data['method']} sends none")
    job_secrets.check(json.dumps(value))
    return value


class HttpCall(StrictModel):
    """What to call. `body`: text, or anything else as JSON; `expected_statuses`: those that mean done, else any 2xx."""

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    url: Annotated[str, AfterValidator(_url)]
    headers: Annotated[dict[str, str], Field(max_length=50), AfterValidator(_headers)] = Field(default_factory=dict)
    body: Annotated[JsonValue, AfterValidator(_body)] = None
    timeout_seconds: Annotated[float, Field(gt=0, le=3_600)] = 30
    expected_statuses: (
        Annotated[list[Annotated[int, Field(ge=200, le=599)]], Field(min_length=1, max_length=50)] | None
    ) = None

    def expects(self, status: int) -> bool:
        """Whether this status means that the call is done."""
        return 200 <= status <= 299 if self.expected_statuses is None else status in self.expected_statuses


def circuit_of(call: HttpCall) -> str:
    """One breaker for each host: one that is down holds up nobody else's calls."""
    return f"http_call:{outside_url.parse(call.url).host}"


@stage(
    "http_call",
    payload=HttpCall,
    policy=RetryPolicy(max_attempts=4, base=1, cap=300),
    threshold=10,
    circuit_of=circuit_of,
)
def http_call(wanted: HttpCall, context: Context) -> Complete:
    """At least once, without `once()`: a job that is queued again calls again, under the same key."""
    answer, detail = call_with_detail(
        _request(wanted, context),
        allowed=context.settings.giftcard_allowed_networks,
        until=min(time.monotonic() + wanted.timeout_seconds, context.until),
        follow=not any(wanted.expects(status) for status in range(300, 400)),
        secrets=context.settings.secrets(),
    )
    if not wanted.expects(answer.status):
        host = outside_url.parse(wanted.url).host
        raise failure_of_response(answer, message=f"{host} answered {answer.status}", detail=detail)
    return Complete(detail=detail)


def _request(wanted: HttpCall, context: Context) -> Request:
    known = context.settings.job_secrets
    text = wanted.body if isinstance(wanted.body, str) else json.dumps(wanted.body)
    written = str if isinstance(wanted.body, str) else job_secrets.in_json
    given = {name: _value(name, text, known) for name, text in wanted.headers.items()}
    return Request(
        method=wanted.method,
        url=outside_url.parse(wanted.url),
        headers={name: value for name, value in given.items() if not _is_common(name, wanted)},
        common=_usual(wanted)
        | {name: value for name, value in given.items() if _is_common(name, wanted)}
        | {"Idempotency-Key": _key(context.job), "X-Attempt": str(context.job.attempts)},
        body=None if wanted.body is None else job_secrets.filled(text, known, written=written).encode(),
        sealed=job_secrets.named_in(text),
    )


def _value(name: str, text: str, known: Mapping[str, SecretStr]) -> str:
    value = job_secrets.filled(text, known)
    if not outside_headers.is_valid_value(value):
        raise TransientError(f"the secret in the header {name} holds what no header can", counts=False)
    return value


def _is_common(name: str, wanted: HttpCall) -> bool:
    return name.lower() in _COMMON and not job_secrets.named_in(wanted.headers[name])


def _usual(wanted: HttpCall) -> dict[str, str]:
    """What the job does not set itself."""
    usual = {"User-Agent": "giftcard-jobs"}
    if wanted.body is not None:
        usual["Content-Type"] = "text/plain; charset=utf-8" if isinstance(wanted.body, str) else "application/json"
    set_by_job = {name.lower() for name in wanted.headers}
    return {name: value for name, value in usual.items() if name.lower() not in set_by_job}


def _key(job: Job) -> str:
    """The same at every attempt, revival and requeue, and another for every other job."""
    parts = json.dumps([job.tenant_id, job.correlation_id, job.stage, job.dedup_key])
    return f"gc_{hashlib.sha256(parts.encode()).hexdigest()[:48]}"

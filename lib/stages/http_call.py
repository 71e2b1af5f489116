"""The stage http_call: call a URL from the payload."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, JsonValue, ValidationInfo, model_validator

from lib.config import job_secrets
from lib.config.job_secrets import JobSecret
from lib.config.settings import Settings
from lib.errors import Failure, PermanentError, TransientError
from lib.job import Complete
from lib.jobs.context import Context
from lib.jobs.retry_policy import RetryPolicy
from lib.jobs.stage import stage
from lib.safe_http import headers as http_headers
from lib.safe_http import url as http_url
from lib.safe_http.client import Request, call_with_detail
from lib.safe_http.response import failure_of_response
from lib.safe_http.url import Url
from lib.validation import StrictModel

# Headers that a redirect to another host keeps, unless they name a secret. Others may be meant for the first host only.
_KEPT_ON_REDIRECT = frozenset({"accept", "accept-language", "content-type", "user-agent"})


def _url(value: str, info: ValidationInfo) -> str:
    if "{{" in value:
        raise ValueError("must not name a secret, because URLs are logged: put it in a header")
    url = http_url.parse(value)
    # The settings are known when a job is enqueued; when it runs, the call checks the address again.
    if info.context:
        http_url.check(url, allowed=info.context["settings"].giftcard_allowed_networks)
    return value


def _headers(value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
    http_headers.check(value)
    for text in value.values():
        _check_secrets(text, info)
    return value


def _body(value: Any, info: ValidationInfo) -> Any:
    if value is not None and info.data.get("method") in ("GET", "HEAD"):
        raise ValueError(f"must be left out: {info.data['method']} sends no body")
    _check_secrets(json.dumps(value), info)
    return value


def _check_secrets(text: str, info: ValidationInfo) -> None:
    """Validate references to secrets. When a job is enqueued, the hosts of those that are set must fit.

    A secret that is not set yet may be by the time the job runs, when everything is checked again.
    """
    job_secrets.check(text)
    if not info.context or "url" not in info.data:
        return
    secrets = info.context["settings"].job_secrets
    for name in job_secrets.names_in(text):
        if name in secrets:
            refusal = _refusal(name, secrets[name], http_url.parse(info.data["url"]))
            if refusal:
                raise ValueError(refusal)


def _refusal(name: str, secret: JobSecret, url: Url) -> str | None:
    """Return why a secret may not be sent to a URL; None: it may."""
    setting = job_secrets.variable(name, "_HOSTS")
    if not secret.hosts:
        return f"must not name the secret {name}, which has no hosts: set {setting} to those that may receive it"
    if not secret.may_go_to(url.host, url.port, is_default_port=url.has_default_port):
        return f"must not send the secret {name} to {url.authority}, which is not in {setting}"
    return None


class HttpCall(StrictModel):
    """A call. `body`: text, or any other JSON value. `expected_statuses`: those that mean success; else any 2xx.

    `{"api": "https://…"}` is the short form of `{"url": "https://…"}`.
    """

    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"] = "POST"
    url: Annotated[str, AfterValidator(_url)]
    headers: Annotated[dict[str, str], Field(max_length=50), AfterValidator(_headers)] = Field(default_factory=dict)
    body: Annotated[JsonValue, AfterValidator(_body)] = None
    timeout_seconds: Annotated[float, Field(gt=0, le=3_600)] = 30
    expected_statuses: (
        Annotated[list[Annotated[int, Field(ge=200, le=599)]], Field(min_length=1, max_length=50)] | None
    ) = None

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        if not isinstance(value, dict) or not isinstance(value.get("api"), str) or "url" in value:
            return value
        return {"url" if name == "api" else name: content for name, content in value.items()}

    @model_validator(mode="after")
    def _encrypted(self, info: ValidationInfo) -> "HttpCall":
        # The settings are known when a job is enqueued; when it runs, the call checks it again.
        if info.context:
            self.check_encrypted(info.context["settings"])
        return self

    def check_encrypted(self, settings: Settings) -> None:
        """Validate that a URL which receives a secret is https.

        Raises:
            ValueError: it is not; safe to return to clients.
        """
        if not any(map(job_secrets.names_in, (*self.headers.values(), self.text))):
            return
        try:
            http_url.check_encrypted(http_url.parse(self.url), environment=settings.environment)
        except ValueError as error:
            raise ValueError(f"url {error}") from None

    @property
    def text(self) -> str:
        """The body as it is sent, with its references to secrets."""
        return self.body if isinstance(self.body, str) else json.dumps(self.body)

    def expects(self, status: int) -> bool:
        """Return whether a status means success."""
        return 200 <= status <= 299 if self.expected_statuses is None else status in self.expected_statuses


def circuit_of(call: HttpCall) -> str:
    """Return the circuit of the host: a host that is down does not hold up calls to others."""
    return f"http_call:{http_url.parse(call.url).host}"


@stage(
    "http_call",
    payload=HttpCall,
    policy=RetryPolicy(max_attempts=4, base=1, cap=300),
    threshold=10,
    circuit_of=circuit_of,
)
def http_call(call: HttpCall, context: Context) -> Complete:
    """Call the URL, at least once: a requeued job calls again, with the same idempotency key.

    The intent is recorded before the request is sent. From then on the job's payload is bound to the key, until the
    first response to it is a refusal for good, or it is certain that nothing was sent.
    """
    request = _request(call, context)
    effect = context.store.begin_effect(context.job, name="call")
    if effect.result is not None:  # an operator has decided that it happened
        return Complete(detail=effect.result)
    keyed = replace(request, common={**request.common, "Idempotency-Key": effect.vendor_key})
    try:
        return _send(call, keyed, context)
    except Failure as failure:
        if effect.state == "new" and failure.without_effect:
            context.store.abandon_effect(effect, note=str(failure))
        raise


def _send(call: HttpCall, request: Request, context: Context) -> Complete:
    response, detail = call_with_detail(
        request,
        allowed=context.settings.giftcard_allowed_networks,
        until=min(time.monotonic() + call.timeout_seconds, context.until),
        follow=not any(call.expects(status) for status in range(300, 400)),
        secrets=context.settings.secrets(),
    )
    if call.expects(response.status):
        return Complete(detail=detail)
    message = f"{http_url.parse(call.url).host} answered {response.status}"
    failure = failure_of_response(response, message=message, detail=detail)
    # After a redirect, the first host may have acted before another request was refused.
    failure.without_effect = isinstance(failure, PermanentError) and not response.redirects
    raise failure


def _request(call: HttpCall, context: Context) -> Request:
    """Return the request without its key.

    Raises:
        TransientError: it names a secret that is not set or has no hosts; the deployment is at fault, not the job.
        PermanentError: the job may not send a secret that it names, not to this host, or not in clear.
    """
    try:
        call.check_encrypted(context.settings)
    except ValueError as error:
        raise PermanentError(str(error)) from None
    url, text = http_url.parse(call.url), call.text

    def secret(name: str) -> str:
        return _secret(name, url, context)

    escape = str if isinstance(call.body, str) else job_secrets.in_json
    headers = {name: _value(name, value, secret) for name, value in call.headers.items()}
    return Request(
        method=call.method,
        url=url,
        headers={name: value for name, value in headers.items() if not _is_common(name, call)},
        common=_default_headers(call)
        | {name: value for name, value in headers.items() if _is_common(name, call)}
        | {"X-Attempt": str(context.job.attempts)},
        body=None if call.body is None else job_secrets.filled(text, secret, written=escape).encode(),
        sealed=bool(job_secrets.names_in(text)),
    )


def _secret(name: str, url: Url, context: Context) -> str:
    """Return the value of a secret that the job may send to this URL. Raises like `_request`."""
    secret = context.settings.job_secrets.get(name)
    if secret is None:
        raise TransientError(f"the secret {name} is not set: set {job_secrets.variable(name)}", counts=False)
    refusal = _refusal(name, secret, url)
    if not secret.hosts:
        raise TransientError(f"the call {refusal}", counts=False)
    source = context.job.source
    if source not in secret.sources:
        setting = job_secrets.variable(name, "_SOURCES")
        raise PermanentError(
            f"the secret {name} is not for jobs that came by {source}: add {source} to {setting}, and requeue the job"
        )
    if refusal:
        raise PermanentError(f"the call {refusal}")
    return secret.value.get_secret_value()


def _value(name: str, text: str, secret: Callable[[str], str]) -> str:
    value = job_secrets.filled(text, secret)
    if not http_headers.is_valid_value(value):
        raise TransientError(f"the secret in the header {name} has characters that are not allowed", counts=False)
    return value


def _is_common(name: str, call: HttpCall) -> bool:
    return name.lower() in _KEPT_ON_REDIRECT and not job_secrets.names_in(call.headers[name])


def _default_headers(call: HttpCall) -> dict[str, str]:
    """Return the default headers that the job does not set."""
    defaults = {"User-Agent": "giftcard-jobs"}
    if call.body is not None:
        defaults["Content-Type"] = "text/plain; charset=utf-8" if isinstance(call.body, str) else "application/json"
    set_by_job = {name.lower() for name in call.headers}
    return {name: value for name, value in defaults.items() if name.lower() not in set_by_job}

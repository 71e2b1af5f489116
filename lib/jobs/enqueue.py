"""The preparation of jobs before they are enqueued: by API, CLI, CSV, next stage, schedule and pgmq import.

Two ways bypass it, and so the hooks: the database enqueues webhook jobs itself, within the settle that causes them; and
plain SQL is up to its author.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from lib.caller import Caller
from lib.config.settings import MARGIN_SECONDS, Settings
from lib.errors import Invalid, InvalidJob
from lib.jobs import hooks
from lib.jobs.registry import Registry
from lib.jobs.stage import Stage
from lib.telemetry import sentry
from lib.validation import error_sentence, field_errors, is_identifier, same_json

if TYPE_CHECKING:
    from lib.jobs.schemas import JobRequest

Json = dict[str, Any]

# Characters: a stage's name, a colon, and the longest name of a host.
_LONGEST_CIRCUIT = 63 + 1 + 253


def prepare(rows: Sequence[Json], registry: Registry, settings: Settings) -> list[Json]:
    """Return jobs, as `giftcard_enqueue` takes them, ready to be enqueued.

    In this order: ttr_seconds is checked, the stage's model validates the payload, the stage's defaults are set
    (at_most_once, circuit, concurrency key), the `before_enqueue` hooks run, the trace is attached. A job of a stage
    that this code does not know passes as it is: newer code may know it.

    Raises:
        InvalidJob: the first job with a payload that its stage does not take, with an impossible ttr_seconds, or of the
            stage webhook; with the others.
    """
    prepared: list[Json] = []
    refused: list[InvalidJob] = []
    for index, row in enumerate(rows):
        try:
            prepared.append(_prepared(row, registry, settings, index))
        except InvalidJob as error:
            refused.append(error)
    if refused:
        refused[0].others = tuple(refused[1:])
        raise refused[0]
    return sentry.with_trace(prepared)


def prepare_requests(
    requests: "Sequence[JobRequest]",
    registry: Registry,
    settings: Settings,
    *,
    caller: Caller,
    trigger_type: str,
    field: Callable[[int], str] = "jobs.{}".format,
) -> list[Json]:
    """Return the jobs of a request, ready to be enqueued. `field`: the name of each in the request, by its index.

    Raises:
        Invalid: an unknown stage, or a payload that its stage does not accept.
        Forbidden: a job of a tenant that the caller may not act for.
    """
    unknown = [
        (f"{field(index)}.stage", f"there is no stage {job.stage}")
        for index, job in enumerate(requests)
        if not registry.knows(job.stage)
    ]
    if unknown:
        message = unknown[0][1] if len(unknown) == 1 else error_sentence(unknown)
        raise Invalid(message, field=unknown[0][0], errors=unknown)
    rows = []
    for index, job in enumerate(requests):
        caller.check_payload(job.payload, field=f"{field(index)}.payload")
        tenant_id = caller.tenant(job.tenant_id, field=f"{field(index)}.tenant_id")
        rows.append(job.as_row(tenant_id=tenant_id, trigger_type=trigger_type))
    try:
        return prepare(rows, registry, settings)
    except InvalidJob as error:
        invalid = (error, *error.others)
        errors = [(f"{field(job.index)}.{name}", text) for job in invalid for name, text in job.errors]
        message = error_sentence(errors) if error.others else str(error)
        raise Invalid(message, field=errors[0][0], errors=errors) from None


def prepare_unattended(row: Json, registry: Registry, settings: Settings) -> Json:
    """Prepare a job for which no caller waits. An invalid payload is kept: the first run ends by it, for all to see.

    Raises:
        InvalidJob: an impossible ttr_seconds: no run of the job could end by it; or the stage webhook.
    """
    check_stage(row["stage"])
    check_ttr(row.get("ttr_seconds"), settings)
    try:
        (prepared,) = prepare([row], registry, settings)
    except InvalidJob:
        return _with_semantics(row, registry.stages.get(row["stage"]), settings)
    return prepared


def check_stage(stage: str, *, index: int = 0) -> None:
    """Refuse a webhook: the database enqueues each, with the event that it notifies of.

    Raises:
        InvalidJob: it is one.
    """
    if stage == "webhook":
        raise InvalidJob("webhooks are enqueued by the database, when a job ends", field="stage", index=index)


def check_ttr(ttr_seconds: int | None, settings: Settings, *, index: int = 0) -> None:
    """Check a job's own ttr; None: it is that of its stage.

    Raises:
        InvalidJob: it is not positive, or a run that begins late would outlive the function.
    """
    if ttr_seconds is None or 1 <= ttr_seconds <= settings.longest_ttr:
        return
    message = f"{ttr_seconds} is not a positive number of seconds"
    if ttr_seconds > settings.longest_ttr:
        sum_ = f"maxDuration {settings.max_duration} − budget {settings.giftcard_tick_budget_seconds:g}"
        message = (
            f"{ttr_seconds} is longer than a run can live here: at most {settings.longest_ttr} "
            f"({sum_} − margin {MARGIN_SECONDS})"
        )
    raise InvalidJob(message, field="ttr_seconds", index=index)


def check_payload(stage: Stage, payload: Json, settings: Settings, *, index: int = 0) -> BaseModel:
    """Return the payload as the stage's model.

    Raises:
        InvalidJob: the stage does not take it.
    """
    try:
        return stage.read(payload, settings)
    except ValidationError as error:
        found = field_errors(error, stage.payload)
        errors = [(f"payload.{field}" if field else "payload", message) for field, message in found]
        raise InvalidJob(error_sentence(found), field=errors[0][0], index=index, errors=errors) from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a validator of the stage's author; its message may hold the payload
        message = f"cannot be validated: {type(error).__name__}"
        raise InvalidJob(message, field="payload", index=index) from None


def circuit_for(stage: Stage, payload: BaseModel) -> str | None:
    """Return the circuit of a job with this payload; None: the one of its stage's name, also if `circuit_of` fails."""
    circuit_of = stage.circuit_of
    if circuit_of is None:
        return None

    def circuit() -> str:
        found = circuit_of(payload)
        if not isinstance(found, str) or not f"{found}:".startswith(f"{stage.name}:") or len(found) > _LONGEST_CIRCUIT:
            raise ValueError(f"a circuit of {stage.name} is called {stage.name}:<something>")
        return found

    found: str | None = hooks.guarded(f"circuit_of of {stage.name}", circuit)
    return found


def concurrency_key_for(stage: Stage, payload: BaseModel) -> str | None:
    """Return the concurrency key that a stage gives a job with this payload; None: none, also if its function fails."""
    key_of = stage.concurrency_key_of
    if key_of is None:
        return None

    def key() -> str | None:
        found = key_of(payload)
        if found is not None and not is_identifier(found):
            raise ValueError("a concurrency key has 1 to 200 characters, without control characters")
        return found

    found: str | None = hooks.guarded(f"concurrency_key_of of {stage.name}", key)
    return found


def _with_semantics(row: Json, stage: Stage | None, settings: Settings) -> Json:
    """Apply the stage's semantics: one that runs at most once makes each of its jobs so."""
    once = stage is not None and stage.effective(settings, "semantics") == "at_most_once"
    return row | {"semantics": "at_most_once"} if once else row


def _prepared(row: Json, registry: Registry, settings: Settings, index: int) -> Json:
    check_stage(row["stage"], index=index)
    check_ttr(row.get("ttr_seconds"), settings, index=index)
    stage = registry.stages.get(row["stage"])
    if stage is None:
        return hooks.apply_before_enqueue(row, is_valid=lambda payload: True, longest_ttr=settings.longest_ttr)
    payload = check_payload(stage, row["payload"], settings, index=index)

    def is_valid(changed: Json) -> bool:
        stage.read(changed, settings)  # an exception is the hook's failure
        return True

    asked = _with_semantics(row, stage, settings)
    prepared = hooks.apply_before_enqueue(asked, is_valid=is_valid, longest_ttr=settings.longest_ttr)
    if prepared is not asked:  # without hooks it is the same dict: half of the time of many jobs
        if not same_json(prepared["payload"], row["payload"]):
            payload = check_payload(stage, prepared["payload"], settings, index=index)
        prepared = _with_semantics(prepared, stage, settings)
    own: Json = {"circuit": row.get("circuit") or circuit_for(stage, payload)}
    if row.get("concurrency_key") is None:
        own["concurrency_key"] = concurrency_key_for(stage, payload)
    return prepared | {name: value for name, value in own.items() if value}

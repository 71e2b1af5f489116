"""Checks what a file declares with `@stage(...)`, when the file is loaded: a mistake there must not wait for a job."""

import inspect
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn, get_args, get_origin

from pydantic import BaseModel

from lib.config.project import STAGE_NAME
from lib.config.rates import MOST_AT_ONCE, MOST_PER_SECOND, Rate
from lib.config.settings import Settings
from lib.config.stage_settings import StageSettings
from lib.errors import StageError
from lib.job import Semantics
from lib.jobs.retry_policy import MAX_ATTEMPTS, RetryPolicy

_ROOT = Path(__file__).parents[2]
_DAY = 86_400
# By argument: the least and the most, and what it counts. None means the value of all stages, except for ttr.
_NUMBERS = {
    "ttr": (1, 3_600, "a positive number of seconds"),
    "longest": (1, 3_600, "a positive number of seconds"),
    "concurrency": (1, 10_000, "a number of runs"),
    "threshold": (0, 1_000, "a number of failures"),
}
# By argument: the parameters that it is called with.
_FUNCTIONS = {
    "needs": ("settings",),
    "can_retry": ("attempt", "error"),
    "circuit_of": ("payload",),
    "concurrency_key_of": ("payload",),
}


def where(function: Any) -> str:
    """Return file and line of a function, like `shop/stages/points.py:12`; of anything else, its type."""
    code = getattr(function, "__code__", None)
    return f"{shown_path(code.co_filename)}:{code.co_firstlineno}" if code else type(function).__name__


def shown_path(file: str) -> str:
    """Return the path of a file as messages show it: from the project's root, if it is inside."""
    path = Path(file)
    return str(path.relative_to(_ROOT)) if path.is_relative_to(_ROOT) else str(path)


def check_arguments(given: Mapping[str, Any]) -> None:
    """Check the arguments of `@stage`. Raises StageError for the first one that is impossible."""
    name = given["name"]
    if not isinstance(name, str) or not STAGE_NAME.fullmatch(name):
        raise StageError(
            f"stage {name!r}: a name has to begin with a-z and go on with a-z, 0-9 and _, up to 63 characters"
        )
    for argument, base in (("payload", BaseModel), ("settings", StageSettings)):
        _check_model(name, argument, given[argument], base)
    for argument, (least, most, meaning) in _NUMBERS.items():
        if not (given[argument] is None and argument != "ttr"):
            _check_number(name, argument, given[argument], least, most, f"{meaning}, whole")
    if given["longest"] is not None and given["longest"] < given["ttr"]:
        _refuse(name, f"longest has to be at least its ttr, {given['ttr']}", given["longest"])
    if given["semantics"] not in get_args(Semantics):
        _refuse(name, f"semantics has to be {' or '.join(get_args(Semantics))}", given["semantics"])
    if given["policy"] is not None:
        _check_policy(name, given["policy"])
    _check_rate(name, given["rate"])
    _check_setting(name, "attempts_setting", given["attempts_setting"], kind=int)
    _check_setting(name, "delays_setting", given["delays_setting"], kind=tuple)
    for argument, parameters in _FUNCTIONS.items():
        if given[argument] is not None or argument == "needs":
            _check_function(name, argument, given[argument], parameters)


def check_handler(name: str, handler: Any) -> None:
    """Check the function under `@stage`. Raises StageError if it cannot be called with payload and context."""
    if inspect.isclass(handler):
        _refuse(name, "the handler has to be a function, not a class", handler)
    _check_function(name, "the handler", handler, ("payload", "context"))


def _check_model(name: str, argument: str, model: Any, base: type) -> None:
    if model is None and base is StageSettings:
        return
    if not (isinstance(model, type) and issubclass(model, base) and model is not base):
        _refuse(name, f"{argument} has to be a subclass of {base.__name__}", model)
    if issubclass(model, BaseModel) and model.__module__.partition(".")[0] != "lib":
        model.model_rebuild(raise_errors=False)  # ours are built when used (`LateModel`)


def _check_number(name: str, what: str, value: Any, least: float, most: float, meaning: str) -> None:
    """Check a whole number, or any number where `least` is a float."""
    kinds = (int, float) if isinstance(least, float) else (int,)
    is_number = isinstance(value, kinds) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not least <= value <= most:
        _refuse(name, f"{what} must be {meaning}, from {least:g} to {most:g}", value)


def _check_policy(name: str, policy: Any) -> None:
    if not isinstance(policy, RetryPolicy):
        _refuse(name, "policy has to be a RetryPolicy, like RetryPolicy(max_attempts=3)", policy)
    _check_number(name, "max_attempts of its policy", policy.max_attempts, 1, MAX_ATTEMPTS, "a number of attempts")
    for field in ("base", "cap"):
        _check_number(name, f"{field} of its policy", getattr(policy, field), 0.001, _DAY, "a number of seconds")
    _check_number(name, "jitter of its policy", policy.jitter, 0.0, 1, "a share of the delay")
    if policy.base > policy.cap:
        _refuse(name, f"base of its policy has to be at most its cap, {policy.cap:g}", policy.base)
    if policy.delays is None:
        return
    if not isinstance(policy.delays, tuple | list) or not policy.delays:
        _refuse(name, "delays of its policy has to be a tuple of seconds, like (30, 60, 120)", policy.delays)
    for delay in policy.delays:
        _check_number(name, "each of the delays of its policy", delay, 0.0, _DAY, "a number of seconds")


def _check_rate(name: str, rate: Any) -> None:
    if rate is None:
        return
    if not isinstance(rate, Rate):
        _refuse(name, "rate has to be a Rate, like Rate(per_second=10, burst=20)", rate)
    meaning = "a number of starts"
    _check_number(name, "per_second of its rate", rate.per_second, 0.000001, MOST_PER_SECOND, meaning)
    if rate.burst is not None:
        _check_number(name, "burst of its rate", rate.burst, 1, MOST_AT_ONCE, meaning)


def _check_setting(name: str, argument: str, setting: Any, *, kind: type) -> None:
    if setting is None:
        return
    field = Settings.model_fields.get(setting) if isinstance(setting, str) else None
    fits = field is not None and (get_origin(field.annotation) or field.annotation) is kind
    if not fits or (field and kind is tuple and not isinstance(next(iter(field.default), None), int | float)):
        holds = "a whole number" if kind is int else "seconds"
        _refuse(
            name, f"{argument} has to be the name of a setting in lib/config/settings.py that holds {holds}", setting
        )


def _check_function(name: str, what: str, function: Any, parameters: tuple[str, ...]) -> None:
    called = f"({', '.join(parameters)})"
    if not callable(function):
        _refuse(name, f"{what} has to be a function of {called}", function)
    for code in (function, getattr(function, "__call__", None)):  # noqa: B004 - an object may have an async __call__
        if inspect.iscoroutinefunction(code) or inspect.isasyncgenfunction(code) or inspect.isgeneratorfunction(code):
            _refuse(name, f"{what} has to be a plain function, without async and yield", function)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a function written in C
        return
    try:
        signature.bind(*parameters)
    except TypeError:
        raise StageError(f"stage {name}: {what} has to take {called}, not {signature}") from None


def _refuse(name: str, rule: str, value: Any) -> NoReturn:
    """Raise StageError. Only numbers and short words are repeated; of anything else, the type."""
    shown = repr(value) if isinstance(value, int | float | str | None) and len(repr(value)) <= 50 else None
    if shown is None:
        shown = f"the class {value.__name__}" if isinstance(value, type) else f"a {type(value).__name__}"
    raise StageError(f"stage {name}: {rule}, not {shown}")

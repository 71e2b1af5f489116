"""Limits as rows: how many runs at once, how many starts a second. They override the settings without a deployment."""

from collections.abc import Callable
from typing import Any

from lib.caller import Caller
from lib.errors import Invalid
from lib.jobs.registry import Registry
from lib.jobs.schemas import LimitPage, LimitRemoval, LimitRequest
from lib.jobs.shown import masked_limit
from lib.store.store import Store

Json = dict[str, Any]


class Limits:
    """The limits of a store. `caller` is recorded in the audit log."""

    def __init__(self, store: Store, registry: Callable[[], Registry], *, caller: Caller) -> None:
        self._store = store
        self._registry = registry
        self._caller = caller

    def find(self, page: LimitPage) -> Json:
        """Return a page of limits, each with what is in force; also the settings' limits of stages without a row."""
        found = self._store.list_limits(**page.model_dump())
        return found | {"limits": [masked_limit(limit) for limit in found["limits"]]}

    def set(self, request: LimitRequest) -> Json:
        """Set a limit in place of the one with its kind, name and tenant, and return it.

        Raises:
            Invalid: it names a stage, or a circuit of one, that does not exist.
            Refused: a value that no limit has, or a time that is past; nothing was changed.
        """
        stage = request.name.partition(":")[0] if request.kind == "circuit" else request.name
        if request.kind != "key" and not self._registry().knows(stage):
            raise Invalid(f"there is no stage {stage}", field="name")
        given = request.model_dump() | {"until": request.until and request.until.isoformat()}
        return masked_limit(self._store.set_limit(caller=self._caller, **given))

    def remove(self, request: LimitRemoval) -> Json:
        """Remove a limit, and return what it was: the default is in force again.

        Raises:
            Refused: there is none.
        """
        return masked_limit(self._store.remove_limit(caller=self._caller, **request.model_dump()))


def label(limit: Json) -> str:
    """Return what a limit is of: `stage payment`, `email of acme`, `key customer-7 of acme`."""
    if limit["kind"] == "tenant":
        return f"{limit['name']} of {'each tenant' if limit['tenant_id'] == '*' else limit['tenant_id']}"
    if limit["kind"] == "key":
        return f"key {limit['name']} of {limit['tenant_id']}"
    return f"{limit['kind']} {limit['name']}"


def rate(values: Json) -> str:
    """Return a rate as the settings have it, like `10/s burst 20`; empty without one."""
    if values["per_second"] is None:
        return ""
    burst = "" if values["burst"] is None else f" burst {values['burst']}"
    return f"{values['per_second']:g}/s{burst}"


def described(values: Json) -> str:
    """Return runs and rate in words: `at most 2 at once, 10/s burst 20`."""
    runs = {None: "", 0: "none starts"}.get(values["runs"], f"at most {values['runs']} at once")
    return ", ".join(filter(None, (runs, rate(values)))) or "no limit"

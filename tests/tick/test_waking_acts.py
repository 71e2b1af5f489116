"""Whatever makes a job due between two ticks wakes one: the store's methods are compared with what their SQL does."""

import inspect
import re
from functools import cache

import pytest

from dev import ROOT
from lib.caller import Caller
from lib.store.store import Store
from lib.tick.waking import ACTS, WakingStore

# What puts a job into a queue, or makes one due or free to start.
_MAKES_DUE = re.compile(
    r"insert into public\.giftcard_jobs\b(?!_)|set status = 'queued'|set scheduled_at = v_now|"
    r"delete from public\.giftcard_(?:limits|stages)|set paused_at = null|giftcard_change_circuit\("
)
_WAKES_ITSELF = {"enqueue", "enqueue_and_wake", "submit_order", "receive_event", "begin_tick", "advance_tick"}
# Called by a tick, which goes on with what it makes due; or nothing of it is due.
_BY_A_TICK = {
    *("settle_with_call", "enqueue_occurrences", "import_pgmq", "step_operation", "prune", "end_quiet_batches"),
    *("record_payment", "record_payment_event", "record_card", "find_offered_payment", "take_order"),
    *("restore", "resume_schedule", "erase_customer", "cancel", "cancel_flow", "stop_operation", "begin_maintenance"),
}


@cache
def _bodies() -> dict[str, str]:
    text = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "supabase/schemas").glob("*.sql")))
    found = re.findall(r"create function public\.(giftcard_\w+)\((.*?)(?=\ncreate |\Z)", text, re.DOTALL)
    return dict(found)


def _makes_due(function: str, seen: frozenset[str] = frozenset()) -> bool:
    body = re.sub(r"--.*", "", _bodies().get(function, ""))
    if _MAKES_DUE.search(body):
        return True
    called = set(re.findall(r"public\.(giftcard_\w+)\(", body)) & set(_bodies()) - seen - {function}
    return any(_makes_due(name, seen | called | {function}) for name in sorted(called))


def _methods() -> dict[str, set[str]]:
    found = {}
    for path in sorted((ROOT / "lib/store").glob("*.py")):
        for method, body in re.findall(
            r"    def (\w+)\(\s*self(.*?)(?=\n    def |\nclass |\Z)", path.read_text(), re.DOTALL
        ):
            if not method.startswith("_") and hasattr(Store, method):
                found[method] = set(re.findall(r'"(giftcard_\w+)"', body))
    return found


def test_each_method_that_makes_a_job_due_wakes_a_tick() -> None:
    due = {method for method, functions in _methods().items() if any(map(_makes_due, functions))}
    assert due - _WAKES_ITSELF - _BY_A_TICK == set(ACTS) & due
    assert due >= {"requeue", "resend_mail", "receive_event", "make_free_of_charge", "resume"}, "the walk finds them"


@pytest.mark.parametrize("name", ACTS)
def test_an_act_is_done_and_then_wakes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    class Wire:
        def call(self, function: str, /, **_: object) -> object:
            done.append(function)
            return {"wake": True}

        def close(self) -> None:
            pass

    class Calls:
        def send(self, **_: object) -> None:
            done.append("wake")

    store = WakingStore(Wire(), Calls(), ticks=1)  # type: ignore[arg-type]
    monkeypatch.setattr(store, "_act", lambda function, *_, **__: store._dict(function))
    given = {
        name: None
        for name, parameter in inspect.signature(getattr(Store, name)).parameters.items()
        if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD and name != "self"
    }
    given |= {"name": None} if name == "create_batch" else {}
    given |= {"caller": Caller("operator")} if "caller" in given else {}
    getattr(store, name)(**given)
    assert done[-2:] == ["giftcard_take_wake", "wake"]
    assert len(done) == 3

"""Operators: what they do through the product, and what they do by hand."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from lib.caller import Caller
from lib.errors import Conflict, GiftcardError, Refused
from lib.store.store import Store

if TYPE_CHECKING:
    from proof.simulation.night import Night

OPERATOR = Caller("operator")
# How often a caller tries again.
TRIES = 40


def until_done(night: "Night", act: Callable[[Store], object]) -> bool:
    """Do something until it is done or refused, as a caller does. Return whether it is done."""
    store = night.store(night.machine.thread().process)
    for _ in range(TRIES):
        try:
            act(store)
            return True
        except (Refused, Conflict):
            return False
        except GiftcardError:
            night.machine.pause(5)
    return False


def _pause(night: "Night") -> None:
    store = night.store(night.machine.thread().process)
    stage = night.machine.thread().rng.choice(("payment", "task", "*"))
    store.pause(stage, paused_by="operator", reason="a look", caller=OPERATOR)
    night.machine.pause(45)
    until_done(night, lambda s: s.resume(stage, resumed_by="operator", caller=OPERATOR))


def _requeue(night: "Night") -> None:
    for job_id, flow in _some(night, "status in ('error', 'completed') and stage <> 'webhook'"):
        night.touch(job_id, flow)
        night.store(night.machine.thread().process).requeue(job_id, caller=OPERATOR, force=True, reason="again")


def _cancel(night: "Night", which: str = "status in ('queued', 'running', 'error') and stage <> 'webhook'") -> None:
    for job_id, flow in _some(night, which):
        night.touch(None, flow)
        night.store(night.machine.thread().process).cancel(job_id, caller=OPERATOR, reason="no more")
        night.cancelled.add(job_id)


def _stop(night: "Night") -> None:
    _cancel(night, "status = 'running' and stage <> 'webhook'")


def _update(night: "Night") -> None:
    for job_id, flow in _some(night, "status in ('running', 'error') and stage <> 'webhook'"):
        night.touch(job_id, flow)
        change = "status = 'queued', scheduled_at = giftcard_proof.clock(), attempts = 0"
        _by_hand(night, f"update giftcard_jobs set {change} where id = {job_id}")


def _enqueue_again(night: "Night") -> None:
    """Enqueue a second job of a step that an order has taken: nothing that it does happens twice."""
    for job_id, _ in _some(night, "stage in ('customer_ingest', 'personal_code', 'payment', 'issue_card')"):
        columns = "'stage', stage, 'correlation_id', correlation_id, 'payload', payload, 'context', context"
        again = f"jsonb_build_array(jsonb_build_object({columns}, 'dedup_key', 'again'))"
        _by_hand(night, f"select giftcard_enqueue({again}) from giftcard_jobs where id = {job_id}")


def _delete(night: "Night") -> None:
    for job_id, flow in _some(night, "stage <> 'webhook'"):
        night.touch(job_id, flow)
        _by_hand(night, f"delete from giftcard_jobs where id = {job_id}")


def _requeue_all(night: "Night") -> None:
    filter_ = {"status": "error"}
    store = night.store(night.machine.thread().process)
    store.requeue_jobs(filter=filter_, limit=500, caller=OPERATOR, dry_run=False)


def _reset(night: "Night") -> None:
    for (circuit,) in night.database.rows("select circuit from giftcard_circuits order by circuit limit 2"):
        night.store(night.machine.thread().process).reset_circuit(str(circuit), caller=OPERATOR)


def _some(night: "Night", condition: str, limit: int = 1) -> list[tuple[int, str]]:
    query = f"select id, correlation_id from giftcard_jobs where {condition} order by md5(id::text || $1) limit {limit}"
    me = night.machine.thread().name
    return [(int(str(row[0])), str(row[1])) for row in night.database.rows(query, f"{night.seed} {me}")]


def _by_hand(night: "Night", statement: str) -> None:
    night.machine.note(f"by hand: {statement}")
    night.database.run(statement, at=night.machine.moment)
    night.watch.changed_by_hand = True


# By name: each acts in a thread of its own.
DEEDS: dict[str, Callable[["Night"], None]] = {
    "pause": _pause,
    "requeue": _requeue,
    "cancel": _cancel,
    "stop": _stop,
    "update": _update,
    "enqueue again": _enqueue_again,
    "delete": _delete,
    "requeue_all": _requeue_all,
    "reset": _reset,
}

"""The contenders with their configurations, as data: what the sweep measures, and what follows from the best of them.

`batch` is the most jobs that one call claims. Products without batches have other settings for the same purpose.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from typing import Any

from bench import node

OURS, LIMIT, PGQUEUER, PROCRASTINATE = "ours", "the limit", "PgQueuer", "Procrastinate"
_PYTHON = ("pgqueuer", "procrastinate")
PEERS, NODE_PEERS = (PGQUEUER, PROCRASTINATE), tuple(node.NAMES.values())
OTHERS = (PROCRASTINATE, *NODE_PEERS)

WRITES: Mapping[str, str] = {
    OURS: "the row twice, a row of history; once a call the tick's row and the circuit's",
    LIMIT: "the row twice",
    PGQUEUER: "the row once, a row of log when picked and one at the end; deletes the row",
    PROCRASTINATE: "the row twice, two rows of events",
    "pg-boss": "the row twice (one call of the handler takes a whole batch)",
    "graphile-worker": "the row once; deletes it",
}
"""What a drain writes for a job, in words. The counted rows stand beside them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """An operation of a contender with options, in this many processes.

    `share`: it gets one of so many parts of the jobs, because it is slow or not what the aims are about. `core`: it is
    measured in each round, others in every second one.
    """

    product: str
    name: str
    module: str
    operation: str = "drain"
    options: Mapping[str, Any] = field(default_factory=dict)
    processes: int = 1
    share: int = 1
    core: bool = False
    writes: str = ""

    @property
    def what_it_writes(self) -> str:
        """What a drain writes for a job, in words."""
        return self.writes or WRITES[self.product]


def swept(batch: int) -> list[Config]:
    """Return all configurations of one process that the sweep measures, those that can run here."""
    configs = [*_ours(batch), *_pgqueuer(batch), *_procrastinate(batch), *_node(batch)]
    return [config for config in configs if config.module not in _PYTHON or find_spec(config.module)]


def _ours(batch: int) -> Iterable[Config]:
    # More threads than a batch has jobs would only be idle, and fewer would split it.
    for ticks in (1, 2, 3, 4):
        name = f"ours, {ticks} tick{'s' * (ticks > 1)}"
        yield Config(product=OURS, name=name, module="ours", options={"batch": batch, "ticks": ticks}, core=True)


def _pgqueuer(batch: int) -> Iterable[Config]:
    for managers in (1, 2, 3, 5):
        name = f"PgQueuer, {managers} manager{'s' * (managers > 1)}"
        options = {"batch": batch, "managers": managers}
        yield Config(product=PGQUEUER, name=name, module="pgqueuer", options=options, core=True)


def _procrastinate(batch: int) -> Iterable[Config]:
    small, large = ((1, 1), (4, 4), (10, 4), (10, 11)), ((10, 4), (30, 4), (100, 4), (100, 20))
    choices = [(*choice, "never") for choice in (small if batch < 50 else large)]
    choices.append((min(batch, 10), 4, "always"))
    for concurrency, connections, delete in choices:
        deleting = ", deletes" if delete == "always" else ""
        yield Config(
            product=PROCRASTINATE,
            name=f"Procrastinate, {concurrency} at once, {connections} conn.{deleting}",
            module="procrastinate",
            options={"batch": batch, "concurrency": concurrency, "connections": connections, "delete": delete},
            share=10,
            writes="deletes the row and its events; adds one" if deleting else "",
        )


def _node(batch: int) -> Iterable[Config]:
    if node.prepare():
        return
    for workers in (1, 2, 4):
        name = f"pg-boss, {workers} worker{'s' * (workers > 1)}"
        yield Config(product="pg-boss", name=name, module="pgboss", options={"batch": batch, "workers": workers})
    choices = [(batch, 0, -1, 10), (10, batch, -1, 10), (batch, batch, 0, 4), (batch, batch, 0, 10)]
    for jobs, queue, delay, connections in choices:
        parts = [f"{jobs} at once", f"queue of {queue}" if queue else "no queue", f"{connections} conn."]
        yield Config(
            product="graphile-worker",
            name=", ".join(["graphile", *parts, *(["batched ends"] if delay >= 0 else [])]),
            module="graphile",
            options={"batch": batch, "jobs": jobs, "queue": queue, "delay": delay, "connections": connections},
            share=3,
        )


def finals(best: Mapping[str, list[Config]], batch: int) -> dict[str, list[Config]]:
    """Return the configurations of the final by level, from those of each product, the best first."""
    only = {"batch": batch}
    limit = Config(product=LIMIT, name="the limit", module="limit", options=only, core=True)
    one = Config(product=OURS, name="ours, 1 tick", module="ours", options=only | {"ticks": 1}, core=True)
    process = [limit, one, replace(_logged(one), core=True)]
    # Of the two that the aims are about, two are taken: a sweep is short.
    process += [config for config in best[OURS][:2] if config.name != one.name]
    process += [_logged(best[OURS][0])] * (best[OURS][0].name != one.name) + best.get(PGQUEUER, [])[:2]
    process += [replace(best[peer][0], share=max(3, best[peer][0].share)) for peer in OTHERS if peer in best]
    calls = [Config(product=OURS, name="ours, calls", module="ours", operation="drain_by_store", options=only, share=3)]
    for peer, module, share in ((PGQUEUER, "pgqueuer", 3), (PROCRASTINATE, "procrastinate", 30)):
        name = f"{peer}, calls"
        config = Config(product=peer, name=name, module=module, operation="drain_by_calls", options=only, share=share)
        calls += [config] * (peer in best)
    several = [replace(limit, name="the limit, 2 processes", processes=2, share=3, core=False), *_several(best)]
    return {"calls": calls, "process": process, "processes": several}


def _logged(config: Config) -> Config:
    return replace(
        config, name=f"{config.name}, with its log", options={**config.options, "log": True}, share=2, core=False
    )


def _several(best: Mapping[str, list[Config]]) -> Iterable[Config]:
    """Return the best configuration of each product in two processes; of the fastest two also the plainest one."""
    for configs in best.values():
        plainest = [config for config in configs if 1 in (config.options.get("ticks"), config.options.get("managers"))]
        chosen = {config.name: config for config in (configs[0], *plainest)}
        for config in chosen.values():
            share = max(2 if plainest else 3, config.share)
            yield replace(config, name=f"2 × ({config.name})", processes=2, share=share, core=False)

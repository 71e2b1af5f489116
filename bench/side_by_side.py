"""Draining and enqueueing, ours compared with the peers and the limit: in turns, so that noise affects all alike."""

from dataclasses import dataclass, field
from typing import Any

from bench.child import install, measured
from bench.measure import Sample, Spread
from bench.scale import Scale
from bench.server import drop, fresh, tidy
from bench.table import Line, aim, bars, cpu, title
from dev.postgres import Embedded


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A module of `bench.contenders` with options."""

    name: str
    module: str
    drain: str = "drain"
    options: dict[str, Any] = field(default_factory=dict)


_LIMIT = Contender(name="the limit", module="limit")
# Like the peers: in one process, with one connection and with several. Three are fastest on two cores.
_OURS = (
    Contender(name="ours, one tick", module="ours", options={"ticks": 1}),
    Contender(name="ours, 3 ticks", module="ours", options={"ticks": 3}),
)
_PEERS = (
    Contender(name="PgQueuer", module="pgqueuer", options={"managers": 1}),
    Contender(name="PgQueuer, 5 managers", module="pgqueuer", options={"managers": 5}),
    Contender(name="Procrastinate", module="procrastinate"),
)
_OUR_VARIANTS = (
    Contender(name="ours, calls only", module="ours", drain="drain_by_store"),
    Contender(name="ours, with logging", module="ours", options={"log": True}),
)


def drains(server: Embedded, scale: Scale, *, batch: int, target: float) -> None:
    """Measure `scale.jobs` queued jobs, until the last outcome is committed."""
    title(f"Draining {scale.jobs:,} queued jobs, batch {batch}")
    samples = _in_turns(server, scale, (_LIMIT, *_OURS, *_OUR_VARIANTS, *_PEERS), batch=batch)
    _print(samples)
    aim("ours, as a multiple of the better peer", _best(samples, _OURS) / _best(samples, _PEERS), at_least=target)


def enqueueing(server: Embedded, scale: Scale) -> None:
    """Measure `scale.jobs` new jobs in batches."""
    title(f"Enqueueing {scale.jobs:,} jobs, {scale.enqueue_batch:,} per call")
    contenders = (_LIMIT, _OURS[0], _PEERS[0], _PEERS[-1])
    samples = _in_turns(server, scale, contenders, batch=None)
    _print(samples)
    pgqueuer = _speed(samples[_PEERS[0].name])
    aim("ours, as a multiple of PgQueuer", _speed(samples[_OURS[0].name]) / pgqueuer, at_least=1)


def _in_turns(
    server: Embedded, scale: Scale, contenders: tuple[Contender, ...], *, batch: int | None
) -> dict[str, list[Sample]]:
    """Return samples by contender; without `batch`, of the enqueueing itself."""
    urls = {contender.name: fresh(server) for contender in contenders}
    for contender in contenders:
        install(contender.module, urls[contender.name])
    samples: dict[str, list[Sample]] = {contender.name: [] for contender in contenders}
    for _ in range(scale.rounds):
        for contender in contenders:
            url = urls[contender.name]
            sample = measured(contender.module, "enqueue", url, count=scale.jobs, batch=scale.enqueue_batch)
            tidy(url)
            if batch is not None:
                sample = measured(
                    contender.module, contender.drain, url, count=scale.jobs, batch=batch, **contender.options
                )
            samples[contender.name].append(sample)
    for url in urls.values():
        drop(server, url)
    return samples


def _best(samples: dict[str, list[Sample]], contenders: tuple[Contender, ...]) -> float:
    return max(_speed(samples[contender.name]) for contender in contenders)


def _speed(samples: list[Sample]) -> float:
    return Spread.of([sample.per_second for sample in samples]).median


def _print(samples: dict[str, list[Sample]]) -> None:
    lines = [
        Line(name=name, spread=Spread.of([sample.per_second for sample in taken]), note=cpu(taken))
        for name, taken in samples.items()
    ]
    bars(lines, unit="jobs/s")

"""Draining and enqueueing, ours compared with the peers and the limit: in turns, so that noise affects all alike."""

import time
from collections.abc import Mapping, Sequence

import psycopg

from bench.child import install, measured
from bench.configs import LIMIT, NODE_PEERS, OURS, PEERS, PGQUEUER, Config, finals, swept
from bench.contenders import ours
from bench.measure import Sample, Spread
from bench.scale import Scale
from bench.server import drop, fresh, tidy
from bench.table import aim, bars, line, title, write
from dev.postgres import Embedded

Samples = dict[str, list[Sample]]

# Of the better peer, and of the limit: what is asked of the best of ours, by batch.
_AIMS: Mapping[int, tuple[float, float]] = {10: (1.5, 0.90), 100: (1.4, 0.45)}
_AIM_LOG = 0.8
_AIM_ENQUEUE = 1.5
_LEVELS = {"calls": "the calls alone", "process": "one process", "processes": "two processes"}


def drains(server: Embedded, scale: Scale, *, batch: int, until: float) -> None:
    """Find the best configuration of each product, then measure these with more jobs and rounds, on three levels.

    `until`: when it should end (`time.monotonic()`).
    """
    title(f"Sweep, batch {batch}", note=f"{scale.sweep:,} queued jobs, of slow ones fewer, one process; ★ goes on")
    with _Arena(server, scale) as arena:
        configs = swept(batch)
        samples = arena.in_turns(configs, jobs=scale.sweep, rounds=range(min(2, scale.rounds)))
        configs = [config for config in configs if config.name in samples]
        best = _ranked(configs, samples)
        firsts = {configs[0].name for configs in best.values()}
        bars(
            [line(f"{config.name}{' ★' * (config.name in firsts)}", samples[config.name]) for config in configs],
            unit="jobs/s",
        )
    levels = finals(best, batch)
    with _Arena(server, scale) as arena:
        chosen = [config for level in levels.values() for config in level]
        samples = arena.in_turns(chosen, jobs=scale.jobs, rounds=scale.in_time(until=until))
    rounds = max(map(len, samples.values()))
    for level, entered in levels.items():
        configs = [config for config in entered if config.name in samples]
        title(
            f"Draining, batch {batch}: {_LEVELS[level]}",
            note=f"{scale.jobs:,} queued jobs, of slow ones fewer; rounds: {rounds}, of minor ones fewer",
        )
        bars([line(one.name, samples[one.name], writes=one.what_it_writes) for one in configs], unit="jobs/s")
        if level != "calls":
            _aims(configs, samples, batch)


def _aims(configs: Sequence[Config], samples: Samples, batch: int) -> None:
    of_peer, of_limit = _AIMS[batch]
    best, limit = _best(configs, samples, OURS), _best(configs, samples, LIMIT)
    for peers, at_least in ((PEERS, of_peer), (NODE_PEERS, None)):
        if speed := max(_best(configs, samples, peer) for peer in peers):
            aim(
                f"the best of ours, as a multiple of the better of {' and '.join(peers)}",
                best / speed,
                at_least=at_least,
            )
    if limit and all(config.processes == 1 for config in configs):
        aim("the best of ours, as a part of the limit", best / limit, at_least=of_limit)
        for config in configs:
            if config.options.get("log"):
                without = config.name.removesuffix(", with its log")
                part = _speed(samples[config.name]) / _speed(samples[without])
                aim(f"{config.name}, as a part of the same without", part, at_least=_AIM_LOG)


def enqueueing(server: Embedded, scale: Scale) -> None:
    """Measure new jobs in batches."""
    jobs = min(scale.jobs, 10_000)
    title(f"Enqueueing, {scale.enqueue_batch:,} jobs a call", note=f"{jobs:,} jobs a round, rounds: {scale.rounds}")
    configs = list({config.product: config for config in swept(100)}.values())
    configs.insert(0, Config(product=LIMIT, name=LIMIT, module="limit"))
    samples: Samples = {config.product: [] for config in configs}
    with _Arena(server, scale) as arena:
        for _ in range(scale.rounds):
            for config in configs:
                samples[config.product].append(arena.enqueue(config, jobs))
    bars([line(product, taken) for product, taken in samples.items()], unit="jobs/s")
    if PGQUEUER in samples:
        part = _speed(samples[OURS]) / _speed(samples[PGQUEUER])
        aim("ours, as a multiple of PgQueuer", part, at_least=_AIM_ENQUEUE)


class _Arena:
    """One database for each product, dropped in the end."""

    def __init__(self, server: Embedded, scale: Scale) -> None:
        self._server, self._scale = server, scale
        self._urls: dict[str, str] = {}

    def __enter__(self) -> "_Arena":
        return self

    def __exit__(self, *_: object) -> None:
        if OURS in self._urls:
            ours.check(self._urls[OURS])
        for url in self._urls.values():
            drop(self._server, url)

    def in_turns(self, configs: Sequence[Config], *, jobs: int, rounds: "Sequence[int] | object") -> Samples:
        """Return samples by the name of the configuration; one that fails is left out."""
        samples: Samples = {config.name: [] for config in configs}
        for number in rounds:  # type: ignore[attr-defined]
            began = time.monotonic()
            # The second round backwards, so that the same neighbour does not always leave its work behind.
            chosen = [one for one in configs if one.core][::-1] if number % 2 else configs
            for config in chosen:
                if config.name in samples:
                    self._take(config, self._count(config, jobs), samples)
            write(f"  (round {number + 1}: {len(chosen)} configurations in {time.monotonic() - began:.0f} s)")
        return samples

    def _take(self, config: Config, jobs: int, samples: Samples) -> None:
        try:
            samples[config.name].append(self._drain(config, jobs))
        except RuntimeError as error:
            if config.product == OURS:
                raise
            write(f"  left out: {config.name}: {error}")
            del samples[config.name]
            # What it has left behind must not meet the next one.
            drop(self._server, self._urls.pop(config.product))

    def enqueue(self, config: Config, jobs: int) -> Sample:
        """Enqueue this many jobs, after a checkpoint: none falls into a measurement, and pages are written in full
        here, not in the drain."""
        with psycopg.connect(self._server.url, autocommit=True) as connection:
            connection.execute("checkpoint")
        batch = min(jobs, self._scale.enqueue_batch)
        return measured(config.module, "enqueue", self._url(config), count=jobs, batch=batch)

    def _drain(self, config: Config, jobs: int) -> Sample:
        self.enqueue(config, jobs)
        tidy(self._url(config))
        sample = measured(
            config.module,
            config.operation,
            self._url(config),
            processes=config.processes,
            count=jobs,
            **config.options,
        )
        if sample.count != jobs:
            raise RuntimeError(f"{config.name}: {sample.count} of {jobs} jobs completed")
        return sample

    def _count(self, config: Config, jobs: int) -> int:
        batch = self._scale.enqueue_batch
        jobs = max(20, jobs // config.share)
        return jobs // batch * batch if jobs > batch else jobs

    def _url(self, config: Config) -> str:
        if config.product not in self._urls:
            self._urls[config.product] = fresh(self._server)
            install(config.module, self._urls[config.product])
        return self._urls[config.product]


def _ranked(configs: Sequence[Config], samples: Samples) -> dict[str, list[Config]]:
    """Return the configurations of each product, the fastest first."""
    ranked: dict[str, list[Config]] = {}
    for config in sorted(configs, key=lambda config: -_speed(samples[config.name])):
        ranked.setdefault(config.product, []).append(config)
    return ranked


def _best(configs: Sequence[Config], samples: Samples, product: str) -> float:
    speeds = [_speed(samples[one.name]) for one in configs if one.product == product and not one.options.get("log")]
    return max(speeds, default=0)


def _speed(samples: Sequence[Sample]) -> float:
    return Spread.of([sample.per_second for sample in samples]).median

"""Numbers for Prometheus, from one call of the database. Names and units as it advises; no label without bounds."""

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lib.config.settings import Settings
from lib.jobs.stage import Registry
from lib.store.store import Store

if TYPE_CHECKING:  # imported when somebody scrapes
    from prometheus_client.core import Metric

Json = dict[str, Any]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Sums that are a counter of their own: name, help, labels (stage, or what the sum's label is).
_COUNTERS = {
    "runs": ("giftcard_runs", "Runs that have ended, by stage and result.", ("stage", "result")),
    "run_seconds": ("giftcard_run_seconds", "Seconds that runs took, from claim to settle.", ("stage", "result")),
    "ticks": ("giftcard_ticks", "Ticks that have ended, by what stopped them.", ("stopped_because",)),
    "tick_seconds": ("giftcard_tick_seconds", "Seconds that ticks took.", ()),
    "leases_lost": ("giftcard_leases_lost", "Settles that came when the job was somebody else's.", ()),
    "interrupted": ("giftcard_runs_interrupted", "Runs of killed functions that were taken over.", ()),
}


def exposition(store: Store, registry: Registry, settings: Settings) -> bytes:
    """The text that Prometheus reads."""
    from prometheus_client import CollectorRegistry, generate_latest

    told = store.metrics(stages=registry.ready(settings))

    class _Told:
        def collect(self) -> "Iterator[Metric]":
            return families(told)

    collector = CollectorRegistry(auto_describe=False)
    collector.register(_Told())
    return generate_latest(collector)


def families(told: Json) -> "Iterator[Metric]":
    """What `giftcard_metrics` answers, as families of metrics."""
    yield from _counters(told["counters"])
    yield _start_delays(told["counters"])
    yield from _gauges(told)


def _counters(sums: list[Json]) -> "Iterator[Metric]":
    from prometheus_client.core import CounterMetricFamily

    for source, (name, text, labels) in _COUNTERS.items():
        family = CounterMetricFamily(name, text, labels=labels)
        for row in sums:
            if row["name"] == source:
                values = {"stage": row["stage"], "result": row["label"].lower(), "stopped_because": row["label"]}
                family.add_metric([values[label] for label in labels], row["value"])
        yield family


def _start_delays(sums: list[Json]) -> "Metric":
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(
        "giftcard_start_delay_seconds", "How long after its time a run began.", labels=("stage",)
    )
    buckets: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for row in sums:
        if row["name"] == "start_delays":
            buckets[row["stage"]].append((row["label"], row["value"]))
    totals = {row["stage"]: row["value"] for row in sums if row["name"] == "start_delay_seconds"}
    for stage, found in sorted(buckets.items()):
        family.add_metric([stage], sorted(found, key=lambda bucket: float(bucket[0])), totals.get(stage, 0))
    return family


def _gauges(told: Json) -> "Iterator[Metric]":
    from prometheus_client.core import GaugeMetricFamily

    jobs = GaugeMetricFamily("giftcard_jobs", "Jobs that wait, run or are dead letters.", labels=("stage", "status"))
    for row in told["jobs"]:
        jobs.add_metric([row["stage"], row["status"]], row["jobs"])
    yield jobs
    for name, source, text in (
        ("giftcard_oldest_due_seconds", "due", "How long the oldest due job of a stage waits."),
        ("giftcard_oldest_dead_letter_seconds", "dead", "How long ago the oldest dead letter of a stage died."),
    ):
        family = GaugeMetricFamily(name, text, labels=("stage",))
        for stage, seconds in told[source].items():
            family.add_metric([stage], seconds)
        yield family
    circuits = GaugeMetricFamily(
        "giftcard_circuits", "Circuits of a stage that are not closed.", labels=("stage", "state")
    )
    for row in told["circuits"]:
        circuits.add_metric([row["stage"], row["state"]], row["circuits"])
    yield circuits
    for name, source, text in (
        ("giftcard_last_tick_age_seconds", "age", "How long ago the newest tick began."),
        ("giftcard_last_tick_duration_seconds", "seconds", "How long the tick took that ended last."),
        ("giftcard_tick_gap_seconds", "gap", "The longest pause between two of the last 20 ticks."),
    ):
        if told["tick"][source] is not None:
            yield GaugeMetricFamily(name, text, value=told["tick"][source])

"""Metrics for Prometheus, from one database call. Names and units follow its conventions; labels are bounded."""

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lib.config.settings import Settings
from lib.giftcards.decisions import DIFFERENCES
from lib.jobs.registry import Registry
from lib.store.store import Store

if TYPE_CHECKING:  # imported with the first scrape
    from prometheus_client.core import Metric

Json = dict[str, Any]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

# Metrics by the database's counters: name, help, labels (the stage, or the meaning of the counter's label).
_COUNTERS = {
    "runs": ("giftcard_runs", "Runs that have ended, by stage and result.", ("stage", "result")),
    "run_seconds": ("giftcard_run_seconds", "Seconds that runs took, from claim to settle.", ("stage", "result")),
    "ticks": ("giftcard_ticks", "Ticks that have ended, by what stopped them.", ("stopped_because",)),
    "tick_seconds": ("giftcard_tick_seconds", "Seconds that ticks took.", ()),
    "leases_lost": ("giftcard_leases_lost", "Settles rejected because another run held the job.", ()),
    "denied_requests": ("giftcard_denied_requests", "Requests with a wrong token or signature.", ("reason",)),
    "unusable_events": ("giftcard_unusable_events", "Signed events that are not as expected.", ("source",)),
    "interrupted": ("giftcard_runs_interrupted", "Runs of killed functions that were taken over.", ()),
}


def exposition(store: Store, registry: Registry, settings: Settings) -> bytes:
    """Return the metrics in the Prometheus text format."""
    from prometheus_client import CollectorRegistry, generate_latest

    values = store.metrics(stages=registry.ready(settings))

    class _Collector:
        def collect(self) -> "Iterator[Metric]":
            return families(values)

    registry_ = CollectorRegistry(auto_describe=False)
    registry_.register(_Collector())
    return generate_latest(registry_)


def families(values: Json) -> "Iterator[Metric]":
    """Yield the metric families of a result of `giftcard_metrics`."""
    yield from _counters(values["counters"])
    yield _wakes(values["waking"])
    yield _start_delays(values["counters"])
    yield from _gauges(values)


def _counters(counters: list[Json]) -> "Iterator[Metric]":
    from prometheus_client.core import CounterMetricFamily

    for source, (name, text, labels) in _COUNTERS.items():
        family = CounterMetricFamily(name, text, labels=labels)
        for row in counters:
            if row["name"] == source:
                label = row["label"]
                label_values = {
                    "stage": row["stage"],
                    "result": label.lower(),
                    "stopped_because": label,
                    "reason": label,
                    "source": label,
                }
                family.add_metric([label_values[label] for label in labels], row["value"])
        yield family


def _wakes(waking: Json | None) -> "Metric":
    from prometheus_client.core import CounterMetricFamily

    family = CounterMetricFamily("giftcard_wakes", "Ticks woken between two calls of the clock.", labels=("result",))
    for result in ("sent", "lost", "failed", "held_back"):
        family.add_metric([result], (waking or {}).get(result, 0))
    return family


def _start_delays(counters: list[Json]) -> "Metric":
    from prometheus_client.core import HistogramMetricFamily

    family = HistogramMetricFamily(
        "giftcard_start_delay_seconds", "How long after its time a run began.", labels=("stage",)
    )
    buckets: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for row in counters:
        if row["name"] == "start_delays":
            buckets[row["stage"]].append((row["label"], row["value"]))
    totals = {row["stage"]: row["value"] for row in counters if row["name"] == "start_delay_seconds"}
    for stage, found in sorted(buckets.items()):
        family.add_metric([stage], sorted(found, key=lambda bucket: float(bucket[0])), totals.get(stage, 0))
    return family


def _gauges(values: Json) -> "Iterator[Metric]":
    from prometheus_client.core import GaugeMetricFamily

    jobs = GaugeMetricFamily("giftcard_jobs", "Jobs that wait, run or are dead letters.", labels=("stage", "status"))
    for row in values["jobs"]:
        jobs.add_metric([row["stage"], row["status"]], row["jobs"])
    yield jobs
    for name, source, text in (
        ("giftcard_oldest_due_seconds", "due", "How long the oldest due job of a stage waits."),
        ("giftcard_oldest_dead_letter_seconds", "dead", "How long ago the oldest dead letter of a stage died."),
    ):
        family = GaugeMetricFamily(name, text, labels=("stage",))
        for stage, seconds in values[source].items():
            family.add_metric([stage], seconds)
        yield family
    circuits = GaugeMetricFamily(
        "giftcard_circuits", "Circuits of a stage that are not closed.", labels=("stage", "state")
    )
    for row in values["circuits"]:
        circuits.add_metric([row["stage"], row["state"]], row["circuits"])
    yield circuits
    yield from _limits(values)
    books = GaugeMetricFamily(
        "giftcard_books_differences", "Places where money and cards do not match.", labels=("kind",)
    )
    for kind, items in (dict.fromkeys(DIFFERENCES, 0) | values.get("differences", {})).items():
        books.add_metric([kind], items)
    yield books
    for name, source, text in (
        ("giftcard_last_tick_age_seconds", "age", "How long ago the last tick that ended well has ended."),
        ("giftcard_last_tick_duration_seconds", "seconds", "How long the last tick that ended well took."),
        ("giftcard_tick_gap_seconds", "gap", "The longest pause between two of the last 20 ticks that ended well."),
    ):
        if values["tick"][source] is not None:
            yield GaugeMetricFamily(name, text, value=values["tick"][source])


def _limits(values: Json) -> "Iterator[Metric]":
    from prometheus_client.core import GaugeMetricFamily

    for name, source, text in (
        ("giftcard_limit_runs", "runs", "The most runs at once that a limit allows."),
        ("giftcard_limit_running", "running", "Runs that count for a limit; for each tenant, the most that one has."),
    ):
        family = GaugeMetricFamily(name, text, labels=("kind", "name", "tenant"))
        for row in values.get("limits", ()):
            family.add_metric([row["kind"], row["name"], row["tenant"]], row[source])
        yield family

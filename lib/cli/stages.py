"""Tables of stages and of their start delays."""

from collections.abc import Iterator
from typing import Any

from lib.cli.tables import Part, Table, duration
from lib.config.rates import Rate
from lib.jobs.shown import to_unpark

Json = dict[str, Any]


def stages(found: Json) -> Iterator[Part]:
    """Render the stages with their effective settings."""
    if found["all_paused_by"]:
        yield f"Everything is paused by {found['all_paused_by']}: flask jobs resume '*'"
    columns = ("stage", "runs", "attempts", "delays", "ttr", "concurrency", "rate", "queued", "dead")
    rows = [
        (
            *(s["stage"], _runs(s), s["max_attempts"], _delays(s), f"{s['ttr_seconds']} s", s["concurrency"] or "any"),
            _rate(s) or "any",
            *(s["jobs"].get("queued", 0), s["jobs"].get("error", 0)),
        )
        for s in found["stages"]
    ]
    yield Table("Stages", columns, rows)
    yield "Concurrency and rate are those of the settings. Limits override them: flask jobs limits list"
    if broken := found.get("broken_stages"):  # older deployments have none
        yield Table("Stages that cannot be loaded: their jobs wait", ("stage", "reason"), list(broken.items()))
    overrides = [
        (stage["stage"], name, _rate(stage) if name == "rate" else stage[name], source)
        for stage in found["stages"]
        for name, source in stage["source"].items()
        if source not in ("default", "code")
    ]
    if overrides:
        yield Table("Stage overrides", ("stage", "setting", "value", "variable"), overrides)


def _rate(stage: Json) -> str | None:
    rate = stage.get("rate")  # older deployments have none
    return str(Rate(**rate)) if rate else None


def _runs(stage: Json) -> str:
    if stage["missing_setting"]:
        return f"parked: {to_unpark(stage['missing_setting'])}"
    return f"paused by {stage['paused_by']}" if stage["paused_by"] else "yes"


def _delays(stage: Json) -> str:
    if stage["delays"]:
        return ", ".join(f"{delay:g}" for delay in stage["delays"]) + " s"
    jitter = f" +{stage['jitter']:.0%}" if stage["jitter"] else ""
    return f"{stage['base_seconds']:g} s doubling to {stage['cap_seconds']:g} s{jitter}"


def precision(found: Json) -> Iterator[Part]:
    """Render how long after its time each run began."""
    window = found["window_seconds"]
    if found["precision"]:
        yield start_delays(found["precision"], window_seconds=window)
    else:
        yield f"No run has ended within {duration(window * 1000)}."


def start_delays(stages: list[Json], *, window_seconds: float) -> Table:
    """Return the table of start delays by stage."""
    rows = [
        (p["stage"], p["runs"], duration(p["p50_ms"]), duration(p["p95_ms"]), duration(p["max_ms"])) for p in stages
    ]
    title = f"How long after its time each run of the last {duration(window_seconds * 1000)} began"
    return Table(title, ("stage", "runs", "median", "95 %", "maximum"), rows)

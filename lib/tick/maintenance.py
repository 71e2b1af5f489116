"""Maintenance tasks, which a tick runs after its jobs, each at its interval (`supabase/schemas/13_maintenance.sql`)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from lib.config.settings import Settings
from lib.jobs.registry import Registry
from lib.store.store import Store
from lib.telemetry import events

Summary = Mapping[str, object]

# Runs that one tick counts, in about 200 ms. The rest is left to the next tick.
_MOST_RUNS = 20_000
_MOST_BATCHES = 1000


@dataclass(frozen=True, slots=True)
class MaintenanceTask:
    """`run` returns a summary for the tick's report. A task that is not `enabled` costs no database call."""

    run: Callable[[Store, Registry, Settings], Summary]
    enabled: Callable[[Settings], object] = lambda settings: True


def _prune(store: Store, _registry: Registry, settings: Settings) -> Summary:
    from lib.tick.pruning import prune

    return prune(store, settings)


def _alerts(store: Store, registry: Registry, settings: Settings) -> Summary:
    from lib.monitoring.alerts import notify

    return notify(store, registry, settings)


def _operations(store: Store, _registry: Registry, _settings: Settings) -> Summary:
    from lib.tick.operations import carry_out

    return carry_out(store)


def _batches(store: Store, _registry: Registry, _settings: Settings) -> Summary:
    return {"ended": store.end_quiet_batches(limit=_MOST_BATCHES)}


def _update_counters(store: Store, _registry: Registry, _settings: Settings) -> Summary:
    runs = store.update_counters(limit=_MOST_RUNS)
    if runs >= _MOST_RUNS:
        store.continue_maintenance("counters")
    return {"runs": runs}


def _has_alert_channel(settings: Settings) -> object:
    return settings.giftcard_alert_recipients or settings.giftcard_alert_url or settings.sentry_dsn


# Each task imports its code when it runs: in most ticks, none is due.
TASKS: Mapping[str, MaintenanceTask] = {
    "alerts": MaintenanceTask(_alerts, enabled=_has_alert_channel),
    "operations": MaintenanceTask(_operations),
    "batches": MaintenanceTask(_batches),
    "counters": MaintenanceTask(_update_counters),
    "prune": MaintenanceTask(_prune),
}


def run_due(due: Iterable[str], store: Store, registry: Registry, settings: Settings) -> dict[str, Summary]:
    """Run the due tasks that no other tick has taken, and return their summaries by name.

    A task that fails is logged and stops neither the tick nor the other tasks.
    """
    summaries: dict[str, Summary] = {}
    for name in due:
        task = TASKS.get(name)  # a newer schema may have tasks that this code does not know
        if task is None or not task.enabled(settings):
            continue
        try:
            if store.begin_maintenance(name):
                summaries[name] = task.run(store, registry, settings)
        except Exception as error:  # noqa: BLE001
            events.emit("maintenance_failed", task=name, error=f"{type(error).__name__}: {error}")
            summaries[name] = {"failed": type(error).__name__}
    return summaries

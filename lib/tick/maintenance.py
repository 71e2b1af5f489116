"""Chores: what a tick sees to after its jobs, each at its interval (`supabase/schemas/13_maintenance.sql`)."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from lib.config.settings import Settings
from lib.jobs.stage import Registry
from lib.store.store import Store
from lib.telemetry import events


@dataclass(frozen=True, slots=True)
class Desk:
    """What a chore works with."""

    store: Store
    registry: Registry
    settings: Settings


@dataclass(frozen=True, slots=True)
class Chore:
    """`do` answers what the tick's report tells of it. One that is not `wanted` is not worth a call of the database."""

    do: Callable[[Desk], Mapping[str, object]]
    wanted: Callable[[Settings], object] = lambda settings: True


def _prune(desk: Desk) -> Mapping[str, object]:
    from lib.tick.pruning import prune

    return prune(desk.store, desk.settings)


def _alerts(desk: Desk) -> Mapping[str, object]:
    from lib.monitoring.alerts import notify

    return notify(desk.store, desk.registry, desk.settings)


# Each imports what it needs when its turn comes: most ticks have no chore.
CHORES: Mapping[str, Chore] = {
    "alerts": Chore(
        _alerts, wanted=lambda told: told.giftcard_alert_recipients or told.giftcard_alert_url or told.sentry_dsn
    ),
    "prune": Chore(_prune),
}


def see_to(due: Iterable[str], store: Store, registry: Registry, settings: Settings) -> dict[str, Mapping[str, object]]:
    """Does the chores that are due, if no other tick has just taken them. One that fails never stops the rest."""
    desk = Desk(store, registry, settings)
    done: dict[str, Mapping[str, object]] = {}
    for name in due:
        chore = CHORES.get(name)  # a newer schema may know chores that this code does not
        if chore is None or not chore.wanted(settings):
            continue
        try:
            if store.begin_maintenance(name):
                done[name] = chore.do(desk)
        except Exception as error:  # noqa: BLE001
            events.emit("maintenance_failed", task=name, error=f"{type(error).__name__}: {error}")
            done[name] = {"failed": type(error).__name__}
    return done

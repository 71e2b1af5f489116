"""The stages as cards: those of an order in its sequence, then the others, the busiest first."""

from typing import Any

from lib.config.settings import Settings
from lib.jobs.registry import Registry
from lib.jobs.shown import is_setting

Json = dict[str, Any]

_COUNTS = ("waiting", "retrying", "later", "running", "dead", "runs", "succeeded")


def cards(overview: Json) -> tuple[list[Json], list[Json]]:
    """Return the cards of the order's stages, and of the others.

    A card is a stage of the overview and `circuits`, those of it that are open; `trouble`: error (its jobs cannot
    run), warning (it is paused), dead (it has dead letters), or nothing; `quiet`: nothing of it is under way; `reason`:
    why it cannot run here; `success`: percent of its runs.
    """
    known = {stage["stage"]: stage for stage in overview["stages"]}
    flow = [_card(known.pop(name, None) or _empty(name), overview) for name in overview["flow"]]
    others = [_card(stage, overview) for stage in known.values()]
    return flow, sorted(others, key=lambda card: (card["quiet"], not card["trouble"], card["stage"]))


def with_settings(cards: list[Json], registry: Registry, settings: Settings) -> list[Json]:
    """Return the cards with `settings`: each effective setting of the stage, and where it comes from."""
    found = []
    for card in cards:
        stage = registry.stages.get(card["stage"])
        effective = stage.effective_settings(settings) if stage else {}
        rows = [(name, _words(setting.value), setting.source) for name, setting in effective.items()]
        found.append(card | {"settings": rows})
    return found


def _card(stage: Json, overview: Json) -> Json:
    circuits = [circuit for circuit in overview["circuits"] if circuit["stage"] == stage["stage"]]
    reason = overview["missing"].get(stage["stage"])
    is_held = bool(stage["waiting"] or stage["retrying"])
    stands = circuits or (reason and is_held)
    trouble = "error" if stands else "warning" if stage["paused"] else "dead" if stage["dead"] else ""
    active = any(stage[name] for name in ("waiting", "retrying", "running", "later", "runs"))
    return stage | {
        "circuits": circuits,
        "reason": reason,
        "needs_setting": bool(reason and is_setting(reason)),
        "trouble": trouble,
        "quiet": not (active or trouble),
        "success": 100 * stage["succeeded"] / stage["runs"] if stage["runs"] else None,
    }


def _empty(name: str) -> Json:
    nothing: Json = dict.fromkeys(_COUNTS, 0)
    return nothing | {
        "stage": name, "cap": 1000, "availability": "ready", "paused": None, "oldest_due_at": None,
        "p50_ms": None, "p95_ms": None,
    }  # fmt: skip


def _words(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple | list):
        return ", ".join(map(str, value)) or "none"
    return str(value)

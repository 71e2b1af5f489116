"""The notifications that are due in a world of SQL, and what makes conditions there."""

from datetime import timedelta
from typing import Any

from tests.support.factory import STAGES, World

ANN, BEN = "mail:ann", "mail:ben"


def check(world: World, *channels: str, **options: Any) -> dict[str, dict[str, str]]:
    """What is due: the kind of each condition, by channel. Nothing is recorded."""
    due = world.call("check_alerts", stages=STAGES, channels=channels or (ANN,), **options)
    return {item["channel"]: {alert["condition"]: alert["kind"] for alert in item["alerts"]} for item in due}


def record(world: World, due: dict[str, dict[str, str]], *, sent: bool | None = True) -> None:
    rows = [
        {"channel": channel, "condition": condition, "kind": kind, "sent": sent}
        for channel, alerts in due.items()
        for condition, kind in alerts.items()
    ]
    world.call("record_notifications", notified=rows)


def notified(world: World, *channels: str, **options: Any) -> dict[str, dict[str, str]]:
    """The same, and each channel accepts all."""
    due = check(world, *channels, **options)
    record(world, due)
    return due


def set_circuit(world: World, state: str, name: str = "email") -> None:
    world.run(
        """insert into giftcard_circuits (circuit, state, changed_at, open_until) values (%s, %s, %s, 'infinity')
             on conflict (circuit) do update set state = excluded.state""",
        name,
        state,
        world.now,
    )


def alerts(world: World) -> list[str]:
    return [row["condition"] for row in world.rows("select condition from giftcard_alerts order by condition")]


def dead_letter(world: World, stage: str = "email") -> int:
    """A dead letter that is old enough for an alert, and no tick."""
    job_id = world.enqueue(stage)
    died_at = world.now and world.now - timedelta(minutes=6)
    world.run("update giftcard_jobs set status = 'error', finished_at = %s where id = %s", died_at, job_id)
    return job_id

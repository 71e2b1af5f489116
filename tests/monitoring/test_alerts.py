"""Alerts: one when a condition begins, one when it is resolved; one that cannot be sent is sent later."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Barrier, Thread
from typing import Any

import pytest

from lib.monitoring.alert_texts import message
from tests.support.working import works
from tests.support.world import ADMIN, World, bearer

Make = Callable[..., World]


class Ear(HTTPServer):
    """Takes alerts, or does not."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.heard: list[dict[str, Any]] = []
        self.status = 200

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/alerts"

    def texts(self) -> list[str]:
        """What was heard since the last time."""
        texts = [body["text"] for body in self.heard]
        self.heard.clear()
        return texts


class _Request(BaseHTTPRequestHandler):
    server: Ear

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.status == 200:
            self.server.heard.append(body)
        self.send_response(self.server.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def ear() -> Iterator[Ear]:
    with Ear() as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def world(make_world: Make, ear: Ear) -> World:
    return make_world(handlers={"work": works}, GIFTCARD_ALERT_URL=ear.url)


def tick(world: World, *, after: float = 60) -> None:
    """The clock's next call."""
    world.move(after)
    world.tick()


def test_dead_letter_is_told_after_five_minutes_and_once(world: World, ear: Ear) -> None:
    world.enqueue("work", {"fails": "ever"})
    tick(world)
    tick(world)
    assert ear.texts() == []
    tick(world, after=170)
    assert ear.texts() == []
    tick(world, after=100)
    assert ear.texts() == ["dead letters: 1, of work. See why: flask jobs list --status error"]
    for _ in range(5):
        tick(world)
    assert ear.texts() == []


def test_new_dead_letters_are_told_once_an_hour_and_old_ones_again_after_a_day(world: World, ear: Ear) -> None:
    world.enqueue("work", {"fails": "ever"})
    tick(world)
    for _ in range(6):
        tick(world)
    assert len(ear.texts()) == 1
    world.enqueue("work", {"fails": "ever"})
    for _ in range(8):
        tick(world)
    assert ear.texts() == []
    for _ in range(53):
        tick(world)
    assert ear.texts() == ["Still: dead letters: 2, of work. See why: flask jobs list --status error"]
    tick(world, after=170)
    world.sql("update giftcard_alert_notifications set notified_at = notified_at - interval '24 hours'")
    tick(world)
    assert len(ear.texts()) == 1


def test_end_of_dead_letters_is_told(world: World, ear: Ear) -> None:
    (job_id,) = world.enqueue("work", {"fails": "ever"})
    for _ in range(7):
        tick(world)
    assert len(ear.texts()) == 1
    world.sql("update giftcard_jobs set status = 'cancelled' where id = %s", job_id)
    tick(world)
    tick(world)
    assert ear.texts() == ["Resolved: no dead letters are left"]
    assert world.value("select resolved_at from giftcard_alerts") is not None
    for _ in range(60):
        tick(world)
    assert ear.texts() == []
    assert world.sql("select * from giftcard_alerts") == []


def test_circuit_that_opened_and_closed_is_told(world: World, ear: Ear) -> None:
    world.enqueue("work", {"fails": True}, count=3)
    tick(world)
    (text,) = ear.texts()
    assert text.startswith("circuit work is open: 3 failures in a row, the last: TransientError: no.")
    world.sql("update giftcard_jobs set payload = '{}'")
    tick(world)
    tick(world)
    assert ear.texts() == ["Resolved: circuit work is closed"]


def test_next_tick_tells_that_none_came(world: World, ear: Ear) -> None:
    tick(world)
    tick(world, after=600)
    assert ear.texts() == ["no tick has ended well for 10 minutes: see why with flask jobs doctor"]
    for _ in range(7):
        tick(world)
    assert ear.texts() == ["Resolved: ticks run again"]


def test_deep_health_tells_that_no_tick_comes(world: World, ear: Ear) -> None:
    tick(world)
    assert world.client.get("/api/health/deep", headers=bearer(ADMIN)).status_code == 200
    world.move(240)
    response = world.client.get("/api/health/deep", headers=bearer(ADMIN))
    assert (response.status_code, response.json["alerts"][0]["condition"]) == (503, "no_tick")
    assert len(ear.texts()) == 1
    assert world.client.get("/api/health/deep").status_code == 401


def test_stage_that_is_late_is_told(world: World, ear: Ear) -> None:
    world.enqueue("work", count=1)
    world.sql("insert into giftcard_stages (stage, paused_at, paused_by) values ('work', now(), 'kim')")
    world.move(1000)
    tick(world)
    assert not [text for text in ear.texts() if "has waited" in text]  # paused on purpose
    world.sql("update giftcard_stages set paused_at = null")
    world.sql("insert into giftcard_stages (stage, paused_at, paused_by) values ('*', now(), 'kim')")
    tick(world)
    assert [text for text in ear.texts() if "the oldest due job of stage work has waited for" in text]


def test_alert_that_cannot_be_sent_is_sent_later_and_stops_no_tick(world: World, ear: Ear) -> None:
    ear.status = 500
    world.enqueue("work", {"fails": True}, count=3)
    tick(world)
    assert world.statuses() == {"queued": 3}
    assert world.value("select notified_at from giftcard_alert_notifications") is None
    ear.status = 200
    tick(world, after=61)
    assert len(ear.texts()) == 1


def test_ticks_at_once_tell_it_once(world: World) -> None:
    world.enqueue("work", {"fails": True}, count=3)
    world.sql("update giftcard_maintenance_tasks set last_at = now()")
    world.run()
    ready, together = world.registry.ready(world.settings), Barrier(8)

    def check(_: int) -> list[str]:
        together.wait(10)
        due = world.store.check_alerts(stages=ready, late_seconds=900, repeat_hours=24, channels=["mail:1", "url:1"])
        rows = [
            {"channel": item["channel"], "condition": alert["condition"], "kind": alert["kind"], "sent": True}
            for item in due
            for alert in item["alerts"]
        ]
        world.store.record_notifications(rows)
        return [f"{row['channel']} {row['condition']}" for row in rows]

    with ThreadPoolExecutor(8) as threads:
        for _ in range(5):
            world.sql("delete from giftcard_alerts")
            sent = [what for some in threads.map(check, range(8)) for what in some]
            assert sorted(sent) == ["mail:1 circuit:work", "url:1 circuit:work"]


@pytest.mark.parametrize("kind", ["raised", "repeated", "resolved"])
def test_condition_of_a_newer_schema_is_reported_by_its_name(kind: str) -> None:
    assert message({"condition": "flood:cellar", "kind": kind, "detail": {}}) == "flood:cellar"

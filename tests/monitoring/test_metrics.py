"""Numbers for Prometheus: right, monotonic, cheap, and nothing personal in them."""

import time
from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support import square
from tests.support.working import works
from tests.support.world import ADMIN, World, bearer

Make = Callable[..., World]


@pytest.fixture
def world(make_world: Make) -> World:
    return make_world(handlers={"work": works}, GIFTCARD_METRICS_TOKEN="token-of-prometheus")


def scrape(world: World) -> dict[tuple[str, ...], float]:
    """Samples by name and labels."""
    response = world.client.get("/api/metrics", headers=bearer("token-of-prometheus"))
    assert response.status_code == 200, response.text
    found = {}
    for family in text_string_to_metric_families(response.text):
        for sample in family.samples:
            found[(sample.name, *(f"{name}={value}" for name, value in sorted(sample.labels.items())))] = sample.value
    return found


def test_metrics_have_a_token_of_their_own(world: World) -> None:
    assert world.client.get("/api/metrics").status_code == 401
    assert world.client.get("/api/metrics", headers=bearer(ADMIN)).status_code == 200
    response = world.client.get("/api/metrics", headers=bearer("token-of-prometheus"))
    assert response.content_type == "text/plain; version=0.0.4; charset=utf-8"


def test_what_happened_is_counted(world: World) -> None:
    world.enqueue("work", count=3)
    world.enqueue("work", {"fails": "ever"}, count=2)
    world.enqueue("work", {"fails": True})
    world.tick()
    world.enqueue("work", count=4)
    world.move(11)
    found = scrape(world)
    assert found["giftcard_runs_total", "result=success", "stage=work"] == 3
    assert found["giftcard_runs_total", "result=failed", "stage=work"] == 3
    assert found["giftcard_jobs", "stage=work", "status=error"] == 2
    assert found["giftcard_jobs", "stage=work", "status=queued"] == 5
    assert found["giftcard_ticks_total", "stopped_because=drained"] == 1
    assert 11 <= found["giftcard_oldest_due_seconds", "stage=work"] < 20
    assert 11 <= found["giftcard_oldest_dead_letter_seconds", "stage=work"] < 20
    assert 11 <= found[("giftcard_last_tick_age_seconds",)] < 20
    assert found["giftcard_start_delay_seconds_count", "stage=work"] == 6
    assert found["giftcard_start_delay_seconds_bucket", "le=+Inf", "stage=work"] == 6


def test_counters_only_grow_when_history_is_pruned(world: World) -> None:
    world.enqueue("work", count=3)
    world.tick()
    world.move(11)
    before = scrape(world)["giftcard_runs_total", "result=success", "stage=work"]
    world.sql("delete from giftcard_job_history")
    world.enqueue("work", count=2)
    world.tick()
    world.move(11)
    assert (before, scrape(world)["giftcard_runs_total", "result=success", "stage=work"]) == (3, 5)


def test_what_has_only_just_ended_is_counted_by_the_next_scrape_and_once(world: World) -> None:
    world.enqueue("work", count=3)
    world.tick()
    name = ("giftcard_runs_total", "result=success", "stage=work")
    assert scrape(world).get(name) is None
    world.move(11)
    assert [scrape(world)[name] for _ in range(3)] == [3, 3, 3]


def test_events_that_cannot_be_used_are_counted_once(make_world: Make) -> None:
    world = make_world(GIFTCARD_METRICS_TOKEN="token-of-prometheus", **square.SETTINGS)
    assert not [sample for sample in scrape(world) if sample[0] == "giftcard_unusable_events_total"]
    for body in (b"no json", b"no json", b"[]", square.payment(), square.customer(email_address="kate")):
        square.send(world, body)
    assert scrape(world)["giftcard_unusable_events_total", "source=square"] == 3


def test_open_circuit_is_shown_by_its_stage(world: World) -> None:
    world.enqueue("work", {"fails": True}, count=3)
    world.tick()
    assert scrape(world)["giftcard_circuits", "stage=work", "state=open"] == 1


def test_labels_hold_nothing_of_a_tenant_or_job(world: World) -> None:
    world.enqueue("work", {"fails": "ever"}, tenant_id="tenant-of-tests", correlation_id="kate@example.com")
    world.tick()
    world.move(11)
    text = world.client.get("/api/metrics", headers=bearer(ADMIN)).text
    assert "tenant-of-tests" not in text
    assert "example.com" not in text


def test_scrape_is_one_call_of_the_database(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    wire = world.store._wire
    call = wire.call
    monkeypatch.setattr(wire, "call", lambda function, **given: (calls.append(function), call(function, **given))[1])
    scrape(world)
    assert calls == ["giftcard_metrics"]


@pytest.mark.slow
def test_scrape_stays_cheap_with_many_rows(world: World) -> None:
    world.sql("""insert into giftcard_jobs (correlation_id, stage, status, finished_at)
                 select 'many-' || n, 'work', 'completed', now() - interval '1 day'
                   from generate_series(1, 300000) n""")
    world.sql("""insert into giftcard_job_history
                   (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at)
                 select n, 1, 1, 'work', 'SUCCESS', now() - interval '1 day', now() - interval '1 day',
                        now() - interval '1 day' + n * interval '1 millisecond' from generate_series(1, 300000) n""")
    name = ("giftcard_runs_total", "result=success", "stage=work")
    while scrape(world)[name] < 300_000:
        pass
    assert min(_seconds(world) for _ in range(9)) < 1, "it reads what it has read before"


def _seconds(world: World) -> float:
    """How long a scrape takes: the least of several is that of a machine with nothing else to do."""
    began = time.perf_counter()
    scrape(world)
    return time.perf_counter() - began


def test_limits_have_what_they_allow_and_what_runs(world: World) -> None:
    world.sql("select public.giftcard_set_limit('stage', 'work', 3)")
    world.sql("select public.giftcard_set_limit('tenant', 'work', 2, p_tenant_id => 'acme')")
    world.sql("select public.giftcard_set_limit('key', 'customer-7', 2, p_tenant_id => 'acme')")
    world.sql("select public.giftcard_set_limit('circuit', 'work', p_per_second => 2)")
    world.add("work", status="running", tenant_id="acme", lease_expires_at="2099-01-01")
    found = scrape(world)
    limits = {name: value for name, value in found.items() if name[0].startswith("giftcard_limit")}
    assert limits == {
        ("giftcard_limit_runs", "kind=stage", "name=work", "tenant="): 3,
        ("giftcard_limit_running", "kind=stage", "name=work", "tenant="): 1,
        ("giftcard_limit_runs", "kind=tenant", "name=work", "tenant=acme"): 2,
        ("giftcard_limit_running", "kind=tenant", "name=work", "tenant=acme"): 1,
    }

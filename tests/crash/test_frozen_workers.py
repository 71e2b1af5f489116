"""A worker is frozen in the middle of its work, as serverless platforms do, and wakes up when others have done it."""

import signal
import time

import pytest

from tests.crash.doom import point
from tests.crash.processes import wait_for
from tests.crash.shop import Shop

pytestmark = pytest.mark.slow

_PLACES = (
    "before begin_effect",
    "before finish_effect",
    "after finish_effect",
    "before record_payment",
    "before settle",
)


def test_a_worker_that_wakes_up_late_changes_nothing(shop: Shop) -> None:
    house = shop.house
    frozen, other = house.worker(GIFTCARD_CONCURRENCY="1"), house.worker()
    frozen.await_ready()
    for place in _PLACES:
        here = point(shop.order(), "payment", place)
        house.appointments.make(here, number=signal.SIGSTOP)
        frozen.begin_tick()
        wait_for(lambda here=here: here in house.appointments.kept(), seconds=20, what=here)  # type: ignore[misc]
        house.execute("update giftcard_jobs set lease_expires_at = clock_timestamp() where status = 'running'")
        while not shop.all_done():
            other.tick()
            house.move_time()
        runs = "select * from giftcard_job_history order by job_id, run_no"
        before = house.rows(runs), house.rows("select * from giftcard_jobs order by id")
        frozen.signal(signal.SIGCONT)
        report = frozen.answer()
        assert report is not None
        assert report["lease_lost"] == 1, f"frozen {place}: {report}"
        assert (house.rows(runs), house.rows("select * from giftcard_jobs order by id")) == before, f"frozen {place}"
        assert report["completed"] == 2, f"frozen {place}: only the two stages before its payment were its own"
    shop.assert_all_is_right()


def test_a_run_that_was_claimed_before_a_long_sleep_does_not_begin(shop: Shop) -> None:
    """Frozen between the answer of the claim and the start of the handler, for longer than the run may take."""
    house = shop.house
    frozen = house.worker(GIFTCARD_CONCURRENCY="1", GIFTCARD_STAGE_PAYMENT_TTR_SECONDS="2")
    frozen.await_ready()
    here = point(shop.order(), "payment", "after claim")
    house.appointments.make(here, number=signal.SIGSTOP)
    frozen.begin_tick()
    wait_for(lambda: here in house.appointments.kept(), seconds=20, what=here)
    time.sleep(2.5)
    frozen.signal(signal.SIGCONT)
    report = frozen.answer()
    assert report is not None
    assert (report["released"], report["lease_lost"]) == (1, 0)
    runs = house.rows("select result from giftcard_job_history where stage = 'payment' order by run_no")
    assert runs[0] == ("RELEASED",)
    while not shop.all_done():
        house.move_time()
        frozen.tick()
    shop.assert_all_is_right()

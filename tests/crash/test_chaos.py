"""Workers are killed at random moments while orders come in and the vendor has bad days."""

import os
import random
import signal
import threading
import time

import pytest

from tests.crash.shop import Shop

_SECONDS = 8
_ORDERS = 60
_LANES = 3

pytestmark = pytest.mark.slow


def _order_now_and_then(shop: Shop, rng: random.Random) -> None:
    for _ in range(_ORDERS):
        shop.order()
        time.sleep(rng.random() * 2 * _SECONDS / _ORDERS * 0.8)


def _kill_now_and_then(shop: Shop, rng: random.Random, *, until: float) -> None:
    while time.monotonic() < until:
        time.sleep(rng.uniform(0.05, 0.3))
        if shop.house.workers:
            rng.choice(shop.house.workers).signal(signal.SIGKILL)


def test_orders_come_out_right_whenever_workers_are_killed(shop: Shop) -> None:
    """The moments are random: `GIFTCARD_CHAOS_SEED` draws the same ones again, as far as a machine repeats itself."""
    seed = int(os.environ.get("GIFTCARD_CHAOS_SEED") or random.randrange(10**6))
    print(f"GIFTCARD_CHAOS_SEED={seed}")  # noqa: T201 - pytest shows it when the test fails
    rng = random.Random(seed)
    shop.vendor.rng = random.Random(seed + 1)
    shop.vendor.trouble = 0.1
    until = time.monotonic() + _SECONDS
    ordering = threading.Thread(target=_order_now_and_then, args=(shop, random.Random(seed + 2)))
    killing = threading.Thread(target=_kill_now_and_then, args=(shop, rng), kwargs={"until": until})
    ordering.start()
    killing.start()
    try:
        shop.house.work(
            until=lambda: not ordering.is_alive() and not killing.is_alive() and shop.all_done(),
            lanes=_LANES,
            environment={"GIFTCARD_MAX_REVIVALS": "50"},
        )
    finally:
        ordering.join()
        killing.join()
    assert len(shop.orders) == _ORDERS
    assert shop.house.killed >= 10, "too few kills to prove anything"
    shop.assert_all_is_right(about=f"GIFTCARD_CHAOS_SEED={seed}")

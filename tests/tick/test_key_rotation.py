"""Keys are rotated while ticks issue cards and endpoints get new secrets: nothing is lost, and the old key can go."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from lib.giftcards.key_rotation import KeyRotation
from lib.webhooks.schemas import EndpointRequest, RotateRequest
from lib.webhooks.service import Endpoints
from tests.support.acts import KIM
from tests.support.ciphertexts import OTHER_KEY, card_numbers, kept_numbers, webhook_secrets
from tests.support.world import ENCRYPTION_KEY, World, an_order

NEW_FIRST = f"{OTHER_KEY},{ENCRYPTION_KEY}"
OLD_FIRST = f"{ENCRYPTION_KEY},{OTHER_KEY}"
ORDERS = 24


def test_a_rotation_under_ticks_loses_nothing(database_url: str, tmp_path: Path) -> None:
    mails = tmp_path / "mails"

    def opened(keys: str) -> World:
        return World(database_url, GIFTCARD_ENCRYPTION_KEYS=keys, GIFTCARD_MAIL_DIR=mails)

    with (
        closing(opened(NEW_FIRST)) as world,
        closing(opened(NEW_FIRST)) as one,
        # A deployment of the time before, which encrypts under the old key.
        closing(opened(OLD_FIRST)) as another,
        ThreadPoolExecutor(4) as pool,
    ):
        endpoints = Endpoints(another.store, another.settings, caller=KIM)
        made = endpoints.create(EndpointRequest(url="https://shop.example/hook", events=["report.ready"]))
        stop = threading.Event()
        work = [
            pool.submit(_until, stop, ticking) for ticking in (lambda: one.run(limit=10), lambda: another.run(limit=10))
        ]
        secrets: list[str] = [made["secret"]]
        work.append(pool.submit(_until, stop, lambda: secrets.append(_next_secret(endpoints, made["id"]))))
        rotation = KeyRotation(world.store, world.settings, by="kim")
        for number in range(ORDERS):
            order = an_order(correlation_id=f"order-{number}", customer={"external_id": f"C-{number}"})
            assert world.submit(order).status_code == 202
            if number % 5 == 0:
                assert rotation.rotate(batch=10)["failed"] == 0
        while world.value("select count(*) from giftcard_jobs where status <> 'completed'"):
            assert rotation.rotate(batch=10)["failed"] == 0
        stop.set()
        for task in work:
            task.result()
        numbers = card_numbers(world)
        outcome = rotation.rotate(batch=7)
        assert (outcome["failed"], [key["removable"] for key in outcome["keys"]]) == (0, [False, True])
    with closing(opened(OTHER_KEY)) as after:
        assert card_numbers(after) == kept_numbers(after) == numbers
        assert len(set(numbers)) == ORDERS
        # The newest, the one before it, and the first, which signs until its time.
        assert webhook_secrets(after) == [secrets[-1], secrets[-2], secrets[0]]
        assert after.sql("select stage, last_error from giftcard_jobs where last_error is not null") == []
        assert after.value("select count(*) from giftcard_job_history where result <> 'SUCCESS'") == 0
    assert len(list(mails.glob("*.eml"))) == ORDERS


def _until(stop: threading.Event, act: Callable[[], object]) -> None:
    while not stop.wait(0.02):
        act()


def _next_secret(endpoints: Endpoints, endpoint_id: int) -> str:
    secret: str = endpoints.rotate(endpoint_id, RotateRequest())["secret"]
    return secret

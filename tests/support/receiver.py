"""A receiver of webhooks: a real HTTP server that checks each of them with the library of Standard Webhooks."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from standardwebhooks import Webhook, WebhookVerificationError

from tests.support.raw_server import Asked, Server
from tests.support.world import ADMIN, World, an_order, bearer

PATH = "/api/v1/webhook-endpoints"


class Receiver(Server):
    """`heard`: the messages whose signature fits one of `secrets`; `refused`: all others."""

    def __init__(self) -> None:
        super().__init__(address="127.0.0.1")
        self.secrets: list[str] = []

    def fits(self, asked: Asked) -> bool:
        return any(signed_with(asked, secret) for secret in self.secrets)

    @property
    def heard(self) -> list[dict[str, Any]]:
        return [json.loads(asked.body) for asked in self.asked if self.fits(asked)]

    @property
    def refused(self) -> list[Asked]:
        return [asked for asked in self.asked if not self.fits(asked)]


def signed_with(asked: Asked, secret: str) -> bool:
    """Whether this secret says that the message is ours, and of now."""
    try:
        Webhook(secret).verify(asked.body, asked.headers)
    except WebhookVerificationError:
        return False
    return True


@contextmanager
def a_receiver() -> Iterator[Receiver]:
    """A receiver that is up."""
    receiver = Receiver()
    try:
        yield receiver
    finally:
        receiver.close()


def an_endpoint(world: World, receiver: Receiver, *events: str, path: str = "", **fields: Any) -> dict[str, Any]:
    """An endpoint at the receiver, who knows its secret."""
    body = {"url": f"{receiver.url}{path}", "events": events or ("job.completed",)} | fields
    answer = world.client.post(PATH, json=body, headers=bearer(ADMIN))
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json
    receiver.secrets.append(made["secret"])
    return made


def ask(world: World, method: str, path: str = "", body: Any = None) -> Any:
    """What the API of endpoints answers, when all goes well."""
    answer = world.client.open(f"{PATH}{path}", method=method, json=body, headers=bearer(ADMIN))
    assert answer.status_code < 300, answer.text
    return answer.json


def webhooks(world: World) -> list[dict[str, Any]]:
    """The jobs that tell of something, the first first."""
    return world.sql("select * from public.giftcard_jobs where stage = 'webhook' order by id")


def told_of_one(world: World, receiver: Receiver, *answers: Any, **columns: Any) -> dict[str, Any]:
    """The webhook of a job that has ended, after the tick in which it did; the receiver answers so."""
    receiver.then(*answers)
    world.enqueue("customer_ingest", {"without_order": True, "customer": an_order()["customer"]}, **columns)
    world.run()
    return webhooks(world)[-1]


def again(world: World, job: dict[str, Any]) -> dict[str, Any]:
    """The same, after its next attempt."""
    world.move_to(job["scheduled_at"])
    world.run()
    return world.job(job["id"])

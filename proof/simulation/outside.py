"""What is outside of the product: a payment and card service, receivers of events, a mail server, Square, its own URL.

They behave as `docs/vendors.md` asks of a vendor: the same key within a day is the same charge, and has one answer. How
they answer, and whether, is drawn from the seed.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any

import httpx

from lib.errors import TransientError
from lib.giftcards.cards import new_number
from lib.jobs.clients import Http, Mail
from lib.safe_http import client as safe_http
from lib.safe_http.response import Response
from lib.tick.waking import Waker
from proof.simulation.faults import Faults
from proof.simulation.machine import Machine
from proof.simulation.wire import place

CHARGES, CARDS, ALERTS = "http://pay.example/charges", "http://cards.example/cards", "http://alerts.example/post"
_KEY_SECONDS = 24 * 3600
_KINDS = {CHARGES: "charge", CARDS: "card"}


@dataclass(frozen=True, slots=True)
class Made:
    """A charge or a card that a vendor has made: what a customer would see."""

    kind: str
    order: str
    key: str
    reference: str
    amount: int
    at: float


@dataclass
class Outside:
    """What happened outside. `call`: starts a function of the deployment, as its own URL does."""

    machine: Machine
    faults: Faults
    call: Callable[[], None] = lambda: None
    made: list[Made] = field(default_factory=list)
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    mails: list[tuple[str, str]] = field(default_factory=list)
    events: list[tuple[str, str]] = field(default_factory=list)
    numbers: list[str] = field(default_factory=list)

    def request(self, until: float, method: str, url: str, **options: Any) -> httpx.Response:
        """Answer a request of a handler, or of an alert."""
        service, _, query = str(url).partition("?")
        if service == ALERTS:
            self._travel("alert", until)
            return httpx.Response(200)
        if service.endswith("/block"):
            self._travel("block", until)
            return httpx.Response(200, json={"id": service.split("/")[-2]})
        kind = _KINDS[service]
        if method == "GET":
            self._travel(kind, until)
            found = self.answers.get(query.partition("=")[2])
            return httpx.Response(200, json=found) if found else httpx.Response(404, json={})
        self._travel(kind, until)
        if self.faults.strikes(f"{kind} refused", self.faults.vendor_level / 3):
            return httpx.Response(int(self.faults.choose(500, 503, 429)), json={})
        answer = self._make(kind, options["headers"]["Idempotency-Key"], options["json"])
        if self.faults.strikes(f"{kind} timed out", self.faults.vendor_level / 3):
            self.machine.pause(min(self.faults.choose(1, 5, 20), max(0.0, until - self.machine.now)))
            raise TransientError(f"{kind}: timed out after the deed")
        place(self.machine, self.faults, f"after {kind}")
        return httpx.Response(201, json=answer)

    def deliver(self, request: safe_http.Request, _host: str, *, allowed: Any, until: float) -> Response:
        """Receive an event, or a call of the stage http_call."""
        place(self.machine, self.faults, "before delivery")
        if self.faults.strikes("receiver refused", self.faults.vendor_level / 2):
            return Response(status=503, headers={}, body=b"", complete=True)
        body = json.loads(request.body or b"{}")
        self.events.append((str(body.get("type", "call")), request.headers.get("webhook-id", "")))
        if self.faults.strikes("receiver timed out", self.faults.vendor_level / 3):
            self.machine.pause(min(4, max(0.0, until - self.machine.now)))
            raise TransientError("the receiver timed out after the deed")
        place(self.machine, self.faults, "after delivery")
        return Response(status=200, headers={}, body=b"", complete=True)

    def send(self, message: EmailMessage) -> dict[str, str]:
        """Receive a mail."""
        place(self.machine, self.faults, "before mail")
        if self.faults.strikes("mail refused", self.faults.vendor_level / 3):
            raise TransientError("the mail server is away")
        self.mails.append((str(message["To"]), str(message["Message-ID"])))
        place(self.machine, self.faults, "after mail")
        return {"message_id": str(message["Message-ID"])}

    def wake(self) -> None:
        """Receive a call of the deployment's own URL."""
        if self.faults.strikes("wake lost", self.faults.level):
            raise TransientError("the wake is lost")
        self.call()

    def _travel(self, kind: str, until: float) -> None:
        place(self.machine, self.faults, f"before {kind}")
        if self.faults.strikes(f"{kind} unreachable", self.faults.vendor_level / 4):
            raise TransientError(f"{kind}: connection refused")
        if self.machine.now >= until:
            raise TransientError(f"{kind}: no time left")

    def _make(self, kind: str, key: str, asked: dict[str, Any]) -> dict[str, Any]:
        """Do it, or return what was done under this key."""
        before = next((made for made in reversed(self.made) if (made.kind, made.key) == (kind, key)), None)
        if before is not None and self.machine.now - before.at <= _KEY_SECONDS:
            return self.answers[key]
        reference = f"{kind}-{len(self.made) + 1}"
        self.made.append(Made(kind, asked["reference"], key, reference, asked["amount"], self.machine.now))
        self.answers[key] = {"id": reference, "amount": asked["amount"], "currency": asked["currency"]}
        if kind == "card":
            number = new_number(self.machine.thread().process.rng)
            self.numbers.append(number)
            self.answers[key]["number"] = number
        self.machine.note(f"{kind} {reference} for {asked['reference']}")
        return self.answers[key]


@contextmanager
def reached(outside: Outside) -> Iterator[None]:
    """Lead the product's clients here within the context."""

    def request(client: Http, method: str, url: str, **options: Any) -> httpx.Response:
        return outside.request(client._until, method, url, **options)

    def wake(_waker: Waker, sent: Any) -> int:
        sent.set()
        outside.wake()
        return 200

    def send(_mail: Mail, message: EmailMessage) -> dict[str, str]:
        return outside.send(message)

    ways: list[tuple[Any, str, Any]] = [
        (Http, "request", request),
        (Mail, "send", send),
        (safe_http, "_send", outside.deliver),
        (Waker, "_status", wake),
    ]
    real = [(owner, name, getattr(owner, name)) for owner, name, _ in ways]
    for owner, name, ours in ways:
        setattr(owner, name, ours)
    try:
        yield
    finally:
        for owner, name, theirs in real:
            setattr(owner, name, theirs)

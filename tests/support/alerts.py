"""Circuits that are open, and who gets the alerts."""

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

from lib.monitoring.alerts import notify
from tests.support.mail_server import MailServer
from tests.support.raw_server import Server
from tests.support.world import World

Make = Callable[..., World]
Log = Callable[[], list[dict[str, Any]]]

ANN, BEN, KIM = "ann@ops.example", "ben@ops.example", "kim@ops.example"
OPEN = "circuit {} is open: by hand. Its jobs wait; see flask jobs circuits"


class Postbox(MailServer):
    """A mail server that treats some addresses in a way of their own: a reply, or None for silence."""

    def __init__(self) -> None:
        super().__init__()
        self.replies: Mapping[str, str | None] = {}
        self.tried: list[str] = []

    async def handle_RCPT(self, server: Any, session: Any, envelope: Any, address: str, rest: Any) -> str:  # noqa: N802
        self.tried.append(address)
        reply = self.replies.get(address, "")
        if reply is None:
            await asyncio.sleep(60)
        return reply or await super().handle_RCPT(server, session, envelope, address, rest)

    def subjects(self) -> dict[str, list[str]]:
        """What each address has got since the last time."""
        got: dict[str, list[str]] = {}
        for mail, (address,) in zip(self.mails, self.recipients, strict=True):
            assert mail["To"] == address, "no recipient sees the others"
            got.setdefault(address, []).append(mail["Subject"])
        self.mails.clear()
        self.recipients.clear()
        return got


def texts(receiver: Server) -> list[str]:
    """What was posted since the last time."""
    got = [json.loads(asked.body)["text"] for asked in receiver.asked]
    receiver.asked.clear()
    return got


def open_circuits(world: World, *names: str) -> None:
    for name in names:
        world.sql(
            """insert into giftcard_circuits (circuit, state, changed_at, open_until)
                 values (%s, 'open', now(), 'infinity') on conflict (circuit) do update set state = 'open'""",
            name,
        )
        world.sql(
            """insert into giftcard_circuit_changes (circuit, from_state, to_state, changed_at, cause)
                 values (%s, 'closed', 'open', now(), 'by hand')""",
            name,
        )


def check(world: World) -> dict[str, int]:
    return notify(world.store, world.registry, world.settings)


def failures(log: Log) -> list[tuple[str, str]]:
    return [(line["channel"], line["error"]) for line in log() if line["event"] == "alert_failed"]

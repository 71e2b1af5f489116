"""A reply that is lost on its way locks no one out: the same command with its key returns the secret that it made."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cli.conftest import Door, NoDatabase, Served
from tests.support.ciphertexts import webhook_secrets
from tests.support.world import World
from tests.wires.proxy import Proxy, proxy

URL = "https://shop.example.com/hooks"


@pytest.fixture
def line(world: World, serve: Callable[[Any], Served]) -> Iterator[Proxy]:
    """The way to the deployment: it loses replies."""
    host, _, port = serve(world.app).url.removeprefix("http://").partition(":")
    with proxy((host, int(port))) as found:
        yield found


@pytest.fixture
def far(world: World, make_world: Callable[..., World], line: Proxy) -> Door:
    """The command line at the other end of that way."""
    return Door(make_world(wire=NoDatabase()).app, world, url=f"http://127.0.0.1:{line.port}")


def key_of(sentence: str) -> str:
    found = re.search(r"add --idempotency-key (\S+) to the same command", sentence)
    assert found, sentence
    return found[1]


def test_an_endpoint_whose_secret_was_lost_is_returned_by_the_same_command(far: Door, line: Proxy) -> None:
    command = ("webhooks", "create", URL, "--event", "giftcard.issued")
    line.cut(1)
    key = key_of(far.refuses(*command, code=1))
    made = far.json(*command, "--idempotency-key", key)
    assert (line.cuts, [made["secret"]]) == (1, webhook_secrets(far.world))
    assert far.json(*command, "--idempotency-key", key) == made
    assert "used for another request" in far.refuses(*command[:-1], "report.ready", "--idempotency-key", key)


def test_a_rotation_whose_secret_was_lost_is_returned_by_the_same_command(far: Door, line: Proxy) -> None:
    first = far.json("webhooks", "create", URL, "--event", "giftcard.issued")
    command = ("webhooks", "rotate-secret", first["id"])
    line.cut(1)
    key = key_of(far.refuses(*command, code=1))
    again = far.json(*command, "--idempotency-key", key)
    assert webhook_secrets(far.world) == [again["secret"], first["secret"]]
    assert far.json(*command, "--idempotency-key", key) == again
    assert "used for another request" in far.refuses(*command, "--former-hours", 1, "--idempotency-key", key)


def test_a_rotation_after_a_lost_one_leaves_the_receivers_secret_in_force(far: Door, line: Proxy) -> None:
    """Without the key: the receiver knows the first secret only."""
    first = far.json("webhooks", "create", URL, "--event", "giftcard.issued")
    command = ("webhooks", "rotate-secret", first["id"])
    line.cut(1)
    far.refuses(*command, code=1)
    newest = far.json(*command)["secret"]
    present, _, oldest = webhook_secrets(far.world)
    assert (present, oldest) == (newest, first["secret"])
    third = far.json(*command)["secret"]
    assert webhook_secrets(far.world) == [third, newest, first["secret"]]
    assert webhook_secrets(far.world)[1:] == [newest, first["secret"]]
    far.json(*command, "--former-hours", 0)
    assert len(webhook_secrets(far.world)) == 1


@pytest.mark.parametrize("key", ["ä", "a b", "x" * 256])
def test_a_key_that_no_header_carries_is_refused(door: Door, key: str) -> None:
    said = door.refuses("webhooks", "create", URL, "--event", "giftcard.issued", "--idempotency-key", key)
    assert "1 to 255 visible ASCII characters" in said

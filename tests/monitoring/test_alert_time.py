"""All alerts and channels of a check together have ten seconds, and one that hangs leaves the others theirs."""

import socket
import time
from typing import Any

import pytest

from lib.monitoring.alerts import notify
from tests.support.alerts import ANN, BEN, KIM, OPEN, Log, Make, Postbox, check, failures, open_circuits, texts
from tests.support.raw_server import Answer, Server, dripping, early_hints_for_ever, never


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("way", [never, dripping, early_hints_for_ever], ids=lambda way: way.__name__)
def test_url_that_hangs_costs_the_others_nothing_and_all_alerts_together_ten_seconds(
    make_world: Make, postbox: Postbox, receiver: Server, way: Answer
) -> None:
    world = make_world(SMTP_URL=postbox.url, GIFTCARD_ALERT_RECIPIENTS=ANN, GIFTCARD_ALERT_URL=receiver.url)
    receiver.answer = way
    names = [f"c{number}" for number in range(9)]
    open_circuits(world, *names)
    began = time.monotonic()
    assert check(world) == {"sent": 9, "failed": 9}
    assert time.monotonic() - began < 8
    assert postbox.subjects() == {ANN: [OPEN.format(name) for name in names]}


@pytest.mark.usefixtures("quick")
def test_recipient_that_hangs_leaves_time_for_the_next_and_comes_last_the_next_time(
    make_world: Make, postbox: Postbox, log: Log
) -> None:
    recipients = ",".join([ANN, BEN, KIM])
    world = make_world(SMTP_URL=postbox.url, GIFTCARD_ALERT_RECIPIENTS=recipients)
    open_circuits(world, "a")
    check(world)
    first, *others = postbox.tried
    postbox.subjects()
    postbox.replies = {first: None}
    open_circuits(world, "b", "c")
    began = time.monotonic()
    assert check(world) == {"sent": 4, "failed": 2}
    assert time.monotonic() - began < 8
    assert postbox.subjects() == {address: [OPEN.format("b"), OPEN.format("c")] for address in others}
    assert len(failures(log)) == 1
    open_circuits(world, "d")
    postbox.tried.clear()
    assert check(world) == {"sent": 2, "failed": 3}
    assert postbox.tried[:3] == [*others, first]


@pytest.mark.usefixtures("quick")
def test_mail_server_that_hangs_costs_the_url_nothing(make_world: Make, receiver: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"smtp://127.0.0.1:{silent.getsockname()[1]}"
        world = make_world(SMTP_URL=url, GIFTCARD_ALERT_RECIPIENTS=f"{ANN},{BEN}", GIFTCARD_ALERT_URL=receiver.url)
        open_circuits(world, "a", "b", "c")
        began = time.monotonic()
        assert check(world) == {"sent": 3, "failed": 6}
        assert time.monotonic() - began < 8
    assert len(texts(receiver)) == 3


@pytest.mark.usefixtures("quick")
def test_resolver_that_hangs_stops_no_tick(
    make_world: Make, receiver: Server, monkeypatch: pytest.MonkeyPatch, log: Log
) -> None:
    resolve = socket.getaddrinfo

    def hanging(host: Any, *rest: Any, **more: Any) -> Any:
        if host == "mail.example":
            time.sleep(9)
            raise socket.gaierror("no")
        return resolve(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", hanging)
    world = make_world(
        SMTP_URL="smtp://mail.example:25", GIFTCARD_ALERT_RECIPIENTS=ANN, GIFTCARD_ALERT_URL=receiver.url
    )
    open_circuits(world, "a")
    began = time.monotonic()
    assert check(world) == {"sent": 1, "failed": 1}
    assert time.monotonic() - began < 8
    assert failures(log) == [("mail 1", "no time was left")]


def test_check_ends_at_the_time_that_its_caller_has(make_world: Make, receiver: Server) -> None:
    world = make_world(GIFTCARD_ALERT_URL=receiver.url)
    receiver.answer = never
    open_circuits(world, "a")
    began = time.monotonic()
    assert notify(world.store, world.registry, world.settings, until=began + 1) == {"sent": 0, "failed": 1}
    assert time.monotonic() - began < 8

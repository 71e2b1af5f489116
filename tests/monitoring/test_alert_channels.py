"""Each recipient and each channel counts for itself: what one does costs the others nothing."""

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from lib.monitoring import alerts
from tests.support.alerts import ANN, BEN, KIM, OPEN, Log, Make, Postbox, check, failures, open_circuits, texts
from tests.support.mail_server import MailServer, a_mail_server
from tests.support.raw_server import Asked, Server
from tests.support.world import World

# Each counts for itself


def test_each_recipient_and_channel_is_notified_once_in_one_session(
    make_world: Make, postbox: Postbox, receiver: Server
) -> None:
    recipients = f"{ANN},{BEN}"
    world = make_world(SMTP_URL=postbox.url, GIFTCARD_ALERT_RECIPIENTS=recipients, GIFTCARD_ALERT_URL=receiver.url)
    open_circuits(world, "a", "b")
    assert check(world) == {"sent": 6, "failed": 0}
    both = [OPEN.format("a"), OPEN.format("b")]
    assert postbox.subjects() == {ANN: both, BEN: both}
    assert texts(receiver) == both
    assert postbox.connections == 1
    assert check(world) == {}
    world.sql("update giftcard_circuits set state = 'closed'")
    assert check(world) == {"sent": 6, "failed": 0}
    over = ["Resolved: circuit a is closed", "Resolved: circuit b is closed"]
    assert postbox.subjects() == {ANN: over, BEN: over}
    assert texts(receiver) == over


@pytest.mark.parametrize("reply", ["550 no such user", "451 later", "421 go away"])
def test_refused_address_is_tried_again_alone(make_world: Make, postbox: Postbox, receiver: Server, reply: str) -> None:
    recipients = f"{ANN},{BEN},{KIM}"
    world = make_world(SMTP_URL=postbox.url, GIFTCARD_ALERT_RECIPIENTS=recipients, GIFTCARD_ALERT_URL=receiver.url)
    postbox.replies = {BEN: reply}
    open_circuits(world, "a")
    assert check(world) == {"sent": 3, "failed": 1}
    assert check(world) == {"sent": 0, "failed": 1}
    assert postbox.subjects() == {ANN: [OPEN.format("a")], KIM: [OPEN.format("a")]}
    assert postbox.tried == [ANN, BEN, KIM, BEN] or sorted(postbox.tried) == [ANN, BEN, BEN, KIM]
    postbox.replies = {}
    assert check(world) == {"sent": 1, "failed": 0}
    assert postbox.subjects() == {BEN: [OPEN.format("a")]}
    assert texts(receiver) == [OPEN.format("a")]


def test_mail_server_that_is_down_stops_no_other_channel(make_world: Make, receiver: Server, log: Log) -> None:
    server = MailServer()
    world = make_world(SMTP_URL=server.url, GIFTCARD_ALERT_RECIPIENTS=f"{ANN},{BEN}", GIFTCARD_ALERT_URL=receiver.url)
    open_circuits(world, "a")
    assert check(world) == {"sent": 1, "failed": 2}
    assert sorted(channel for channel, _ in failures(log)) == ["mail 1", "mail 2"]
    server.up()
    assert check(world) == {"sent": 2, "failed": 0}
    server.down()
    assert texts(receiver) == [OPEN.format("a")]


def test_url_that_fails_stops_no_mail(make_world: Make, postbox: Postbox, receiver: Server, log: Log) -> None:
    world = make_world(SMTP_URL=postbox.url, GIFTCARD_ALERT_RECIPIENTS=ANN, GIFTCARD_ALERT_URL=receiver.url)
    receiver.then(500, 404)
    open_circuits(world, "a", "b")
    assert check(world) == {"sent": 2, "failed": 2}
    assert failures(log) == [("url", "TransientError: GIFTCARD_ALERT_URL responded with 500")]
    receiver.asked.clear()
    assert check(world) == {"sent": 2, "failed": 0}
    assert texts(receiver) == [OPEN.format("a"), OPEN.format("b")]


def test_new_recipient_gets_what_holds_at_once_and_a_removed_one_nothing(make_world: Make, postbox: Postbox) -> None:
    world = make_world(SMTP_URL=postbox.url, GIFTCARD_ALERT_RECIPIENTS=ANN)
    open_circuits(world, "a")
    check(world)
    postbox.subjects()
    world = make_world(SMTP_URL=postbox.url, GIFTCARD_ALERT_RECIPIENTS=BEN)
    assert check(world) == {"sent": 1, "failed": 0}
    world.sql("update giftcard_circuits set state = 'closed'")
    check(world)
    assert postbox.subjects() == {BEN: [OPEN.format("a"), "Resolved: circuit a is closed"]}


def test_no_address_is_stored_or_logged(make_world: Make, postbox: Postbox, receiver: Server, log: Log) -> None:
    url = f"{receiver.url}T00/B00/a-token"
    world = make_world(SMTP_URL=postbox.url, GIFTCARD_ALERT_RECIPIENTS=f"{ANN},{BEN}", GIFTCARD_ALERT_URL=url)
    postbox.replies = {BEN: "550 ben@ops.example is gone"}
    receiver.then(500)
    open_circuits(world, "a")
    check(world)
    rows = world.sql("select row_to_json(n)::text as row from giftcard_alert_notifications n")
    seen = " ".join([*(row["row"] for row in rows), *map(json.dumps, log())])
    assert len(rows) == 3
    assert "alert_failed" in seen
    for secret in ("ann@", "ben@", "ops.example", "a-token"):
        assert secret not in seen
    other = make_world(GIFTCARD_ALERT_RECIPIENTS=ANN, GIFTCARD_LOOKUP_KEY="another-key-of-more-than-32-characters")
    assert not {channel.key for channel in channels(other)} & {channel.key for channel in channels(world)}


def channels(world: World) -> list[Any]:
    return [channel for _, some in alerts.senders(world.settings) for channel in some]


# Forms


def test_slack_gets_the_text_alone_and_escaped(
    make_world: Make, receiver: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve = socket.getaddrinfo
    here = {"hooks.slack.com", "slack.com", "evilslack.com", "hooks.slack.com.example"}
    monkeypatch.setattr(
        socket, "getaddrinfo", lambda host, *rest, **more: resolve("127.0.0.1" if host in here else host, *rest, **more)
    )
    for host in sorted(here):
        world = make_world(GIFTCARD_ALERT_URL=f"http://{host}:{receiver.port}/services/T/B/x")
        open_circuits(world, "<!channel> & co")
        assert check(world) == {"sent": 1, "failed": 0}
        body = json.loads(receiver.asked.pop().body)
        if host in ("hooks.slack.com", "slack.com"):
            assert body == {"text": OPEN.format("&lt;!channel&gt; &amp; co")}
        else:
            assert body.keys() == {"text", "condition", "kind", "since", "detail"}
            assert (body["text"], body["kind"]) == (OPEN.format("<!channel> & co"), "raised")
            assert body["detail"]["cause"] == "by hand"


def test_mails_become_files_in_development(make_world: Make, tmp_path: Path) -> None:
    world = make_world(GIFTCARD_ALERT_RECIPIENTS=f"{ANN},{BEN}", GIFTCARD_MAIL_DIR=tmp_path / "alerts")
    open_circuits(world, "a")
    assert check(world) == {"sent": 2, "failed": 0}
    assert len(list((tmp_path / "alerts").glob("*.eml"))) == 2


def test_alerts_that_log_in_share_a_session(make_world: Make) -> None:
    with a_mail_server(password="hunter2-secret") as server:
        url = f"smtp://kim:hunter2-secret@127.0.0.1:{server.port}"
        world = make_world(SMTP_URL=url, GIFTCARD_ALERT_RECIPIENTS=f"{ANN},{BEN}")
        open_circuits(world, "a", "b")
        assert check(world) == {"sent": 4, "failed": 0}
        assert (server.connections, len(server.mails)) == (1, 4)


def unanswered(asked: Asked) -> None:
    """Takes the alert, and its answer is lost."""
    asked.wire.connection.close()


def test_alert_whose_answer_is_lost_is_sent_again(make_world: Make, receiver: Server) -> None:
    world = make_world(GIFTCARD_ALERT_URL=receiver.url)
    receiver.then(unanswered)
    open_circuits(world, "a")
    assert check(world) == {"sent": 0, "failed": 1}
    assert check(world) == {"sent": 1, "failed": 0}

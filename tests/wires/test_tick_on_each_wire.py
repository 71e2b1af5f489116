"""The whole application over each wire: an order becomes a mail, though lines break."""

from pathlib import Path

import pytest

from lib.store.wire import Wire
from tests.support.world import a_world
from tests.wires.proxy import Proxy


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_an_order_goes_its_whole_way(line: tuple[Wire, Proxy], database_url: str, tmp_path: Path, cut: int) -> None:
    """The first answers of the tick break off: what it claims has been claimed before, and is done once."""
    wire, between = line
    with a_world(database_url, wire=wire, GIFTCARD_MAIL_DIR=tmp_path) as world:
        order = world.submit(Idempotency_Key="order-1")
        assert order.status_code in (201, 202), order.text
        between.cut(cut)
        report = world.tick()
        assert (report["completed"], report["lease_lost"], between.cuts) == (5, 0, cut)
        flow = world.flow(order.json["correlation_id"])
        assert [(job["status"], job["attempts"]) for job in flow["jobs"]] == [("completed", 1)] * 5
        counts = world.row_counts()
        assert [counts[f"giftcard_{name}"] for name in ("orders", "payments", "cards", "ticks")] == [1, 1, 1, 1]
    assert len(list(tmp_path.glob("*.eml"))) == 1

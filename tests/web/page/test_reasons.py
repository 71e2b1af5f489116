"""Each form that acts on jobs, stages and circuits asks for a reason, and the audit keeps it, masked."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.forms import Page
from tests.support.world import World, an_order
from tests.web.page.conftest import Browser
from tests.web.page.troubles import kill, open_circuit, ran


def _dead(world: World) -> int:
    return kill(world, world.add("customer_ingest", an_order()))


def _completed(world: World) -> int:
    return world.add("payment", status="completed", finished_at="2026-01-01")


def _archived(world: World) -> int:
    job_id = _dead(world)
    world.sql("select public.giftcard_archive_jobs(array[%s::bigint], now())", job_id)
    return job_id


def _paused(stage: str) -> Callable[[World], None]:
    def before(world: World) -> None:
        ran(world)
        world.sql("select public.giftcard_pause(%s, 'kim')", stage)

    return before


def _limited(world: World) -> None:
    world.sql("select public.giftcard_set_limit('stage', 'payment', 2)")


def _two_dead(world: World) -> None:
    ran(world)
    for _ in range(2):
        _dead(world)


# What stands before it, the page, where its form leads, the action of the audit.
FORMS: list[tuple[Callable[[World], Any], str, str, str]] = [
    (_dead, "/jobs/{}", "/jobs/{}/requeue", "requeue"),
    (_completed, "/jobs/{}", "/jobs/{}/requeue", "requeue"),
    (_dead, "/jobs/{}", "/jobs/{}/cancel", "cancel"),
    (_archived, "/jobs/{}", "/jobs/{}/restore", "restore"),
    (_dead, "/jobs/{}/payload", "/jobs/{}/payload", "requeue"),
    (_dead, "/", "/requeue", "requeue"),
    (_two_dead, "/", "/requeue", "create_operation"),
    (lambda world: None, "/stages", "/stages/pause", "pause"),
    (_limited, "/limits", "/limits/remove", "remove_limit"),
    (_paused("payment"), "/stages", "/stages/resume", "resume"),
    (_paused("*"), "/stages", "/stages/resume", "resume"),
    (_paused("*"), "/", "/stages/resume", "resume"),
    (open_circuit, "/", "/circuits/reset", "reset_circuit"),
    (open_circuit, "/stages", "/circuits/reset", "reset_circuit"),
]


@pytest.mark.parametrize(("before", "address", "leads_to", "action"), FORMS)
def test_a_form_asks_for_a_reason_that_the_audit_keeps(
    world: World, browser: Browser, before: Callable[[World], Any], address: str, leads_to: str, action: str
) -> None:
    row_id = before(world)
    page = Page(browser.get(address.format(row_id)).text)
    form = next(form for form in page.forms if form.action == leads_to.format(row_id))
    assert form.fields["reason"] == ""
    fields = [given for tag, given in page.elements if tag == "input" and given.get("name") == "reason"]
    assert all("required" in given for given in fields)
    before_it = world.value("select count(*) from giftcard_audit")
    for empty in ("", " "):
        refused = browser.post(form.action, form.fields | {"reason": empty})
        text = refused.text if refused.status_code == 422 else browser.follow(refused).text
        assert "reason" in Page(text).text
    assert world.value("select count(*) from giftcard_audit") == before_it
    browser.follow(browser.post(form.action, form.fields | {"reason": " kate@example.com asks: ü "}))
    (act,) = world.sql("select action, details from giftcard_audit order by id desc limit 1")
    assert act["action"] == action
    assert act["details"]["reason"] == "[email] asks: ü"

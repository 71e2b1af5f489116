"""A stage of one's own as a step of an order's flow: at each place, removed while it waits, failing, with templates."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lib.config.project import ORDER_FLOW
from tests.support.world import ADMIN, World, bearer

Make = Callable[..., World]

ORDER = {
    "customer": {"given_name": "Kate", "email": "kate@example.com"},
    "amount": {"amount": 2500, "currency": "USD"},
}
STEP = """
from pydantic import BaseModel, SecretStr
from lib.config.stage_settings import StageSettings
from lib.errors import PermanentError
from lib.giftcards.orders import Order
from lib.job import Complete, NextJob
from lib.jobs.stage import stage
class StepSettings(StageSettings):
    giftcard_step_word: str
    giftcard_step_key: SecretStr | None = None
@stage("step", payload=Order, settings=StepSettings)
def step(order, context):
    word = context.stage_settings.giftcard_step_word
    if word == "fail":
        raise PermanentError(f"no, {context.stage_settings.giftcard_step_key.get_secret_value()}")
    context.once("act", lambda key: {"for": order.customer.email})
    return Complete(context={"word": word}, next=(NextJob(stage="note", payload={}),))
class Note(BaseModel): pass
@stage("note", payload=Note)
def note(payload, context): return Complete()
"""


@pytest.fixture
def make(tmp_path: Path, make_world: Make, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    (tmp_path / "own_steps").mkdir()
    (tmp_path / "own_steps/step.py").write_text(STEP)
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda **more: make_world(**({"GIFTCARD_STAGES": "own_steps", "GIFTCARD_STEP_WORD": "hello"} | more))
    for name in [name for name in sys.modules if name.split(".")[0] == "own_steps"]:
        del sys.modules[name]


def flow(after: str) -> str:
    place = ORDER_FLOW.index(after) + 1
    return ",".join([*ORDER_FLOW[:place], "step", *ORDER_FLOW[place:]])


def done(world: World) -> list[str]:
    rows = world.sql("select stage from giftcard_jobs where status = 'completed' order by id")
    return [row["stage"] for row in rows if row["stage"] != "note"]


@pytest.mark.parametrize("after", ORDER_FLOW)
def test_a_step_stands_at_any_place_and_the_order_goes_on(after: str, make: Make) -> None:
    world = make(GIFTCARD_ORDER_FLOW=flow(after))
    world.add("customer_ingest", ORDER)
    assert world.drain() == 7
    assert done(world) == flow(after).split(",")
    assert world.value("select count(*) from giftcard_jobs where stage = 'note'") == 1
    (job,) = world.sql("select id from giftcard_jobs where stage = 'step'")
    world.requeue(job["id"], force=True)
    assert world.drain() == 1, "what follows exists already"


def test_the_mail_waits_for_its_time_also_behind_a_step(make: Make) -> None:
    world = make(GIFTCARD_ORDER_FLOW=flow("issue_card"))
    world.add("customer_ingest", ORDER | {"deliver_at": "2099-12-24T18:00:00Z"})
    world.drain()
    assert world.job(stage="step")["status"] == "completed"
    assert world.job(stage="email")["scheduled_at"].year == 2099


@pytest.mark.parametrize("after", ORDER_FLOW)
def test_a_step_that_is_removed_while_orders_wait_at_it_loses_none(after: str, make: Make) -> None:
    world = make(GIFTCARD_ORDER_FLOW=flow(after), GIFTCARD_STEP_WORD=None)
    world.add("customer_ingest", ORDER)
    world.drain()
    assert world.job(stage="step")["status"] == "queued"
    assert world.tick()["parked"]["step"] == "GIFTCARD_STEP_WORD"
    later = make()
    later.drain()
    assert done(later) == flow(after).split(",")


def test_a_job_that_the_flow_did_not_enqueue_ends_by_itself(make: Make) -> None:
    world = make(GIFTCARD_ORDER_FLOW=flow("payment"))
    world.add("step", ORDER)
    world.drain()
    assert done(world) == ["step"]


@pytest.mark.parametrize(("after", "events"), [("payment", ["giftcard.failed"]), ("email", [])])
def test_a_step_that_fails_notifies_the_shop_ahead_of_the_mail(after: str, events: list[str], make: Make) -> None:
    key = "hunter2-hunter2"
    world = make(GIFTCARD_ORDER_FLOW=flow(after), GIFTCARD_STEP_WORD="fail", GIFTCARD_STEP_KEY=key)
    world.add("customer_ingest", ORDER)
    world.drain()
    job = world.job(stage="step")
    assert (job["status"], job["last_error"]) == ("error", "PermanentError: no, [secret]")
    found = world.sql("select event from giftcard_events_for(array[%s::bigint], now())", job["id"])
    assert [row["event"] for row in found if row["event"].startswith("giftcard.")] == events


def test_what_a_step_has_stored_of_a_person_is_erased_with_them(make: Make) -> None:
    world = make(GIFTCARD_ORDER_FLOW=flow("email"))
    world.add("customer_ingest", ORDER)
    world.drain()
    world.sql("select giftcard_erase_customer(id) from giftcard_customers")
    assert "kate@" not in str(world.sql("select result from giftcard_effects"))


def test_the_doctor_knows_the_variables_of_stages_and_the_steps(make: Make) -> None:
    def lines(world: World) -> dict[str, Any]:
        checks = world.client.get("/api/status", headers=bearer(ADMIN)).json["doctor"]
        return {line["check"]: line for line in checks}

    assert lines(make())["variables"]["level"] == "green"
    flow_of_another = flow("payment").replace("step", "no_such_stage")
    assert (
        "GIFTCARD_ORDER_FLOW has the step no_such_stage"
        in lines(make(GIFTCARD_ORDER_FLOW=flow_of_another))["stages"]["message"]
    )


def test_own_templates_come_first_and_the_doctor_reads_them(make: Make, tmp_path: Path) -> None:
    folder = tmp_path / "own_templates"
    (folder / "messages").mkdir(parents=True)
    (folder / "mail.en.txt").write_text("{% set subject %}For you{% endset %}For {{ given_name }}: our own words")
    for kind in ("txt", "html"):
        (folder / f"messages/welcome.{kind}").write_text("Welcome, {{ name }}")
    world = make(GIFTCARD_TEMPLATES=folder)
    world.add("customer_ingest", ORDER)
    mail = {"to": "kate@example.com", "subject": "Hello", "template": "welcome", "data": {"name": "Kate"}}
    world.add("send_mail", mail)
    world.drain()
    texts = [path.read_text() for path in Path(world.settings.giftcard_mail_dir or "").iterdir()]
    assert sorted(("our own words" in text, "Welcome, Kate" in text) for text in texts) == [
        (False, True),
        (True, False),
    ]
    checks = world.client.get("/api/status", headers=bearer(ADMIN)).json["doctor"]
    assert ("templates", "green") in [(line["check"], line["level"]) for line in checks]
    (folder / "report.html").write_text("one\n{% if %}")
    (folder / "messages/alone.txt").write_text("x")
    checks = world.client.get("/api/status", headers=bearer(ADMIN)).json["doctor"]
    (line,) = [line for line in checks if line["check"] == "templates"]
    assert line["level"] == "red"
    assert "report.html:2: " in line["message"]
    assert "messages/alone.txt lacks alone.html" in line["message"]

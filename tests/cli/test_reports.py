"""Reports from a terminal, on the database and through the API."""

import csv
import io
import shlex
from datetime import UTC, datetime, timedelta

from tests.cli.conftest import Door, dead_letters
from tests.support.world import ADMIN, World, an_order, bearer

DAY = "2026-01-31"


def test_make_answers_what_the_api_keeps(world: World, door: Door) -> None:
    world.submit(an_order(tenant_id="acme"))
    while world.tick()["started"]:
        pass
    today = str(datetime.now(UTC).date())
    made = door.json("reports", "create", "--tenant", "acme", "--day", today)
    assert made["totals"]["cards"] == 1
    assert made == world.client.get(f"/api/v1/reports/acme/{today}", headers=bearer(ADMIN)).json
    assert made == door.json("reports", "show", "--tenant", "acme", "--day", today)


def test_make_without_options_is_yesterday_of_the_default_tenant(door: Door) -> None:
    text = door.says("reports", "create")
    yesterday = datetime.now(UTC).date() - timedelta(days=1)
    assert text.startswith(f"Tenant default on {yesterday} (UTC), created at ")
    assert "incomplete" not in text


def test_show_without_a_day_is_the_newest(door: Door) -> None:
    for day in ("2026-01-30", DAY, "2026-01-29"):
        door.json("reports", "create", "--day", day)
    assert door.json("reports", "show")["day"] == DAY


def test_show_tells_amounts_failures_and_what_does_not_match(world: World, door: Door) -> None:
    world.submit(an_order())
    while world.tick()["started"]:
        pass
    world.sql("update giftcard_payments set card_id = null")
    dead_letters(world, 1, error="TransientError: mail server")
    text = door.says("reports", "create", "--day", datetime.now(UTC).date())
    for said in (
        "incomplete, the day is not over",
        "paid_without_card  1      $25.00",
        "USD       $25.00",
        "TransientError: mail server",
    ):
        assert said in text, text


def test_csv_is_what_the_api_gives(world: World, door: Door) -> None:
    world.submit(an_order())
    world.tick()
    today = str(datetime.now(UTC).date())
    door.json("reports", "create", "--day", today)
    query = {"format": "csv"}
    answer = world.client.get(f"/api/v1/reports/default/{today}", query_string=query, headers=bearer(ADMIN))
    text = door.says("reports", "show", "--day", today, "--csv")
    assert text.splitlines() == answer.text.splitlines()
    assert next(csv.DictReader(io.StringIO(text)))["figure"] == "orders"


def test_the_commands_that_lists_name_lead_through_all_reports(door: Door) -> None:
    for tenant in ("it's", "a/b", ".."):
        door.json("reports", "create", "--tenant", tenant, "--day", DAY)
        assert door.json("reports", "show", "--tenant", tenant, "--day", DAY)["tenant_id"] == tenant
    seen, text = [], door.says("reports", "list", "--limit", 1)
    while True:
        seen.append(text.splitlines()[2].split()[1])
        if "older: " not in text:
            break
        words = shlex.split(text.splitlines()[3].removeprefix("older: "))
        text = door.says(*words[2:])
    assert seen == ["it's", "a/b", ".."]


def test_what_is_not_there_is_told_with_what_makes_it(door: Door) -> None:
    assert (
        door.refuses("reports", "show") == "tenant default has no report yet; to create one: flask jobs reports create"
    )
    assert "tenant acme has no report of 2026-01-31" in door.refuses(
        "reports", "show", "--tenant", "acme", "--day", DAY
    )
    assert door.says("reports", "list") == "No report yet; to create one: flask jobs reports create\n"


def test_what_cannot_be_is_refused_by_its_option(door: Door) -> None:
    assert door.refuses("reports", "create", "--day", "31.1.2026") == "--day is not a day like 2026-01-31"
    assert door.refuses("reports", "create", "--tenant", "*").startswith("--tenant-id names one tenant here")
    assert "2999" not in door.refuses("reports", "create", "--day", "2999-01-01")
    assert door.refuses("reports", "list", "--older", "7") == "--older is not a cursor that an earlier page gave"
    assert door.refuses("reports", "show", "--csv", "--json") == "--csv and --json exclude each other"

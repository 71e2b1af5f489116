"""The pages say what the code does: every setting, route, event, status and word is in them, and is as they say."""

import ast
import re
from pathlib import Path
from typing import Any, get_args

import psycopg
import pytest
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dev import ROOT
from lib import stages
from lib.config.settings import Settings
from lib.config.stage_overrides import StageOverrides
from lib.giftcards.orders import Customer, Money
from lib.job import Outcome, Status
from lib.jobs import schemas as job_schemas
from lib.reports import schemas as report_requests
from lib.schedules import schemas as schedule_requests
from lib.store.connect import connect
from lib.telemetry import events
from lib.tick.report import TickReport
from lib.web.app import create_app
from lib.web.cron import Trigger
from lib.web.orders import OrderRequest
from lib.web.services import Services
from tests.support.pages import PAGES, TEXTS, named, rows, to_type
from tests.support.world import settings_of

LEVELS = {10: "debug", 20: "info", 30: "warning", 40: "error"}


@pytest.fixture(scope="module")
def urls() -> Any:
    """The map of the application's routes."""
    without_database = settings_of()
    return create_app(Services(without_database, connect(without_database), stages.load)).url_map


# Settings


def _shown(value: Any) -> str:
    """A default as the pages put it."""
    if value is None or value == ():
        return "unset"
    if isinstance(value, bool):
        return str(int(value))
    return (
        ",".join(part if isinstance(part, str) else f"{part:g}" for part in value)
        if isinstance(value, tuple)
        else f"{value}"
    )


def _allowed(field: FieldInfo) -> str | None:
    """A range as the pages put it; None for what has no bounds of its own."""
    if field.annotation is bool:
        return "0 or 1"
    bounds: dict[str, Any] = {type(bound).__name__: bound for bound in field.metadata}
    if "Le" not in bounds:
        return None
    most = bounds["Le"].le
    return f"above {bounds['Gt'].gt:g}, to {most}" if "Gt" in bounds else f"{bounds['Ge'].ge:g} to {most}"


def _fields() -> dict[str, FieldInfo]:
    own = {name.upper(): field for name, field in Settings.model_fields.items()}
    of_stage = {f"GIFTCARD_STAGE_<NAME>_{n.upper()}": f for n, f in StageOverrides.model_fields.items()}
    return own | of_stage


def _settings_told() -> dict[str, list[str]]:
    return {named(cells[0])[0]: cells for cells in rows("settings", columns=4) if named(cells[0])}


def test_every_setting_is_told_with_its_default_and_range() -> None:
    told = _settings_told()
    assert sorted(told) == sorted(_fields())
    for name, field in _fields().items():
        _, default, allowed, meaning = told[name]
        assert default == _shown(field.default), name
        assert _allowed(field) in (None, allowed), name
        assert meaning, name


def test_what_a_setting_can_be_chosen_from_is_told() -> None:
    told = _settings_told()
    chosen = {name: field for name, field in _fields().items() if "Literal" in str(field.annotation)}
    assert set(chosen) == {
        "GIFTCARD_ENV",
        "GIFTCARD_PAYMENT_PROVIDER",
        "GIFTCARD_CARD_PROVIDER",
        "GIFTCARD_WAKE",
        "GIFTCARD_LOG_LEVEL",
        "GIFTCARD_STAGE_<NAME>_SEMANTICS",
    }
    for name, field in chosen.items():
        values = re.findall(r"'(\w+)'", str(field.annotation))
        assert told[name][2] == ", ".join(values), name


# HTTP


def test_every_route_is_told_with_its_methods_and_no_other(urls: Any) -> None:
    told = {
        (named(path)[0], method)
        for path, methods, _ in rows("api", columns=3)
        if path.startswith("[`")
        for method in methods.split(", ")
    }
    assert told == {
        (re.sub(r"<\w+:", "<", rule.rule), method)
        for rule in urls.iter_rules()
        for method in rule.methods & {"GET", "POST", "PUT", "PATCH", "DELETE"}
    }


def test_every_call_that_the_pages_show_finds_its_route(urls: Any) -> None:
    shown = set()
    for text in to_type():
        by_name = re.match(r"(GET|POST) (/api/[^?\s]*)", text)
        by_curl = re.match(r"curl .*\$URL(/[^\"?\s]*)", text)
        if by_name:
            shown.add((by_name[1], by_name[2]))
        elif by_curl:
            named_method = re.search(r"-X ([A-Z]+)", text)
            shown.add((named_method[1] if named_method else "POST" if " -d " in text else "GET", by_curl[1]))
    assert len(shown) >= 20
    for method, path in shown:
        concrete = re.sub(r"[<{]\w+[>}]|\bID\b", "1", path)
        assert urls.bind("localhost").match(concrete, method), f"{method} {path}"


def test_every_field_that_a_caller_may_send_is_told() -> None:
    told = {name.rpartition(".")[2] for name in named(TEXTS["api"])}
    for model in (*_models(job_schemas), *_models(report_requests), Trigger, OrderRequest, Customer, Money):
        assert set(model.model_fields) - told <= {"customer", "amount"}, model.__name__
    for model in _models(schedule_requests):
        assert {field.alias or name for name, field in model.model_fields.items()} - told == set(), model.__name__


def _models(module: Any) -> list[type[BaseModel]]:
    made = (value for value in vars(module).values() if isinstance(value, type) and issubclass(value, BaseModel))
    return [model for model in made if model.__module__ == module.__name__]


def test_every_problem_is_told() -> None:
    titles = set()
    for path in (ROOT / "lib/web").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("Problem", "problem"):
                titles |= {title.value for title in node.args[1:2] if isinstance(title, ast.Constant)}
    assert len(titles) > 10
    assert [title for title in sorted(titles) if title not in TEXTS["api"]] == []


def test_every_field_of_the_report_is_told() -> None:
    told = {name for cells in rows("api", columns=2) for name in named(cells[0])}
    assert set(TickReport().as_json()) <= told


def test_every_reason_to_wait_is_told_and_no_other() -> None:
    files = ("31_find.sql", "31_waiting.sql")
    source = "".join((ROOT / "supabase/schemas" / name).read_text(encoding="utf-8") for name in files)
    table = TEXTS["api"].split("| reason |")[1].split("\n\n")[0]
    reasons = re.findall(r"'reason', '(\w+)'", source) + re.findall(r"'(\w+_full|key_busy)'", source)
    assert set(re.findall(r"\n\| `(\w+)` \|", table)) == set(reasons)


# Words


def _allowed_by(constraint: str, connection: psycopg.Connection[Any]) -> set[str]:
    query = "select pg_get_constraintdef(oid) from pg_constraint where conname = %s"
    row = connection.execute(query, [constraint]).fetchone()
    assert row
    return set(re.findall(r"'(\w+)'::text", row[0]))


def test_every_status_and_result_is_told(connection: psycopg.Connection[Any]) -> None:
    statuses = _allowed_by("giftcard_jobs_status_is_known", connection)
    assert statuses == set(get_args(Status))
    assert statuses == {name for cells in rows("lifecycle", columns=2) for name in named(cells[0])}
    results = _allowed_by("giftcard_job_history_result_is_known", connection)
    assert len(results) == 5
    for page in ("lifecycle", "api"):
        assert results <= set(named(TEXTS[page])), page


def test_every_outcome_is_told() -> None:
    outcomes = {outcome.__name__ for outcome in get_args(Outcome)}
    assert outcomes <= {re.split(r"\W", name)[0] for name in named(TEXTS["stages"])}
    assert {outcome.lower() for outcome in outcomes} <= {cells[0] for cells in rows("glossary", columns=2)}


def test_the_glossary_is_in_order() -> None:
    words = [cells[0] for cells in rows("glossary", columns=2)][2:]
    assert words == sorted(words)


# Events


def _emitted() -> set[str]:
    """What `emit` and `_log` are called with, and the events that stand for outcomes."""
    found = set()
    for path in [path for path in (ROOT / "lib").rglob("*.py") if not {"local", "demo"} & set(path.parts)]:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = getattr(node.func, "attr", None) if isinstance(node, ast.Call) else None
            if called in ("emit", "_log") and isinstance(node.args[0], ast.Constant):
                found.add(node.args[0].value)
            elif isinstance(node, ast.Constant) and re.fullmatch(r"run_(?!no\b)\w+", str(node.value)):
                found.add(node.value)
    return found - {"run_tick", "run_seconds", "run_schedule"}


def test_every_event_is_told_with_its_level_and_no_other() -> None:
    told = {named(cells[0])[0]: cells[1] for cells in rows("events", columns=4) if named(cells[0])}
    assert set(told) == _emitted()
    assert told == {event: LEVELS[events.LEVELS[event]] for event in told}
    assert [event for event in events.LEVELS if f"`{event}`" not in TEXTS["events"]] == []


# The pages themselves


def test_the_readme_is_short_and_leads_to_every_page() -> None:
    assert len(TEXTS["README"].splitlines()) <= 200
    assert {path.name for path in PAGES} - {"README.md"} == set(re.findall(r"\(docs/(\w+\.md)", TEXTS["README"]))


def _anchors(path: Path) -> set[str]:
    """As GitHub makes them of headings."""
    headings = re.findall(r"(?m)^#+ (.*)$", path.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", page.read_text(encoding="utf-8")):
        file, _, anchor = target.partition("#")
        path = (page.parent / file).resolve() if file else page
        assert path.exists(), target
        assert not anchor or anchor in _anchors(path), target

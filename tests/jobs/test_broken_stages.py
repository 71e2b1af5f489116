"""A file that cannot be loaded breaks its own stages alone, wherever it lies; everything shows them with the reason."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lib.cli.stages import stages as stage_tables
from lib.cli.tables import Table
from tests.support.world import ADMIN, World, bearer

Make = Callable[..., World]
Write = Callable[..., Make]

HEAD = """from pydantic import BaseModel
from lib.job import Complete
from lib.jobs.stage import stage
class Payload(BaseModel): pass
"""
STAGE = '\n@stage("{}", payload=Payload{})\ndef handler(payload, context): return Complete()\n'

# By mistake: the file, what is broken by it, and its reason.
BROKEN = {
    "syntax": (HEAD + STAGE.format("points", "") + "def (\n", "points", "own_shop/stages/file.py:8: SyntaxError"),
    "no_python": ("def (", "file", "own_shop/stages/file.py:1: SyntaxError"),
    "import": (
        "import no_such_package\n" + HEAD + STAGE.format("points", ""),
        "points",
        "file.py:1: ModuleNotFoundError",
    ),
    "name": (HEAD + "no_such_name", "file", "file.py:5: NameError: name 'no_such_name'"),
    "raises": (
        HEAD + STAGE.format("points", "") + "raise RuntimeError('hunter2')",
        "points",
        "file.py:8: RuntimeError",
    ),
    "exits": (HEAD + STAGE.format("points", "") + "import sys; sys.exit(1)", "points", "file.py:8: SystemExit"),
    "argument": (HEAD + STAGE.format("points", ", ttr=0"), "points", "file.py:6: stage points: ttr must be"),
    "payload": (
        HEAD
        + "import threading\nfrom lib.validation import StrictModel\nclass Own(StrictModel): x: threading.Thread\n"
        + STAGE.format("points", "").replace("payload=Payload", "payload=Own"),
        "points",
        "file.py:9: PydanticSchemaGenerationError",
    ),
    "unknown": (HEAD + STAGE.format("points", ", tries=3"), "points", "file.py:6: TypeError"),
    "async": (
        HEAD + STAGE.format("points", "").replace("def", "async def"),
        "points",
        "file.py:6: stage points: the handler",
    ),
    "import_without_message": (
        "class Absent(ImportError):\n    def __str__(self): raise SystemExit\nraise Absent",
        "file",
        "own_shop/stages/file.py:3: Absent",
    ),
    "hooks": ("from lib.jobs.hooks import no_such_signal", "file", "file.py:1: ImportError"),
}


@pytest.fixture
def written(tmp_path: Path, make_world: Make, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Writes files of a package of stages, beside a stage that works."""
    folder = tmp_path / "own_shop/stages"
    folder.mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)

    def write(**files: str) -> Make:
        for name, text in ({"fine": HEAD + STAGE.format("fine", "")} | files).items():
            (folder / f"{name}.py").write_text(text)
        return lambda **more: make_world(GIFTCARD_STAGES="own_shop.stages", **more)

    yield write
    for name in [name for name in sys.modules if name.split(".")[0] == "own_shop"]:
        del sys.modules[name]


@pytest.mark.parametrize("mistake", BROKEN)
def test_a_mistake_breaks_its_own_stage_alone(mistake: str, written: Write, log: Any) -> None:
    text, name, reason = BROKEN[mistake]
    world = written(file=text)()
    assert reason in world.registry.broken[name]
    assert "hunter2" not in str(log())
    assert [(line["event"], line["stage"]) for line in log()] == [("stage_broken", name)]
    (waiting,) = world.enqueue(name, {})
    world.enqueue("fine", {})
    report = world.tick()
    assert (report["completed"], reason in report["parked"][name]) == (1, True)
    assert (world.job(waiting)["status"], world.job(waiting)["attempts"]) == ("queued", 0)
    assert "customer_ingest" in world.registry.stages


def test_every_place_names_a_broken_stage(written: Write) -> None:
    world = written(file=BROKEN["argument"][0])()
    (job_id,) = world.enqueue("points", {})

    def get(path: str, *, status: int = 200) -> Any:
        answer = world.client.get(path, headers=bearer(ADMIN))
        assert answer.status_code == status
        return answer.json

    assert get("/api/health") == {"status": "up", "broken_stages": ["points"]}
    assert get("/api/health/deep", status=503)["broken_stages"] == ["points"]
    reason = get("/api/v1/stages")["broken_stages"]["points"]
    assert "own_shop/stages/file.py:6" in reason
    assert get(f"/api/v1/jobs/{job_id}")["waiting_for"]["text"] == f"stage points cannot run: {reason}"
    (line,) = [line for line in get("/api/status")["doctor"] if line["check"] == "stages"]
    assert line["level"] == "red"
    assert f"points cannot be loaded: {reason}" in line["message"]
    tables = [part for part in stage_tables(get("/api/v1/stages")) if isinstance(part, Table)]
    assert [table.rows for table in tables if "cannot be loaded" in table.title] == [[("points", reason)]]
    body = {"jobs": [{"stage": "points", "correlation_id": "f", "payload": {}}]}
    assert world.client.post("/api/v1/jobs", json=body, headers=bearer(ADMIN)).status_code in (200, 201, 202)


def test_two_stages_of_one_name_both_wait(written: Write) -> None:
    twice, product = HEAD + STAGE.format("points", ""), HEAD + STAGE.format("send_mail", "")
    world = written(a=twice, b=twice, c=product)()
    assert set(world.registry.broken) == {"points", "send_mail"}
    assert {"points", "send_mail"} & set(world.registry.stages) == set()
    for name, places in {"points": ("a.py:6", "b.py:6"), "send_mail": ("c.py:6", "lib/stages/send_mail.py:")}.items():
        assert all(place in world.registry.broken[name] for place in places)


def test_a_stage_that_another_file_imports_is_no_second_one(written: Write) -> None:
    world = written(a=HEAD + STAGE.format("points", ""), b="from own_shop.stages.a import handler as also\n")()
    assert world.registry.broken == {}
    assert "points" in world.registry.stages


def test_a_package_that_does_not_exist_is_named(make_world: Make) -> None:
    world = make_world(GIFTCARD_STAGES="no_such_shop.stages")
    assert world.registry.broken == {"no_such_shop.stages": "GIFTCARD_STAGES: there is no package no_such_shop.stages"}
    assert "payment" in world.registry.stages


def test_a_stage_whose_function_a_later_one_replaces_is_named(written: Write) -> None:
    world = written(both=HEAD + STAGE.format("points", "") + STAGE.format("badges", ""))()
    reason = world.registry.broken["points"]
    assert reason.endswith("own_shop/stages/both.py:7: another function of the same name follows")
    assert "badges" in world.registry.stages


def test_a_package_that_raises_is_named_with_its_line(written: Write) -> None:
    world = written(__init__="\n\n1 / 0\n")()
    reason = world.registry.broken["own_shop.stages"]
    assert reason.startswith("GIFTCARD_STAGES: ")
    assert reason.endswith("own_shop/stages/__init__.py:3: ZeroDivisionError")


def test_a_circular_import_is_named_without_the_path_behind_it(written: Write) -> None:
    world = written(round="from own_shop.stages.round import late\nlate = 1\n")()
    assert world.registry.broken["round"].endswith("own_shop.stages.round' (most likely due to a circular import)")


def test_functions_of_a_stage_that_leave_stop_nothing(written: Write) -> None:
    head = (
        HEAD + "import sys\nfrom lib.config.stage_settings import StageSettings\nfrom pydantic import field_validator\n"
    )
    own = "class Own(StageSettings):\n    x: int = 1\n    @field_validator('x')\n    def check(cls, x): sys.exit(1)\n"
    files = {
        "a": head + STAGE.format("by_needs", ", needs=lambda settings: sys.exit(1)"),
        "b": head + own + STAGE.format("by_settings", ", settings=Own"),
        "c": head + STAGE.format("by_circuit", ", circuit_of=lambda payload: sys.exit(1)"),
    }
    world = written(**files)(X="5")
    world.enqueue("by_circuit", {})
    report = world.tick()
    assert (report["completed"], {"by_needs", "by_settings"} <= set(report["parked"])) == (1, True)


def test_errors_of_a_stages_own_functions_park_it_or_fall_back(written: Write) -> None:
    raising = "lambda settings: 1 / 0"
    files = {
        "a": HEAD + STAGE.format("raises", f", needs={raising}"),
        "b": HEAD + STAGE.format("odd", ", needs=lambda settings: True"),
        "c": HEAD + STAGE.format("circuits", ", circuit_of=lambda payload: 'payment'"),
    }
    world = written(**files)()
    parked = world.tick()["parked"]
    assert parked["raises"] == "its needs raised ZeroDivisionError"
    assert parked["odd"].startswith("its needs returned bool")
    body = {"jobs": [{"stage": "circuits", "correlation_id": "f", "payload": {}}]}
    assert world.client.post("/api/v1/jobs", json=body, headers=bearer(ADMIN)).status_code in (200, 201, 202)
    assert world.job(stage="circuits")["circuit"] == "circuits"

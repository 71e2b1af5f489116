"""The simulation: the same seed is the same night, what it promises holds, and it finds what is planted."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev import ROOT
from dev.postgres import Embedded, embedded
from lib.config.settings import Settings
from proof.simulation import __main__ as command
from proof.simulation import database
from proof.simulation.database import SETTINGS, Database
from proof.simulation.fleet import digest, outcome_of, played_by
from proof.simulation.night import play
from proof.simulation.plant import Plant, find
from proof.simulation.plants import PLANTS
from proof.simulation.shrink import shrunk

pytestmark = pytest.mark.slow

# Seeds that are hard in different ways, and quick.
_SEEDS = range(1, 13)
# Planted bugs that the first few seeds find.
_QUICKLY = (
    "vendor key",
    "attempt",
    "slot",
    "limit",
    "take-over",
    "at most once",
    "alert",
    "log",
    "never opens",
    "event id",
    "doubling",
    "extension",
    "execution",
    "result",
    "pruning",
    "metrics",
)


@pytest.fixture(scope="module")
def server() -> Iterator[Embedded]:
    # Not in pytest's folder, which no other user may read.
    with (
        tempfile.TemporaryDirectory(prefix="simulation-") as folder,
        embedded(Path(folder), settings=SETTINGS) as server,
    ):
        yield server


def test_seeds_hold_and_are_the_same_wherever_they_are_played(server: Embedded) -> None:
    played = {outcome[0]: outcome for outcome in played_by(2, server, _SEEDS.start, len(_SEEDS))}
    assert sorted(played) == list(_SEEDS)
    assert {seed: failures for seed, failures, _, _ in played.values() if failures} == {}
    facts = [facts for _, _, facts, _ in played.values()]
    for name in ("ticks", "calls", "kill", "freeze", "request lost", "answer lost"):
        assert sum(fact[name] for fact in facts) > 0, f"no {name} in any of them"
    database = Database(server.create_database("again"))
    database.load()
    for seed in (9, 3):  # in another order, after other seeds
        assert outcome_of(play(seed, database)) == played[seed]
    database.close()


@pytest.mark.parametrize("plant", [plant for plant in PLANTS if plant.name in _QUICKLY], ids=lambda plant: plant.name)
def test_a_planted_bug_is_found(server: Embedded, plant: Plant) -> None:
    name = f"plant_{PLANTS.index(plant)}"
    found, failure = find(plant, server.create_database(name), most=20)
    assert found is not None
    assert failure


def test_each_bug_can_be_planted(server: Embedded) -> None:
    """Its changes fit the schema of today: otherwise the bug would be found because nothing works."""
    for number, plant in enumerate(PLANTS):
        with plant.planted():
            pass
        if not plant.changes:
            continue
        database = Database(server.create_database(f"planted_{number}"))
        database.load(plant.changes)
        database.close()
        server.drop_database(f"planted_{number}")
    assert len({plant.name for plant in PLANTS}) == len(PLANTS) >= 12


def test_the_page_lists_each_planted_bug() -> None:
    section = (ROOT / "docs/proof.md").read_text(encoding="utf-8").partition("| planted bug |")[2].partition("\n\n")[0]
    assert re.findall(r"(?m)^\| ([\w -]+): ", section) == [plant.name for plant in PLANTS]


def test_each_function_and_table_that_the_simulation_names_exists() -> None:
    """A check of a function that is not there would never fail."""
    of_the_product = database.schema() + " ".join(Settings.model_fields)
    unknown = {
        f"{path.name}: {name}"
        for path in Path(command.__file__).parent.glob("*.py")
        for name in re.findall(r"giftcard_[a-z0-9_]+(?!\w|\{)", path.read_text(encoding="utf-8"))
        if not name.startswith("giftcard_proof") and not re.search(rf"\b{name}\b", of_the_product)
    }
    assert unknown == set()


def test_a_failing_seed_is_shrunk_to_what_it_needs(server: Embedded) -> None:
    database = Database(server.create_database("shrunk"))
    (plant,) = (plant for plant in PLANTS if plant.name == "limit")
    database.load(plant.changes)
    night = next(night for seed in range(1, 30) if (night := play(seed, database)).machine.failures)
    least = shrunk(night, lambda left_out: play(night.seed, database, left_out=left_out), most=40)
    assert least.machine.failures
    assert 0 < len(least.faults.happened) < len(night.faults.happened)
    again = play(night.seed, database, left_out=least.faults.left_out)
    assert digest(again) == digest(least)
    database.close()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--seeds", "0"),
        ("--seeds", "-3"),
        ("--processes", "0"),
        ("--first", "²"),
        ("--seeds", "x"),
    ],
    ids=" ".join,
)
def test_nothing_is_played_for_what_is_no_number(
    arguments: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["simulation", *arguments])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert arguments[0] in capsys.readouterr().err.splitlines()[-1]

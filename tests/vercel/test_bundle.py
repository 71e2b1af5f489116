"""What `vercel build` makes of the tree.

No account and no token are needed. What a build does wrong it mostly does without a word: it ends with 0 though
packages are lost or sources are published. So each of that is looked at here.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from dev import ROOT
from tests.support.locks import locked
from tests.vercel.building import Built
from tests.vercel.conftest import SECRET_OF_A_DEVELOPER
from tests.vercel.tools import PYTHONS, Tools

pytestmark = pytest.mark.slow

VERCEL_JSON = json.loads((ROOT / "vercel.json").read_text(encoding="utf-8"))
# Megabytes. Vercel takes 250; what is added should be noticed long before.
MOST_MEGABYTES = 130


def test_the_function_runs_as_vercel_json_and_python_version_say(built: Built, needed: Tools) -> None:
    assert built.config["runtime"] == f"python{needed.python}"
    assert built.config["maxDuration"] == VERCEL_JSON["functions"]["api/index.py"]["maxDuration"]
    assert (ROOT / ".python-version").read_text() == f"{PYTHONS[0]}\n"
    assert PYTHONS[0] in PYTHONS[1:], "Vercel would take another Python, and warn only"


def test_the_crons_are_those_of_vercel_json(built: Built) -> None:
    assert built.routing["crons"] == VERCEL_JSON["crons"]
    assert [cron["path"] for cron in VERCEL_JSON["crons"]] == ["/api/cron/giftcard-jobs"]


def test_nothing_is_published_but_what_is_in_public(built: Built) -> None:
    def names(folder: Path) -> set[str]:
        return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}

    assert names(built.output / "static") == names(ROOT / "public") != set()
    handled = [route for route in built.routing["routes"] if route.get("dest") == "/api/index"]
    assert [re.fullmatch(route["src"], "/any/path") is not None for route in handled] == [True]


def test_the_bundle_holds_the_program_and_nothing_else(built: Built) -> None:
    made_by_the_builder = {".vc-config.json", "vc__handler__python.py", "_vendor", "pyproject.toml", "uv.lock"}
    ours = {"api", "lib", "requirements.txt", "vercel.json"}
    assert {path.name for path in built.function.iterdir()} == made_by_the_builder | ours
    assert not {path.name for path in (built.function / "lib").iterdir()} & {"demo", "local", "testing"}
    assert (built.function / "lib/giftcards/templates/mail.en.html").exists()


def test_no_secret_that_lies_about_is_deployed(built: Built) -> None:
    secret = SECRET_OF_A_DEVELOPER.encode()
    assert [path for path in built.output.rglob("*") if path.is_file() and secret in path.read_bytes()] == []


def test_the_locked_packages_are_in_it_in_their_versions_and_no_others(built: Built) -> None:
    infos = (built.function / "_vendor").glob("*.dist-info")
    there = {canonicalize_name(name): version for name, version in (path.stem.split("-") for path in infos)}
    brought_by_the_builder = {"pip", "vercel-runtime"}
    assert {name: version for name, version in there.items() if name not in brought_by_the_builder} == {
        name: package.version for name, package in locked("").items() if package.here
    }


def test_every_module_is_shipped_with_bytecode_that_is_used_unasked(built: Built) -> None:
    """Files get new times on their way: only bytecode that is not compared with its source saves the compiling."""
    sources = [path for part in ("api", "lib", "_vendor/flask", "_vendor/psycopg") for path in built.files(part)]
    sources = [path for path in sources if path.suffix == ".py"]
    tag = built.config["runtime"].replace("python", "cpython-").replace(".", "")
    compiled = [path.parent / "__pycache__" / f"{path.stem}.{tag}.pyc" for path in sources]
    assert len(compiled) > 100
    assert [path for path in compiled if not path.exists()] == []
    unchecked_hash = (1).to_bytes(4, "little")  # PEP 552
    assert {path.read_bytes()[4:8] for path in compiled} == {unchecked_hash}


def test_the_bundle_is_small_enough(built: Built, record_property: Any) -> None:
    size = sum(path.stat().st_size for path in built.files()) / 1e6
    bytecode = sum(path.stat().st_size for path in built.files() if path.suffix == ".pyc") / 1e6
    record_property(
        "said", f"bundle: {size:.0f} MB, {bytecode:.0f} of them bytecode (we allow {MOST_MEGABYTES}, Vercel 250)"
    )
    assert size <= MOST_MEGABYTES

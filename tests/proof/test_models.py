"""The models in proof/models hold, find each of their mutations, and name what the schema and the code have."""

import importlib
import re
from pathlib import Path

import pytest

from dev import ROOT
from proof.models import __main__ as command
from proof.models.checker import CheckFailed, check, missing, models, read
from proof.models.tables import inlines, known_mutations, mutations, transitions
from tests.support.optional import lacks

SCHEMA = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "supabase/schemas").glob("*.sql")))
MODELS = {model.stem: model for model in models()}
# The fence, as SQL spells it: the job runs, and under the lease that is presented.
FENCE = re.compile(
    r"\band (?:j\.)?status = (?:'running'|v_running)\s+and (?:j\.)?lease_id = "
    r"(?:p_lease_id|coalesce\(p_lease_id|x\.lease\b|\(r ->> 'lease_id'\)::uuid)"
)


@pytest.fixture
def programs() -> None:
    if problem := missing():
        lacks(problem)


def body(function: str) -> str:
    """The text of an SQL function in the schema files."""
    found = re.search(rf"create function public\.{function}\(.*?(?=\ncreate |\Z)", SCHEMA, re.DOTALL)
    assert found, f"no function {function}"
    return re.sub(r"--.*", "", found[0])


def has_fence(text: str) -> bool:
    return bool(FENCE.search(text))


@pytest.mark.slow
@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("name", MODELS)
def test_a_model_holds(name: str) -> None:
    verdict = check(MODELS[name])
    assert (verdict.error, verdict.trail) == (None, ())
    assert verdict.states > 500


@pytest.mark.slow
@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("mutation", known_mutations(), ids=lambda mutation: f"{mutation.model}-{mutation.name}")
def test_a_mutation_is_found(mutation) -> None:
    verdict = check(MODELS[mutation.model], mutation.name)
    assert verdict.error
    assert len(verdict.trail) == mutation.steps, "\n".join(verdict.trail)


@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize(
    ("planted", "error"),
    [
        ("assert(false)", "assertion violated 0"),
        ("again: x = 1 - x; goto again", "non-progress cycle"),
        ("false", "invalid end state"),
    ],
)
def test_a_model_that_does_not_hold_is_reported(
    planted: str, error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "planted.pml"
    model.write_text(f'byte x; active proctype p() {{ printf("it begins\\n"); x = 1; {planted} }}\n')
    monkeypatch.setattr(command, "models", lambda: [model])
    monkeypatch.setattr("sys.argv", ["models"])
    assert command.main() == 1
    printed = capsys.readouterr().out
    assert f"BREAKS: {error}" in printed
    assert "1. it begins" in printed


@pytest.mark.usefixtures("programs")
def test_a_mutation_that_changes_nothing_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model = tmp_path / "planted.pml"
    model.write_text("byte x;\nactive proctype p() {\n#ifdef HARMLESS\n    x = 2;\n#endif\n    x = 1\n}\n")
    monkeypatch.setattr(command, "models", lambda: [model])
    monkeypatch.setattr("sys.argv", ["models"])
    assert command.main() == 1
    assert "planted HARMLESS" in capsys.readouterr().out


@pytest.mark.usefixtures("programs")
def test_a_model_that_cannot_be_read_proves_nothing(tmp_path: Path) -> None:
    model = tmp_path / "planted.pml"
    model.write_text("active proctype p() { nonsense }\n")
    with pytest.raises(CheckFailed, match="spin"):
        check(model)


@pytest.mark.usefixtures("programs")
def test_a_transition_that_never_happens_is_reported(tmp_path: Path) -> None:
    model = tmp_path / "planted.pml"
    model.write_text(
        'byte x;\nactive proctype p() {\n    x = 1; printf("a\\n");\n    if\n'
        '    :: x == 2 -> printf("b\\n")\n    :: else\n    fi\n}\n'
    )
    with pytest.raises(CheckFailed, match=r"nothing ever comes to planted\.pml:5$"):
        check(model)


@pytest.mark.parametrize(
    "output",
    [
        "",
        "State-vector 20 byte, depth reached 9, errors: 0\n  900 states, stored\nerror: max search depth too small\n",
        "Warning: Search not completed\nState-vector 20 byte, errors: 0\n  900 states, stored\n",
        "State-vector 20 byte, depth reached 0, errors: 0\n  1 states, stored\n",
    ],
)
def test_a_search_that_is_not_complete_proves_nothing(output: str) -> None:
    with pytest.raises(CheckFailed):
        read(output)


def test_the_tables_name_every_transition_and_mutation_once() -> None:
    assert sorted((row.model, row.name) for row in transitions()) == sorted(
        (name, inline) for name, model in MODELS.items() for inline in inlines(model)
    )
    assert sorted((row.model, row.name) for row in known_mutations()) == sorted(
        (name, mutation) for name, model in MODELS.items() for mutation in mutations(model)
    )


def test_the_docs_have_the_same_table_of_mutations() -> None:
    docs = (ROOT / "docs/proof.md").read_text(encoding="utf-8").split("\n## Models\n")[1].split("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \| `(\w+)`: .* \| (\d+) \|$", docs, re.MULTILINE)
    assert listed == [(row.model, row.name, str(row.steps)) for row in known_mutations()]
    assert all(f"| `{name}` |" in docs for name in MODELS)


def test_the_functions_of_the_table_exist() -> None:
    assert all(body(function) for row in transitions() for function in row.sql)
    names = {name for row in transitions() for name in row.python}
    assert names
    for name in sorted(names):
        assert resolved(name) is not None


def resolved(name: str) -> object:
    """The object that a dotted name of the table means."""
    parts = name.split(".")
    module = max(n for n in range(1, len(parts)) if (ROOT / "/".join(parts[:n])).with_suffix(".py").is_file())
    found: object = importlib.import_module(".".join(parts[:module]))
    for part in parts[module:]:
        found = getattr(found, part)
    return found


def test_fenced_functions_compare_the_lease_of_a_running_job() -> None:
    fenced = {function for row in transitions() for function in row.fenced}
    assert {"giftcard_settle_completed", "giftcard_settle_unfinished", "giftcard_settle_and_claim"} <= fenced
    assert [function for function in sorted(fenced) if not has_fence(body(function))] == []


@pytest.mark.parametrize("part", ["and status = v_running", "and lease_id = coalesce("])
def test_a_fence_that_lacks_a_part_is_found(part: str) -> None:
    text = body("giftcard_settle_completed")
    assert part in text
    assert not has_fence(text.replace(part, part.replace("and ", "or ")))

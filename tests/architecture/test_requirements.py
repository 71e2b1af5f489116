"""requirements*.in name what the code imports; requirements*.txt lock that, what it needs, and no more."""

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dev import ROOT
from tests.support.locks import PARTS, locked, named, text
from tests.support.optional import lacks

OURS = {"api", "bench", "demo", "dev", "lib", "proof", "tests"}
FOLDERS = {
    "": ("api", "lib"),
    "-demo": ("demo", "dev"),
    "-dev": ("proof", "tests", "dev/testing"),
    "-bench": ("bench", "proof/soak"),
}
# What stands inside a folder of another part.
APART = {"-demo": "testing", "-dev": "soak"}
BROUGHT_BY = packages_distributions()


# Imports


def sources(part: str) -> list[Path]:
    """The files that import what this part names."""
    paths = [path for folder in FOLDERS[part] for path in sorted(ROOT.glob(f"{folder}/**/*.py"))]
    return [path for path in paths if APART.get(part) not in path.relative_to(ROOT).parts[1:-1]]


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules of others that code imports, wherever in it. Not what it can do without: `except ImportError`."""
    for node in ast.iter_child_nodes(tree):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        elif isinstance(node, ast.Try) and any(map(is_of_imports, node.handlers)):
            continue
        yield from {module.split(".")[0] for module in modules} - OURS - sys.stdlib_module_names
        yield from imported(node)


def is_of_imports(handler: ast.ExceptHandler) -> bool:
    return isinstance(handler.type, ast.Name) and handler.type.id == "ImportError"


def packages_with(module: str) -> set[str]:
    """The packages that bring a module. One that is not installed bears its name."""
    return {canonicalize_name(package) for package in BROUGHT_BY.get(module, [module])}


@pytest.mark.parametrize("part", PARTS)
def test_every_package_that_the_code_imports_is_named(part: str) -> None:
    unnamed = {
        f"{path.relative_to(ROOT)} imports {module}"
        for path in sources(part)
        for module in imported(ast.parse(path.read_text(encoding="utf-8")))
        if not packages_with(module) & set(named(part))
    }
    assert unnamed == set(), f"name it in requirements{part}.in"


def test_an_import_is_found_wherever_it_stands() -> None:
    code = """
import click, json
from flask.views import View
class A:
    def late(self):
        if self:
            import httpx._api
try:
    import rich
except ImportError:
    rich = None
try:
    import psycopg
except ValueError:
    from lib.tick import tick
"""
    assert sorted(imported(ast.parse(code))) == ["click", "flask", "httpx", "psycopg"]


# Locks


@pytest.mark.parametrize("part", PARTS)
def test_a_lock_is_packages_with_hashes_and_nothing_else(part: str) -> None:
    lock = text(f"requirements{part}.txt")
    assert [name for name, package in locked(part).items() if not package.hashes] == []
    assert len(locked(part)) == len(re.findall(r"(?m)^[^\s#]", lock)), "one version of each, and no options"
    assert sum(len(package.hashes) for package in locked(part).values()) == lock.count("--hash=sha256:")
    assert "://" not in lock


@pytest.mark.parametrize("part", PARTS)
def test_a_lock_has_what_is_named_in_a_version_that_will_do(part: str) -> None:
    lock = locked(part)
    assert [
        str(requirement)
        for name, requirement in named(part).items()
        if name not in lock or lock[name].version not in requirement.specifier
    ] == [], "run make lock"


@pytest.mark.parametrize("part", PARTS)
def test_a_lock_has_what_the_named_packages_need_and_no_more(part: str) -> None:
    try:
        expected = needed(named(part).values())
    except PackageNotFoundError as missing:
        lacks(f"{missing.name} is not installed: run make venv-bench")
    assert {name for name, package in locked(part).items() if package.here} == expected, "run make lock"


def needed(requirements: Iterable[Requirement]) -> set[str]:
    """The packages that these come to on this machine, with all that the installed ones ask for."""
    found: set[tuple[str, str]] = set()
    waiting = [(requirement, "") for requirement in requirements]
    while waiting:
        requirement, extra_of_parent = waiting.pop()
        if requirement.marker and not requirement.marker.evaluate({"extra": extra_of_parent}):
            continue
        for extra in {"", *requirement.extras}:
            if (requirement.name, extra) not in found:
                found.add((requirement.name, extra))
                asked_for = distribution(requirement.name).requires or []
                waiting += [(Requirement(line), extra) for line in asked_for]
    return {canonicalize_name(name) for name, _ in found}


@pytest.mark.parametrize(("smaller", "larger"), [("", "-demo"), ("-demo", "-dev"), ("-dev", "-bench")])
def test_developers_have_the_versions_of_production(smaller: str, larger: str) -> None:
    versions = {name: package.version for name, package in locked(larger).items()}
    assert {
        name: (package.version, versions.get(name))
        for name, package in locked(smaller).items()
        if package.version != versions.get(name)
    } == {}, "run make lock"

"""Finds stages in the files of packages. A file that cannot be imported breaks its own stages, and nothing else."""

import ast
import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from lib.errors import GiftcardError
from lib.jobs.declared import shown_path
from lib.jobs.stage import Stage

# `@stage("name"` in a file that is not Python: nothing better can be read from it.
_DECLARED = re.compile(r"""(?m)^@(?:\w+\.)*stage\(\s*(?:name\s*=\s*)?["'](\w+)["']""")
# Errors of the interpreter, whose messages hold names of the code. Those of others may hold a value.
_SAFE = (SyntaxError, ImportError, NameError, AttributeError, TypeError, KeyError, GiftcardError)


@dataclass(slots=True)
class Found:
    """What packages hold. `stages`: by name, more than one where a name is used again. `broken`: reasons by name."""

    stages: dict[str, list[Stage]] = field(default_factory=dict)
    broken: dict[str, list[str]] = field(default_factory=dict)

    def add(self, module: ModuleType) -> None:
        """Add the stages of a module. One that it imports from another module is there once."""
        for stage in (value for value in vars(module).values() if isinstance(value, Stage)):
            others = self.stages.setdefault(stage.name, [])
            if not any(stage is other for other in others):
                others.append(stage)

    def add_broken(self, names: list[str], reason: str) -> None:
        """Add the stages of a file that cannot be imported."""
        for name in names:
            self.broken.setdefault(name, []).append(reason)


def find(package: str, found: Found, *, setting: str | None = None) -> None:
    """Find the stages of a package and of the files in its folder.

    `setting`: the variable that names the package; it need not exist, and may hold stages itself.
    """
    try:
        module = importlib.import_module(package)
    except BaseException as error:  # noqa: BLE001 - whatever a file raises, also SystemExit, breaks that file alone
        _check_not_interrupted(error)
        absent = isinstance(error, ModuleNotFoundError) and package.startswith(error.name or "?")
        reason = f"there is no package {package}" if absent else _reason(error, package, None, roots=_roots(package))
        found.add_broken([package], f"{setting}: {reason}")
        return
    if setting:
        found.add(module)
    folders = [Path(folder) for folder in getattr(module, "__path__", ())]
    # Errors are shown where they are raised within the project's own code.
    roots = tuple(folder.parents[package.count(".") - 1] if "." in package else folder for folder in folders)
    for name, file in _files(folders):
        full_name = f"{package}.{name}"
        try:
            module = importlib.import_module(full_name)
        except BaseException as error:  # noqa: BLE001 - as above
            _check_not_interrupted(error)
            reason = _reason(error, full_name, file, roots=(*(roots if setting else ()), file.parent))
            names = sorted(_declared(file)) or [name if name not in found.stages else full_name]
            found.add_broken(names, reason)
            continue
        found.add(module)
        if setting:
            for line, hidden in _hidden(file, module):
                found.add_broken([hidden], f"{shown_path(str(file))}:{line}: another function of the same name follows")


def _hidden(file: Path, module: ModuleType) -> Iterator[tuple[int, str]]:
    """Yield the stages of a file whose function has the name of a later one, each with its line."""
    kept = {value.name for value in vars(module).values() if isinstance(value, Stage)}
    for node in ast.parse(file.read_bytes()).body if file.suffix == ".py" and file.exists() else ():
        if isinstance(node, ast.FunctionDef):
            for name in sorted(_named(node.decorator_list) - kept):
                yield node.lineno, name


def _files(folders: list[Path]) -> Iterator[tuple[str, Path]]:
    for module in pkgutil.iter_modules(map(str, folders)):
        places = [folder / module.name for folder in folders]
        files = [place / "__init__.py" if module.ispkg else place.with_suffix(".py") for place in places]
        yield module.name, next((file for file in files if file.exists()), files[0])


def _roots(package: str) -> tuple[Path, ...]:
    """Return the folders, or the file, of the first part of a package's name, without importing it."""
    try:
        spec = importlib.util.find_spec(package.partition(".")[0])
    except (ImportError, ValueError):  # it has replaced itself
        return ()
    places = [*(spec.submodule_search_locations or ()), spec.origin] if spec else []
    return tuple(Path(place) for place in places if place)


def _check_not_interrupted(error: BaseException) -> None:
    if isinstance(error, KeyboardInterrupt):
        raise error


def _reason(error: BaseException, module: str, file: Path | None, *, roots: tuple[Path, ...]) -> str:
    """Return where and why a module cannot be imported, without values."""
    place, traceback = None, error.__traceback__
    while traceback is not None:
        path = Path(traceback.tb_frame.f_code.co_filename)
        if any(path.is_relative_to(root) for root in roots):
            place = f"{shown_path(str(path))}:{traceback.tb_lineno}"
        traceback = traceback.tb_next
    if isinstance(error, SyntaxError) and error.filename:
        place = f"{shown_path(error.filename)}:{error.lineno or 1}"
    kind = "" if isinstance(error, GiftcardError) else type(error).__name__
    return ": ".join(filter(None, (place or (f"{shown_path(str(file))}:1" if file else module), kind, _text(error))))


def _text(error: BaseException) -> str:
    """Return the message of an error of the interpreter."""
    try:
        text = str(error.msg if isinstance(error, SyntaxError) else error) if isinstance(error, _SAFE) else ""
        # That of a circular import ends with a path of this machine.
        path = error.path if isinstance(error, ImportError) else None
        return text.removesuffix(f" ({path})")
    except BaseException:  # noqa: BLE001 - a class of the file's own may raise here, too
        return ""


def _declared(file: Path) -> set[str]:
    """Return the names in `@stage("name")` of a file."""
    try:
        source = file.read_bytes()
    except OSError:
        return set()
    try:
        tree = ast.parse(source)
        return _named(ast.walk(tree))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set(_DECLARED.findall(source.decode(errors="replace")))


def _named(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names in `stage("name")` among nodes."""
    calls = [node for node in nodes if isinstance(node, ast.Call) and _name_of(node.func) == "stage"]
    given = [[*call.args[:1], *(keyword.value for keyword in call.keywords if keyword.arg == "name")] for call in calls]
    constants = [value.value for values in given for value in values if isinstance(value, ast.Constant)]
    return {value for value in constants if isinstance(value, str)}


def _name_of(function: ast.expr) -> str | None:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else None

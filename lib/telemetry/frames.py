"""Where a failed run was raised: file, line and function of each frame, as they are kept with the run. Never a value.

An expected failure, an exception of `lib.errors` that a client of ours raises, keeps no frames. Everything else does:
any other exception, and whatever a stage's own code raises.
"""

import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cache
from inspect import unwrap
from pathlib import Path
from types import TracebackType
from typing import Any

from lib.errors import Failure, GiftcardError
from lib.telemetry.redact import clean

Json = dict[str, Any]

_MOST_FRAMES = 20
_MOST_ERRORS = 5  # of a chain, or of a group
_LONGEST_NAME = 200
_ROOT = Path(__file__).parents[2]
_STANDARD_LIBRARY = Path(os.__file__).parent
_PACKAGES = ("site-packages", "dist-packages", "_vendor")
# The rooms that call a stage, and those that it calls for its connections: a fault that ends there began outside.
_CALLERS = ("lib/tick/", "lib/giftcards/flow.py")
_ENGINE = (
    *(*_CALLERS, "lib/config/", "lib/jobs/", "lib/safe_http/", "lib/store/", "lib/telemetry/"),
    *("lib/encryption.py", "lib/errors.py", "lib/job.py", "lib/validation.py"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A frame of a traceback. `file` is relative to the project, or to the folder of its package.

    `own`: it is code of a stage or of what the stage is made of, not of the engine or of a package. `raised`: the type
    of the exception that was raised here. `omitted`: how many frames before it are left out.
    """

    file: str
    line: int
    function: str
    own: bool = False
    raised: str | None = None
    omitted: int = 0

    def as_json(self) -> Json:
        """Return it as a run keeps it."""
        return asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Where a run failed: the frames, those of causes first, the one that raised last.

    `is_bug`: the code is at fault, as far as can be known: it is no expected failure, and no connection has failed.
    """

    frames: tuple[Frame, ...]
    is_bug: bool

    @property
    def innermost(self) -> Frame:
        """The innermost own frame of the exception itself, else its last frame."""
        begin = max((n for n, frame in enumerate(self.frames[:-1], 1) if frame.raised), default=0)
        return next((frame for frame in reversed(self.frames[begin:]) if frame.own), self.frames[-1])

    @property
    def at(self) -> str:
        """The place of the innermost own frame: `shop/stages/sms.py:12`."""
        return f"{self.innermost.file}:{self.innermost.line}"


def fault_of(failure: BaseException, *, handler: Callable[..., Any] | None, secrets: list[str]) -> Fault | None:
    """Return where a failure was raised, or, if what the handler returned is at fault, where that begins.

    None: an expected failure, or one that no code has raised. Never raises.
    """
    try:
        return _fault_of(failure, handler, secrets)
    except BaseException:  # noqa: BLE001 - an exception may have any attributes, and raise when they are read
        return None


def place_of(failure: BaseException) -> str | None:
    """Return the innermost own frame of a failure as `file:line`, of whatever kind it is; None: no code raised it."""
    try:
        frames = _frames(failure)
        return Fault(frames=tuple(frames), is_bug=True).at if frames else None
    except BaseException:  # noqa: BLE001 - as above
        return None


def _fault_of(failure: BaseException, handler: Callable[..., Any] | None, secrets: list[str]) -> Fault | None:
    if isinstance(failure, Failure) and failure.of_result:
        code = getattr(unwrap(handler), "__code__", None) if handler else None
        if code is None:
            return None
        begin = _frame(code.co_filename, code.co_firstlineno, code.co_qualname)
        return _stored([replace(begin, raised=type(failure).__name__)], secrets, is_bug=True)
    errors = _chain(failure)
    share = _MOST_FRAMES // len(errors)
    frames = [frame for error in errors for frame in _bounded(_frames(error), share)]
    if not frames:
        return None
    expected = isinstance(failure, GiftcardError)
    if expected and not frames[-1].own:
        return None
    return _stored(frames, secrets, is_bug=not expected and not any(map(_is_of_network, errors)))


def _stored(frames: list[Frame], secrets: list[str], *, is_bug: bool) -> Fault:
    def cleaned(name: str) -> str:
        return clean(name, secrets=secrets, limit=_LONGEST_NAME)

    return Fault(
        frames=tuple(
            replace(
                frame,
                file=cleaned(frame.file),
                function=cleaned(frame.function),
                raised=cleaned(frame.raised) if frame.raised else None,
            )
            for frame in frames
        ),
        is_bug=is_bug,
    )


def _chain(failure: BaseException) -> list[BaseException]:
    """Return an exception behind its causes and, if it is a group, its members; the nearest ones if there are many."""
    found = [failure]
    for error in found:  # grows meanwhile
        cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        members = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
        for each in (cause, *members[:_MOST_ERRORS]):
            if each is not None and all(each is not other for other in found):
                found.append(each)
        if len(found) >= _MOST_ERRORS:
            break
    return found[:_MOST_ERRORS][::-1]


def _frames(error: BaseException) -> list[Frame]:
    """Return the frames of one exception that are not of packages, and the last one, which raised it."""
    places: list[tuple[str, int, str]] = []
    step: TracebackType | None = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        places.append((code.co_filename, step.tb_lineno or 0, code.co_qualname))
        step = step.tb_next
    kept = [place for place in places[:-1] if _is_project(place[0])] + places[-1:]
    frames = [_frame(*place) for place in kept]
    begin = next((n for n, frame in enumerate(frames) if not frame.file.startswith(_CALLERS)), len(frames))
    frames = frames[begin:]
    if isinstance(error, SyntaxError) and isinstance(error.filename, str) and Path(error.filename).is_file():
        frames.append(_frame(error.filename, error.lineno or 0, "<module>"))
    if frames:
        frames[-1] = replace(frames[-1], raised=type(error).__name__)
    return frames


def _bounded(frames: list[Frame], most: int) -> list[Frame]:
    """Return at most so many frames: a few of the first, and the last ones."""
    if len(frames) <= most:
        return frames
    first = most // 4
    rest = frames[first - most :]
    return [*frames[:first], replace(rest[0], omitted=len(frames) - most), *rest[1:]]


def _frame(file: str, line: int, function: str) -> Frame:
    name = _relative(file)
    return Frame(file=name, line=line, function=function, own=_is_project(file) and not name.startswith(_ENGINE))


@cache
def _is_project(file: str) -> bool:
    """Return whether a file is of this project, or of a folder of stages beside it: not of a package, nor of Python."""
    if file.startswith("<"):
        return not file.startswith("<frozen")
    path = Path(file)
    return not path.is_relative_to(_STANDARD_LIBRARY) and not set(_PACKAGES) & set(path.parts)


@cache
def _relative(file: str) -> str:
    """Return the name of a file without the folder of this machine that it lies in."""
    path = Path(file)
    folders = [Path(*path.parts[: n + 1]) for n, part in enumerate(path.parts) if part in _PACKAGES][:1]
    folders += [_ROOT, _STANDARD_LIBRARY, *sorted(map(Path, sys.path), key=lambda folder: -len(folder.parts))]
    for folder in folders:
        if len(folder.parts) > 1 and path.is_relative_to(folder):
            return path.relative_to(folder).as_posix()
    return path.name if path.is_absolute() else file


def _is_of_network(error: BaseException) -> bool:
    return isinstance(error, ConnectionError | TimeoutError) or type(error).__module__ in ("socket", "ssl")

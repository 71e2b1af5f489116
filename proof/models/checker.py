"""Check a model with Spin and gcc: every state within its bounds, or the shortest way to one where a promise breaks."""

import re
import resource
import shutil
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PROGRAMS = ("spin", "gcc")

# A counterexample of the greatest length within this depth is found; a search that goes deeper is refused as a proof.
_DEPTH = 200_000
_SECONDS = 300
# Not optimized: that takes longer than it saves.
_COMPILE = ("gcc", "-w", "-O0", "-o", "pan", "pan.c")
# Each promise is an assertion, so that a search in breadth finds the shortest way to where it breaks.
_ASSERTIONS = ("-DSAFETY",)
_SHORTEST = ("-DSAFETY", "-DBFS")
# And nothing goes on for ever: an end is reached, where `end_of_time` asserts what must have come about.
_CYCLES = ("-DNP",)
# A table of 2 to the power of this many places.
_TABLE = "-w22"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a check found. `error`: None, or the promise that breaks; `trail`: the way there, a transition a line."""

    model: str
    mutation: str | None
    error: str | None
    trail: tuple[str, ...]
    states: int
    seconds: float


class CheckFailed(Exception):
    """The check itself has failed: it proves nothing, one way or the other."""


def missing() -> str | None:
    """Return which program is missing and how to get it; None: none is."""
    lacking = [program for program in PROGRAMS if shutil.which(program) is None]
    if not lacking:
        return None
    return f"{' and '.join(lacking)} missing: on Debian and Ubuntu, apt install {' '.join(lacking)}"


def models() -> list[Path]:
    """Return the models, by name."""
    return sorted(HERE.glob("*.pml"))


def check(model: Path, mutation: str | None = None) -> Verdict:
    """Check a model, as it is or with a mutation. Seconds are of CPU.

    Raises:
        CheckFailed: Spin or gcc has failed, the search was not complete, or the model does less than it prints.
    """
    began = _cpu()
    with tempfile.TemporaryDirectory(prefix="model-") as folder:
        define = [f"-D{mutation}"] if mutation else []
        room = Path(folder)
        for file in model.parent.glob("*.pml"):  # one may include another
            shutil.copy(file, room)
        if mutation is None:
            define = ["-o3"]  # statements are not merged, so that each is listed
        _run(["spin", "-a", *define, model.name], room)
        output = _search(room, _SHORTEST if mutation else _ASSERTIONS)
        states, error = read(output)
        if error is None:
            if mutation is None and (idle := unreached(_run(["./pan", "-d"], room), output)):
                raise CheckFailed(f"nothing ever comes to {', '.join(idle)}")
            define = [option for option in define if option != "-o3"]
            _run(["spin", "-a", *define, model.name], room)
            more, error = read(_search(room, _CYCLES))
            states = max(states, more) if error else states
        trail = _trail(_run(["spin", "-t", *define, model.name], room, succeeds=False)) if error else ()
    return Verdict(model.stem, mutation, error, trail, states, _cpu() - began)


def _search(room: Path, kind: tuple[str, ...]) -> str:
    _run([*_COMPILE, *kind], room)
    depth = [] if kind == _SHORTEST else [f"-m{_DEPTH}"]
    cycles = ["-l"] if kind == _CYCLES else []
    return _run(["./pan", _TABLE, *depth, *cycles], room, succeeds=False)


def unreached(listed: str, output: str) -> list[str]:
    """Return the lines of a model that print a transition and that a search has not reached, in any of their copies."""
    copies = Counter(re.findall(r"(\w+\.pml:\d+) => printf", listed))
    never = Counter(re.findall(r'^\s*(\w+\.pml:\d+), state \d+, "printf', output, re.MULTILINE))
    return sorted(line for line, count in copies.items() if never[line] >= count)


def read(output: str) -> tuple[int, str | None]:
    """Return how many states a search has stored, and the promise that breaks; None: none does.

    Raises:
        CheckFailed: the output is not that of a complete search.
    """
    states = re.search(r"^\s*(\d+) states, stored", output, re.MULTILINE)
    errors = re.search(r"errors: (\d+)", output)
    if states is None or errors is None or int(states[1]) < 2:
        raise CheckFailed(f"no search: {output[-500:]}")
    found = re.search(r"^pan:\d*:? ?(.+?)(?: \(at depth \d+\))?$", output, re.MULTILINE)
    if int(errors[1]):
        return int(states[1]), found[1] if found else "an error without a name"
    for sign in ("max search depth too small", "Search not completed", "out of memory", "VECTORSZ", "hash table full"):
        if sign in output:
            raise CheckFailed(f"the search is not complete ({sign}): {output[-500:]}")
    return int(states[1]), None


def _trail(output: str) -> tuple[str, ...]:
    """Return the transitions of a trail: what the model prints, up to the failure."""
    lines = []
    for line in output.splitlines():
        if re.match(r"spin: trail ends|\s*#processes", line):
            break
        if not line.startswith(("spin:", "ltl ")):
            lines.append(line.strip())
    return tuple(lines)


def _run(command: list[str], room: Path, *, succeeds: bool = True) -> str:
    done = subprocess.run(
        command, cwd=room, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_SECONDS, check=False
    )
    if succeeds and done.returncode:
        raise CheckFailed(f"{' '.join(command)} has failed: {done.stdout[-500:]}")
    return done.stdout


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime

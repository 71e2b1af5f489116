"""Check each model, and each with a part of the protection taken out, which has to break it: `make models`.

Exit codes: 0 all models hold and all mutations are found, 1 not so, 2 Spin or gcc is missing.
"""

import argparse
import sys
from collections import Counter
from pathlib import Path
from textwrap import fill

from proof.ending import exit_with
from proof.models.checker import Verdict, check, missing, models
from proof.models.tables import known_mutations, mutations


def main() -> int:
    """Check the models that are named, or all. Return the exit code: 1 if a promise breaks, or a mutation does not."""
    by_name = {model.stem: model for model in models()}
    parser = argparse.ArgumentParser(prog="python -m proof.models", description=__doc__)
    parser.add_argument("model", nargs="*", help=f"{', '.join(by_name)}; by default all")
    parser.add_argument("--quiet", action="store_true", help="print no counterexamples")
    options = parser.parse_args()
    if problem := missing():
        print(problem, file=sys.stderr)
        return 2
    if unknown := [name for name in options.model if name not in by_name]:
        parser.error(f"no model {', '.join(unknown)}: choose from {', '.join(by_name)}")
    chosen = options.model or list(by_name)
    outcomes = Counter[str]()
    for number, name in enumerate(chosen, start=1):
        print(f"== {name} ({number} of {len(chosen)})", flush=True)
        outcomes.update(show(by_name[name], quiet=options.quiet))
    held, found = outcomes["holds"], outcomes["found"]
    broken, unseen = outcomes["BREAKS"], outcomes["NOT FOUND"]
    print(f"\n{held} of {held + broken} models hold, {found} of {found + unseen} mutations are found.")
    return 1 if broken or unseen else 0


def show(model: Path, *, quiet: bool) -> list[str]:
    """Check a model and its mutations, and print what was found. Return the outcomes, a word or two each."""
    whole = check(model)
    outcomes = ["holds" if whole.error is None else "BREAKS"]
    _print(whole, "holds" if whole.error is None else f"BREAKS: {whole.error}", trail=True)
    words = {mutation.name: mutation.what for mutation in known_mutations() if mutation.model == model.stem}
    for mutation in mutations(model):
        found = check(model, mutation)
        print(f"{model.stem} {mutation}")
        print(fill(words.get(mutation, ""), 78, initial_indent="  ", subsequent_indent="  "))
        outcomes.append("found" if found.error else "NOT FOUND")
        _print(found, f"found: {found.error[:68]}" if found.error else _UNSEEN, trail=not quiet)
    return outcomes


_UNSEEN = "NOT FOUND: no promise of the model breaks by this"


def _print(verdict: Verdict, result: str, *, trail: bool) -> None:
    print(f"  {result}")
    for number, line in enumerate(verdict.trail if trail else (), start=1):
        print(f"  {number:>2}. {line}")
    print(f"  {verdict.states:,} states, {verdict.seconds:.1f} s of CPU", flush=True)


if __name__ == "__main__":
    exit_with(main)

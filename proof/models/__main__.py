"""`make models`: check each model, and show that it finds each of its mutations."""

import argparse
import sys
from pathlib import Path

from proof.models.checker import Verdict, check, missing, models
from proof.models.tables import mutations


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
    return int([show(by_name[name], quiet=options.quiet) for name in chosen] != [True] * len(chosen))


def show(model: Path, *, quiet: bool) -> bool:
    """Check a model and its mutations, and print what was found. Return whether all is as it should be."""
    whole = check(model)
    _print(whole, "holds" if whole.error is None else f"BREAKS: {whole.error}", trail=True)
    well = whole.error is None
    for mutation in mutations(model):
        found = check(model, mutation)
        _print(found, f"found: {found.error}" if found.error else "NOT FOUND", trail=not quiet)
        well = well and found.error is not None
    return well


def _print(verdict: Verdict, result: str, *, trail: bool) -> None:
    name = f"{verdict.model} {verdict.mutation}" if verdict.mutation else verdict.model
    print(f"{name:<32} {verdict.states:>9,} states {verdict.seconds:6.1f} s CPU  {result}", flush=True)
    for number, line in enumerate(verdict.trail if trail else (), start=1):
        print(f"  {number:>2}. {line}")


if __name__ == "__main__":
    sys.exit(main())

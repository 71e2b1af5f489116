"""Time zones by their names in tzdata: those of the package that requirements.txt pins, whatever the machine has."""

import re
from datetime import UTC, tzinfo
from functools import lru_cache
from importlib.resources import files

from lib.errors import Invalid

_OFFSET = re.compile(r"(?:UTC|GMT|Z)?\s*[+-]\s*\d.*", re.IGNORECASE)


@lru_cache(maxsize=100)
def zone(name: str) -> tzinfo:
    """Return a time zone. Names are compared with their case, as in tzdata.

    Raises:
        Invalid: there is no such time zone. The message has a name that is near, if any is.
    """
    if name == "UTC":
        return UTC
    names = _names()
    if name not in names:
        raise Invalid(f"there is no such time zone: {_advice(name, names)}", field="timezone")
    from zoneinfo import ZoneInfo

    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


@lru_cache(maxsize=1)
def _names() -> tuple[str, ...]:
    return tuple(files("tzdata").joinpath("zones").read_text(encoding="utf-8").split())


def _advice(name: str, names: tuple[str, ...]) -> str:
    """Return what to use instead of a name."""
    from difflib import get_close_matches

    if _OFFSET.fullmatch(name):
        return "use the name of a place, like Europe/Berlin, instead of an offset"
    by_lower = {known.rpartition("/")[2].lower(): known for known in names}
    by_lower |= {known.lower(): known for known in names}
    near = get_close_matches(name.strip().lower().replace(" ", "_"), by_lower, n=1, cutoff=0.75)
    return f"did you mean {by_lower[near[0]]}?" if near else "use a name like Europe/Berlin"

"""Time zones: those of the pinned package alone, by their names alone."""

import subprocess
import sys
from datetime import UTC, datetime
from importlib.resources import files
from pathlib import Path

import pytest

from lib.errors import Invalid
from lib.schedules.cron import Times
from lib.schedules.zones import zone
from tests.support.wall_clock import NAMES

NONE = "there is no such time zone: "
OFFSET = f"{NONE}use the name of a place, like Europe/Berlin, instead of an offset"
REFUSED = {
    "utc": f"{NONE}did you mean UTC?",
    "Europe/berlin": f"{NONE}did you mean Europe/Berlin?",
    "EUROPE/BERLIN": f"{NONE}did you mean Europe/Berlin?",
    " Europe/Berlin": f"{NONE}did you mean Europe/Berlin?",
    "Europe/Berln": f"{NONE}did you mean Europe/Berlin?",
    "New York": f"{NONE}did you mean America/New_York?",
    "us/pacific": f"{NONE}did you mean US/Pacific?",
    "posix/Europe/Berlin": f"{NONE}did you mean Europe/Berlin?",
    "right/Europe/Berlin": f"{NONE}did you mean Europe/Berlin?",
    "GMT+1": OFFSET,
    "UTC+01:00": OFFSET,
    "+01:00": OFFSET,
    "-5": OFFSET,
    "Mars/Base": f"{NONE}use a name like Europe/Berlin",
    "": f"{NONE}use a name like Europe/Berlin",
    "/etc/passwd": f"{NONE}use a name like Europe/Berlin",
    "/etc/localtime": f"{NONE}use a name like Europe/Berlin",
    "../../etc/passwd": f"{NONE}use a name like Europe/Berlin",
    "../x": f"{NONE}use a name like Europe/Berlin",
    "localtime": f"{NONE}use a name like Europe/Berlin",
    "a\0b": f"{NONE}use a name like Europe/Berlin",
    "CET-1CEST,M3.5.0,M10.5.0/3": f"{NONE}use a name like Europe/Berlin",
}


@pytest.mark.parametrize(("name", "sentence"), REFUSED.items())
def test_what_is_no_time_zone_is_refused_with_what_is_near(name: str, sentence: str) -> None:
    with pytest.raises(Invalid) as caught:
        Times("0 * * * *", name)
    assert (str(caught.value), caught.value.field) == (sentence, "timezone")


@pytest.mark.parametrize("name", ["America", "Europe/", "tzdata.zi", "zones", "__init__.py", "Europe/../Europe/Berlin"])
def test_a_folder_or_a_file_beside_the_zones_is_no_time_zone(name: str) -> None:
    with pytest.raises(Invalid, match="no such time zone"):
        zone(name)


def test_each_name_of_the_package_is_a_time_zone() -> None:
    noon = datetime(2026, 6, 1, 12, tzinfo=UTC)
    assert {"CET", "EST5EDT", "US/Pacific", "Etc/GMT+1", "UTC"} <= set(NAMES)
    for name in NAMES:
        assert noon.astimezone(zone(name)).utcoffset() is not None


def test_the_package_is_used_and_not_what_the_machine_has(tmp_path: Path) -> None:
    # A machine whose Berlin is Tokyo, and which has a zone of its own.
    (tmp_path / "Europe").mkdir()
    for name in ("Europe/Berlin", "Own"):
        (tmp_path / name).write_bytes(files("tzdata").joinpath("zoneinfo/Asia/Tokyo").read_bytes())
    code = """
import sys, zoneinfo
from datetime import UTC, datetime
from lib.errors import Invalid
from lib.schedules.cron import Times
assert str(zoneinfo.ZoneInfo("Own")) == "Own"
print(Times("0 12 * * *", "Europe/Berlin").upcoming(datetime(2026, 1, 1, tzinfo=UTC), limit=1)[0].hour)
try:
    Times("0 12 * * *", "Own")
except Invalid as error:
    print(error.field)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONTZPATH": str(tmp_path)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["11", "timezone"]


def test_a_machine_without_time_zones_has_all() -> None:
    code = "from lib.schedules.zones import zone; import zoneinfo; print(zoneinfo.TZPATH, zone('Asia/Gaza'))"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONTZPATH": ""}, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["()", "Asia/Gaza"]

"""The database's clock is the only one that decides: where the code reads its own, it is known why."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
WALL_CLOCK = re.compile(r"datetime\.(?:now|utcnow|today)\(|date\.today\(|\btime\.(?:time|time_ns|localtime|gmtime)\(")

READ_IN = {
    "lib/telemetry/events.py": "stamps each line of the log, also while no database answers",
    "lib/monitoring/doctor/examine.py": "compares it with the database's, which is the check",
    "lib/web/page/session.py": "ends a session, which no database knows",
    "lib/safe_http/response.py": "reads a Retry-After of a server that sends no Date",
}


def test_no_other_code_reads_the_clock_of_its_machine() -> None:
    found = {
        str(path.relative_to(ROOT))
        for room in ("api", "lib")
        for path in ROOT.glob(f"{room}/**/*.py")
        if WALL_CLOCK.search(path.read_text(encoding="utf-8"))
    }
    assert found == set(READ_IN)

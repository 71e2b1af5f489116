"""docs/doctor.md tells of every check, and what a line refers to is there."""

import re

from dev import ROOT
from lib.monitoring.doctor import examine
from tests.support.pages import TEXTS, named, rows


def test_every_check_is_told_in_the_order_of_the_lines() -> None:
    told = [names[0] for cells in rows("doctor", columns=3) if (names := named(cells[0]))]
    checks = [*examine._BEFORE, *examine._AFTER]
    names = [check.__name__ for check in checks]
    names.insert(len(examine._BEFORE), "database")
    assert told == names


def test_what_the_lines_refer_to_is_there() -> None:
    source = "".join(path.read_text() for path in (ROOT / "lib/monitoring/doctor").glob("*.py"))
    references = set(re.findall(r"docs/(\w+)\.md#([\w-]+)", source))
    assert {"doctor", "deploying"} <= {page for page, _ in references}
    for page, anchor in references:
        headings = [heading.lower().replace(" ", "-") for heading in re.findall(r"(?m)^## (.*)$", TEXTS[page])]
        assert anchor in headings, f"docs/{page}.md#{anchor}"
    for path in re.findall(r"\b(?:docs|supabase)/[\w/]+\.\w+", source):
        assert (ROOT / path).exists(), path

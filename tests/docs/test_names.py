"""What the pages name exists: paths, settings, modules, SQL functions, fields, events."""

import re
from functools import cache

import pytest

from dev import ROOT
from lib.config.settings import RENAMED, Settings
from tests.support.pages import PAGES, named

ROOMS = "api|bench|data|demo|dev|docs|lib|proof|public|sql|supabase|tests"
FILE = re.compile(rf"(?<![\w/.-])(?:{ROOMS})/[\w./*-]+\w")
VARIABLE = re.compile(r"\bGIFTCARD_[A-Z_]+[A-Z]\b")
MODULE = re.compile(r"\b(?:lib|dev|demo|proof)(?:\.\w+)+")
# Not the name of a test after its file (`tests/…::test_it`): tests/proof looks for those.
SNAKE = re.compile(r"(?<![\w./{<:-])[a-z]+(?:_[a-z0-9]+)+(?![\w/.-])")
PAGES_AND_MORE = [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md"))]
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in PAGES_AND_MORE}

EXAMPLES = {
    # A reader's own code, queues and project.
    *("give_reports_time", "the_bank_is_closed_at_night", "loyalty_points", "your_project", "no_vendor_key"),
    *("email_queue", "payments_queue", "reports_queue"),
    # Made up: the id of a card at a vendor.
    "card_123",
    # Columns of pgmq, pg_net and Postgres' own settings.
    *("read_ct", "error_msg", "timed_out"),
    *("synchronous_commit", "hot_standby_feedback", "idle_in_transaction_session_timeout", "transaction_timeout"),
    # PgBouncer's settings.
    *("ignore_startup_parameters", "max_prepared_statements"),
    # Scripts of Click's completion.
    *("zsh_source", "fish_source"),
    # A misspelt setting, as the doctor finds it.
    *("GIFTCARD_ENCRYPTION_KEY", "GIFTCARD_STAGE_EMIAL_MAX_ATTEMPTS"),
}


@cache
def source() -> str:
    """Everything that can define a name."""
    patterns = (
        "api/*.py",
        "lib/**/*.py",
        "dev/**/*.py",
        "demo/**/*.py",
        "supabase/**/*.sql",
        "sql/*.sql",
        "vercel.json",
    )
    files = [path for pattern in patterns for path in ROOT.glob(pattern)]
    extra = [
        ROOT / name
        for name in (
            "Makefile",
            "requirements.txt",
            "requirements-demo.txt",
            "requirements-dev.txt",
            "pytest.ini",
            ".ci/run",
        )
    ]
    return "\n".join(path.read_text(encoding="utf-8") for path in [*files, *extra])


@cache
def words() -> frozenset[str]:
    return frozenset(re.findall(r"[A-Za-z_]\w*", source()))


@pytest.mark.parametrize("page", TEXTS)
def test_every_path_that_a_page_names_exists(page: str) -> None:
    paths = {path.rstrip(".") for path in FILE.findall(TEXTS[page])}
    # What a page lets its reader write.
    made = {path for path in paths if re.search(rf"(?m)^# {re.escape(path)}\b", TEXTS[page])}
    assert [path for path in sorted(paths - made) if not any(ROOT.glob(path))] == []


@pytest.mark.parametrize("page", TEXTS)
def test_every_setting_that_a_page_names_exists(page: str) -> None:
    known = {name.upper() for name in Settings.model_fields} | {"GIFTCARD_URL", *EXAMPLES, *RENAMED}
    of_many = re.compile(r"GIFTCARD_(STAGE|SECRET)_\w+")
    named_here = set(VARIABLE.findall(TEXTS[page]))
    assert [name for name in sorted(named_here - known) if not of_many.fullmatch(name)] == []


@pytest.mark.parametrize("page", TEXTS)
def test_every_module_that_a_page_names_exists(page: str) -> None:
    def exists(name: str) -> bool:
        parts = name.split(".")
        folder = ROOT.joinpath(*parts[:-1])
        return any(
            (ROOT.joinpath(*parts[:n]).is_dir() or ROOT.joinpath(*parts[:n]).with_suffix(".py").exists())
            for n in (len(parts), len(parts) - 1)
        ) and (folder.exists() or folder.with_suffix(".py").exists())

    assert [name for name in sorted(set(MODULE.findall(TEXTS[page]))) if not exists(name)] == []


@pytest.mark.parametrize("page", TEXTS)
def test_every_name_in_code_style_exists_in_the_source(page: str) -> None:
    """Fields, events, functions, columns, statuses: a name that no file has is a name from before."""
    names = {name for text in named(TEXTS[page]) for name in SNAKE.findall(text)}
    # The Prometheus client appends this to the names of counters.
    counters = {name for name in names if name.removesuffix("_total") in words()}
    assert sorted(names - words() - counters - EXAMPLES) == []

"""Which wire is taken, and what is imported for it."""

import subprocess
import sys

import pytest

from dev import ROOT
from lib.errors import Misconfigured, SettingsError
from lib.store.connect import connect
from lib.store.postgres import PostgresWire
from lib.store.supabase import SupabaseWire
from tests.support.world import settings_of

URL = "https://abcdefghijklm.supabase.co"
KEY = "sb_secret_0123456789"
DATABASE = "postgresql://nobody@127.0.0.1:9/none"


@pytest.mark.parametrize(
    ("environ", "kind", "variable"),
    [
        ({"SUPABASE_URL": URL, "SUPABASE_SECRET_KEY": KEY}, SupabaseWire, "SUPABASE_SECRET_KEY"),
        ({"SUPABASE_URL": URL, "SUPABASE_SERVICE_ROLE_KEY": KEY}, SupabaseWire, "SUPABASE_SERVICE_ROLE_KEY"),
        (
            {"SUPABASE_URL": URL, "SUPABASE_SECRET_KEY": KEY, "SUPABASE_SERVICE_ROLE_KEY": "eyJvbGQ.eyJvbGQ.old"},
            SupabaseWire,
            "SUPABASE_SECRET_KEY",
        ),
        ({"SUPABASE_URL": URL, "SUPABASE_SECRET_KEY": KEY, "DATABASE_URL": DATABASE}, SupabaseWire, None),
        ({"DATABASE_URL": DATABASE}, PostgresWire, None),
        ({"DATABASE_URL": DATABASE, "SUPABASE_URL": URL}, PostgresWire, None),
        ({"DATABASE_URL": DATABASE, "SUPABASE_SECRET_KEY": KEY}, PostgresWire, None),
    ],
)
def test_address_and_key_choose_supabase(environ: dict[str, str], kind: type, variable: str | None) -> None:
    store = connect(settings_of(**environ))
    assert type(store._wire) is kind
    assert variable is None or getattr(store._wire, "_key_variable", None) == variable
    store.close()


@pytest.mark.parametrize(
    "environ", [{}, {"SUPABASE_URL": URL}, {"SUPABASE_SECRET_KEY": KEY}], ids=["nothing", "no key", "no address"]
)
def test_half_of_it_is_no_database_and_is_told(environ: dict[str, str]) -> None:
    with pytest.raises(Misconfigured, match="set DATABASE_URL, or SUPABASE_URL and SUPABASE_SECRET_KEY"):
        connect(settings_of(**environ)).check_health()


@pytest.mark.parametrize(
    "value",
    [
        "abcdefghijklm.supabase.co",
        "https://abcdefghijklm.supabase.co/rest/v1",
        "https://supabase.com/dashboard/project/abcdefghijklm",
        "https://user:pass@abcdefghijklm.supabase.co",
        "https://abcdefghijklm.supabase.co?x=1",
        "postgresql://abcdefghijklm.supabase.co",
    ],
)
def test_an_address_that_is_more_or_less_than_one_stops_the_start(value: str) -> None:
    with pytest.raises(SettingsError, match=r"^SUPABASE_URL: .*like https://abcdefghijklm.supabase.co$"):
        settings_of(SUPABASE_URL=value)


@pytest.mark.parametrize("value", ["https://", "https://x:99999", "https://x:y"])
def test_an_address_without_host_or_port_stops_the_start(value: str) -> None:
    with pytest.raises(SettingsError, match=r"^SUPABASE_URL: must have a (host|port) "):
        settings_of(SUPABASE_URL=value)


@pytest.mark.parametrize("name", ["SUPABASE_SECRET_KEY", "SUPABASE_SERVICE_ROLE_KEY"])
@pytest.mark.parametrize("value", ["sb_secret hidden", "sb_secret_é", "first\nsecond"])
def test_a_key_that_is_none_stops_the_start_and_is_not_repeated(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name}: ") as wrong:
        settings_of(**{name: value})
    assert value not in str(wrong.value)


def test_blanks_around_do_no_harm() -> None:
    settings = settings_of(SUPABASE_URL=f" {URL}/\n", SUPABASE_SECRET_KEY=f" {KEY}\n")
    assert settings.supabase_url
    assert settings.supabase_url.get_secret_value() == f"{URL}/"
    assert settings.supabase_secret_key
    assert settings.supabase_secret_key.get_secret_value() == KEY


@pytest.mark.parametrize(
    ("environ", "taken", "left"),
    [
        ({"DATABASE_URL": DATABASE}, "psycopg", ["postgrest", "supabase", "httpx", "yarl"]),
        (
            {"SUPABASE_URL": URL, "SUPABASE_SECRET_KEY": KEY},
            "postgrest",
            ["psycopg", "supabase", "supabase_auth", "storage3", "realtime", "supabase_functions", "websockets"],
        ),
    ],
    ids=["psycopg", "supabase"],
)
def test_only_the_wire_in_use_is_imported(environ: dict[str, str], taken: str, left: list[str]) -> None:
    program = "import sys, api.index; print(*sys.modules)"
    environ = {"PATH": "/usr/bin", "GIFTCARD_ENV": "test"} | environ
    ended = subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environ, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr
    loaded = set(ended.stdout.split())
    assert taken in loaded
    assert [name for name in left if name in loaded] == []

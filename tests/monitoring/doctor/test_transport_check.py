"""How secrets travel, and what is around values."""

from pathlib import Path
from typing import Any

import pytest

from tests.monitoring.doctor.conftest import Examine
from tests.support.world import World, settings_of

KEY = "sb_secret_testing"
URL = "postgresql://kim:sesame-open@db.example.com/shop"
PRODUCTION = {"GIFTCARD_ENV": "production"}


@pytest.mark.parametrize(
    ("environ", "level", "message"),
    [
        (
            {"DATABASE_URL": "postgresql://kim:sesame-open@localhost/shop"},
            "green",
            "DATABASE_URL leads to this machine",
        ),
        ({"DATABASE_URL": URL, **PRODUCTION}, "yellow", "does not verify which server responds (sslmode=require)"),
        ({"POSTGRES_URL": URL, **PRODUCTION}, "yellow", "POSTGRES_URL encrypts, but"),
        ({"DATABASE_URL": f"{URL}?sslmode=verify-ca", **PRODUCTION}, "yellow", "(sslmode=verify-ca)"),
        ({"DATABASE_URL": f"{URL}?sslrootcert=system", **PRODUCTION}, "green", "verifies the server"),
        ({"DATABASE_URL": f"{URL}?sslrootcert=certs/none.crt", **PRODUCTION}, "red", "does not exist"),
        ({"DATABASE_URL": URL}, "yellow", "allows a connection in clear"),
        ({"DATABASE_URL": URL, "SMTP_URL": "smtp+insecure://mail.example.com"}, "yellow", "travel in clear"),
        (
            {"DATABASE_URL": URL, "SMTP_URL": "smtp+insecure://mail.example.com"},
            "yellow",
            "DATABASE_URL allows a connection in clear; SMTP_URL begins with",
        ),
        (
            {
                "DATABASE_URL": URL,
                "SUPABASE_URL": "https://abc.supabase.co",
                "SUPABASE_SECRET_KEY": "sb_secret_testing",
                **PRODUCTION,
            },
            "green",
            "no call goes through DATABASE_URL",
        ),
    ],
)
def test_connection_that_is_not_verified_is_yellow(
    healthy: World, examined: Examine, environ: dict[str, Any], level: str, message: str
) -> None:
    healthy.settings = settings_of(**environ)
    line = examined(healthy)["transport"]
    assert (line["level"], message in line["message"]) == (level, True), line
    assert "sesame" not in str(line)


def test_authority_in_a_file_is_green(healthy: World, examined: Examine, tmp_path: Path) -> None:
    root = tmp_path / "root.crt"
    root.touch()
    healthy.settings = settings_of(DATABASE_URL=f"{URL}?sslmode=verify-full&sslrootcert={root}", **PRODUCTION)
    assert examined(healthy)["transport"]["level"] == "green"


def test_values_with_something_around_them_are_named(healthy: World, examined: Examine) -> None:
    assert "quotes" not in examined(healthy)
    healthy.settings = settings_of(DATABASE_URL=f'"{URL}"', GIFTCARD_LOOKUP_KEY="sesame-open" * 4 + "\n")
    line = examined(healthy)["quotes"]
    assert (line["level"], line["message"]) == (
        "yellow",
        "quotes, spaces or line breaks around the value were removed: DATABASE_URL, GIFTCARD_LOOKUP_KEY",
    )
    assert "sesame" not in str(line)

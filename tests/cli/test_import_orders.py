"""`flask jobs import-orders`: what is printed, the exit codes, the files."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Door, Terminal
from tests.support.order_files import HEADER, line
from tests.support.shops import ORDERS, shop_file
from tests.support.world import World

BAD = line(correlation_id="o-2", external_id="C-2", email="nobody")
CSV = HEADER + line(message="two\nlines") + BAD
WRONG = [{"line": 4, "problem": "email is not a valid e-mail address"}]


def rejected(door: Door, *words: Any, types: str | bytes | None = None) -> str:
    """What is printed for people when some rows were rejected, and the others imported."""
    result = door.run("import-orders", *words, types=types)
    assert (result.exit_code, result.stderr) == (3, ""), result.output
    return result.stdout


def test_orders_of_a_file_are_taken_in_once(world: World, direct: Door, tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text(CSV)
    assert json.loads(rejected(direct, file, "--json")) == {
        "dry_run": False,
        "created": 1,
        "repeated": 0,
        "skipped": {},
        "sums": {"USD": {"created": 2500, "repeated": 0}},
        "wrong": WRONG,
        "notes": [],
        "rejects": None,
    }
    assert rejected(direct, file) == (
        "line 4: email is not a valid e-mail address\n"
        "0 orders created, 1 existed already, 1 row rejected\n"
        "existed already: 25.00 USD\n"
    )
    assert world.job()["payload"]["message"] == "two\nlines"


def test_the_rejected_rows_are_written_corrected_and_imported(world: World, direct: Door, tmp_path: Path) -> None:
    file = tmp_path / "rejects.csv"
    printed = rejected(direct, "-", "--rejects", file, types=CSV)
    assert printed.endswith(f"the rejected rows are in {file}: correct them, and import that file\n")
    assert direct.refuses("import-orders", "-", "--rejects", file, types=CSV).endswith(
        "exists already: give the name of a new file"
    )
    file.write_text(file.read_text(encoding="utf-8-sig").replace("nobody", "ann@example.com"))
    assert direct.says("import-orders", file) == (
        "1 order created, 0 existed already, 0 rows rejected\ncreated: 25.00 USD\n"
    )
    assert world.row_counts()["giftcard_orders"] == 2
    nowhere = tmp_path / "no/such/folder.csv"
    assert "cannot be written: No such file" in direct.refuses("import-orders", file, "--rejects", nowhere)


def test_a_dry_run_writes_nothing(world: World, direct: Door) -> None:
    assert rejected(direct, "-", "--dry-run", types=CSV) == (
        "line 4: email is not a valid e-mail address\n"
        "1 order would be created, 0 existed already, 1 row rejected\n"
        "would be created: 25.00 USD\n"
        "nothing was written to the database: omit --dry-run to import\n"
    )
    assert world.row_counts()["giftcard_orders"] == 0


def test_what_was_decided_about_a_file_is_printed(direct: Door) -> None:
    data = (HEADER.replace("tenant_id", "VIP") + line(given_name="Jürgen")).encode("cp1252")
    notes = [
        "read as Windows-1252, because it is not UTF-8 (line 2): use --encoding to choose another",
        "ignored columns: VIP",
    ]
    result = direct.run("import-orders", "-", types=data)
    assert (result.exit_code, result.stderr.splitlines()) == (0, notes)
    assert direct.json("import-orders", "-", types=data)["notes"] == notes
    assert "read as" not in direct.run("import-orders", "-", "--encoding", "cp1252", types=data).stderr


def test_many_rejected_rows_are_counted(direct: Door) -> None:
    printed = rejected(direct, "-", types=HEADER + BAD * 103).splitlines()
    assert printed[99] == "line 101: email is not a valid e-mail address"
    assert printed[100:] == [
        "… and 3 more: --json lists all, and --rejects writes their rows to a file",
        "0 orders created, 0 existed already, 103 rows rejected",
    ]


def test_an_empty_list_is_no_error(direct: Door) -> None:
    assert direct.says("import-orders", "-", types=HEADER).endswith("the file has a header, and no rows after it\n")


@pytest.mark.parametrize("shop", list(ORDERS))
def test_the_orders_of_a_shop_are_taken_in_once(world: World, direct: Door, shop: str) -> None:
    mug = {"number": "#1002", "items": [("Mug", "1", "9.00")]}
    text = shop_file(shop, {"items": [("Gift Card", "2", "25.00")]}, mug)
    assert direct.says("import-orders", "-", "--from", shop, types=text) == (
        "skipped 1: has no gift card\n2 orders created, 0 existed already, 0 rows rejected\ncreated: 50.00 USD\n"
    )
    again = direct.json("import-orders", "-", "--from", shop, types=text)
    assert (again["created"], again["repeated"]) == (0, 2)
    ids = world.sql("select correlation_id as id from giftcard_orders order by 1")
    assert [row["id"] for row in ids] == [f"{shop}:#1001/1", f"{shop}:#1001/2"]
    assert direct.refuses("import-orders", "-", types=text).endswith(f"it seems: use --from {shop}")


def test_orders_that_a_shop_was_paid_for_are_not_charged_again(world: World, make_world: Any) -> None:
    door = Door(make_world(GIFTCARD_PAYMENT_PROVIDER="http", GIFTCARD_PAYMENT_URL="https://pay.example.com").app, world)
    text = shop_file("shopify", {})
    for more in ([], ["--dry-run"]):
        found = door.refuses("import-orders", "-", "--from", "shopify", *more, types=text)
        assert "GIFTCARD_PAYMENT_PROVIDER=http would have them paid again" in found
    assert world.row_counts()["giftcard_orders"] == 0


def test_customers_may_change_if_that_is_meant(direct: Door) -> None:
    text = HEADER + line() + line(correlation_id="o-2", email="kate@example.org")
    assert "external_id is that of line 3 with another email or name" in rejected(direct, "-", types=text)
    assert direct.json("import-orders", "-", "--customers-may-change", types=text)["created"] == 2


def test_orders_go_to_the_tenant_that_is_named(world: World, direct: Door) -> None:
    rejected(direct, "-", "--tenant", "acme", types=CSV)
    assert world.job()["tenant_id"] == "acme"


def test_an_id_of_another_order_is_refused_without_its_content(direct: Door) -> None:
    direct.says("import-orders", "-", types=HEADER + line())
    printed = rejected(direct, "-", types=HEADER + line(amount="7"))
    assert printed.startswith("line 2: correlation_id belongs to another order, with other content\n")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a,b\n1,2\n", "the first line is no header"),
        ("", "the file is empty"),
        (b"\xff", "the first line is no header"),
        (b"%PDF-1.7", "the file is a PDF"),
        (b"PK\x03\x04", "zip archive"),
        (b"\0\1\2\3" * 9, "NUL characters"),
    ],
)
def test_a_file_that_holds_no_orders_is_refused(direct: Door, text: str | bytes, why: str) -> None:
    assert why in direct.refuses("import-orders", "-", types=text)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["/nowhere.csv"], "No such file"),
        (["/"], "Is a directory"),
        (["-", "--encoding", "cp125"], "there is no encoding of this name: did you mean cp1252?"),
        (["-", "--from", "shopifi"], "shopify"),
        (["-", "--items", "x"], "give --from as well"),
        (["-", "--tenant", ""], "--tenant must"),
    ],
)
def test_what_cannot_be_meant_is_refused(direct: Door, words: list[str], why: str) -> None:
    assert why in direct.refuses("import-orders", *words, types=CSV)


def test_import_works_on_the_database_only(remote: Door) -> None:
    assert "import-orders works on the database only" in remote.refuses("import-orders", "-", types=CSV)


def test_a_terminal_sees_the_progress_and_then_the_totals(world: World, terminal: Terminal, tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text(CSV)
    world.app.cli.add_command(Door(world.app, world).app.cli.commands["jobs"])
    code, screen = terminal.run(world.app, "import-orders", file)
    assert code == 3
    assert "importing" in screen
    assert screen.splitlines()[-2].startswith("1 order created, 0 existed already, 1 row rejected")

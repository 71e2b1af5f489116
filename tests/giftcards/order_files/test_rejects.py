"""The file of the rejected rows: safe to open, the same when it is read, and no second order."""

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from lib.giftcards.order_files.cells import escaped, unescaped
from lib.giftcards.order_files.file import open_orders
from lib.giftcards.order_files.importing import Imported, Importer
from lib.giftcards.order_files.own import OwnColumns
from lib.giftcards.order_files.table import read_table
from tests.support.order_files import HEADER, line
from tests.support.world import World

Import = Callable[..., Imported]
BARE = "given_name,email,amount,currency\n"


@pytest.fixture
def take(world: World, tmp_path: Path) -> Import:
    """Imports a text; the rejected rows go to rejects.csv."""

    def take(content: str | bytes, *, rejects: str = "rejects.csv", **options: bool) -> Imported:
        data = content if isinstance(content, bytes) else content.encode()
        importer = Importer(store=world.store, registry=world.registry, settings=world.settings, **options)  # type: ignore[arg-type]
        return importer.run(open_orders(data, OwnColumns()), rejects=tmp_path / rejects)

    return take


def test_rejected_rows_are_corrected_and_imported(world: World, take: Import, tmp_path: Path) -> None:
    text = (
        "sep=;\n"
        + HEADER.replace(",", ";")
        + line(";")
        + line(";", correlation_id="o-2", email="ann", message="ü\n=1;2")
    )
    assert take(text).created == 1
    file = tmp_path / "rejects.csv"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    data = file.read_bytes()
    assert data.startswith(b"\xef\xbb\xbfproblem;correlation_id;external_id;")
    again = take(data, rejects="again.csv")
    assert (again.created, again.repeated, len(again.wrong)) == (0, 0, 1)
    assert (tmp_path / "again.csv").read_bytes() == data
    fixed = data.replace(b";ann;", b";ann@example.com;")
    assert (take(fixed, rejects="none.csv").created, take(fixed, rejects="none.csv").repeated) == (1, 1)
    assert not (tmp_path / "none.csv").exists()
    assert world.value("select details ->> 'message' from giftcard_orders where correlation_id = 'o-2'") == "ü\n=1;2"


def test_a_file_that_exists_is_kept_and_nothing_is_imported(world: World, take: Import, tmp_path: Path) -> None:
    (tmp_path / "rejects.csv").write_text("mine")
    with pytest.raises(FileExistsError):
        take(HEADER + line())
    assert (tmp_path / "rejects.csv").read_text() == "mine"
    assert world.row_counts()["giftcard_orders"] == 0


@pytest.mark.parametrize("header", [BARE, "correlation_id," + BARE])
def test_a_corrected_row_is_an_order_of_its_own(world: World, take: Import, tmp_path: Path, header: str) -> None:
    """The second row becomes what the first is: two cards were ordered."""
    blank = "," if header != BARE else ""
    text = f"{header}{blank}Kate,kate@example.com,5,USD\n{blank}Kate,kate,5,USD\n{blank}Kate,kate,5,USD\n"
    assert take(text).created == 1
    fixed = (tmp_path / "rejects.csv").read_text(encoding="utf-8-sig").replace("kate,", "kate@example.com,")
    for file, created in (("a.csv", 2), ("b.csv", 0)):
        assert take(fixed, rejects=file).created == created
    assert take(text, rejects="c.csv").created == 0
    assert world.row_counts()["giftcard_orders"] == 3


CELLS = [
    "=1+1", "+1", "-1", "@SUM(1)", "'=1", "''=1", "'x", " =1", "\uff1d1", "0001", "123456789012", "plain", "", "'",
    "''", "\t=x",
]  # fmt: skip


@pytest.mark.parametrize("cell", CELLS)
def test_cells_are_written_as_text_and_read_as_they_were(cell: str) -> None:
    written = escaped(cell)
    assert unescaped(written) == cell
    assert written.strip()[:1] not in ("=", "+", "-", "@", "\uff1d")
    assert not written.startswith(("000", "1234"))


def test_every_cell_of_the_file_is_written_as_text(take: Import, tmp_path: Path) -> None:
    row = {"given_name": "=cmd|' /C calc'!A0", "message": "+1", "external_id": "=1", "family_name": "@x", "email": "-"}
    take(HEADER.replace("tenant_id", "=x") + line(**row))
    table = read_table((tmp_path / "rejects.csv").read_text(encoding="utf-8-sig"), len)
    for record in [table.header, *table.records()]:
        assert [cell for cell in record.cells if cell.lstrip()[:1] in ("=", "+", "-", "@")] == []
    data = (tmp_path / "rejects.csv").read_bytes()
    take(data, rejects="again.csv")
    assert (tmp_path / "again.csv").read_bytes() == data


def test_rows_that_cannot_be_parsed_are_written_with_their_cells(take: Import, tmp_path: Path) -> None:
    take(HEADER + 'o-9,"x,Kate\n' + "a,b\n" + line())
    lines = (tmp_path / "rejects.csv").read_text(encoding="utf-8-sig").splitlines()
    assert len(lines) == 3
    assert "o-9" in lines[1]
    assert lines[2].endswith(",a,b")


def test_a_dry_run_writes_rejected_rows_and_no_order(world: World, take: Import, tmp_path: Path) -> None:
    text = HEADER + line() + line(correlation_id="2", email="x") + line() + line(amount="7")
    before = take(text, dry_run=True)
    assert (before.created, before.repeated, [row["line"] for row in before.wrong]) == (1, 1, [3, 5])
    assert world.row_counts()["giftcard_orders"] == world.row_counts()["giftcard_jobs"] == 0
    after = take(text, rejects="after.csv")
    assert (after.created, after.repeated, after.wrong, after.sums) == (1, 1, before.wrong, before.sums)
    assert (tmp_path / "rejects.csv").read_bytes() == (tmp_path / "after.csv").read_bytes()
    again = take(text, rejects="again.csv", dry_run=True)
    assert (again.created, again.repeated, again.wrong) == (0, 2, before.wrong)

"""import-orders: orders from a file."""

from collections.abc import Iterator
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lib.cli.group import BadInput, app_services, jobs, json_option, output
from lib.cli.known import Word
from lib.cli.models import identifiers
from lib.cli.options import BYTES_FILE, TEXT
from lib.cli.prompts import progress_bar
from lib.cli.services import local_service
from lib.cli.tables import Part, count
from lib.giftcards.money import minor_digits

if TYPE_CHECKING:
    from lib.giftcards.order_files.file import OrderFile
    from lib.giftcards.order_files.importing import Imported, Importer
    from lib.giftcards.order_files.layout import Layout

Json = dict[str, Any]

_SHOPS = ("shopify", "woocommerce", "square")
# More are in --json, and in the file of --rejects.
_MOST_LINES = 100
_SOME_REJECTED = 3


@jobs.command("import-orders")
@click.argument("file", type=BYTES_FILE)
@click.option("--from", "shop", type=Word(_SHOPS), help="The file is this shop's export of orders.")
@click.option("--items", type=TEXT, help="With --from: only items with this in their names (default: gift cards).")
@click.option("--tenant", "--tenant-id", "tenant_id", type=TEXT, default="default", help="Tenant of rows without one.")
@click.option("--encoding", type=TEXT, help="Encoding of the file (default: found out, and printed unless UTF-8).")
@click.option(
    "--rejects",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the rejected rows to this new file: correct it and import it.",
)
@click.option("--priority", type=click.IntRange(-10, 10), help="Of the orders' jobs: 10 starts first, -10 last (0).")
@click.option("--customers-may-change", is_flag=True, help="Rows of one customer may differ in e-mail and name.")
@click.option("--dry-run", is_flag=True, help="Check the file against the database and write nothing to it.")
@json_option
def import_orders(*, file: Any, shop: str | None, items: str | None, as_json: bool, **options: Any) -> None:
    """Import orders from a CSV file. Importing it again orders nothing twice.

    Rows that are not valid are rejected with the reason; then the exit code is 3. See docs/import.md.
    """
    local_service("import-orders")
    from lib.giftcards.order_files.file import open_orders
    from lib.giftcards.order_files.importing import Importer

    own = app_services()
    importer = Importer(
        store=own.store,
        registry=own.registry(),
        settings=own.settings,
        tenant_id=identifiers({"--tenant": options["tenant_id"]})[0],
        dry_run=options["dry_run"],
        customers_may_change=options["customers_may_change"],
        priority=options["priority"],
    )
    if items and not shop:
        raise BadInput("--items chooses items of a shop's orders: give --from as well")
    data = _read(file)
    try:
        orders = open_orders(data, _layout(shop, items), encoding=options["encoding"])
    except ValueError as error:
        raise BadInput(f"{error}{_hint(data, options['encoding'])}") from error
    outcome = _run(importer, orders, options["rejects"], as_json=as_json)
    output(outcome.as_json(), as_json=as_json, view=_imported)
    if outcome.wrong:
        click.get_current_context().exit(_SOME_REJECTED)


def _layout(shop: str | None, items: str | None) -> "Layout":
    from lib.giftcards.order_files.own import OwnColumns
    from lib.giftcards.order_files.shopify import Shopify
    from lib.giftcards.order_files.shops import ShopLayout
    from lib.giftcards.order_files.square import Square
    from lib.giftcards.order_files.woocommerce import WooCommerce

    exports = {export.name: export for export in (Shopify(), Square(), WooCommerce())}
    return ShopLayout(exports[shop], items=items) if shop else OwnColumns()


def _hint(data: bytes, encoding: str | None) -> str:
    """Return what to do with a file that has another layout than the chosen one."""
    from lib.giftcards.order_files.file import open_orders

    for shop in (None, *_SHOPS):
        layout = _layout(shop, None)
        try:
            open_orders(data, layout, encoding=encoding)
        except ValueError:
            continue
        return f"; it is {layout.title}, it seems: {f'use --from {shop}' if shop else 'omit --from'}"
    return ""


def _read(file: Any) -> bytes:
    from lib.giftcards.order_files.text import MAX_BYTES

    try:
        data: bytes = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadInput(f"the file cannot be read: {error.strerror}") from None
    return data


def _run(importer: "Importer", orders: "OrderFile", rejects: Path | None, *, as_json: bool) -> "Imported":
    for note in () if as_json else orders.notes:
        click.echo(note, err=True)
    with ExitStack() as stack:
        bars: list[Any] = []

        def progress(done: int, total: int) -> None:
            # The number of rows is known once the file was read.
            if not bars:
                bars.append(stack.enter_context(progress_bar("importing", total=total)))
            bars[0](done)

        try:
            return importer.run(orders, rejects=rejects, progress=progress)
        except ValueError as error:
            raise BadInput(str(error)) from error
        except FileExistsError:
            raise BadInput(f"--rejects: {rejects} exists already: give the name of a new file") from None
        except OSError as error:
            raise BadInput(f"--rejects: {rejects} cannot be written: {error.strerror}") from None


def _imported(outcome: Json) -> Iterator[Part]:
    """Render the rejected rows, then the totals."""
    wrong = outcome["wrong"]
    for row in wrong[:_MOST_LINES]:
        yield f"line {row['line']}: {row['problem']}"
    if len(wrong) > _MOST_LINES:
        yield f"… and {len(wrong) - _MOST_LINES:,} more: --json lists all, and --rejects writes their rows to a file"
    for reason, number in outcome["skipped"].items():
        yield f"skipped {number:,}: {reason}"
    verb = "would be created" if outcome["dry_run"] else "created"
    rejected = f"{count(len(wrong), 'row')} rejected"
    yield f"{count(outcome['created'], 'order')} {verb}, {outcome['repeated']:,} existed already, {rejected}"
    for title, name in ((verb, "created"), ("existed already", "repeated")):
        sums = [_money(sum_[name], currency) for currency, sum_ in sorted(outcome["sums"].items()) if sum_[name]]
        if sums:
            yield f"{title}: {', '.join(sums)}"
    if not (outcome["sums"] or outcome["skipped"] or wrong):
        yield "the file has a header, and no rows after it"
    if outcome["rejects"]:
        yield f"the rejected rows are in {outcome['rejects']}: correct them, and import that file"
    if outcome["dry_run"]:
        yield "nothing was written to the database: omit --dry-run to import"


def _money(amount: int, currency: str) -> str:
    return f"{Decimal(amount).scaleb(-minor_digits(currency)):,f} {currency}"

"""Whatever a file holds, it is rows or one refusal, and no problem repeats what was in it."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lib.giftcards.order_files.cells import escaped, unescaped
from lib.giftcards.order_files.customers import Survey
from lib.giftcards.order_files.file import open_orders
from lib.giftcards.order_files.layout import Layout
from lib.giftcards.order_files.own import OwnColumns
from lib.giftcards.order_files.shopify import Shopify
from lib.giftcards.order_files.shops import ShopLayout
from lib.giftcards.order_files.square import Square
from lib.giftcards.order_files.woocommerce import WooCommerce
from tests.support.order_files import COLUMNS, HEADER, line, read

LAYOUTS: list[Layout] = [OwnColumns(), ShopLayout(Shopify()), ShopLayout(WooCommerce()), ShopLayout(Square())]
cells = st.text(max_size=30) | st.sampled_from(
    ["kate@example.com", "25.00", "25,00", "1e9", "-1", "NaN", "USD", "2030-01-01T00:00:00Z", '"', "\x00", "=1+1",
     "paid", "Gift card", "1", "name:Gift card|quantity:1|total:5|sub_total:5", "completed", "\ufeff", "'=", "Total"]
)  # fmt: skip
rows = st.lists(cells, max_size=16).map(",".join)
many = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
pytestmark = pytest.mark.slow


def outcome(data: bytes, layout: Layout) -> str:
    """All sentences about a file."""
    try:
        file = open_orders(data, layout)
        survey = Survey(file, tenant_id="default")
        found = list(file.rows())
    except ValueError as error:
        return str(error)
    for row in found:
        assert (row.order is None) == bool(row.problem or row.skipped)
        assert row.line >= 2
    return "\n".join([*file.notes, *(str(row.problem or survey.problem_of(row)) for row in found)])


@many
@given(st.binary(max_size=300), st.sampled_from(LAYOUTS))
def test_any_bytes_are_rows_or_one_refusal(data: bytes, layout: Layout) -> None:
    assert outcome(data, layout) or not data


@many
@given(st.lists(rows, max_size=6), st.sampled_from(LAYOUTS), st.sampled_from([",", ";", "\t"]))
def test_any_rows_are_orders_or_problems(found: list[str], layout: Layout, delimiter: str) -> None:
    names = [*layout.required, *layout.optional, *(["line_item_1"] if layout.is_item("lineitem1") else [])]
    text = "".join(f"{one}\n" for one in [",".join(names), *found]).replace(",", delimiter)
    outcome(text.encode("utf-8", "surrogatepass"), layout)


SECRET = st.text(st.characters(categories=["Ll", "Nd"], max_codepoint=0x7A), min_size=9, max_size=30)


@many
@given(
    SECRET,
    st.sampled_from(COLUMNS),
    st.sampled_from(["{}@@", "={}", "'{}", '"{}"', "{}\x00", "{}\ufffd", "Ã¼{}", "{}\u2028", "$ {}", "1,{}", "{}"]),
    st.sampled_from(["utf-8", "utf-16", "cp1252"]),
)
def test_a_problem_repeats_nothing_of_the_row(secret: str, column: str, form: str, encoding: str) -> None:
    row = line(**{column: form.format(secret)})
    for text in (HEADER + row, HEADER + line() + row, row, HEADER + row.replace('"', "", 1), HEADER + row[:-9]):
        assert secret not in outcome(text.encode(encoding, "replace"), OwnColumns())


@many
@given(st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters='"'), max_size=80))
def test_a_good_row_is_an_order_whatever_stands_before_it(bad: str) -> None:
    *_, last = read(HEADER + f"{bad}\n" + line())
    assert last.order is not None


@many
@given(st.text(st.sampled_from("'=+-@ 0123\tx\uff1d")))
def test_an_escaped_cell_is_read_as_it_was(cell: str) -> None:
    assert unescaped(escaped(cell)) == cell

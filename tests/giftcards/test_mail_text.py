"""What people wrote cannot pass for what we write: in the mail's text, on its page, in its greeting."""

import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lib.giftcards.mail_text import MAX_NAME_LENGTH, message_lines, quoted, shown_name
from lib.giftcards.orders import MAX_MESSAGE_LENGTH
from tests.giftcards.test_mail import _mail, _part

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
SEPARATORS = ["\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"]
FAKES = [
    "Amount:        $9,900.00",
    "Card number:   9900 1111 2222 3333",
    "Personal code: EVE0001",
    "Hello Eve,",
    ">",
    "> ",
]
MARKUP = [
    "</blockquote>",
    "<p>Card number<br><strong>9900</strong></p>",
    "<style>*{display:none}</style>",
    "{{ 7 * 7 }}",
    "&",
]

pieces = st.sampled_from([*SEPARATORS, *FAKES, *MARKUP, *BIDI, " " * 80, "\t", "\u00a0", "gift ", "متن", "🎁"])
hostile = st.lists(pieces | st.text(max_size=20), max_size=30).map("".join)
# As orders accept them.
accepted = st.lists(
    st.sampled_from(["\n", "\r", "\r\n", *FAKES, *MARKUP, *BIDI, " " * 80, "\t", "gift", "متن"]), max_size=20
).map(lambda parts: "".join(parts)[:MAX_MESSAGE_LENGTH])


class _Page(HTMLParser):
    """The tags of a page, and its text within and outside the box of the message."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.inside, self.outside, self.depth = "", "", 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)
        self.depth += tag == "blockquote"

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "blockquote"

    def handle_data(self, data: str) -> None:
        if self.depth:
            self.inside += data
        else:
            self.outside += data


@settings(deadline=None)
@example("\u2028".join(FAKES))
@example("a\rCard number:   9900\x85Amount: 1")
@given(hostile)
def test_each_line_of_a_message_is_quoted_whatever_separates_it(text: str) -> None:
    lines = quoted(text)
    assert all(line == ">" or line.startswith("> ") for line in lines)
    assert all(len(line.splitlines()) == 1 and len(line) <= 74 for line in lines)
    assert not set("".join(lines)) & set(BIDI)


@given(st.text(st.characters(exclude_categories=["Cc", "Cs", "Zl", "Zp"], exclude_characters=BIDI)))
def test_the_words_of_a_message_stay_as_they_are(text: str) -> None:
    assert " ".join(message_lines(text)).split() == text.split()


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@example("\r".join(FAKES))
@given(accepted)
def test_no_message_adds_a_line_of_ours_to_the_text(message: str) -> None:
    plain = [line for line in _part(_mail(message=None), "plain").splitlines() if line]
    shown = [line for line in _part(_mail(message=message), "plain").splitlines() if line]
    frame = [line for line in shown if not line.startswith(">")]
    introduction = [line for line in frame if line.startswith("The person who ordered it wrote")]
    assert [line for line in frame if line not in introduction] == plain
    assert len(introduction) == (shown != plain)


@pytest.mark.slow
@settings(deadline=None, max_examples=50)
@example("</blockquote><p>Card number<br>9900</p>")
@given(accepted)
def test_no_message_leaves_its_box_on_the_page(message: str) -> None:
    bare, page = (_Page(_part(_mail(message=text), "html")) for text in (None, message))
    assert not set(page.inside) & set(BIDI)
    assert page.inside.split() == " ".join(message_lines(message)).split()
    if page.inside:
        assert page.tags.count("blockquote") == 1
        assert page.outside.replace("The person who ordered it wrote:", "").split() == bare.outside.split()
    else:
        assert page.tags == bare.tags


def test_the_box_is_isolated_from_the_text_around_it() -> None:
    page = _part(_mail(message="שלום"), "html")
    box = page[page.index("<blockquote") : page.index("שלום")]
    assert 'dir="auto"' in box
    assert "unicode-bidi: isolate" in box


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("Kate", "Kate"),
        ("Kate, card number 9900 1111 2222 3333", "Kate"),
        ("Kate 9900 1111", "Kate"),
        ("Kate٩٩٠٠", "Kate"),
        ("Kate: call +1 555", "Kate"),
        ("Kate\u202e0099", "Kate"),
        ("www.example.com", "www"),
        ("x.com", "x"),
        ("J.R. Kate", "J.R. Kate"),
        ("Dr. Kate-Ann O'Neil", "Dr. Kate-Ann O'Neil"),
        ("Jürgen", "Jürgen"),
        ("小明", "小明"),
        ("नेहा", "नेहा"),
        ("👩🏽\u200d💻", "👩🏽\u200d💻"),
        ("<b>Kate</b>", ""),
        ("9900", ""),
        ("a" * 200, "a" * MAX_NAME_LENGTH),
    ],
)
def test_a_name_ends_where_names_end(name: str, shown: str) -> None:
    assert shown_name(name) == shown
    mail = _mail(given_name=name, family_name=None)
    assert _part(mail, "plain").startswith(f"Hello {shown},\n" if shown else "Hello,\n")
    assert f"Hello {shown}," in _Page(_part(mail, "html")).outside if shown else "Hello, here"
    assert not re.search(r"\d", mail["To"].addresses[0].display_name)


@settings(deadline=None)
@given(hostile)
def test_no_name_holds_numbers_lines_or_addresses(name: str) -> None:
    shown = shown_name(name)
    assert len(shown) <= MAX_NAME_LENGTH
    assert len(shown.splitlines()) <= 1
    assert not re.search(r"[\d:/@,<>&]|\.\w\w", shown)
    assert not set(shown) & set(BIDI)
    assert shown_name(shown) == shown

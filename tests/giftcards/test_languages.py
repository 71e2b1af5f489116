"""The language of an order: its tag, the template that it gets, the form of its amount."""

from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path

import pytest
from pydantic import ValidationError

from dev import ROOT
from lib.errors import TransientError
from lib.giftcards.languages import babel_locale, best_language, canonical_tag, text_direction
from lib.giftcards.mail import giftcard_mail
from lib.giftcards.orders import Order, body_hash
from lib.validation import field_errors

ORDER = {"customer": {"given_name": "Kate", "email": "kate@example.com"}, "amount": {"amount": 2500, "currency": "USD"}}
SHIPPED = [f"mail.{language}.{kind}" for language in ("de", "en") for kind in ("txt", "html")]


def order(locale: str | None, currency: str = "USD") -> Order:
    return Order.model_validate(ORDER | {"locale": locale, "amount": {"amount": 2500, "currency": currency}})


def written(
    locale: str | None, *, currency: str = "USD", default: str = "en", own_templates: Path | None = None
) -> EmailMessage:
    return giftcard_mail(
        sender="cards@example.com",
        message_id="<1@example.com>",
        sent_at=datetime(2026, 1, 31, tzinfo=UTC),
        order=order(locale, currency),
        personal_code="KATE1520",
        card_number="9900123412345678",
        default_locale=default,
        own_templates=own_templates,
    )


def part(message: EmailMessage, kind: str) -> str:
    body = message.get_body((kind,))
    assert body
    return str(body.get_content())


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("de", "de"),
        ("DE", "de"),
        (" de-at ", "de-AT"),
        ("en-GB", "en-GB"),
        ("ZH-hant-tw", "zh-Hant-TW"),
        ("es-419", "es-419"),
        ("iw", "he"),
        ("iw-il", "he-IL"),
        ("sl-ROZAJ-biske", "sl-rozaj-biske"),
        ("de-CH-1996", "de-CH-1996"),
        ("de-DE-u-CO-phonebk", "de-DE-u-co-phonebk"),
        ("en-x-Shop", "en-x-shop"),
        ("tlh", "tlh"),
    ],
)
def test_a_tag_is_kept_in_its_canonical_form(given: str, kept: str) -> None:
    assert order(given).locale == kept
    assert canonical_tag(kept) == kept
    assert body_hash(order(given)) == body_hash(order(kept)) != body_hash(order(None))


@pytest.mark.parametrize(
    "given",
    [
        *("", "d", "german", "de_AT", "de-", "-de", "de--AT", "de-Austria1x", "de-AT-", "de.UTF-8", "de\nAT", "дe"),
        *("C", "*", "de,en;q=0.5", "../../etc", "x-shop", "de-AT-u", "{{ 7 }}", "de" + "-abcde" * 6),
    ],
)
def test_another_tag_is_refused(given: str) -> None:
    with pytest.raises(ValidationError) as raised:
        order(given)
    ((field, _),) = field_errors(raised.value)
    assert field == "locale"


@pytest.mark.parametrize("given", [5, [], {"language": "de"}, True])
def test_what_is_no_text_is_no_tag(given: object) -> None:
    with pytest.raises(ValidationError):
        Order.model_validate(ORDER | {"locale": given})


@pytest.mark.parametrize(
    ("tag", "default", "own", "language"),
    [
        ("de", "en", [], "de"),
        ("de-AT", "en", [], "de"),
        ("de-AT", "en", ["de-AT"], "de-AT"),
        ("de-Latn-AT-1996", "en", [], "de"),
        ("en-GB", "de", [], "en"),
        ("fr", "en", [], "en"),
        ("fr", "de", [], "de"),
        ("fr-CA", "de", ["fr"], "fr"),
        ("zh-Hant-TW", "en", ["zh", "zh-Hant"], "zh-Hant"),
        ("zh-Hant-TW", "en", ["zh", "zh-TW"], "zh-TW"),
        ("fr", "nl", [], "en"),
    ],
)
def test_the_text_is_in_the_nearest_language_that_has_both_files(
    tag: str, default: str, own: list[str], language: str
) -> None:
    files = [*SHIPPED, "mail.it.txt", *(f"mail.{each}.{kind}" for each in own for kind in ("txt", "html"))]
    assert best_language((tag, default), files, "mail.{}.txt", "mail.{}.html") == language
    assert best_language(("it", tag), files, "mail") == best_language((tag,), files, "mail")


@pytest.mark.parametrize(
    ("tag", "locale"), [("de-CH", "de_CH"), ("tlh", "en"), ("en-XX", "en"), ("es-419", "es_419"), ("he", "he")]
)
def test_the_form_of_amounts_is_the_nearest_that_is_known(tag: str, locale: str) -> None:
    assert babel_locale(tag, "en") == locale


def test_direction_of_a_text() -> None:
    directions = {tag: text_direction(tag) for tag in ("de", "ar", "he-IL", "fa", "ur", "tlh")}
    assert directions == {"de": "ltr", "ar": "rtl", "he-IL": "rtl", "fa": "rtl", "ur": "rtl", "tlh": "ltr"}


@pytest.mark.parametrize(
    ("locale", "default", "currency", "subject"),
    [
        (None, "en", "USD", "Your $25.00 gift card"),
        (None, "de", "USD", "Ihre Geschenkkarte über 25,00 $"),
        ("en-GB", "de", "GBP", "Your £25.00 gift card"),
        ("de", "en", "EUR", "Ihre Geschenkkarte über 25,00 €"),
        ("de-AT", "en", "EUR", "Ihre Geschenkkarte über € 25,00"),
        ("de-CH", "en", "CHF", "Ihre Geschenkkarte über CHF 25.00"),
        ("fr", "en", "EUR", "Your 25,00 € gift card"),
        ("tlh", "en", "EUR", "Your €25.00 gift card"),
    ],
)
def test_locale_decides_text_and_amount(locale: str | None, default: str, currency: str, subject: str) -> None:
    message = written(locale, currency=currency, default=default)
    assert message["Subject"] == subject
    language = "de" if subject.startswith("Ihre") else "en"
    html, text = part(message, "html"), part(message, "plain")
    assert f'<html lang="{language}" dir="ltr">' in html
    assert f"<title>{subject}</title>" in html
    words = ("Hallo Kate,", "Kartennummer") if language == "de" else ("Hello Kate,", "Card number")
    amount = subject.removeprefix("Ihre Geschenkkarte über ").removeprefix("Your ").removesuffix(" gift card")
    for expected in (*words, amount, "9900 1234 1234 5678", "KATE1520"):
        assert expected in text
        assert expected in html.replace("<bdi>", "").replace("</bdi>", "")
    assert not text.startswith("\n")


@pytest.mark.parametrize("language", ["de", "en"])
def test_each_language_uses_the_same_values_as_english(language: str) -> None:
    folder = ROOT / "lib/giftcards/templates"
    values = ["given_name", "amount", "personal_code", "card_number", "message_lines"]
    for kind in ("txt", "html"):
        text = (folder / f"mail.{language}.{kind}").read_text(encoding="utf-8")
        assert [value for value in values if value not in text] == []


def test_own_template_in_a_script_from_right_to_left(tmp_path: Path) -> None:
    (tmp_path / "mail.he.txt").write_text("{% set subject %}שובר {{ amount }}{% endset %}\n{{ card_number }}\n")
    (tmp_path / "mail.he.html").write_text('<html lang="{{ language }}" dir="{{ direction }}">{{ amount }}</html>')
    message = written("he-IL", own_templates=tmp_path)
    assert message["Subject"].startswith("שובר")
    assert '<html lang="he" dir="rtl">' in part(message, "html")


def test_template_without_a_subject_is_named(tmp_path: Path) -> None:
    for kind in ("txt", "html"):
        (tmp_path / f"mail.fr.{kind}").write_text("{{ card_number }}\n")
    with pytest.raises(TransientError, match=r"the template mail\.fr\.txt sets no subject"):
        written("fr", own_templates=tmp_path)

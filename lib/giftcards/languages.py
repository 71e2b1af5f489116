"""The language of an order: its tag, the locale of its amounts, the template of its mail."""

import re
from collections.abc import Collection, Iterator

# Tags of BCP 47 with the subtags that matter here: language, script, region, variants; extensions are kept.
_TAG = re.compile(
    r"(?P<language>[a-z]{2,3})(?:-(?P<script>[a-z]{4}))?(?:-(?P<region>[a-z]{2}|[0-9]{3}))?"
    r"(?P<rest>(?:-(?:[a-z0-9]{5,8}|[0-9][a-z0-9]{3}))*(?:-[0-9a-wyz](?:-[a-z0-9]{2,8})+)*(?:-x(?:-[a-z0-9]{1,8})+)?)",
    re.IGNORECASE | re.ASCII,
)
# RFC 5646 asks for room for 35.
MAX_TAG_LENGTH = 35
LAST_LANGUAGE = "en"


def canonical_tag(text: str) -> str:
    """Return a language tag in its canonical form: `DE-at` → `de-AT`, `iw` → `he`.

    Raises:
        ValueError: it is not well formed. The message is a predicate.
    """
    match = _TAG.fullmatch(text)
    if match is None or len(text) > MAX_TAG_LENGTH:
        raise ValueError("is not a language tag of BCP 47, like de or en-GB")
    from babel.core import get_global

    language = match["language"].lower()
    renamed = str(get_global("language_aliases").get(language, language))
    language = renamed if renamed.isalpha() else language
    parts = [language, (match["script"] or "").title(), (match["region"] or "").upper()]
    return "-".join(filter(None, parts)) + match["rest"].lower()


def babel_locale(tag: str, default: str) -> str:
    """Return the locale of Babel that is nearest to a tag, or to `default` if Babel does not have its language."""
    from babel.core import Locale, UnknownLocaleError

    for wanted in (*_nearer_first(tag), *_nearer_first(default)):
        try:
            return str(Locale.parse(wanted, sep="-"))
        except (UnknownLocaleError, ValueError):
            continue
    return LAST_LANGUAGE


def text_direction(tag: str) -> str:
    """Return `ltr` or `rtl`, for the attribute `dir` of HTML."""
    from babel.core import Locale

    return str(Locale.parse(babel_locale(tag, LAST_LANGUAGE)).text_direction)


def best_language(tags: tuple[str, ...], templates: Collection[str], *names: str) -> str:
    """Return the first language, of these tags in order, in which there are all these templates, like `mail.{}.txt`."""
    for tag in tags:
        for language in _nearer_first(tag):
            if {name.format(language) for name in names} <= set(templates):
                return language
    return LAST_LANGUAGE


def _nearer_first(tag: str) -> Iterator[str]:
    """Yield `zh-Hant-TW`, `zh-Hant`, `zh-TW`, `zh`."""
    match = _TAG.fullmatch(tag)
    if match is None:
        return
    language, script, region = match["language"], match["script"], match["region"]
    for parts in ((language, script, region), (language, script), (language, region), (language,)):
        yield "-".join(filter(None, parts))

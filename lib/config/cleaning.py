"""What people paste around a value, which is removed, and what they forget to replace, which is refused."""

import re
import unicodedata

# A byte order mark and other characters without a width; `str.strip` removes blanks of every script.
_INVISIBLE = "\ufeff\u200b\u200c\u200d\u200e\u200f\u2060\u00ad\u180e"
# Each opening quote with those that may close it: programs set typographic ones by themselves.
_QUOTES = {
    '"': '"',
    "'": "'",
    "`": "`",
    "“": "”“",
    "„": "“”",
    "‘": "’‘",
    "‚": "‘’",
    "”": "”",
    "’": "’",
    "«": "»",
    "»": "«",
}
_ALL_QUOTES = "".join(_QUOTES)
_WORDS = r"(?:[a-z0-9]+[-_ .])*(?:secret|token|key|keys|password|passwd|url|dsn|value|id|address|name|host|here)s?"
_PLACEHOLDER = re.compile(
    r"(?i)<[\w ./-]*>|\[[\w ./-]*\]|\{+[\w ./-]*\}+|%[a-z_]+%|\$\{[a-z_][a-z0-9_]*\}|(?-i:\$[A-Z_][A-Z0-9_]*)|\$\(.*\)"
    r"|x{3,}|\*{3,}|[.•?]{3,}|…|_{3,}|-{3,}"
    r"|(?:change|replace|fill|insert|put|enter|add|paste)"
    r"(?:[-_ ]?(?:me|it|this|in|your|with|here|the)\b[^<>@]*|(?:me|this))"
    rf"|(?:your|my|the|some)[-_ ]{_WORDS}|your[-_ ](?:[^<>@]*|.*@(?:your|example).*)"
    r"|todo|tbd|fixme|placeholder|null|none|nil|undefined|n/?a"
)


def bare(text: str) -> str:
    """Return a text without the blanks, line breaks, invisible characters and pairs of quotes around it."""
    while True:
        before, text = text, blanks_off(text)
        first, last = text[:1], text[-1:]
        if len(text) >= 2 and last in _QUOTES.get(first, "") and not {first, last} & set(text[1:-1]):
            text = text[1:-1]
        if text == before:
            return text


def blanks_off(text: str) -> str:
    """Return a text without the blanks, line breaks and invisible characters around it."""
    while (stripped := text.strip().strip(_INVISIBLE)) != text:
        text = stripped
    return text


def items(text: str) -> list[str]:
    """Return the items of a comma-separated list, each `bare`, without empty ones."""
    return list(filter(None, map(bare, text.split(","))))


def has_half_quotes(text: str) -> bool:
    """Return whether a text has a quote at one end only, as when a part of it was not copied."""
    starts, ends = text[:1] in _ALL_QUOTES, text[-1:] in _ALL_QUOTES
    return bool(text) and starts != ends


def is_placeholder(text: str) -> bool:
    """Return whether a text only holds the place of a value: `<your key>`, `changeme`, `xxx`, `$NAME`."""
    return _PLACEHOLDER.fullmatch(text) is not None


def check_text(text: str) -> None:
    """Validate what no value has.

    Raises:
        ValueError: the text has controls, invisible characters, or is not UTF-8; or it is a placeholder.
    """
    if not text.isascii() or not text.isprintable():
        for character in text:
            if character in "\r\n":
                raise ValueError("must be one line: it has a line break inside (separate items with commas)")
            kind = unicodedata.category(character)
            if kind == "Cs":
                raise ValueError("must be UTF-8")
            # Cf: these reverse or hide what follows. Joiners within words are letters of some scripts.
            if kind == "Cc" or (kind in ("Cf", "Zl", "Zp") and character not in "\u200c\u200d"):
                raise ValueError(f"must have no control or invisible characters: it has U+{ord(character):04X} inside")
    if is_placeholder(text):
        raise ValueError("is a placeholder: put in the real value, or remove the variable")

"""Redaction of secrets and personal data in text that is stored, logged or returned."""

import re
from typing import Any

MAX_ERROR_LENGTH = 500
# So many times its limit is read of a text; and the longest number of a card, with the widest gap after each digit.
_REACH = 8
_LONGEST_CARD = 80
_FEWEST_DIGITS, _MOST_DIGITS = 13, 19
# Sixteen digits like this are a number of ours, also if one of them is mistyped.
_OURS, _DIGITS_OF_OURS = "9900", 16
_DOUBLED = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)  # the digit sum of each digit's double

# An @, also as URLs, HTML and JSON write it.
_AT = r"(?:[@\uff20\ufe6b]|%(?:25)*40|&#0*64;|&#x0*40;|\\u0040)"
# Starts at a word boundary and never backtracks: otherwise a long text without an @ takes quadratic time. (An atomic
# group: Python 3.11 matches `(?:…)++` wrongly.)
_PART = r"[^\s<>\"'(),;:@\uff20\ufe6b]"
_EMAIL = re.compile(rf"(?i)(?<!{_PART})(?>(?:(?!{_AT}){_PART})+){_AT}{_PART}+\.{_PART}+")
# What may stand between two digits of a card's number: blanks, dashes, dots, in any script or none, up to three.
_GAPS = r"[\s._+\-\xad\xb7\u2000-\u2015\u202f\u2060\u2212\u3000\ufe58\ufe63\ufeff\uff0d]"
# The same as URLs and HTML write them.
_ENCODED_GAP = re.compile(r"(?i:%20|%2D|%C2%A0|&nbsp;|&#160;)")
_DIGITS = re.compile(rf"\d(?:(?:{_GAPS}{{0,3}}|{_ENCODED_GAP.pattern})\d)*+")
_TAIL_OF_DIGITS = re.compile(rf"(?:\d|{_GAPS}|[%&#;])+\Z")
_BEARER = re.compile(r"(?i)\b(bearer|basic)\s+[\w.~+/=-]{6,}")
# A token of the API, as `lib.tokens` makes it; the first four characters alone are shown on purpose.
_API_TOKEN = re.compile(r"gct_[\w-]{5,}+")
# The token of a customer's page, as `lib.giftcards.card_links` makes it, also in a URL within a URL. One that is cut
# through is covered, too.
_PAGE_TOKEN = re.compile(r"(?i)((?:/|%2F)o(?:/|%2F))[\w-]{16,}+")
_WORD = re.compile(r"\S++")
# Where a user name and a password begin that may hold blanks: behind any scheme but those of web pages, and behind
# those if the colon is not that of a port.
_LOGIN = re.compile(r"(?i)(?<!http)(?<!https)(?<!ws)(?<!wss)://|://(?=[^\s/?#@\[]*:(?!\d*(?:[\s/?#:\"'<>(),.;\]]|\Z)))")
_GAP = re.compile(r"[\s\x00-\x1f\x7f-\x9f]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]+|[\ud800-\udfff]")


def covered(value: Any) -> Any:
    """Return a JSON value with its mail addresses, card numbers, API tokens and the logins of its URLs covered."""
    if isinstance(value, dict):
        return {name: covered(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [covered(inner) for inner in value]
    return _cover(_without_logins(value)) if isinstance(value, str) else value


def clean(text: str, *, secrets: list[str], limit: int = MAX_ERROR_LENGTH) -> str:
    """Return one line, up to `limit` characters, without secrets, API tokens, logins of URLs, mail addresses, card
    numbers and controls.

    A text that is much longer is cut first: cleaning takes the same time for any length.
    """
    head = text[: _end(text, secrets, reach=_REACH * limit)]
    is_cut = len(head) < len(text)
    goes_on = is_cut and text.find("@", len(head)) >= 0
    for secret in secrets:
        head = head.replace(secret, "[secret]")
    head = _CONTROL.sub(" ", head)
    if is_cut:
        # The number of a card may go on behind the cut.
        head = head[:-_LONGEST_CARD] + _TAIL_OF_DIGITS.sub("", head[-_LONGEST_CARD:])
    head = _without_logins(head, goes_on=goes_on)
    head = _BEARER.sub(r"\1 [secret]", head)
    head = _cover(head).strip()
    return head if len(head) <= limit and not is_cut else head[: limit - 1] + "…"


def _cover(text: str) -> str:
    text = _PAGE_TOKEN.sub(r"\1[secret]", _API_TOKEN.sub("[secret]", text))
    return _DIGITS.sub(_without_cards, _EMAIL.sub("[email]", text))


def _without_logins(text: str, *, goes_on: bool = False) -> str:
    """Return a text without what stands between `://` and the last `@`: of the word, or of the text if a login begins
    there that may hold blanks. `goes_on`: an `@` follows behind the text, which may be the end of its last login."""
    if "://" not in text:
        return text
    login = _LOGIN.search(text)
    if login and goes_on:
        text = f"{text[: login.end()]}[secret]"
    elif login and text.rfind("@") > login.end():
        text = f"{text[: login.end()]}[secret]{text[text.rfind('@') :]}"
    return _WORD.sub(_without_login, text)


def _without_login(word: re.Match[str]) -> str:
    start, end = word[0].find("://"), word[0].rfind("@")
    return f"{word[0][: start + 3]}[secret]{word[0][end:]}" if 0 <= start < end else word[0]


def _without_cards(run: re.Match[str]) -> str:
    """Return a run of digits and gaps with each number of a card in it covered but for its last four digits."""
    text = _ENCODED_GAP.sub(lambda gap: " " * len(gap[0]), run[0])
    end, shown = 0, ""
    for first, last in _cards(text):
        digits = [str(int(character)) for character in text[first:last] if character.isdecimal()]
        shown += f"{run[0][end:first]}[card …{''.join(digits[-4:])}]"
        end = last
    return shown + run[0][end:]


def _cards(text: str) -> list[tuple[int, int]]:
    """Return where 13 to 19 digits begin and end that are ours or whose check digit is right (Luhn); those that overlap
    as one.

    A number begins and ends beside a gap. Each is checked by sums from the start of the text: all take linear time.
    """
    places = [place for place, character in enumerate(text) if character.isdecimal()]
    sums: tuple[list[int], list[int]] = ([0], [0])  # every second digit doubled, by the position of those that are not
    for number, place in enumerate(places):
        digit = int(text[place])
        sums[number % 2].append(sums[number % 2][-1] + digit)
        sums[1 - number % 2].append(sums[1 - number % 2][-1] + _DOUBLED[digit])
    found: list[tuple[int, int]] = []
    for first, place in enumerate(places):
        if place - 1 in places[first - 1 : first]:
            continue
        begins = "".join(str(int(text[digit])) for digit in places[first : first + len(_OURS)])
        for last in range(first + _FEWEST_DIGITS - 1, min(first + _MOST_DIGITS, len(places))):
            total = sums[last % 2][last + 1] - sums[last % 2][first]
            is_ours = last - first + 1 == _DIGITS_OF_OURS and begins.startswith(_OURS)
            if (is_ours or total % 10 == 0) and places[last] + 1 not in places[last + 1 : last + 2]:
                before = found.pop() if found and place < found[-1][1] else (place, 0)
                found.append((before[0], max(before[1], places[last] + 1)))
    return found


def _end(text: str, secrets: list[str], *, reach: int) -> int:
    """Return where to cut a text: behind the word at `reach`, and through no secret."""
    if len(text) <= reach:
        return len(text)
    gap = _GAP.search(text, reach, 2 * reach)
    if gap:
        end = gap.start()
    else:
        # A long word. If an @ follows, its beginning may be an address or a password.
        end = reach if text.find("@", reach) < 0 else max(match.start() for match in _GAP.finditer("\n" + text[:reach]))
    while starts := [at for secret in secrets if (at := _straddles(text, secret, end)) >= 0]:
        end = min(starts)
    return end


def _straddles(text: str, secret: str, end: int) -> int:
    """Return where the secret begins that goes on behind `end`; -1 if there is none."""
    return text.find(secret, max(0, end - len(secret) + 1), end + len(secret) - 1) if len(secret) > 1 else -1

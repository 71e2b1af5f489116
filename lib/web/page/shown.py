"""Text of others as pages show it: whatever it holds, it is visible, and leaves what stands beside it alone."""

import json
import re
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from lib.validation import UNSAFE

# Characters of JSON that would be invisible, or change the order of what follows. As escapes they are the same JSON.
_INVISIBLE = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff\ufff9-\ufffb]")
# Controls of the writing direction: one that is not closed changes the order of what follows, also behind a <bdi>.
_DIRECTIONS = re.compile("[\u202a-\u202e\u2066-\u2069]")
# Characters of a JSON value that a page shows.
_MOST = 20_000


def plain(text: Any) -> Markup:
    """Return a text as HTML, isolated: its writing direction ends with it. Control characters become visible."""
    return Markup("<bdi>{}</bdi>").format("–" if text is None else visible(str(text)))


def visible(text: str) -> str:
    """Return a text with a replacement for each control character."""
    for invisible in (UNSAFE, _DIRECTIONS):
        text = invisible.sub("\N{REPLACEMENT CHARACTER}", text)
    return text


def json_text(value: Any) -> str:
    """Return JSON on lines of its own, with what is invisible as escapes."""
    return _INVISIBLE.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, indent=2, ensure_ascii=False))


def json_shown(value: Any) -> str:
    """Return JSON as `json_text`, its first 20,000 characters."""
    text = json_text(value)
    return text if len(text) <= _MOST else f"{text[:_MOST]}\n… {len(text) - _MOST:,} characters more"


def flow_address(tenant_id: str, correlation_id: str) -> str:
    """Return the address of the order of a flow."""
    return f"/orders/{quote(tenant_id, safe='')}/{quote(correlation_id, safe='')}"

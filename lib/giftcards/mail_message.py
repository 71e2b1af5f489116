"""Mails by template: their payload, and the templates that exist."""

from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from lib.giftcards.orders import Email
from lib.validation import Line, StrictModel

# A template is a pair of files here, NAME.txt and NAME.html.
TEMPLATE_FOLDER = Path(__file__).parent / "templates" / "messages"


@cache
def template_names() -> tuple[str, ...]:
    """Return the names of all templates."""
    return tuple(sorted(path.stem for path in TEMPLATE_FOLDER.glob("*.html")))


def _known_template(value: str) -> str:
    if value not in template_names():
        raise ValueError(f"is not a template: the templates are {', '.join(template_names())}")
    return value


class MailMessage(StrictModel):
    """The payload of stage `send_mail`. `to`: one address. `data`: the values of the template."""

    to: Email
    subject: Annotated[Line, Field(min_length=1, max_length=200)]
    template: Annotated[str, AfterValidator(_known_template)]
    data: dict[str, Any] = Field(default_factory=dict)

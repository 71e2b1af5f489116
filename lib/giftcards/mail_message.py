"""Mails by template: their payload, and the templates that exist."""

from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationInfo

from lib.giftcards.orders import Email
from lib.validation import Line, StrictModel

# A template is a pair of files here, NAME.txt and NAME.html.
TEMPLATE_FOLDER = Path(__file__).parent / "templates" / "messages"


@cache
def template_names(own_templates: Path | None = None) -> tuple[str, ...]:
    """Return the names of all templates. `own_templates`: the folder of `GIFTCARD_TEMPLATES`."""
    folders = [TEMPLATE_FOLDER, *([own_templates / TEMPLATE_FOLDER.name] if own_templates else [])]
    return tuple(sorted({path.stem for folder in folders for path in folder.glob("*.html")}))


def check_template(value: str, own_templates: Path | None = None) -> None:
    """Raise ValueError if there is no such template."""
    names = template_names(own_templates)
    if value not in names:
        raise ValueError(f"is not a template: the templates are {', '.join(names)}")


def _known_template(value: str, info: ValidationInfo) -> str:
    if info.context:  # not while it runs: the handler checks it
        check_template(value, info.context["settings"].giftcard_templates)
    return value


class MailMessage(StrictModel):
    """The payload of stage `send_mail`. `to`: one address. `data`: the values of the template."""

    to: Email
    subject: Annotated[Line, Field(min_length=1, max_length=200)]
    template: Annotated[str, AfterValidator(_known_template)]
    data: dict[str, Any] = Field(default_factory=dict)

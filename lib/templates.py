"""Jinja2 templates of mails and pages. Import this module only where you render: Jinja2 is slow to load."""

from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape


@cache
def templates(folder: Path, *, first: Path | None = None) -> Environment:
    """Return the templates of a folder. An undefined name is an error, and HTML is escaped.

    `first`: a folder whose templates take precedence over those of the same name.
    """
    return Environment(
        loader=FileSystemLoader([first, folder] if first else folder),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )

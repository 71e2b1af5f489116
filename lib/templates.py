"""Jinja2 templates of mails and pages. Import this module only where you render: Jinja2 is slow to load."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape


def templates(folder: Path) -> Environment:
    """Return the templates of a folder. An undefined name is an error, and HTML is escaped."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )

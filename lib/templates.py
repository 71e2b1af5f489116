"""Templates of mails and pages. Jinja2 is imported with this module: only what renders asks for it."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape


def templates(folder: Path) -> Environment:
    """The templates of a folder. A name that is not given is an error, and HTML is escaped."""
    return Environment(
        loader=FileSystemLoader(folder),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )

"""The check of templates in the folder of GIFTCARD_TEMPLATES."""

import re
from pathlib import Path

from lib.monitoring.doctor.finding import Deployment, FactMissing, Finding, green, red

_USED = re.compile(r"mail\.[A-Za-z0-9-]+\.(txt|html)|report\.(txt|html)|messages/[^/]+")
_NAMES = "names are mail.<language>.txt, report.txt, messages/NAME.txt, and each with .html"


def templates(deployment: Deployment) -> Finding:
    """Check that each template of GIFTCARD_TEMPLATES can be read. Without the setting there is no such line."""
    folder = deployment.settings.giftcard_templates
    if folder is None:
        raise FactMissing("giftcard_templates")
    files = sorted(path for path in folder.rglob("*") if path.suffix in (".txt", ".html"))
    broken = [problem for file in files if (problem := _problem(file, folder))]
    alone = sorted(path for path in (folder / "messages").glob("*.*") if path in files and not _other(path).exists())
    unused = (file.relative_to(folder).as_posix() for file in files)
    broken += [f"{name} is used by nothing: {_NAMES}" for name in unused if not _USED.fullmatch(name)]
    broken += [f"{path.relative_to(folder)} lacks {_other(path).name}" for path in alone]
    if broken:
        return red(
            "templates are broken: " + "; ".join(broken), fix="correct them in GIFTCARD_TEMPLATES and deploy again"
        )
    return green(f"{len(files)} templates of GIFTCARD_TEMPLATES can be read")


def _other(path: Path) -> Path:
    """Return the other file of a message: each has a text and an HTML part."""
    return path.with_suffix(".html" if path.suffix == ".txt" else ".txt")


def _problem(file: Path, folder: Path) -> str | None:
    from jinja2 import TemplateSyntaxError

    from lib.giftcards.money import format_money
    from lib.templates import templates as environment_of

    environment = environment_of(folder)
    environment.filters["money"] = format_money  # as reports have it
    try:
        environment.compile(file.read_text(encoding="utf-8"))
    except TemplateSyntaxError as error:  # also of an unknown filter
        return f"{file.relative_to(folder)}:{error.lineno}: {error.message}"
    except (OSError, ValueError) as error:
        return f"{file.relative_to(folder)}: {type(error).__name__}"
    return None

"""Commands and options that do not exist: the names that may be meant."""

from difflib import get_close_matches

import click

# Names that people may try: group and command → the command's name.
_HINTS = {
    ("jobs", "schedule"): "schedules",
    ("jobs", "report"): "reports",
    ("jobs", "order"): "orders",
    ("jobs", "reconcile"): "orders reconcile",
    ("jobs", "webhook"): "webhooks",
    ("jobs", "key"): "keys",
    ("jobs", "run"): "tick",
    ("jobs", "retry"): "requeue",
    ("jobs", "create"): "enqueue",
    ("schedules", "add"): "create",
    ("schedules", "change"): "update",
    ("reports", "make"): "create",
    ("webhooks", "add"): "create",
    ("webhooks", "set"): "update",
}


def usage_message(error: click.UsageError) -> str:
    """Return the sentence of an error: what is wrong, and the name that may be meant or where names are listed."""
    if isinstance(error, click.NoSuchOption) and error.option_name == "--url":
        return "--url belongs to the group: flask jobs --url https://… COMMAND"
    if isinstance(error, click.NoSuchCommand) and error.ctx:
        hint = _HINTS.get((error.ctx.info_name or "", error.command_name))
        if hint:
            return f"there is no command {error.command_name}: use {error.ctx.command_path} {hint}"
    if isinstance(error, click.NoSuchOption | click.NoSuchCommand) and (close := _close(error)):
        return f"{error.message.rstrip('.')}; did you mean {' or '.join(close)}?"
    see_help = f" (see {error.ctx.command_path} --help)" if error.ctx else ""
    return error.format_message().rstrip(".") + see_help


def _close(error: click.NoSuchOption | click.NoSuchCommand) -> list[str]:
    """Return the names that Click suggests, but for options that are only alike because all begin with dashes."""
    if isinstance(error, click.NoSuchCommand):
        return list(error.possibilities or [])
    named = {name.lstrip("-"): name for name in error.possibilities or []}
    return [named[close] for close in get_close_matches(error.option_name.lstrip("-"), named)]

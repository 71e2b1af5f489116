"""One frame of `flask jobs top`: the verdict, ticks, today, stages and dead letters, in the size of a terminal."""

import shlex
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from lib.cli.books import money
from lib.cli.group import with_url
from lib.cli.layout import cell_width, wrap
from lib.cli.tables import count
from lib.cli.top_stages import is_idle, ordered, table
from lib.cli.top_ticks import ticks
from lib.cli.top_view import Line, View, cell, cut, fitted
from lib.monitoring.verdict import Verdict, at, moment, rendered

Json = dict[str, Any]

_STYLES = {"ok": "green bold", "warning": "yellow bold", "error": "red bold"}
_PAGES = {
    "/doctor": "flask jobs doctor",
    "/reconciliation": "flask jobs orders reconcile",
    "/errors": "flask jobs errors",
    "/webhooks": "flask jobs webhooks",
    "/stages": "flask jobs circuits",
}
# How many lines further troubles, dead letters and details may have: the first that leave room for the busy stages.
_BUDGETS = ((50, 50, 5), (3, 5, 5), (1, 3, 5), (1, 2, 4), (1, 0, 3), (1, 0, 2), (1, 0, 1), (0, 0, 0))
# The details by importance: the strip of ticks, the last tick, today, its sums, the marks in the strip.
_DETAILS = (0, 2, 3, 4, 1)
_LABEL = len("today   ")


def frame(overview: Json, view: View, *, away: Verdict | None = None) -> list[Line]:
    """Return the lines of a frame. `away`: why there is no newer overview; red lines have it, above the last one."""
    fixed = [*(_away(away, overview, view) if away else ()), *_verdict(overview, view)]
    details = [*ticks(overview, view), *_today(overview, view)]
    head, rows = table(overview, view)
    if not view.height:
        lines = [*fixed, *details, *_others(overview, view), (), head, *rows, *_dead(overview, view)]
    else:
        lines = _in_height(fixed, details, head, rows, overview, view)
    return [fitted(line, view.width) for line in lines]


def _in_height(
    fixed: list[Line], details: list[Line], head: Line, rows: list[Line], overview: Json, view: View
) -> list[Line]:
    """Leave out what matters least: idle stages, further troubles, kinds of dead letters, details, other stages."""
    busy = [not is_idle(stage) for stage in ordered(overview, view)]
    others: list[Line] = []
    dead: list[Line] = []
    kept_details: list[Line] = []
    room = 0
    for most_others, most_dead, most_details in _BUDGETS:
        others, dead = _others(overview, view, most_others), _dead(overview, view, most_dead)
        kept_details = [details[index] for index in sorted(_DETAILS[:most_details]) if index < len(details)]
        room = view.height - len(fixed) - len(kept_details) - 2 - len(others) - len(dead)
        if room >= sum(busy):
            break
    kept = sorted(sorted(range(len(rows)), key=lambda index: not busy[index])[: max(0, room)])
    left = len(rows) - len(kept)
    gap: Line = ((view.plain(f"… {count(left, 'more stage')}"), "dim"),) if left else ()
    return [*fixed, *kept_details, *others, gap, head, *(rows[index] for index in kept), *dead][: view.height]


def _words(text: str, overview: Json, view: View) -> str:
    now = view.now(overview)
    return view.plain(rendered(text, lambda time: view.clock(time, now)))


def _verdict(overview: Json, view: View) -> Iterator[Line]:
    verdict = overview["verdict"]
    for line in wrap(_words(verdict["sentence"], overview, view), view.width):
        yield ((line, _STYLES.get(verdict["level"], "bold")),)
    for line in wrap(_words(verdict["next"], overview, view), view.width):
        yield ((line, ""),)
    if verdict["action"]:
        yield ((view.plain(f"→ {with_url(command(verdict['action'], room=view.width - 2))}"), "bold"),)


def _others(overview: Json, view: View, most: int = 50) -> list[Line]:
    """Return further troubles, one a line, at most so many lines."""
    found = [_words(text, overview, view) for text in overview["verdict"]["others"]]
    if not most:
        return []
    if len(found) > most:
        found = [*found[: most - 1], f"{count(len(found) - most + 1, 'more trouble')}, first: {found[most - 1]}"]
    return [((cut(f"also: {text}", view.width, end=view.plain("…")), "yellow"),) for text in found]


def _away(away: Verdict, overview: Json, view: View) -> Iterator[Line]:
    for text in (away.sentence, f"Below is the state of {at(overview['now'])}."):
        for line in wrap(_words(text, overview, view), view.width):
            yield ((line, "red bold"),)


def _today(overview: Json, view: View) -> Iterator[Line]:
    """Yield what happened today, in UTC: numbers, and the sums of as many currencies as fit."""
    today = overview["today"]
    text = ", ".join(count(today[name], name[:-1]) for name in ("orders", "cards", "mails"))
    yield (("today   ", "dim"), (view.plain(text + (", or more" if today["capped"] else "")), ""))
    sums = [
        f"ordered {money(each['ordered'], each['currency'])}, paid {money(each['paid'], each['currency'])}, "
        f"issued {money(each['issued'], each['currency'])}"
        for each in today["sums"]
    ]
    for shown in range(len(sums), 0, -1):
        left = [count(len(sums) - shown, "more currency", "more currencies")] if len(sums) > shown else []
        text = view.plain("; ".join([*sums[:shown], *left]))
        if shown == 1 or cell_width(text) <= view.width - _LABEL:
            yield ((" " * _LABEL, ""), (cut(text, view.width - _LABEL, end=view.plain("…")), ""))
            return


def _dead(overview: Json, view: View, most: int = 50) -> list[Line]:
    """Return dead letters by stage and kind, at most so many lines, with a title."""
    groups, now = overview["dead"], view.now(overview)
    if not groups or most < 2:
        return []
    left = len(groups) - (most - 1)
    more = f" ({left} more kinds)" if left > 0 else " (and more kinds)" if overview["dead_more"] else ""
    lines: list[Line] = [((f"dead letters{more}", "dim"),)]
    for group in groups[: most - 1]:
        number = f"{group['count']:,}{'+' if group['capped'] else ''}"
        revive = moment(group["revive_at"])
        then = f"revives {view.clock(revive, now)}" if revive else "waits for you"
        room = view.width - 7 - 17 - len(then) - 2
        kind = cell(view.plain(group["kind"]), max(0, room), end=view.plain("…"))
        stage = cell(view.plain(group["stage"]), 16)
        lines.append(((f"{number:>6} ", "red"), (f"{stage} ", ""), (kind, ""), (f"  {then}", "dim")))
    return lines


def command(action: Json, *, room: int) -> str:
    """Return the command for an action of the verdict. One that does not fit is that of the list which has it."""
    target = str(action["target"])
    if action["kind"] == "resume":
        return shlex.join(["flask", "jobs", "resume", target])
    if action["kind"] == "reset_circuit":
        return shlex.join(["flask", "jobs", "circuits", "reset", target])
    if action["kind"] == "tick":
        return "flask jobs tick"
    if action["kind"] == "requeue":
        only = ["--stage", str(action["stage"])]
        requeue = shlex.join(["flask", "jobs", "requeue", *only, "--error-kind", target, "--dry-run"])
        return requeue if cell_width(with_url(requeue)) <= room else shlex.join(["flask", "jobs", "errors", *only])
    url = urlsplit(target)
    if url.path.startswith("/jobs/"):
        return shlex.join(["flask", "jobs", "show", url.path.removeprefix("/jobs/")])
    if url.path == "/jobs":
        filters = [word for name, value in parse_qsl(url.query) for word in (f"--{name}", value)]
        return shlex.join(["flask", "jobs", "list", *filters])
    return _PAGES.get(url.path, "flask jobs status")

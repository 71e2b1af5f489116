"""The output at the end: everything is read from the results."""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from signal import Signals

from rich.columns import Columns
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from demo import notifications, schedules
from demo.checks import Check
from demo.database import short
from demo.display import FLOW
from demo.intro import heading, rows
from demo.progress import without_type
from demo.results import Outcome, preferred_code
from demo.snapshot import OrderState
from dev import LOCAL
from lib.giftcards.money import format_money

_MAX_CAUSE_LENGTH = 70  # characters: one line


def results(console: Console, outcome: Outcome, *, ticks: int, mails: Path) -> None:
    """Print cards, sums, and the result of each failure."""
    cards = sum(order.cards for order in outcome.orders)
    heading(console, "Results")
    console.print(
        f"  {len(outcome.orders)} orders of {len(outcome.customers)} customers → {cards} gift cards, "
        f"{len(outcome.charges)} charges, {len(outcome.mails)} mails, in {ticks} ticks"
    )
    amounts = [
        Text(money, style="green").append(f" on {many(cards, 'card')}", style="dim") for money, cards in sums(outcome)
    ]
    console.print(Padding(Columns(amounts, padding=(0, 3), column_first=True), (0, 0, 0, 2)))
    heading(console, "Failures and their results")
    _print(console, _sections(outcome))
    heading(console, "Schedules and notifications")
    _print(console, [*schedules.sections(outcome), *notifications.sections(outcome)])
    if outcome.mails:
        console.print(f"  The mails are in {short(mails)}: open one, like {outcome.mails[0].path.name}", soft_wrap=True)


def _print(console: Console, sections: Iterable[tuple[str, list[str]]]) -> None:
    table = rows()
    for title, texts in sections:
        for at, text in enumerate(texts):
            table.add_row("", Text("" if at else title, style="cyan"), text)
    console.print(table)


def checks(console: Console, results: list[Check], errors: list[str], *, seconds: float, verbose: bool) -> None:
    """Print the checks, or only those that failed. `errors`: failed calls of the clock."""
    failed = sum(not check.passed for check in results)
    if verbose:
        heading(console, "Checks")
    for check in results:
        if check.passed and not verbose:
            continue
        mark = Text("  ✓", style="green") if check.passed else Text("  ✗", style="bold red")
        line = Table.grid(padding=(0, 1))  # wraps below the start of the sentence
        line.add_row(mark, check.sentence)
        console.print(line)
        for problem in check.problems[:10]:
            console.print(Text(f"      {problem}", style="red"))
    for error in errors[:5]:
        console.print(Text(f"  a call of the cron endpoint failed: {error}", style="red"))
    text = f"{failed} of {len(results)} checks failed" if failed else f"✓ All {len(results)} checks passed"
    console.print(Text(f"  {text}, after {seconds:.0f} s.", style="bold red" if failed else "bold green"))


def next_steps(console: Console, outcome: Outcome, *, folder: Path) -> None:
    """Print commands to try."""
    python = short(Path(sys.executable).absolute(), resolve=False)
    demo = f"{python} -m demo" + ("" if folder.parent == LOCAL else f" --folder {short(folder.parent)}")
    lines = [(f"{demo} page", "all of it in a browser"), (f"{demo} jobs status", "jobs, dead letters, ticks")]
    if outcome.revived:
        lines.append((f"{demo} jobs show {outcome.revived[0].job_id}", "the revived dead letter"))
    dead = [letter for letter in outcome.letters if letter.status == "error" and letter.stage in FLOW]
    if dead:
        lines.append((f"{demo} jobs requeue {dead[0].job_id}", f"queue {dead[0].order_id} again …"))
        lines.append((f"{demo} jobs tick", "… and run it: one more mail"))
    lines.append(("make dev", "the application, for orders of your own"))
    lines.append(("make demo ARGS=-v", "the demo with each event and check"))
    heading(console, "Next steps")
    width = max(len(command) for command, _ in lines)
    for command, meaning in lines:
        # not wrapped, so that commands can be copied
        console.print(Text(f"  {command:{width}}  ").append(meaning, style="dim"), soft_wrap=True)


def sums(outcome: Outcome) -> list[tuple[str, int]]:
    """Return amounts and cards by currency, most cards first."""
    cards: Counter[str] = Counter()
    money: Counter[str] = Counter()
    for order in outcome.orders:
        cards[order.currency] += order.cards
        money[order.currency] += order.amount * order.cards
    return [(format_money(money[currency], currency), count) for currency, count in cards.most_common()]


def _sections(outcome: Outcome) -> Iterator[tuple[str, list[str]]]:
    yield "retries", list(_retries(outcome))
    yield "circuit", list(_circuits(outcome))
    yield "same code", list(_collisions(outcome))
    yield "no response", list(_no_response(outcome))
    yield "process killed", list(_killed(outcome))
    yield "revived", list(_revived(outcome))
    yield "dead letters", list(_dead(outcome))


def _retries(outcome: Outcome) -> Iterator[str]:
    retried = Counter(run.stage for run in outcome.runs if run.retried)
    by_stage = ", ".join(f"{count} of {stage}" for stage, count in retried.most_common())
    yield f"{many(retried.total(), 'run')} failed and were retried: {by_stage or 'none'}"


def _circuits(outcome: Outcome) -> Iterator[str]:
    for change in outcome.changes:
        to = change.to_state.replace("_", "-")
        cause = change.cause.replace("TransientError: ", "")
        cause = cause if len(cause) <= _MAX_CAUSE_LENGTH else cause[: _MAX_CAUSE_LENGTH - 1] + "…"
        yield f"{change.changed_at.astimezone():%H:%M:%S} {change.circuit} {to}: {cause}"
    for circuit, waited in outcome.waited.items():
        yield f"{many(waited, 'job')} of {circuit} waited for it, and lost no attempt"


def _collisions(outcome: Outcome) -> Iterator[str]:
    """Yield the customers with the same first choice, and their codes."""
    for code, customers in _wanted_codes(outcome):
        if len(customers) > 1:
            codes = ", ".join(f"{customer.name} {customer.personal_code}" for customer in customers)
            yield f"{code} was the first choice of {len(customers)}: {codes}"


def most_wanted_code(outcome: Outcome) -> tuple[str, int]:
    """Return the code that was the first choice of most customers, and how many they are."""
    code, customers = next(iter(_wanted_codes(outcome)), ("none", []))
    return code, len(customers)


def _wanted_codes(outcome: Outcome) -> list[tuple[str, list[OrderState]]]:
    preferred: defaultdict[str, list[OrderState]] = defaultdict(list)
    for customer in outcome.customers.values():
        code = preferred_code(customer)
        if code is not None:
            preferred[code].append(customer)
    return sorted(preferred.items(), key=lambda item: -len(item[1]))


def _no_response(outcome: Outcome) -> Iterator[str]:
    charged = Counter(charge.reference for charge in outcome.charges)
    for order in outcome.charged_without_response:
        requests = many(outcome.requests[order], "time")
        yield f"{order}: requested {requests} with one key, charged {_times(charged[order])}"


def _killed(outcome: Outcome) -> Iterator[str]:
    if outcome.killed is None:
        return
    orders = sorted(order for order, _ in outcome.killed.runs)
    yield f"process {outcome.killed.pid} {_ended(outcome.killed.exit_code)} during {', '.join(orders)}"
    taken_over = [run for run in outcome.runs if run.result == "INTERRUPTED" and run.order_id in orders]
    if taken_over:
        waited = max((run.finished_at - run.started_at).total_seconds() for run in taken_over)
        yield f"{many(len(taken_over), 'run')} taken over after their leases expired, {waited:.0f} s later"
    charged = Counter(charge.reference for charge in outcome.charges)
    requests, charges = sum(outcome.requests[order] for order in orders), sum(charged[order] for order in orders)
    yield f"their payments were requested {many(requests, 'time')}, and charged {many(charges, 'time')}"


def _revived(outcome: Outcome) -> Iterator[str]:
    for letter in outcome.revived:
        failed = sum(run.job_id == letter.job_id for run in outcome.runs)
        yield (
            f"{letter.order_id}: {letter.stage} failed {many(failed, 'time')}, was revived automatically, "
            f"and is {letter.status} at run {letter.run_no}"
        )


def _dead(outcome: Outcome) -> Iterator[str]:
    for order in outcome.dead:
        yield f"{order.id} ({order.name}): {without_type(order.dead)}"
    if outcome.imported.wrong:
        lines = ", ".join(str(row["line"]) for row in outcome.imported.wrong)
        yield f"invalid rows of the file, listed above: lines {lines}"


def _ended(exit_code: int) -> str:
    return f"was killed by {Signals(-exit_code).name}" if exit_code < 0 else f"exited with {exit_code}"


def many(number: int, what: str) -> str:
    """Return `1 card`, `2 cards`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"

"""What the demo says in the end: all of it read from what is there, nothing known beforehand."""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from signal import Signals

from rich.columns import Columns
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from demo import notifications, schedules
from demo.checks import Check
from demo.database import short
from demo.display import FLOW
from demo.intro import heading, rows
from demo.progress import without_type
from demo.results import Outcome, wanted_code
from demo.snapshot import OrderFacts
from dev import LOCAL
from lib.giftcards.money import format_money

_LONGEST_CAUSE = 70  # characters: one line


def what_came_out(console: Console, outcome: Outcome, *, ticks: int, mails: Path) -> None:
    """Cards, sums, and how each thing that went wrong has ended."""
    cards = sum(order.cards for order in outcome.orders)
    heading(console, "What came out")
    console.print(
        f"  {len(outcome.orders)} orders of {len(outcome.customers)} customers → {cards} gift cards, "
        f"{len(outcome.charges)} charges, {len(outcome.mails)} mails, in {ticks} ticks"
    )
    console.print(Padding(Columns(_sums(outcome), padding=(0, 3), column_first=True), (0, 0, 0, 2)))
    heading(console, "What went wrong, and how it ended")
    _print(console, _chapters(outcome))
    heading(console, "What went by the clock, and who was told")
    _print(console, [*schedules.chapters(outcome), *notifications.chapters(outcome)])
    if outcome.mails:
        console.print(f"  The mails lie in {short(mails)}: open one, like {outcome.mails[0].path.name}", soft_wrap=True)


def _print(console: Console, chapters: Iterable[tuple[str, list[str]]]) -> None:
    table = rows()
    for title, texts in chapters:
        for at, text in enumerate(texts):
            table.add_row("", Text("" if at else title, style="cyan"), text)
    console.print(table)


def verdict(console: Console, checks: list[Check], complaints: list[str], *, seconds: float) -> None:
    """What should have come out, and whether it did."""
    failed = sum(not check.holds for check in checks)
    heading(console, "What should have come out" + ("" if failed else ", and did"))
    for check in checks:
        mark = Text("  ✓ ", style="green") if check.holds else Text("  ✗ ", style="bold red")
        console.print(mark + Text(check.sentence))
        for words in check.against[:10]:
            console.print(Text(f"      {words}", style="red"))
    for complaint in complaints[:5]:
        console.print(Text(f"  the cron door complained: {complaint}", style="red"))
    said = f"{failed} of {len(checks)} are not so" if failed else f"All {len(checks)} are so"
    console.print(Text(f"  {said}, after {seconds:.0f} s.", style="bold red" if failed else "bold green"))


def what_next(console: Console, outcome: Outcome, *, folder: Path) -> None:
    """What to type now."""
    python = short(Path(sys.executable).absolute(), resolve=False)
    demo = f"{python} -m demo" + ("" if folder.parent == LOCAL else f" --folder {short(folder.parent)}")
    lines = [(f"{demo} jobs status", "how it stands: jobs, dead letters, ticks")]
    if outcome.revived:
        lines.append((f"{demo} jobs show {outcome.revived[0].job_id}", "the runs of the dead letter that revived"))
    dead = [letter for letter in outcome.letters if letter.status == "error" and letter.stage in FLOW]
    if dead:
        lines.append((f"{demo} jobs requeue {dead[0].job_id}", f"{dead[0].order_id} gets another chance …"))
        lines.append((f"{demo} jobs tick", "… and this tick takes it; its mail comes to the others"))
    lines.append(("make dev", "the application and a minute clock, for orders of your own"))
    lines.append(("make test", "the proofs"))
    heading(console, "What to type next")
    width = max(len(command) for command, _ in lines)
    for command, why in lines:
        # never broken: a command is there to be copied
        console.print(Text(f"  {command:{width}}  ").append(why, style="dim"), soft_wrap=True)


def _sums(outcome: Outcome) -> list[Text]:
    """Cards and money by currency, the most cards first."""
    cards: Counter[str] = Counter()
    money: Counter[str] = Counter()
    for order in outcome.orders:
        cards[order.currency] += order.cards
        money[order.currency] += order.amount * order.cards
    return [
        Text(format_money(money[currency], currency), style="green").append(f" on {_many(count, 'card')}", style="dim")
        for currency, count in cards.most_common()
    ]


def _chapters(outcome: Outcome) -> Iterator[tuple[str, list[str]]]:
    yield "retries", list(_retries(outcome))
    yield "circuit", list(_circuits(outcome))
    yield "same code wanted", list(_collisions(outcome))
    yield "money, no answer", list(_unanswered(outcome))
    yield "process killed", list(_killed(outcome))
    yield "letter revived", list(_revived(outcome))
    yield "stays dead", list(_dead(outcome))


def _retries(outcome: Outcome) -> Iterator[str]:
    again = Counter(run.stage for run in outcome.runs if run.pause is not None)
    by_stage = ", ".join(f"{count} of {stage}" for stage, count in again.most_common())
    yield f"{_many(again.total(), 'run')} did not succeed and had another go: {by_stage or 'none'}"


def _circuits(outcome: Outcome) -> Iterator[str]:
    for change in outcome.changes:
        to = change.to_state.replace("_", "-")
        cause = change.cause.replace("TransientError: ", "")
        cause = cause if len(cause) <= _LONGEST_CAUSE else cause[: _LONGEST_CAUSE - 1] + "…"
        yield f"{change.changed_at.astimezone():%H:%M:%S} {change.circuit} {to}: {cause}"
    for circuit, waited in outcome.waited.items():
        yield f"{_many(waited, 'job')} of {circuit} waited before it, and lost no attempt"


def _collisions(outcome: Outcome) -> Iterator[str]:
    """Who wanted one code, and the codes they got."""
    wanted: defaultdict[str, list[OrderFacts]] = defaultdict(list)
    for customer in outcome.customers.values():
        code = wanted_code(customer)
        if code is not None:
            wanted[code].append(customer)
    for code, customers in sorted(wanted.items(), key=lambda item: -len(item[1])):
        if len(customers) > 1:
            got = ", ".join(f"{customer.name} {customer.personal_code}" for customer in customers)
            yield f"{code} was wanted by {len(customers)}: {got}"


def _unanswered(outcome: Outcome) -> Iterator[str]:
    charged = Counter(charge.reference for charge in outcome.charges)
    for order in outcome.unanswered:
        yield f"{order}: asked {_many(outcome.asked[order], 'time')} under one key, charged {_times(charged[order])}"


def _killed(outcome: Outcome) -> Iterator[str]:
    if outcome.killed is None:
        return
    orders = sorted(order for order, _ in outcome.killed.runs)
    yield f"process {outcome.killed.pid} {_ended(outcome.killed.exit_code)} in the middle of {', '.join(orders)}"
    taken_over = [run for run in outcome.runs if run.result == "INTERRUPTED" and run.order_id in orders]
    if taken_over:
        waited = max((run.finished_at - run.started_at).total_seconds() for run in taken_over)
        yield f"{_many(len(taken_over), 'run')} taken over when their leases had ended, {waited:.0f} s later"
    charged = Counter(charge.reference for charge in outcome.charges)
    asked, once = sum(outcome.asked[order] for order in orders), sum(charged[order] for order in orders)
    yield f"their payments were asked for {_many(asked, 'time')}, and charged {_many(once, 'time')}"


def _revived(outcome: Outcome) -> Iterator[str]:
    for letter in outcome.revived:
        failed = sum(run.job_id == letter.job_id for run in outcome.runs)
        yield (
            f"{letter.order_id}: {letter.stage} failed {_many(failed, 'time')}, revived by itself, "
            f"and is {letter.status} with run {letter.run_no}"
        )


def _dead(outcome: Outcome) -> Iterator[str]:
    for order in outcome.dead:
        yield f"{order.id} ({order.name}): {without_type(order.dead)}"
    if outcome.imported.wrong:
        lines = ", ".join(str(row["line"]) for row in outcome.imported.wrong)
        yield f"the wrong rows of the file, told above: lines {lines}"


def _ended(exit_code: int) -> str:
    return f"was ended by {Signals(-exit_code).name}" if exit_code < 0 else f"ended by itself with {exit_code}"


def _many(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"

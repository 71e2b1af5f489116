"""The output without `-v`: one screen of 80 columns, with one order, the failures and the checks."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from demo import summary
from demo.checks import Check
from demo.database import Database, short
from demo.intro import heading, rows
from demo.mailbox import Mail
from demo.receivers import SHOP
from demo.results import Outcome
from demo.summary import many

_CURRENCIES = 2  # more are counted
_BUYER, _MESSAGE = "kate.rodgers@example.com", "Happy birthday"  # she has another order, whose mail may come first


def start(console: Console, database: Database) -> None:
    """Print what is about to happen."""
    console.print(Text("Orders become gift cards, while everything goes wrong.", style="bold"))
    console.print(
        f"Postgres {database.version}, the application, its clock, HTTP and SMTP are real. Only the\n"
        "failures of other services are simulated, and delays are shortened to seconds."
    )


def end(
    console: Console, outcome: Outcome, checks: list[Check], errors: list[str], *, seconds: float, mails: Path
) -> None:
    """Print one order's mail, what went wrong, the sums and the checks. `errors`: failed calls of the clock."""
    for mail in shown(outcome.mails):
        console.print()
        console.print(_picture(mail))
        console.print(Text(f"  One of {len(outcome.mails)} mails; the others are in {short(mails)}.", style="dim"))
    heading(console, "What went wrong, and how it ended")
    table = rows()
    for title, text in _failures(outcome):
        table.add_row("", Text(title, style="cyan"), text)
    console.print(table)
    heading(console, _totals(outcome))
    summary.checks(console, checks, errors, seconds=seconds, verbose=False)


def shown(mails: list[Mail]) -> list[Mail]:
    """Return the mail to show: the same one in each demo, whatever the order of arrival."""
    return [mail for mail in mails if mail.to == _BUYER and _MESSAGE in mail.text][:1] or mails[:1]


def _picture(mail: Mail) -> Panel:
    """Return a mail as its reader sees it, without the advice at its end."""
    text = "\n".join(mail.text.splitlines()).partition("\n\nShow the card number")[0]
    return Panel(Text(text), title=f"{mail.subject}, to {mail.to}", title_align="left", box=box.ROUNDED, width=72)


def _totals(outcome: Outcome) -> str:
    cards = sum(order.cards for order in outcome.orders)
    sums = summary.sums(outcome)
    others = len(sums) - _CURRENCIES
    money = ", ".join(text for text, _ in sums[:_CURRENCIES]) + (f" and {others} more currencies" if others > 0 else "")
    return f"{len(outcome.orders)} orders → {cards} cards, {len(outcome.charges)} charges: {money}"


def _failures(outcome: Outcome) -> Iterator[tuple[str, str]]:
    """Yield a line for each failure: what happened, and its result."""
    if outcome.killed:
        runs = many(len(outcome.killed.runs), "payment")
        yield "function killed", f"during {runs}: taken over, each charged once"
    for circuit, waited in outcome.waited.items():
        what = f"{many(waited, 'job')} waited, and lost no attempt" if waited else "no job had to wait"
        yield f"{circuit} down", f"its circuit opened: {what}"
    silent = many(len(outcome.charged_without_response), "charge")
    yield "no response", f"to {silent}: retried with the same key, charged once"
    retried = sum(run.retried for run in outcome.runs)
    yield "errors", f"{many(retried, 'run')} failed, and were retried after growing delays"
    for letter in outcome.revived:
        yield "dead letter", f"{letter.order_id} failed for good, revived by itself: {letter.status}"
    code, customers = summary.most_wanted_code(outcome)
    yield "same code", f"{code} was wanted by {customers} customers: all codes differ"
    lines = many(len(outcome.imported.wrong), "row")
    yield "refused", f"{many(len(outcome.dead), 'card')} by the bank, and {lines} of data/orders.csv"
    shop = Counter(message.status // 100 for message in outcome.deliveries.messages if message.path == SHOP)
    alerts = many(len(outcome.deliveries.alerts), "alert")
    yield "notified", f"the shop by {many(shop[2], 'signed webhook')}, operators by {alerts}"

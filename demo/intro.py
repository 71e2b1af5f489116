"""What the demo says before it begins: what it sets up, which times it bends, which orders it takes in."""

from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from demo.database import Database, short
from demo.scenario import MONITOR_EVERY, REPORT_TIMES, REPORT_TIMES_REALLY, TICKS_PER_SECOND, shortened
from lib.giftcards.csv_import import Imported


def heading(console: Console, text: str) -> None:
    """A new chapter."""
    console.print()
    console.print(Text(text, style="bold"))


def rows(*columns: str) -> Table:
    """A plain table, indented; without columns it has no header."""
    table = Table(box=None, show_header=bool(columns), header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("")
    for at, column in enumerate(columns):
        table.add_column(column, no_wrap=at == 0)
    return table


def setting_up(
    console: Console, database: Database, *, url: str, payments: str, mail_port: int, others: str, log: Path
) -> None:
    """Who plays, where, and with which settings."""
    console.print(Text("Gift cards: the demo", style="bold"))
    console.print(
        "All of it is real: Postgres, the web application, the clock that calls its cron door, HTTP, SMTP.\n"
        "Only the moods of those who are called are made up."
    )
    heading(console, "Setting up")
    table = rows()
    table.add_row("", "Postgres", f"{database.version}, {database.where}")
    table.add_row("", "by way of", f"supabase-py, {way['SUPABASE_URL']}" if (way := database.supabase) else "psycopg")
    table.add_row("", "migrations", ", ".join(database.migrations) or "it has had them all")
    table.add_row(
        "",
        "tenant",
        database.tenant + (f" ({database.leftovers} jobs of a stopped demo cancelled)" if database.leftovers else ""),
    )
    table.add_row("", "application", f"{url} (api/index.py); it logs to {short(log)}")
    table.add_row("", "payments", f"{payments}, with Idempotency-Key")
    table.add_row("", "mail server", f"127.0.0.1:{mail_port}, down at first: nobody listens")
    table.add_row("", "others", f"{others}: who gets webhooks and alerts, and who is called by schedules")
    table.add_row("", "", "they are on this machine, so GIFTCARD_ALLOWED_NETWORKS lets calls go to 127.0.0.1")
    console.print(table)
    _times(console)


def _times(console: Console) -> None:
    heading(console, "Times, shortened by settings; all else is as it ships")
    table = rows("setting", "here", "really", "")
    for setting in shortened():
        table.add_row("", setting.variable, setting.value, setting.default, setting.meaning)
    table.add_row(
        "",
        "(the clock)",
        f"{TICKS_PER_SECOND} a second",
        "1 a minute",
        "calls of the cron door; each starts up to 10 jobs",
    )
    table.add_row(
        "", "(the monitor)", f"each {MONITOR_EVERY:g} s", "minutes", "asks /api/health/deep, which sends alerts"
    )
    table.add_row("", "(the report)", REPORT_TIMES, REPORT_TIMES_REALLY, "once, when the orders are through")
    console.print(table)


def orders_in(console: Console, imported: Imported) -> None:
    """What the file brought."""
    heading(console, "Orders")
    console.print(
        f"  data/orders.csv: {imported.created} orders taken in, {len(imported.wrong)} rows are wrong and stop no other"
    )
    table = rows()
    for row in imported.wrong:
        table.add_row("", f"line {row['line']}", Text(str(row["problem"]), style="yellow"))
    console.print(table)
    heading(console, "On their way")

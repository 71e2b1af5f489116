"""The output before the start: setup, shortened times, imported orders."""

from pathlib import Path

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from demo.database import Database, short
from demo.scenario import MONITOR_EVERY, REPORT_CRON, REPORT_CRON_DEFAULT, TICKS_PER_SECOND, shortened
from lib.giftcards.order_files.importing import Imported


def heading(console: Console, text: str) -> None:
    """Print a heading."""
    console.print()
    console.print(Text(text, style="bold"))


def rows() -> Table:
    """Return an indented table without a header."""
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    table.add_column("")
    return table


def setup(
    console: Console, database: Database, *, url: str, payments: str, mail_port: int, others: str, log: Path
) -> None:
    """Print the setup and the shortened settings."""
    console.print(Text("Gift cards: the demo", style="bold"))
    console.print(
        "All of it is real: Postgres, the web application, the clock that calls its cron endpoint, HTTP, SMTP.\n"
        "Only the failures of the called services are simulated."
    )
    heading(console, "Setup")
    table = rows()
    table.add_row("", "Postgres", f"{database.version}, {database.where}")
    table.add_row(
        "", "wire", f"supabase-py, {variables['SUPABASE_URL']}" if (variables := database.supabase) else "psycopg"
    )
    table.add_row("", "migrations", ", ".join(database.migrations) or "up to date")
    table.add_row(
        "",
        "tenant",
        database.tenant + (f" ({database.leftovers} jobs of a stopped demo cancelled)" if database.leftovers else ""),
    )
    table.add_row("", "application", f"{url} (api/index.py); it logs to {short(log)}")
    table.add_row("", "payments", f"{payments}, with Idempotency-Key")
    table.add_row("", "mail server", f"127.0.0.1:{mail_port}, down at first: connections are refused")
    table.add_row("", "others", f"{others}: receivers of webhooks, alerts and scheduled calls")
    table.add_row("", "", "they are on this machine, so GIFTCARD_ALLOWED_NETWORKS allows calls to 127.0.0.1")
    console.print(table)
    _times(console)


def _times(console: Console) -> None:
    heading(console, "Times shortened by settings; everything else has its default")
    times = [(setting.variable, setting.value, setting.default, setting.meaning) for setting in shortened()]
    calls = "calls of the cron endpoint; each starts up to 10 jobs"
    times += [
        ("(the clock)", f"{TICKS_PER_SECOND} per second", "1 per minute", calls),
        (
            "(the monitor)",
            f"each {MONITOR_EVERY:g} s",
            "each few minutes",
            "calls /api/health/deep, which sends alerts",
        ),
        ("(the report)", REPORT_CRON, REPORT_CRON_DEFAULT, "once, after the orders"),
    ]
    for name, demo, default, meaning in times:
        console.print(f"  {name}: {demo} instead of {default}", soft_wrap=True)
        console.print(Padding(Text(meaning, style="dim"), (0, 0, 0, 6)))


def imported_orders(console: Console, imported: Imported) -> None:
    """Print the result of the import."""
    heading(console, "Orders")
    console.print(f"  data/orders.csv: {imported.created} orders imported, {len(imported.wrong)} invalid rows skipped")
    table = rows()
    for row in imported.wrong:
        table.add_row("", f"line {row['line']}", Text(str(row["problem"]), style="yellow"))
    console.print(table)
    heading(console, "Progress")

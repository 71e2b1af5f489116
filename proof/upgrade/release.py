"""The next code: a copy of this one in a folder of its own, with another version and other behaviour.

- It needs the next schema: its ticks call `giftcard_begin_tick_v2`.
- `personal_code` leaves one more fact in the flow's context, and `email` is followed by a new stage, `receipt`.
- `receipt` reads the facts of both versions, and writes a note into the new column.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from dev import ROOT
from lib.store.store import CODE_VERSION
from proof.upgrade import migrations
from proof.upgrade.patches import replaced, with_constant

_TREE = ("api", "dev", "lib", "proof", "supabase/migrations")

# Seconds after the mail: long enough that receipts wait whenever the next code is stopped.
RECEIPT_DELAY = 2

_NOTE = '''    def note(self, job_id: int, *, note: str) -> None:
        """Write a note into the job's row."""
        self._wire.call("giftcard_note", repeat=True, job_id=job_id, note=note)

    # The tick
'''

_RECEIPT = '''"""The stage receipt: note with which form of the code an order was mailed. Only this version knows it."""

from lib.giftcards.orders import Order
from lib.job import Complete
from lib.jobs.context import Context
from lib.jobs.stage import stage


@stage("receipt", payload=Order)
def receipt(payload: Order, context: Context) -> Complete:
    """Read what either version has left in the flow's context."""
    form = context.job.context.get("personal_code_form", 1)
    context.store.note(context.job.id, note=f"form {form}")
    return Complete(detail={"form": form})
'''

# Payloads have a field that the previous code does not know, which refuses such a job for good.
WIDER_PAYLOAD = "wider-payload"
FAULTS = (*migrations.FAULTS, WIDER_PAYLOAD)


def next_release(folder: Path, *, fault: str | None = None) -> Path:
    """Write the next code with its migrations into a folder, and return it. `fault`: one of FAULTS."""
    for part in _TREE:
        shutil.copytree(ROOT / part, folder / part)
    _change(folder / "lib/store/store.py", _store)
    _change(folder / "lib/stages/personal_code.py", _personal_code)
    _change(folder / "lib/stages/email.py", _email)
    (folder / "lib/stages/receipt.py").write_text(_RECEIPT, encoding="utf-8")
    if fault == WIDER_PAYLOAD:
        _change(folder / "lib/giftcards/orders.py", _wider)
    migrations.write(folder / "supabase/migrations", fault)
    return folder


def _change(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text(encoding="utf-8")), encoding="utf-8")


def _store(text: str) -> str:
    text = with_constant(text, "CODE_VERSION", CODE_VERSION + 1)
    text = with_constant(text, "OLDEST_SCHEMA", migrations.versions()[0] + 1)
    text = replaced(text, '"giftcard_begin_tick", known,', '"giftcard_begin_tick_v2", known, region="cdg1",')
    return replaced(text, "    # The tick\n", _NOTE)


def _personal_code(text: str) -> str:
    return replaced(text, "personal_code=code)", "personal_code=code, personal_code_form=2)")


def _email(text: str) -> str:
    text = replaced(
        text, "from lib.config.settings import", "from dataclasses import replace\n\nfrom lib.config.settings import"
    )
    text = replaced(text, "import Complete\n", "import Complete, NextJob\n")
    return replaced(
        text,
        "    return completed(context, books.order)\n",
        "    outcome = completed(context, books.order)\n"
        f'    receipt = NextJob(stage="receipt", delay_seconds={RECEIPT_DELAY})\n'
        "    return replace(outcome, next=(*outcome.next, receipt))\n",
    )


def _wider(text: str) -> str:
    field = "    locale: LanguageTag | None = None\n"
    order, arrival = text.split("class Arrival(", 1)
    parts = [replaced(part, field, f"{field}    wrapped: bool = True\n") for part in (order, arrival)]
    return "class Arrival(".join(parts)

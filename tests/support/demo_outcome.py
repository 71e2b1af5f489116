"""The results of a demo that succeeded, for tests that spoil them."""

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from demo.mailbox import Mail
from demo.payments import Charge
from demo.receivers import BOOKKEEPER, PING, SHOP, TRANSFER, Call, Message
from demo.results import Deliveries, Killed, Outcome
from demo.scenario import REPORT_READER
from demo.snapshot import CircuitChange, DeadLetter, OrderState, Report, Run
from lib.giftcards.order_files.importing import Imported

NOW = datetime(2026, 11, 27, 12, 0, tzinfo=UTC)


def order(number: int, **other: Any) -> OrderState:
    values: dict[str, Any] = {
        "id": f"o{number}",
        "amount": 2500,
        "currency": "USD",
        "given_name": "Kate",
        "family_name": None,
        "email": f"k{number}@example.com",
        "customer_id": number,
        "external_id": "1520",
        "personal_code": f"KATE152{number}",
        "mail_key": f"key{number}",
        "cards": 1,
        "payments": [f"ch{number}"],
        "dead": None,
    }
    return OrderState(**values | other)


def charge(number: int) -> Charge:
    return Charge(id=f"ch{number}", key=f"k{number}", reference=f"o{number}", amount=2500, currency="USD")


def mail(number: int, **other: Any) -> Mail:
    path = Path(f"{number}.eml")
    values = {
        "path": path,
        "key": f"key{number}",
        "to": f"k{number}@example.com",
        "subject": "",
        "text": f"KATE152{number}",
    }
    return Mail(**values | other)


def change(number: int, before: str, after: str) -> CircuitChange:
    return CircuitChange(id=number, circuit="email", from_state=before, to_state=after, changed_at=NOW, cause="")


INTERRUPTED = Run(
    order_id="o1",
    job_id=1,
    run_no=1,
    stage="payment",
    attempt=1,
    result="INTERRUPTED",
    error=None,
    started_at=NOW,
    finished_at=NOW,
    max_attempts=None,
    pause=1.0,
)
REVIVED = DeadLetter(
    job_id=2,
    order_id="o2",
    stage="payment",
    status="completed",
    attempts=1,
    run_no=6,
    revivals=1,
    last_error=None,
    revives_in=None,
)
DEAD_CALL = DeadLetter(
    job_id=3,
    order_id="schedule:2:2026-11-27T12:00:02Z",
    stage="http_call",
    status="error",
    attempts=1,
    run_no=1,
    revivals=0,
    last_error="TransientError: 127.0.0.1 answered 500",
    revives_in=None,
)
DEAD_WEBHOOK = replace(DEAD_CALL, job_id=4, order_id="schedule:3:2026-11-27T12:00:08Z", stage="webhook")


def call(attempt: int, status: int, *, at: float, key: str = "first", path: str = PING) -> Call:
    return Call(path=path, key=key, attempt=attempt, status=status, at=at)


def message(name: str, kind: str, *, order: str = "", status: int = 204, path: str = SHOP) -> Message:
    return Message(path=path, id=name, type=kind, data={"correlation_id": order}, status=status)


def good_deliveries() -> Deliveries:
    """A call that failed twice and one that came later, two cards and a failure that the shop was told of."""
    return Deliveries(
        calls=[
            call(1, 503, at=0.0),
            call(1, 500, at=0.5, key="transfer", path=TRANSFER),
            call(2, 503, at=1.1),
            call(3, 200, at=3.2),
            call(1, 200, at=5.0, key="second"),
        ],
        messages=[
            message("m1", "giftcard.issued", order="o1", status=503),
            message("m2", "giftcard.failed", order="o2"),
            message("m3", "giftcard.issued", order="o2"),
            message("m1", "giftcard.issued", order="o1"),
            message("m4", "report.ready"),
            message("m4", "report.ready", status=410, path=BOOKKEEPER),
        ],
        forged=[],
        alerts=[{"condition": "circuit:email", "kind": kind, "text": kind} for kind in ("raised", "resolved")],
        report=Report(
            day="2026-11-27",
            totals={"orders": 3, "payments": 2, "cards": 2, "failures": 6, "differences": 0},
            counted={"orders": 3, "payments": 2, "cards": 2},
        ),
        report_mails=[mail(9, to=REPORT_READER, subject="Gift cards of demo on 2026-11-27")],
        disabled={f"http://127.0.0.1:1{BOOKKEEPER}": "it answered 410 Gone"},
        schedules=0,
    )


def good_outcome() -> Outcome:
    """Two orders that came to their cards, and one that was declined."""
    declined = order(3, cards=0, payments=None, mail_key=None, dead="Declined")
    return Outcome(
        imported=Imported(created=3),
        orders=[order(1), order(2), declined],
        runs=[INTERRUPTED],
        letters=[REVIVED, DEAD_CALL, DEAD_WEBHOOK],
        changes=[change(1, "closed", "open"), change(2, "open", "half_open"), change(3, "half_open", "closed")],
        circuits={},
        charges=[charge(1), charge(2)],
        requests=Counter({"o1": 2, "o2": 2, "o3": 1}),
        without_response=["o1", "o2"],
        declined={"o3"},
        mails=[mail(1), mail(2)],
        killed=Killed(pid=1, exit_code=-9, runs=[("o1", "payment")]),
        open_jobs=0,
        waited={},
        deliveries=good_deliveries(),
    )

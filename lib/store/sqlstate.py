"""SQLSTATEs as the exceptions of `lib.errors`, the same on every wire: whose fault an error is.

Only data errors are the caller's: our own GC4xx, and classes 22 and 23. Anything else is the database's, also a class
that is not in the table. docs/sqlstates.md explains it.
"""

import re
from collections.abc import Mapping
from typing import Literal, NamedTuple

from lib.errors import Conflict, GiftcardError, LeaseLost, Misconfigured, Refused, StoreError, Unavailable


class Class(NamedTuple):
    """A class of SQLSTATEs. `fault`: what is at fault.

    data        the values of the call: Refused, Conflict
    database    the whole database, whatever is called: Unavailable
    setup       schema, role or password: Misconfigured for the codes below, else Unavailable
    call        perhaps one row, perhaps every call (a trigger, a bug, a limit): Unavailable
    """

    title: str
    fault: Literal["data", "database", "setup", "call"]


# Appendix A of PostgreSQL's manual, releases 15 to 18.
CLASSES: Mapping[str, Class] = {
    "00": Class("Successful Completion", "call"),
    "01": Class("Warning", "call"),
    "02": Class("No Data", "call"),
    "03": Class("SQL Statement Not Yet Complete", "call"),
    "08": Class("Connection Exception", "database"),
    "09": Class("Triggered Action Exception", "call"),
    "0A": Class("Feature Not Supported", "call"),
    "0B": Class("Invalid Transaction Initiation", "call"),
    "0F": Class("Locator Exception", "call"),
    "0L": Class("Invalid Grantor", "call"),
    "0P": Class("Invalid Role Specification", "call"),
    "0Z": Class("Diagnostics Exception", "call"),
    "10": Class("XQuery Error", "call"),
    "20": Class("Case Not Found", "call"),
    "21": Class("Cardinality Violation", "call"),
    "22": Class("Data Exception", "data"),
    "23": Class("Integrity Constraint Violation", "data"),
    "24": Class("Invalid Cursor State", "call"),
    "25": Class("Invalid Transaction State", "database"),
    "26": Class("Invalid SQL Statement Name", "call"),
    "27": Class("Triggered Data Change Violation", "call"),
    "28": Class("Invalid Authorization Specification", "setup"),
    "2B": Class("Dependent Privilege Descriptors Still Exist", "call"),
    "2D": Class("Invalid Transaction Termination", "call"),
    "2F": Class("SQL Routine Exception", "call"),
    "34": Class("Invalid Cursor Name", "call"),
    "38": Class("External Routine Exception", "call"),
    "39": Class("External Routine Invocation Exception", "call"),
    "3B": Class("Savepoint Exception", "call"),
    "3D": Class("Invalid Catalog Name", "setup"),
    "3F": Class("Invalid Schema Name", "setup"),
    "40": Class("Transaction Rollback", "database"),
    "42": Class("Syntax Error or Access Rule Violation", "setup"),
    "44": Class("WITH CHECK OPTION Violation", "call"),
    "53": Class("Insufficient Resources", "database"),
    "54": Class("Program Limit Exceeded", "call"),
    "55": Class("Object Not In Prerequisite State", "call"),
    "57": Class("Operator Intervention", "database"),
    "58": Class("System Error", "call"),
    "72": Class("Snapshot Failure", "call"),
    "F0": Class("Configuration File Error", "call"),
    "HV": Class("Foreign Data Wrapper Error", "call"),
    "P0": Class("PL/pgSQL Error", "call"),
    "XX": Class("Internal Error", "call"),
}
_UNKNOWN = Class("Unknown", "call")
# Of the class setup, always: a missing privilege, a wrong role, password or database.
_REJECTED = frozenset({"42501", "28000", "28P01", "3D000"})
# If what is missing is ours: a trigger of someone else may miss a table of its own.
_MISSING = frozenset({"42883", "42P01", "3F000"})
# Whether the server rolled the call back is unknown after these; after any other error it did.
_IN_DOUBT = ("08", "40003", "57P", "58", "XX")
_OURS = "giftcard_"
# Ids that the database gives: one that exists already is no fault of the data, but of a sequence behind its table.
_GIVEN_ID = re.compile(
    r"giftcard_(?:audit|batches|cards|circuit_changes|customers|jobs|operations|payments|schedules|ticks|tokens"
    r"|webhook_endpoints)_pkey\b"
)


def from_sqlstate(
    state: str,
    message: str,
    *,
    detail: str | None,
    function: str,
    check: str,
    constraint: str | None = None,
    table: str | None = None,
    fatal: bool = False,
) -> GiftcardError:
    """Return the exception for a SQLSTATE, Postgres' MESSAGE and its DETAIL.

    `check` names the settings with the credentials. `constraint` and `table`: as the server names them; None: as the
    message does. `fatal`: the server ended the connection, too. A DETAIL may hold the row at fault, which is personal
    data: it is dropped, except from our own SQLSTATEs (GC…).
    """
    if state == "GC426":
        return Misconfigured(message, sqlstate=state)
    if state == "GC410":
        return LeaseLost(message)
    if state.startswith("GC4"):
        return Refused(message, sqlstate=state, field=detail or None)
    if class_of(state).fault == "data":
        constraint = constraint or _last_name("constraint", message)
        if state[:2] == "22" or _is_ours(constraint, table or _last_name("relation|table", message)):
            if gives_ids_again(state, message):
                text = f"{_first_line(message)}: the ids of a restored table begin again. Run sql/raise_ids.sql"
                return Unavailable(text, sqlstate=state, undone=not fatal)
            if state == "23505":
                return Conflict(message, constraint=constraint or "")
            return Refused(message, sqlstate=state, field=_last_name("column", message))
    if state in _REJECTED:
        text = f"the database does not allow calls of {function}: check {check}. {message}"
        return Misconfigured(text, sqlstate=state)
    if state in _MISSING and any(name in message for name in (function, _OURS, '"public"')):
        return Misconfigured(f"{function} is missing: run the migrations (make migrate). {message}", sqlstate=state)
    text = f"the database cannot be reached or gave up during {function}: {_first_line(message)} (SQLSTATE {state})"
    return Unavailable(text, sqlstate=state, undone=not fatal and state[:2] in CLASSES and not _in_doubt(state))


def class_of(state: str) -> Class:
    """Return the class of a SQLSTATE; of an unknown one, that of an error that is not the caller's."""
    return CLASSES.get(state[:2], _UNKNOWN)


def gives_ids_again(state: str, message: str) -> bool:
    """Return whether a row was refused because the database gave it an id that exists."""
    return state == "23505" and _GIVEN_ID.search(message) is not None


def may_be_one_row(error: StoreError) -> bool:
    """Return whether a failed call with many rows may succeed for the others: tried one by one, each fails alone.

    So it is with wrong data, and with an error of the server's that does not concern the whole database.
    """
    if isinstance(error, Refused | Conflict):
        return True
    return error.sqlstate not in (None, "GC426") and class_of(error.sqlstate or "").fault != "database"


def _in_doubt(state: str) -> bool:
    return state.startswith(_IN_DOUBT)


def _is_ours(constraint: str | None, table: str | None) -> bool:
    """Return whether a violated constraint is ours or on a table of ours. Without names, the data was refused by hand.

    The table counts: a constraint that an operator adds to a table of ours refuses our data.
    """
    names = [name for name in (constraint, table) if name]
    return not names or any(name.startswith(_OURS) for name in names)


def _last_name(words: str, message: str) -> str | None:
    """Return the quoted name after one of these words: `… violates unique constraint "giftcard_cards_number_key"`.

    The last one: `… on table "giftcard_jobs" violates foreign key constraint "x" on table "theirs"`.
    """
    names: list[str] = re.findall(rf'\b(?:{words}) "([^"]+)"', message)
    return names[-1] if names else None


def _first_line(text: str) -> str:
    return next(iter(text.splitlines()), "")

"""How the database says no is told by the same few exceptions on every wire, and no more of it than anybody may see."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from dev import ROOT
from dev.postgres import Embedded
from lib.errors import Conflict, LeaseLost, Misconfigured, Refused, StoreError, Unavailable
from lib.store import wire as wires
from lib.store.sqlstate import CLASSES, from_sqlstate, may_be_one_row
from lib.store.wire import Wire
from tests.wires.narrator import functions_of_the_store

# What text that is no value of a type is refused with.
NOT_A_VALUE = {
    "bigint": "22P02",
    "integer": "22P02",
    "double precision": "22P02",
    "boolean": "22P02",
    "uuid": "22P02",
    "text[]": "22P02",
    "timestamp with time zone": "22007",
    "interval": "22007",
    "date": "22007",
}
# What each code is told as. Of the rest of PostgreSQL's classes none is the caller's.
KINDS: dict[type[Exception], str] = {
    Misconfigured: "42501 28000 28P01 3D000 GC426",
    LeaseLost: "GC410",
    Conflict: "23505",
    Refused: "GC400 GC404 GC409 GC422 GC499 22P02 22003 22P05 22000 23000 23502 23503 23514 23P01",
    Unavailable: "08006 08P01 57014 57P01 53300 53100 53200 40001 40P01 55P03 25006 25P02 P0001 P0002 XX000 XX001"
    " 0A000 21000 54000 54001 42703 42601 42883 42P01 3F000 58030 72000 44000 38000 GC500 U0001 ZZ999",
}
# The call may have been carried out all the same. After any other error the server has rolled it back.
IN_DOUBT = "08006 08P01 57P01 40003 58030 XX000 XX001 GC500 U0001 ZZ999"


@pytest.fixture
def wire(lasting_wire: Wire) -> Wire:
    return lasting_wire


@pytest.fixture(scope="module")
def signatures(postgres: Embedded, template: str) -> Iterator[dict[str, dict[str, str]]]:
    """The arguments that each function takes, with their types."""
    query = """
        select p.proname, a.name, a.type::regtype::text
          from pg_proc p, unnest(p.proargnames, p.proargtypes::oid[]) with ordinality a(name, type, n)
         where a.type is not null and p.proname like 'giftcard%' order by 1, a.n
    """
    with psycopg.connect(postgres.create_database("signatures", template=template)) as connection:
        found: dict[str, dict[str, str]] = {}
        for function, name, kind in connection.execute(query):
            found.setdefault(function, {})[name.removeprefix("p_")] = kind
    yield found
    postgres.drop_database("signatures")


def test_an_argument_that_a_function_does_not_know_is_no_function(wire: Wire) -> None:
    for function in functions_of_the_store():
        with pytest.raises(Misconfigured, match=rf"^{function} is missing: run the migrations \(make migrate\)"):
            wire.call(function, no_such_argument=1)


def test_an_argument_that_is_no_value_of_its_type_is_refused(wire: Wire, signatures: dict[str, dict[str, str]]) -> None:
    refusals: dict[str, int] = {}
    for function in functions_of_the_store():
        arguments = signatures.get(function, {})
        for wrong, kind in arguments.items():
            if kind in NOT_A_VALUE:
                with pytest.raises(Refused) as refused:
                    wire.call(function, **(dict.fromkeys(arguments) | {wrong: "nonsense"}))
                assert (function, wrong, refused.value.sqlstate) == (function, wrong, NOT_A_VALUE[kind])
                refusals[kind] = refusals.get(kind, 0) + 1
    assert refusals.keys() == NOT_A_VALUE.keys()


@pytest.fixture
def failed(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Lets the database fail with a code, once."""
    monkeypatch.setattr(wires, "_PAUSES", ())

    def failed(state: str, **more: str) -> Any:
        with pytest.raises((StoreError, LeaseLost)) as raised:
            wire.call("wire_fail", state=state, **({"message": "the reason"} | more))
        return raised.value

    return failed


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_code_has_its_exception(failed: Callable[..., Any], kind: type[Exception]) -> None:
    for state in KINDS[kind].split():
        error = failed(state)
        assert (type(error), state) == (kind, state)
        assert "the reason" in str(error)
        if kind is not LeaseLost:
            assert error.sqlstate == state


def test_every_class_of_the_manual_is_known_and_only_two_are_the_callers(failed: Callable[..., Any]) -> None:
    errors = [error for error in vars(psycopg.errors).values() if isinstance(error, type)]
    classes = {error.sqlstate[:2] for error in errors if isinstance(getattr(error, "sqlstate", None), str)}
    assert len(classes) > 40
    assert classes <= CLASSES.keys()
    callers = {name for name in CLASSES if isinstance(failed(f"{name}Z99"), Refused | Conflict)}
    assert callers == {"22", "23"}


def test_it_is_known_whether_a_failed_call_was_rolled_back(failed: Callable[..., Any]) -> None:
    states = [*KINDS[Unavailable].split(), "40003"]
    assert {state for state in states if not failed(state).undone} == set(IN_DOUBT.split())


def test_a_violated_constraint_of_somebody_else_is_not_the_callers(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    """A trigger writes into a table of its own, as audit triggers do."""
    monkeypatch.setattr(wires, "_PAUSES", ())
    for kind, state in {"unique": "23505", "check": "23514", "not null": "23502", "foreign key": "23503"}.items():
        with pytest.raises(Unavailable) as failed:
            wire.call("wire_violate", kind=kind)
        assert failed.value.sqlstate == state
    # One that an operator has added to a table of ours refuses our data.
    with pytest.raises(Refused) as refused:
        wire.call("wire_violate", kind="ours")
    assert refused.value.sqlstate == "23514"


def test_an_id_that_is_given_again_is_not_the_callers(failed: Callable[..., Any]) -> None:
    message = 'duplicate key value violates unique constraint "{}"'
    error = failed("23505", message=message.format("giftcard_jobs_pkey"))
    assert isinstance(error, Unavailable)
    assert error.undone
    assert "sql/raise_ids.sql" in str(error)
    for key in ("giftcard_orders_pkey", "giftcard_cards_number_key"):
        assert isinstance(failed("23505", message=message.format(key)), Conflict)


def test_what_a_trigger_of_somebody_else_misses_is_no_missing_migration(
    failed: Callable[..., Any],
) -> None:
    for state, message in {
        "42P01": 'relation "audit.log" does not exist',
        "42883": "function audit.write(text) does not exist",
        "3F000": 'schema "audit" does not exist',
    }.items():
        error = failed(state, message=message)
        assert isinstance(error, Unavailable)
        assert "migrations" not in str(error)
    for state, message in {
        "42P01": 'relation "public.giftcard_jobs" does not exist',
        "42883": "function public.wire_fail(text) does not exist",
        "3F000": 'schema "public" does not exist',
    }.items():
        error = failed(state, message=message)
        assert isinstance(error, Misconfigured)
        assert "make migrate" in str(error)


def test_a_failed_batch_is_tried_one_by_one_unless_the_whole_database_is_at_fault() -> None:
    def error(state: str) -> Any:
        return from_sqlstate(state, "no", detail=None, function="f", check="x")

    for state in "22P02 23505 55P03 P0001 XX000 54000 0A000 42501 21000 U0001".split():
        assert may_be_one_row(error(state)), state
    for state in "08006 25006 40P01 53100 57014 GC426".split():
        assert not may_be_one_row(error(state)), state
    assert not may_be_one_row(Unavailable("no answer"))


@pytest.mark.parametrize("state", ["GC404", "GC400"])
def test_a_refusal_of_ours_names_its_field(wire: Wire, state: str) -> None:
    with pytest.raises(Refused) as refused:
        wire.call("wire_fail", state=state, message="no", detail="job_id")
    assert refused.value.field == "job_id"


@pytest.mark.parametrize("state", ["23505", "23514", "23502", "22P02", "57014", "42501", "P0001"])
def test_no_detail_of_the_database_goes_any_further(wire: Wire, state: str) -> None:
    """It may be the row at fault, with somebody's name in it."""
    with pytest.raises(StoreError) as refused:
        wire.call("wire_fail", state=state, message="no", detail="Failing row contains (kate@example.org)")
    assert "kate" not in f"{refused.value} {vars(refused.value)}"


def test_a_conflict_names_its_constraint(wire: Wire) -> None:
    wire.call("wire_unique", name="é")
    with pytest.raises(Conflict) as conflict:
        wire.call("wire_unique", name="é")
    assert conflict.value.constraint == "giftcard_wire_names_name_key"


def test_a_column_that_may_not_be_null_is_named(wire: Wire) -> None:
    with pytest.raises(Refused) as refused:
        wire.call("wire_unique", name=None)
    assert (refused.value.sqlstate, refused.value.field) == ("23502", "name")


def test_a_refused_call_leaves_nothing_behind(wire: Wire) -> None:
    jobs: list[dict[str, Any]] = [{"stage": "email", "correlation_id": "half"}, {"stage": "email"}]
    with pytest.raises(Refused):
        wire.call("giftcard_enqueue", jobs=jobs, replace=False)
    with pytest.raises(Refused, match="no job has the correlation id half"):
        wire.call("giftcard_cancel_flow", tenant_id="default", correlation_id="half")


def test_the_docs_list_each_class_with_its_fault() -> None:
    rows = re.findall(r"^\| `(\w\w)` \| (.+) \| (\w+) \|$", (ROOT / "docs/sqlstates.md").read_text(), re.MULTILINE)
    assert {name: (title, fault) for name, title, fault in rows} == dict(CLASSES)

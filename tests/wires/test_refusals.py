"""How the database says no is told by the same few exceptions on every wire, and no more of it than anybody may see."""

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from dev.postgres import Embedded
from lib.errors import Conflict, LeaseLost, Misconfigured, Refused, StoreError, Unavailable
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
KINDS: dict[type[Exception], str] = {
    Unavailable: "08006 08P01 57014 57P01 53300 53200 40001 40P01 55P03",
    Misconfigured: "42883 42P01 3F000 42501 28000 28P01 3D000 GC426",
    LeaseLost: "GC410",
    Conflict: "23505",
    Refused: "GC400 GC404 GC409 GC422 22P02 22003 22P05 23502 23503 23514 21000 25006 P0001 P0002 XX000 0A000",
}


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


@pytest.mark.parametrize(("kind", "state"), [(k, state) for k, states in KINDS.items() for state in states.split()])
def test_every_code_has_its_exception(wire: Wire, kind: type[Exception], state: str) -> None:
    with pytest.raises(StoreError if kind is not LeaseLost else LeaseLost) as raised:
        wire.call("wire_fail", state=state, message="the reason")
    assert type(raised.value) is kind
    assert "the reason" in str(raised.value)
    if isinstance(raised.value, Refused):
        assert raised.value.sqlstate == state


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
    assert conflict.value.constraint == "wire_names_name_key"


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

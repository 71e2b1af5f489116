"""The same evening over each wire: every function of the store, its refusals and its answers, word for word."""

import uuid
from collections.abc import Callable
from contextlib import ExitStack

import psycopg
import pytest

from dev.postgres import Embedded
from tests.wires.kinds import WIRES, a_wire
from tests.wires.narrator import FIRST_ID, Answer, functions_of_the_store
from tests.wires.pgbouncer import PgBouncer
from tests.wires.story import tell


@pytest.fixture(scope="module")
def told(postgres: Embedded, template: str, open_pooler: Callable[[], PgBouncer]) -> Callable[[str], list[Answer]]:
    """The story as a wire tells it, of a database of its own."""
    stories: dict[str, list[Answer]] = {}

    def by(kind: str) -> list[Answer]:
        if kind not in stories:
            name = f"story_{uuid.uuid4().hex[:12]}"
            url = postgres.create_database(name, template=template)
            with psycopg.connect(url, autocommit=True) as connection:
                connection.execute(f"alter table giftcard_jobs alter id restart with {FIRST_ID}".encode())
            with ExitStack() as closing:
                stories[kind] = tell(a_wire(kind, url, pooler=open_pooler, closing=closing))
            postgres.drop_database(name)
        return stories[kind]

    return by


@pytest.mark.parametrize("kind", WIRES[1:])
def test_the_story_is_the_same_word_for_word(told: Callable[[str], list[Answer]], kind: str) -> None:
    expected, told_here = told("psycopg"), told(kind)
    for number, (here, there) in enumerate(zip(told_here, expected, strict=True)):
        assert (number, here) == (number, there)


def test_every_function_of_the_store_is_in_it_and_is_answered_once_at_least(
    told: Callable[[str], list[Answer]],
) -> None:
    answered = {name for name, answer in told("psycopg") if not isinstance(answer, tuple)}
    assert functions_of_the_store() - answered == set()


def test_it_is_refused_in_every_way(told: Callable[[str], list[Answer]]) -> None:
    refused = [answer for _, answer in told("psycopg") if isinstance(answer, tuple)]
    states = {said.get("sqlstate") for _, _, said in refused}
    assert {"GC400", "GC404", "GC409", "GC422", "22P02", "22003", "23502", "23514"} <= states
    assert {kind for kind, _, _ in refused} == {"Refused", "Conflict", "LeaseLost", "Misconfigured"}
    assert {said["constraint"] for kind, _, said in refused if kind == "Conflict"} == {"giftcard_cards_number_key"}
    fields = {said.get("field") for _, _, said in refused}
    assert {"job_id", "correlation_id", "Idempotency-Key", "stage", None} <= fields


def test_ids_in_it_are_beyond_what_a_float_can_hold(told: Callable[[str], list[Answer]]) -> None:
    jobs = [answer for name, answer in told("supabase") if name == "giftcard_submit_order" and isinstance(answer, dict)]
    assert jobs[0]["job_id"] == FIRST_ID

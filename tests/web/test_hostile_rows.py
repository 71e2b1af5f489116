"""Whatever somebody wrote into a row by plain SQL: every list and show still answers, in JSON that all clients read."""

import json
from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import Result

from dev.postgres import Embedded
from lib.cli import jobs as command_line
from tests.support.base import keep, restore
from tests.support.hostile_rows import PLANTS, UNREADABLE, stock, together, without_triggers
from tests.support.openapi_document import openapi_document, operations
from tests.support.world import ADMIN, World, a_world, bearer

# The most that a function of Vercel may return.
MOST = 4_500_000


@pytest.fixture(scope="module")
def base(postgres: Embedded, template: str) -> Iterator[World]:
    """One world for all cases: in a new one, each answer would wait for its plans."""
    postgres.start()
    with a_world(postgres.create_database("hostile_rows", template=template)) as world:
        stock(world)
        keep(world)
        yield world
    postgres.drop_database("hostile_rows")


@pytest.fixture
def stocked(base: World) -> World:
    restore(base)
    return base


def strictly(text: str) -> Any:
    """The JSON, as a client reads it that knows no NaN."""

    def refused(name: str) -> None:
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refused)


# What the paths name, by parameter.
SUBJECTS = {
    "job_id": (1, 2, 3, 4),
    "schedule_id": (1,),
    "endpoint_id": (1,),
    "operation_id": (1,),
    "batch_id": (1,),
    "correlation_id": ("flow",),
    "tenant_id": ("default",),
}
ROUTES = [path for path, method, _ in operations(openapi_document()) if method == "get" and "cron" not in path]


def every_route(world: World, day: str) -> None:
    """Ask every GET route of the document."""
    for route in ROUTES:
        names = [name for name in (*SUBJECTS, "day") if "{" + name + "}" in route]
        subjects = [day if name == "day" else SUBJECTS[name] for name in names]
        ways = [{}] if not names else [{names[0]: one} for one in subjects[0]]
        for way in ways:
            path = route.format(**(dict(zip(names[1:], subjects[1:], strict=True)) | way))
            assert "{" not in path
            for query in ({}, {"format": "csv"}) if "reports/" in path else ({},):
                response = world.client.get(path, headers=bearer(ADMIN), query_string=query)
                allowed = (
                    (200, 503)
                    if "deep" in path
                    else (200,)
                    if day == "2026-01-01" or "reports/" not in path
                    else (200, 404)
                )
                assert response.status_code in allowed, (path, response.text[:500])
                assert len(response.data) < MOST, path
                if response.mimetype.endswith("json"):
                    strictly(response.text)


# Words of each command that only reads; the walk below compares them with the commands that exist.
READS: dict[str, list[list[Any]]] = {
    **{words: [[]] for words in ("list", "errors", "status", "stages", "circuits", "precision", "audit", "top")},
    **{words: [[]] for words in ("schedules list", "webhooks list", "tokens list", "operations list")},
    **{words: [[]] for words in ("limits list", "batches list")},
    **{words: [[]] for words in ("reports list", "reports show")},
    **{words: [[1]] for words in ("schedules show", "schedules history", "webhooks show")},
    **{words: [[1], [2], [3], [4]] for words in ("show", "history")},
    **{words: [[1]] for words in ("operations show", "batches show")},
    "orders show": [["flow"]],
    "orders reconcile": [[]],
    "orders find": [["fl"], ["1234"], ["r"]],
    "orders story": [["flow"]],
    "keys status": [[]],
    "stuck": [[]],
}
# doctor ends with 1 while it misses the clock; the others change something.
NO_LISTS = (
    "doctor requeue cancel pause resume tick enqueue import-orders erase-customer prune restore reset create update "
)
NO_LISTS += "delete run test rotate-secret accept make-free correct-recipient record-event block resend"
NO_LISTS += " rotate revoke mail alert stop set remove add seal"


def every_command(world: World) -> None:
    """Run every list and show. With --json they print what the API returns."""
    world.app.cli.add_command(command_line)
    for words, calls in READS.items():
        for more in calls:
            result: Result = world.app.test_cli_runner().invoke(args=["jobs", *words.split(), *map(str, more)])
            finds = words in ("orders reconcile", "stuck")
            differs = finds and result.exit_code == 1 and isinstance(result.exception, SystemExit)
            no_day = words == "reports show" and "give --day" in result.output
            assert result.exit_code == 0 or no_day or differs, (words, more, result.output[-500:], result.exception)


def leaves(group: click.Group, *before: str) -> Iterator[str]:
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            if isinstance(command, click.Group):
                yield from leaves(command, *before, name)
                if command.invoke_without_command:
                    yield " ".join((*before, name))
            else:
                yield " ".join((*before, name))


def test_every_command_that_reads_is_walked() -> None:
    assert {name for name in leaves(command_line) if name.split()[-1] not in NO_LISTS.split()} == set(READS)


@pytest.mark.parametrize("names", list(together()), ids=", ".join)
def test_hostile_values_in_any_row_hang_no_answer(stocked: World, names: list[str]) -> None:
    for statement, values in map(PLANTS.__getitem__, names):
        with without_triggers(stocked):
            stocked.sql(
                statement + (" where id <> 3" if "_archive" in statement and "'" not in statement else ""), *values
            )
    day = stocked.value("select day::text from public.giftcard_reports")
    every_route(stocked, day)
    every_command(stocked)


def test_answers_say_what_they_leave_out(stocked: World) -> None:
    with without_triggers(stocked):
        for number, payload in enumerate(UNREADABLE.values(), 10):
            stocked.sql(
                "insert into public.giftcard_jobs (id, correlation_id, stage, circuit, payload)"
                " overriding system value values (%s, %s, 'email', 'email', %s::jsonb)",
                *(number, str(number), payload),
            )
    for number, (reason, begins) in enumerate(
        (("a number of more than 308 digits", '{"n": 999'), ("a number of more than 308 digits", '{"n": [1000'),
         ("nested more than 100 levels", '{"a": {"a": '), ("too large", '{"blob": "xxx')), 10
    ):  # fmt: skip
        shown = stocked.client.get(f"/api/v1/jobs/{number}", headers=bearer(ADMIN)).json["payload"]
        assert (shown["unreadable"], shown["text"].startswith(begins), shown["bytes"] > 400) == (reason, True, True)


def test_first_characters_hold_no_half_of_what_is_masked(world: World) -> None:
    for cut in range(150, 200):
        for secret in ("kate.rodgers@example.com", "4111 1111 1111 1111", "4111111111111111"):
            text = json.dumps({"a": "x" * cut + " " + secret + " ", "z": "y" * 400})
            shown = world.value("select public.giftcard_readable(%s::jsonb, 300) ->> 'text'", text)
            rest = shown.partition("x ")[2].partition('"')[0].strip()
            assert rest in ("", secret) or (secret.startswith("kate") and "@" not in rest), shown

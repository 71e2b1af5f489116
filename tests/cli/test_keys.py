"""`flask jobs keys`: which keys are in use, and a rotation that can be killed and loses nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.fernet import Fernet

from dev import ROOT
from lib.errors import Unavailable
from lib.giftcards.cards import vault_of
from lib.webhooks.schemas import EndpointRequest, RotateRequest
from lib.webhooks.service import Endpoints
from tests.cli.conftest import NOT_A_TERMINAL, Door
from tests.support.acts import KIM
from tests.support.ciphertexts import OTHER_KEY, as_before, card_numbers, kept_numbers, webhook_secrets
from tests.support.world import ENCRYPTION_KEY, LOOKUP_KEY, World, an_order

Make = Callable[..., World]

BOTH = f"{OTHER_KEY},{ENCRYPTION_KEY}"
ALL = ("keys", "rotate", "--yes")


def orders(world: World, count: int) -> None:
    """Cards for new customers, issued and sent."""
    for number in range(count):
        order = an_order(correlation_id=f"order-{number}", customer={"external_id": f"C-{number}"})
        assert world.submit(order).status_code == 202
    while world.tick()["started"]:
        pass


def an_endpoint(world: World) -> str:
    """An endpoint with three secrets."""
    endpoints = Endpoints(world.store, world.settings, caller=KIM)
    made = endpoints.create(EndpointRequest(url="https://shop.example/hook", events=["report.ready"]))
    for _ in range(2):
        endpoints.rotate(made["id"], RotateRequest())
    return str(made["id"])


def everything(world: World) -> list[list[str]]:
    return [card_numbers(world), kept_numbers(world), webhook_secrets(world)]


@pytest.fixture
def filled(world: World) -> list[list[str]]:
    """Two cards and an endpoint under the old key; what they hold."""
    orders(world, 2)
    an_endpoint(world)
    found = everything(world)
    assert [len(texts) for texts in found] == [2, 2, 3]
    return found


@pytest.fixture
def both(make_world: Make, filled: Any) -> Door:
    """The command line with a new key before the old one."""
    rotated = make_world(GIFTCARD_ENCRYPTION_KEYS=BOTH)
    return Door(rotated.app, rotated)


@pytest.fixture
def alone(make_world: Make) -> World:
    """The world once the old key is gone."""
    return make_world(GIFTCARD_ENCRYPTION_KEYS=OTHER_KEY)


def test_status_counts_texts_by_key_and_shows_no_key(both: Door) -> None:
    new, old = vault_of(both.world.settings).key_ids
    text = both.says("keys", "status")
    assert [line.split() for line in text.splitlines()[:4]] == [
        ["Texts", "by", "key"],
        ["key", "id", "effects", "cards", "webhook", "endpoints"],
        ["1", new, "0", "0", "0"],
        ["2", old, "2", "2", "3"],
    ]
    assert text.splitlines()[4:] == [
        "7 texts are not under key 1: run flask jobs keys rotate",
        "no older key may go yet",
    ]
    found = both.json("keys", "status")
    assert [key["removable"] for key in found["keys"]] == [False, False]
    assert not any(secret in text + str(found) for secret in both.world.settings.secrets())


def test_rotate_reencrypts_everything_and_tells_which_key_may_go(
    both: Door, alone: World, filled: list[list[str]]
) -> None:
    old = vault_of(both.world.settings).key_ids[1]
    text = both.says(*ALL)
    assert text.startswith("re-encrypted under key 1: effects: 2, cards: 2, webhook endpoints: 1\n")
    assert f"nothing is under key 2 ({old}). When no deployment that has another key first runs" in text
    assert everything(alone) == everything(both.world) == filled
    again = both.json(*ALL)
    assert (again["rotated"], again["failed"]) == ({"effect": 0, "card": 0, "endpoint": 0}, 0)
    assert [key["removable"] for key in again["keys"]] == [False, True]
    audit = both.world.sql(
        "select action, subject, details from giftcard_audit where action = 'rotate_keys' order by id"
    )
    new = vault_of(both.world.settings).key_ids[0]
    assert audit == [
        {"action": "rotate_keys", "subject": f"key {new}", "details": {"texts": texts}} for texts in (7, 0)
    ]


@pytest.mark.parametrize("batch", [1, 2, 3])
def test_steps_of_any_size_do_the_same(both: Door, alone: World, filled: list[list[str]], batch: int) -> None:
    assert both.json(*ALL, "--batch", batch)["rotated"] == {"effect": 2, "card": 2, "endpoint": 1}
    assert everything(alone) == filled


def test_texts_of_the_former_form_are_bound_without_a_new_key(direct: Door, filled: list[list[str]]) -> None:
    world, (numbers, _, secrets) = direct.world, filled
    for number, text in enumerate(numbers, 1):
        world.sql("update giftcard_cards set number_encrypted = %s where id = %s", as_before(text), number)
    world.sql("update giftcard_webhook_endpoints set secret_encrypted = %s", as_before(secrets[0]))
    text = direct.says("keys", "status")
    assert "any  former form" in text
    assert "3 texts are not under key 1" in text
    assert direct.json(*ALL)["rotated"] == {"effect": 0, "card": 2, "endpoint": 1}
    assert everything(world) == filled
    assert not any(direct.json("keys", "status")["former"].values())


def test_what_no_key_reads_is_counted_named_and_left(make_world: Make, filled: list[list[str]], world: World) -> None:
    third = make_world(GIFTCARD_ENCRYPTION_KEYS=f"{Fernet.generate_key().decode()},{OTHER_KEY}")
    door = Door(third.app, third)
    result = door.run(*ALL)
    assert result.exit_code == 1
    assert result.stderr == "Error: 7 texts could not be re-encrypted: see docs/runbook.md#rotate-keys\n"
    assert "card 1: no encryption key decrypts the card number: add the older key" in result.stdout
    (old,) = vault_of(world.settings).key_ids
    assert f"missing  {old}" in result.stdout
    assert everything(world) == filled, "nothing is lost: with the old key, all can be read"
    found = door.json("keys", "status")
    assert found["unknown"] == [{"id": old, "texts": {"effect": 2, "card": 2, "endpoint": 3}}]


def test_a_swapped_number_is_not_bound_to_the_row_that_it_was_moved_to(both: Door, filled: list[list[str]]) -> None:
    world = both.world
    first, _ = world.sql("select * from giftcard_cards order by id")
    former = as_before(filled[0][1])
    world.sql("update giftcard_cards set number_encrypted = %s where id = %s", former, first["id"])
    result = both.run(*ALL)
    assert (result.exit_code, f"card {first['id']}: the card number does not match its hash" in result.stdout) == (
        1,
        True,
    )
    assert world.value("select number_encrypted from giftcard_cards where id = %s", first["id"]) == former
    assert "no older key may go yet" in result.stdout
    assert [key["removable"] for key in both.json("keys", "status")["keys"]] == [False, False]


def test_a_rotation_that_loses_the_database_says_how_far_it_came_and_continues(
    both: Door, alone: World, filled: list[list[str]], mocker: Any
) -> None:
    store = both.world.store
    replace = mocker.patch.object(store, "replace_ciphertexts", wraps=store.replace_ciphertexts)
    replace.side_effect = [mocker.DEFAULT, mocker.DEFAULT, Unavailable("the database is away")]
    sentence = both.refuses(*ALL, "--batch", 1, code=1)
    assert sentence == "the database is away; 2 rows done before that: repeat the command for the rest"
    replace.side_effect = None
    assert sum(both.json(*ALL, "--batch", 1)["rotated"].values()) == 3
    assert everything(alone) == filled


def test_a_killed_rotation_is_continued(make_world: Make, database_url: str, alone: World) -> None:
    orders(make_world(GIFTCARD_JOBS_PER_CRON_RUN=200), 20)
    world = make_world(GIFTCARD_ENCRYPTION_KEYS=BOTH)
    before = card_numbers(world)
    environ = os.environ | {
        "DATABASE_URL": database_url,
        "GIFTCARD_ENV": "test",
        "GIFTCARD_ENCRYPTION_KEYS": BOTH,
        "GIFTCARD_LOOKUP_KEY": LOOKUP_KEY,
    }
    command = [sys.executable, "-m", "flask", "--app", "api.index", "jobs", *ALL, "--batch", "1"]
    begun = "select count(*) from giftcard_cards where number_encrypted like %s"
    new = f"v2.{vault_of(world.settings).key_ids[0]}.%"
    with subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        ends = time.monotonic() + 60
        while not world.value(begun, new):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < ends, "it never began"
        process.send_signal(signal.SIGKILL)
    done = world.value(begun, new)
    assert card_numbers(world) == before
    outcome = Door(world.app, world).json(*ALL)
    assert (done + outcome["rotated"]["card"], outcome["failed"]) == (20, 0)
    assert card_numbers(alone) == kept_numbers(alone) == before


def test_it_asks_first_and_works_on_the_database_only(both: Door, remote: Door, direct: Door) -> None:
    assert both.refuses("keys", "rotate") == NOT_A_TERMINAL
    for command in ("status", "rotate"):
        assert remote.refuses("keys", command).startswith(f"keys {command} works on the database only")
    for batch in (0, 1001, "many"):
        assert "--batch" in direct.refuses(*ALL, "--batch", batch)


@pytest.mark.parametrize(
    ("environ", "sentence"),
    [
        (
            {"GIFTCARD_ENCRYPTION_KEYS": None},
            "GIFTCARD_ENCRYPTION_KEYS is not set here: load the deployment's settings",
        ),
        ({"GIFTCARD_LOOKUP_KEY": None}, "GIFTCARD_LOOKUP_KEY is not set here: load the deployment's settings, as with"),
    ],
)
def test_without_its_keys_it_is_refused(make_world: Make, environ: dict[str, Any], sentence: str) -> None:
    world = make_world(**environ)
    assert Door(world.app, world).refuses(*ALL).startswith(sentence)

"""Where ciphertexts are stored: they are read in bounded steps, and replaced only if they have not changed."""

import json
from typing import Any

import pytest

from tests.sql.test_size import pages
from tests.support import books
from tests.support.factory import World
from tests.support.race import Race
from tests.support.webhook_rows import endpoint

NEW, OLD = "0" * 12, "f" * 12


def text(key_id: str, content: Any) -> str:
    return f"v2.{key_id}.{content}"


def listed(world: World, kind: str, **arguments: Any) -> dict[str, Any]:
    found: dict[str, Any] = world.ask("list_ciphertexts", kind=kind, **({"key_id": NEW} | arguments))
    return found


def all_listed(world: World, kind: str, *, limit: int) -> list[str]:
    """The ids of all steps."""
    ids: list[str] = []
    after = None
    while True:
        step = listed(world, kind, after=after, limit=limit)
        ids += [row["id"] for row in step["rows"]]
        after = step["after"]
        if after is None:
            return ids


def cards(world: World, *texts: str) -> list[str]:
    """Cards with these ciphertexts; their ids."""
    for number, one in enumerate(texts):
        books.take(world, f"order-{number}")
        books.pay(world, f"order-{number}")
        books.issue(world, f"order-{number}", number_encrypted=one)
    return [str(row["id"]) for row in world.rows("select id from giftcard_cards order by id")]


def effect(world: World, key: str, result: str | None) -> None:
    world.run(
        "insert into giftcard_effects (tenant_id, correlation_id, stage, dedup_key, name, vendor_key, result,"
        " finished_at) values ('acme', %s, 'issue_card', '', 'issue', %s, %s::jsonb, case when %s::jsonb is null then"
        " null else now() end)",
        *(key, key, result, result),
    )


def test_a_step_lists_what_is_not_under_the_key_and_counts_everything(world: World) -> None:
    ids = cards(world, text(OLD, 1), text(NEW, 2), "gAAAA-former")
    found = listed(world, "card")
    row = {"tenant_id": "default", "place": "order-0", "number_hash": "hash of default order-0"}
    assert found["rows"][0] == row | {"id": ids[0], "texts": [text(OLD, 1)]}
    assert [row["id"] for row in found["rows"]] == [ids[0], ids[2]]
    assert (found["counts"], found["after"]) == ({OLD: 1, NEW: 1, "": 1}, None)
    assert listed(world, "card", key_id=None) == found | {"rows": []}


@pytest.mark.parametrize("limit", [1, 2, 3, 4])
def test_steps_of_any_size_visit_each_row_once(world: World, limit: int) -> None:
    ids = cards(world, text(OLD, 1), text(NEW, 2), text(OLD, 3), text(OLD, 4))
    assert all_listed(world, "card", limit=limit) == [ids[0], ids[2], ids[3]]
    for key in ("a", "b", "c", "d"):
        effect(world, key, None if key == "b" else f'{{"number_encrypted": "{text(OLD, key)}"}}')
    assert all_listed(world, "effect", limit=limit) == ["a", "c", "d"]


def test_only_results_with_a_card_number_are_ciphertexts(world: World) -> None:
    effect(world, "a", '{"reference": "ch_1"}')
    effect(world, "b", '["number_encrypted"]')
    effect(world, "c", '{"number_encrypted": null}')
    effect(world, "d", None)
    assert listed(world, "effect") == {"counts": {}, "rows": [], "after": None}
    effect(world, "e", f'{{"number_encrypted": "{text(OLD, 1)}", "number_hash": "h", "last4": "4242"}}')
    (row,) = listed(world, "effect")["rows"]
    assert row == {"id": "e", "tenant_id": "acme", "place": "e", "number_hash": "h", "texts": [text(OLD, 1)]}
    replaced = world.ask("replace_ciphertexts", kind="effect", rows=[{"id": "e", "texts": {text(OLD, 1): "new"}}])
    assert replaced == {"replaced": 1}
    (kept,) = world.rows("select result from giftcard_effects where vendor_key = 'e'")
    assert kept["result"] == {"number_encrypted": "new", "number_hash": "h", "last4": "4242"}


def test_all_secrets_of_an_endpoint_are_listed_and_replaced_wherever_they_stand_by_then(world: World) -> None:
    number = endpoint(world)
    for one in ("b", "c"):
        world.call("rotate_webhook_secret", endpoint_id=number, secret_encrypted=one, former_seconds=3600)
    (row,) = listed(world, "endpoint")["rows"]
    assert (row["id"], row["place"], row["texts"]) == (str(number), str(number), ["c", "b", "sealed"])
    # Meanwhile the secret is rotated once more: each text has moved on.
    world.call("rotate_webhook_secret", endpoint_id=number, secret_encrypted="d", former_seconds=3600)
    rows = [{"id": str(number), "texts": {one: one.upper() for one in row["texts"]}}]
    assert world.ask("replace_ciphertexts", kind="endpoint", rows=rows) == {"replaced": 1}
    (left,) = listed(world, "endpoint")["rows"]
    assert left["texts"] == ["d", "C", "SEALED"]


def test_a_text_that_has_changed_meanwhile_stays(world: World) -> None:
    one, other = cards(world, "first", "second")
    rows = [{"id": one, "texts": {"another": "new"}}, {"id": other, "texts": {"second": "new"}}]
    assert world.ask("replace_ciphertexts", kind="card", rows=rows) == {"replaced": 1}
    assert [row["texts"] for row in listed(world, "card")["rows"]] == [["first"], ["new"]]


def test_a_text_that_stands_in_two_rows_is_replaced_in_the_one_that_is_named(world: World) -> None:
    one, other = cards(world, "same", "same")
    rows = [{"id": one, "texts": {"same": "for one"}}, {"id": other, "texts": {"same": "for the other"}}]
    world.ask("replace_ciphertexts", kind="card", rows=rows)
    assert [row["texts"] for row in listed(world, "card")["rows"]] == [["for one"], ["for the other"]]


def test_a_row_that_another_transaction_holds_is_left_for_later(world: World, race: Race) -> None:
    ids = cards(world, "first", "second")
    race.first.run("update giftcard_cards set balance = 1 where id = %s", ids[0])
    rows = [{"id": i, "texts": {"first": "new", "second": "new"}} for i in ids]
    assert race.second.ask("replace_ciphertexts", kind="card", rows=rows) == {"replaced": 1}
    race.second.connection.commit()
    race.commit()
    assert race.second.ask("replace_ciphertexts", kind="card", rows=rows) == {"replaced": 1}


def test_an_unknown_kind_is_refused(world: World) -> None:
    for function, arguments in (("list_ciphertexts", {}), ("replace_ciphertexts", {"rows": []})):
        with pytest.raises(Exception, match="kind is one of effect, card, endpoint"):
            world.ask(function, kind="customer", **arguments)


def test_the_keys_of_cards_are_found_with_the_ends_of_each(world: World) -> None:
    assert world.ask("keys_of_cards") == []
    ids = cards(world, *(text(NEW, 1), text(OLD, 2), "gA", text(NEW, 3), text(NEW, 4), "gB", text(OLD, 5)))
    found = {(row["key_id"], row["encrypted"]) for row in world.ask("keys_of_cards")}
    assert found == {(NEW, text(NEW, 1)), (NEW, text(NEW, 4)), (OLD, text(OLD, 2)), (OLD, text(OLD, 5)),
                     ("", "gA"), ("", "gB")}  # fmt: skip
    assert len(ids) == 7


def test_many_keys_that_someone_made_up_do_not_make_the_doctor_slow(world: World) -> None:
    cards(world, *(text(f"{number:012x}", number) for number in range(30)))
    assert len({row["key_id"] for row in world.ask("keys_of_cards")}) == 20


@pytest.mark.slow
def test_steps_and_the_doctors_look_cost_the_same_with_a_hundred_thousand_cards(world: World) -> None:
    world.run("set session_replication_role = replica")
    world.run(
        "insert into giftcard_cards (tenant_id, correlation_id, provider, provider_ref, number_encrypted, number_hash,"
        " last4, amount, balance, currency, created_at, free_of_charge)"
        " select 'default', n, 'ledger', n, %s || n, n, '4242', 1, 1, 'USD', now(), true"
        " from generate_series(1, 100000) n",
        text(OLD, ""),
    )
    world.run(
        "insert into giftcard_effects (tenant_id, correlation_id, stage, dedup_key, name, vendor_key)"
        " select 'default', n, 'payment', '', 'charge', n from generate_series(1, 100000) n"
    )
    world.run("update giftcard_cards set number_encrypted = %s where id = 50000", text(NEW, ""))
    world.run("analyze giftcard_cards, giftcard_effects")
    world.ask("keys_of_cards")  # reads the catalog
    assert pages(world, "select giftcard_keys_of_cards()") < 100
    for kind, after in (("card", "99000"), ("effect", "5")):
        assert pages(world, "select giftcard_list_ciphertexts(%s, %s, %s, 200)", kind, NEW, after) < 600
    rows = [{"id": str(number), "texts": {text(OLD, number): "new"}} for number in range(1, 201)]
    assert pages(world, "select giftcard_replace_ciphertexts(%s, %s::jsonb)", "card", json.dumps(rows)) < 20_000

"""Removing a person: everywhere, with a question, and the sums stay."""

import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import KATE, NOT_A_TERMINAL, Door, Terminal
from tests.support.world import World


@pytest.fixture
def customer(world: World) -> int:
    """Kate, whose order is done and whose mail lies in the outbox beside another's."""
    world.submit()
    while world.tick()["started"]:
        pass
    (outbox(world) / "other.eml").write_text("of somebody else")
    assert len(list(outbox(world).iterdir())) == 2
    found: int = world.value("select id from public.giftcard_customers")
    return found


def outbox(world: World) -> Path:
    return Path(world.settings.giftcard_mail_dir or "")


def everything(world: World) -> str:
    """All that all tables hold, as text."""
    tables = world.sql("select tablename from pg_tables where schemaname = 'public' and tablename like 'giftcard%%'")
    return "\n".join(str(world.sql(f"select t::text from public.{table['tablename']} t")) for table in tables)


def test_erased_customer_is_nowhere_and_the_sums_stay(world: World, direct: Door, customer: int) -> None:
    before = world.value("select sum(amount) from public.giftcard_payments")
    assert KATE in everything(world)
    answer = direct.json("erase-customer", "--id", customer, "--yes")
    assert (answer["customer_id"], answer["flows"], answer["jobs"], answer["mails_removed"]) == (customer, 1, 5, 1)
    for secret in (KATE, "Kate", "Rodgers", "KATE1520", "CUST-1520"):
        assert secret not in everything(world)
    assert [mail.name for mail in outbox(world).iterdir()] == ["other.eml"]
    assert world.value("select sum(amount) from public.giftcard_payments") == before
    assert world.value("select by from public.giftcard_audit where action = 'erase_customer'")


def test_orders_that_never_got_as_far_as_their_customer_are_erased_too(
    world: World, direct: Door, customer: int
) -> None:
    world.submit()
    world.sql("update public.giftcard_jobs set status = 'error', last_error = 'x' where status = 'queued'")
    direct.says("erase-customer", "--id", customer, "--yes")
    assert KATE not in everything(world)


def test_customer_may_be_named_by_an_order(world: World, direct: Door, customer: int) -> None:
    flow = world.value("select correlation_id from public.giftcard_orders")
    text = direct.says("erase-customer", "--flow", flow, "--yes")
    assert text == f"customer {customer} is erased: 1 flow, 5 jobs, 1 mail removed from the outbox; amounts stay\n"


def test_nobody_is_erased_unasked(world: World, direct: Door, customer: int) -> None:
    assert direct.refuses("erase-customer", "--id", customer) == NOT_A_TERMINAL
    assert KATE in everything(world)


def test_question_is_asked_on_a_terminal(world: World, direct: Door, customer: int, terminal: Terminal) -> None:
    code, screen = terminal.run(direct.app, "erase-customer", "--id", customer, types="n\n")
    assert f"Erase customer {customer} for good" in screen
    assert (code, "nothing was changed" in screen, KATE in everything(world)) == (2, True, True)
    code, _ = terminal.run(direct.app, "erase-customer", "--id", customer, types="y\n")
    assert (code, KATE in everything(world)) == (0, False)


def test_customer_that_is_not_known_is_refused(direct: Door) -> None:
    for options in ("", "--id 404", "--id x", "--flow none", "--id 1 --flow x", "--id 1 --tenant acme", "--flow ''"):
        direct.refuses("erase-customer", *shlex.split(options), "--yes")


def test_customer_with_a_running_job_is_left_alone(world: World, direct: Door, customer: int) -> None:
    world.sql("update public.giftcard_jobs set status = 'running' where stage = 'email'")
    assert "try again in a minute" in direct.refuses("erase-customer", "--id", customer, "--yes")
    assert KATE in everything(world)


def test_erasing_works_on_the_database_only(remote: Door) -> None:
    assert "erase-customer works on the database only" in remote.refuses("erase-customer", "--id", 1, "--yes")


def test_customer_may_be_named_by_external_id_or_by_address(world: World, direct: Door) -> None:
    kate = {"tenant_id": "default", "given_name": "Kate", "family_name": None}
    known = world.store.save_customer(external_id="c-7", email="kate@example.com", **kate)["id"]
    nameless = world.store.save_customer(external_id=None, email="Kate@Example.com", **kate)["id"]
    assert direct.json("erase-customer", "--external-id", "c-7", "--yes")["customer_id"] == known
    assert direct.json("erase-customer", "--email", "kate@example.com", "--yes")["customer_id"] == nameless
    assert "there is no such customer" in direct.refuses("erase-customer", "--email", "kate@example.com", "--yes")


def test_customer_is_found_by_any_spelling_of_the_address(world: World, direct: Door) -> None:
    """Orders are stored with one: the domain in its own script, all in NFC."""
    kate = {"tenant_id": "default", "given_name": "Kate", "family_name": None, "external_id": None}
    stored = world.store.save_customer(email="k\u00e4te@b\u00fccher.de", **kate)["id"]
    spelt = " ka\u0308te@XN--BCHER-KVA.de"
    assert direct.json("erase-customer", "--email", spelt, "--yes")["customer_id"] == stored

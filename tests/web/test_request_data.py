"""Bodies: what is not exactly right gets a problem that names the field, and changes nothing."""

import itertools
import json
from typing import Any

from tests.support.world import ADMIN, API, World, an_order, bearer

ORDERS, TRIGGER = "/api/v1/giftcards", "/api/jobs/run"


def text(body: Any) -> str:
    return json.dumps(body)


def order(**changes: Any) -> str:
    """An order as text; a dotted name goes into its part: order(**{"customer.email": 7})."""
    body = an_order()
    for name, value in changes.items():
        part, _, field = name.rpartition(".")
        (body[part] if part else body)[field] = value
    return text(body)


def without(name: str) -> str:
    body = an_order()
    part, _, field = name.rpartition(".")
    del (body[part] if part else body)[field]
    return text(body)


def raw(value: str, *, where: str = '"amount": 2500') -> str:
    """An order with something that `json.dumps` would not write."""
    assert where in order()
    return order().replace(where, value)


# body → (status, the field at fault)
WRONG: dict[str, tuple[str | bytes, int, str | None]] = {
    "nothing": ("", 400, None),
    "half of it": (order()[:-1], 400, None),
    "no JSON": ("customer=Kate", 400, None),
    "quotes of Python": ("{'customer': 1}", 400, None),
    "a comma too many": (order()[:-1] + ",}", 400, None),
    "something after it": (order() + "{}", 400, None),
    "a byte order mark": ("\ufeff" + order(), 400, None),
    "no UTF-8": (order().encode().replace(b"Kate", b"K\xe4te"), 400, None),
    "UTF-16": (order().encode("utf-16"), 400, None),
    "a field twice": (raw('"currency": "USD", "amount": 1, "amount": 2500', where='"amount": 2500'), 400, "amount"),
    "NaN": (raw('"amount": NaN'), 400, None),
    "Infinity": (raw('"amount": Infinity'), 400, None),
    "minus Infinity": (raw('"amount": -Infinity'), 400, None),
    "beyond any float": (raw('"amount": 1e400'), 422, "amount.amount"),
    "five thousand digits": (raw('"amount": ' + "9" * 5000), 400, None),
    "nested too deeply": ("[" * 100_000, 400, None),
    "nested too deeply in a field": (order(message=None).replace("null", "[" * 500 + "]" * 500), 422, None),
    "nested deeply in a field": (order(message=None).replace("null", "[" * 150 + "]" * 150), 422, "message"),
    "half a character": (order(**{"customer.given_name": "Kate \ud83c"}), 400, "customer.given_name"),
    "half a character in a name": (order(**{"customer.\udc00": 1}), 400, "customer.\ufffd"),
    "a list": ("[]", 422, None),
    "null": ("null", 422, None),
    "text": ('"order"', 422, None),
    "a number": ("7", 422, None),
    "NUL": (order(**{"customer.given_name": "Ka\x00te"}), 422, "customer.given_name"),
    "NUL in the message": (order(message="a\x00b"), 422, "message"),
    "NUL in an id": (order(correlation_id="order\x001"), 422, "correlation_id"),
    "a line break in a name": (order(**{"customer.family_name": "a\nBcc: b"}), 422, "customer.family_name"),
    "an unknown field": (order(colour="red"), 422, "colour"),
    "an unknown field of a part": (order(**{"customer.colour": "red"}), 422, "customer.colour"),
    "an unknown field with NUL": (order(**{"customer.\x00": 1}), 422, "customer.\ufffd"),
    "no customer": (without("customer"), 422, "customer"),
    "no address": (without("customer.email"), 422, "customer.email"),
    "no currency": (without("amount.currency"), 422, "amount.currency"),
    "customer null": (order(customer=None), 422, "customer"),
    "amount a number": (order(amount=2500), 422, "amount"),
    "amount as text": (order(**{"amount.amount": "2500"}), 422, "amount.amount"),
    "amount with a point": (order(**{"amount.amount": 25.0}), 422, "amount.amount"),
    "amount true": (order(**{"amount.amount": True}), 422, "amount.amount"),
    "amount null": (order(**{"amount.amount": None}), 422, "amount.amount"),
    "amount zero": (order(**{"amount.amount": 0}), 422, "amount.amount"),
    "amount negative": (order(**{"amount.amount": -1}), 422, "amount.amount"),
    "amount of 64 bits": (order(**{"amount.amount": 2**63}), 422, "amount.amount"),
    "amount of 300 digits": (order(**{"amount.amount": 10**300}), 422, "amount.amount"),
    "currency in small letters": (order(**{"amount.currency": "usd"}), 422, "amount.currency"),
    "currency of nobody": (order(**{"amount.currency": "XYZ"}), 422, "amount.currency"),
    "address of nobody": (order(**{"customer.email": "kate"}), 422, "customer.email"),
    "two addresses": (order(**{"customer.email": "kate@example.com, ann@example.com"}), 422, "customer.email"),
    "name a number": (order(**{"customer.given_name": 7}), 422, "customer.given_name"),
    "name too long": (order(**{"customer.given_name": "K" * 201}), 422, "customer.given_name"),
    "id too long": (order(correlation_id="o" * 201), 422, "correlation_id"),
    "id empty": (order(correlation_id=""), 422, "correlation_id"),
    "id with a slash": (order(correlation_id="a/b"), 422, "correlation_id"),
    "id with a line break": (order(correlation_id="a\n"), 422, "correlation_id"),
    "tenant empty": (order(tenant_id=""), 422, "tenant_id"),
    "message too long": (order(message="m" * 2001), 422, "message"),
    "time without a zone": (order(deliver_at="2030-12-24T18:00:00"), 422, "deliver_at"),
    "a day": (order(deliver_at="2030-12-24"), 422, "deliver_at"),
    "a time of no calendar": (order(deliver_at="2030-02-30T18:00:00Z"), 422, "deliver_at"),
    "a time beyond all years": (order(deliver_at="9999-12-31T23:59:59-10:00"), 422, "deliver_at"),
    "seconds since 1970": (order(deliver_at=1_900_000_000), 422, "deliver_at"),
    "tomorrow": (order(deliver_at="tomorrow"), 422, "deliver_at"),
}

WRONG_TRIGGERS: dict[str, tuple[str | bytes, int, str | None]] = {
    "a list": ("[]", 422, None),
    "an unknown field": (text({"limits": 1}), 422, "limits"),
    "a limit of zero": (text({"limit": 0}), 422, "limit"),
    "a limit as text": (text({"limit": "5"}), 422, "limit"),
    "a limit of 64 bits": (text({"limit": 2**64}), 422, "limit"),
    "an id of zero": (text({"job_id": 0}), 422, "job_id"),
    "an id beyond all ids": (text({"job_id": 2**63}), 422, "job_id"),
    "an id as text": (text({"job_id": "1"}), 422, "job_id"),
    "a stage that is none": (text({"stage": "Robert'); drop table"}), 422, "stage"),
    "a stage with NUL": (text({"stage": "a\x00"}), 422, "stage"),
    "no budget": (text({"budget_seconds": 0}), 422, "budget_seconds"),
    "a budget without end": ('{"budget_seconds": 1e999}', 422, "budget_seconds"),
    "a budget that is no number": ('{"budget_seconds": NaN}', 400, None),
    "linger as a number": (text({"linger": 1}), 422, "linger"),
    "a field twice": ('{"limit": 1, "limit": 2}', 400, "limit"),
}


def outcomes(
    world: World, path: str, token: str, cases: dict[str, tuple[str | bytes, int, str | None]]
) -> dict[str, Any]:
    """What each body gets: (status, field)."""
    found = {}
    for name, (body, _, _) in cases.items():
        response = world.client.post(path, data=body, content_type="application/json", headers=bearer(token))
        assert response.content_type == "application/problem+json", (name, response.text)
        assert response.json["status"] == response.status_code
        assert response.json["title"]
        found[name] = (response.status_code, response.json.get("field"))
    return found


def expected(cases: dict[str, tuple[str | bytes, int, str | None]]) -> dict[str, Any]:
    return {name: (status, field) for name, (_, status, field) in cases.items()}


def test_order_that_is_not_right_names_its_field_and_changes_nothing(world: World) -> None:
    before = world.row_counts()
    assert outcomes(world, ORDERS, API, WRONG) == expected(WRONG)
    assert world.row_counts() == before


def test_trigger_that_is_not_right_names_its_field_and_runs_nothing(world: World) -> None:
    world.enqueue("customer_ingest", an_order())
    before = world.row_counts()
    assert outcomes(world, TRIGGER, ADMIN, WRONG_TRIGGERS) == expected(WRONG_TRIGGERS)
    assert world.row_counts() == before


def test_problem_never_repeats_what_was_sent(world: World) -> None:
    for body in (
        order(**{"customer.email": "kate@secret example"}),
        order(**{"amount.currency": "SECRET"}),
        order(deliver_at="secret"),
        order(correlation_id="/secret/"),
    ):
        answer = world.client.post(ORDERS, data=body, content_type="application/json", headers=bearer(API))
        assert answer.status_code == 422
        assert "secret" not in answer.text.lower()


def test_other_content_types_are_refused(world: World) -> None:
    before = world.row_counts()
    kinds = [None, "", "text/plain", "application/x-www-form-urlencoded", "text/json", "application/xml"]
    for path, kind in itertools.product([ORDERS, TRIGGER], kinds):
        answer = world.client.post(path, data=order(), content_type=kind, headers=bearer(ADMIN))
        assert (answer.status_code, answer.content_type) == (415, "application/problem+json")
    assert world.row_counts() == before


def test_json_may_name_its_charset(world: World) -> None:
    for kind in ("application/json", "application/json; charset=utf-8", "Application/JSON"):
        assert world.client.post(ORDERS, data=order(), content_type=kind, headers=bearer(API)).status_code == 202


def test_body_over_256_kb_is_refused(world: World) -> None:
    before = world.row_counts()
    body = order() + " " * (256 * 1024 + 1 - len(order()))
    for path in (ORDERS, TRIGGER):
        answer = world.client.post(path, data=body, content_type="application/json", headers=bearer(ADMIN))
        assert (answer.status_code, answer.content_type) == (413, "application/problem+json")
    assert world.row_counts() == before


def test_body_of_256_kb_is_read(world: World) -> None:
    body = order() + " " * (256 * 1024 - len(order()))
    answer = world.client.post(ORDERS, data=body, content_type="application/json", headers=bearer(API))
    assert answer.status_code == 202


def test_stranger_is_turned_away_before_the_body_is_read(world: World) -> None:
    answer = world.client.post(ORDERS, data="x" * 300_000, content_type="text/plain", headers=bearer("wrong"))
    assert answer.status_code == 401


def test_what_is_unusual_but_right_is_stored_as_it_was_sent(world: World) -> None:
    message = "<b>Zoë</b> & O'Brien — 🎁\tکارت هدیه\n'); drop table giftcard_jobs; --"
    name = "Zoë 李 'O\" \\ {{7*7}} %s $1"
    answer = world.submit(an_order(message=message, customer={"given_name": name}, correlation_id="a.b_c:d@e-1"))
    assert answer.status_code == 202
    payload = world.job()["payload"]
    assert (payload["message"], payload["customer"]["given_name"]) == (message, name)
    assert world.tick()["completed"] == 5

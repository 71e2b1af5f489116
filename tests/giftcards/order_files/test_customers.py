"""Two people are no customer, and numbers that lost their zeros are no ids."""

import pytest

from tests.support.order_files import HEADER, line, surveyed

ANN = {"email": "ann@example.com", "given_name": "Ann"}


@pytest.mark.parametrize(
    "other",
    [
        {"email": "ann@example.com"},
        {"given_name": "Ann"},
        {"family_name": "Lee"},
        {"family_name": ""},
        ANN,
    ],
)
def test_rows_with_one_external_id_that_name_two_people_are_rejected(other: dict[str, str]) -> None:
    text = HEADER + line(correlation_id="1") + line(correlation_id="2", **other) + line(correlation_id="3")
    first, second, third = surveyed(text)
    assert "external_id is that of line 3 with another email or name" in (first or "")
    assert "external_id is that of line 2 with another email or name" in (second or "")
    assert "external_id is that of line 3 with another email or name" in (third or "")
    assert "kate" not in f"{first}{second}{third}".lower()
    assert surveyed(text, customers_may_change=True) == [None, None, None]


@pytest.mark.parametrize(
    "same", [{"email": "KATE@example.com"}, {"given_name": "kate "}, {"family_name": "RODGERS"}, {"amount": "7"}]
)
def test_one_customer_may_have_several_rows(same: dict[str, str]) -> None:
    assert surveyed(HEADER + line(correlation_id="1") + line(correlation_id="2", **same)) == [None, None]


def test_tenants_have_customers_of_their_own() -> None:
    assert surveyed(HEADER + line() + line(tenant_id="acme", **ANN)) == [None, None]
    assert surveyed(HEADER + line() + line(tenant_id="default", **ANN)) != [None, None]


def test_two_people_with_one_mailbox_need_external_ids() -> None:
    both = line(external_id="") + line(external_id="", given_name="Ben")
    first, second = surveyed(HEADER + both)
    assert (first or "").startswith("email is that of line 3 with another name: give each an external_id")
    assert (second or "").startswith("email is that of line 2")
    assert surveyed(HEADER + line(external_id="1") + line(external_id="2", given_name="Ben")) == [None, None]


def test_a_row_that_is_rejected_anyway_takes_no_other_with_it() -> None:
    assert surveyed(HEADER + line() + line(amount="", **ANN))[0] is None


@pytest.mark.parametrize("column", ["external_id", "correlation_id"])
def test_zeros_that_were_lost_at_the_left_are_found(column: str) -> None:
    ids = ["000123", "123", "000124", "123456", "1234567", "A-1"]
    found = surveyed(HEADER + "".join(line(**{"external_id": "", "correlation_id": "", column: one}) for one in ids))
    assert [index for index, problem in enumerate(found) if problem] == [1]
    assert found[1] == f"{column} has lost zeros at the left, it seems: others in this column have 6 digits"

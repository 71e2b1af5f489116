"""The audit on the page: filters and cursors in the address, links to what an act changed."""

import pytest

from tests.support.world import World
from tests.web.page.conftest import Browser
from tests.web.page.html import Page, create_token


def act(world: World, action: str, subject: str, *, at: str = "2026-01-31T12:00:00Z", **columns: str) -> None:
    row = {"by": "kim", "tenant_id": None, "details": "{}"} | columns
    world.sql(
        "insert into giftcard_audit (at, by, tenant_id, action, subject, details) values (%s, %s, %s, %s, %s, %s)",
        *(at, row["by"], row["tenant_id"], action, subject, row["details"]),
    )


def cells(browser: Browser, address: str) -> str:
    return " | ".join(" ".join(text.split()) for text in Page(browser.get(address).text).texts["td"])


def test_an_act_has_who_what_and_details(world: World, browser: Browser) -> None:
    assert "No operator has done anything yet" in browser.get("/audit").text
    act(world, "requeue", "job 7", details='{"was": "error", "scopes": ["a", "b"], "amount": 5}', tenant_id="acme")
    shown = cells(browser, "/audit")
    for text in ("kim", "requeue", "job 7 acme", "was error", "scopes a, b", "amount 5"):
        assert text in shown, text


@pytest.mark.parametrize(
    "query",
    ["by=kate", "action=pause", "subject=stage email", "since=2026-02-01T00:00", "since=2026-02-01T00:00:00%2B00:00",
     "tenant_id=acme"],
)  # fmt: skip
def test_each_filter_leaves_what_matches(world: World, browser: Browser, query: str) -> None:
    act(world, "requeue", "job 7")
    act(world, "pause", "stage email", by="kate", at="2026-02-02T00:00:00Z", tenant_id="acme")
    shown = cells(browser, f"/audit?{query}&limit=")
    assert "stage email" in shown
    assert "job 7" not in shown
    assert "Show all" in browser.get(f"/audit?{query}").text


@pytest.mark.parametrize("query", ["since=tomorrow", "action=Do it", "older=0", "limit=201", "x=1", "by=a&by=b"])
def test_what_is_no_filter_is_named(browser: Browser, query: str) -> None:
    response = browser.get(f"/audit?{query}")
    assert response.status_code == (422 if query != "by=a&by=b" else 200)
    assert response.status_code == 200 or query.partition("=")[0] in response.text


def test_older_acts_keep_the_filter(world: World, browser: Browser) -> None:
    for number in range(1, 6):
        act(world, "requeue", f"job {number}")
    act(world, "pause", "stage email")
    address, seen = "/audit?action=requeue&limit=2", []
    for _ in range(3):
        page = Page(browser.get(address).text)
        seen += [link for link in page.addresses if link.startswith("/jobs/")]
        address = next((link for link in page.addresses if "older=" in link and link != address), "")
    assert seen == [f"/jobs/{number}" for number in (5, 4, 3, 2, 1)]
    assert address == ""


@pytest.mark.parametrize(
    ("subject", "link"),
    [
        ("job 7", "/jobs/7"),
        ("schedule 7", "/schedules/7"),
        ("webhook endpoint 7", "/webhooks/7"),
        ("report 2026-01-31", "/reports/acme%20%3F/2026-01-31"),
        ("order a/b?c", "/orders/acme%20%3F/a%2Fb%3Fc"),
        ("flow x", "/orders/acme%20%3F/x"),
        ("job 7'", None),
        ("jobs 7 to 9", None),
        ("token shop", None),
        ("report ../x", None),
    ],
)
def test_a_subject_leads_to_its_page(world: World, browser: Browser, subject: str, link: str | None) -> None:
    act(world, "requeue", subject, tenant_id="acme ?")
    page = Page(browser.get("/audit").text)
    found = [
        each
        for each in page.addresses
        if each.startswith(("/jobs/", "/schedules/", "/webhooks/", "/reports/", "/orders/"))
    ]
    assert found == ([link] if link else [])


def test_a_token_of_one_tenant_sees_its_own_acts(world: World) -> None:
    browser = Browser(world)
    browser.sign_in(create_token(world, name="acme", scopes=["admin"], tenant_id="acme"))
    act(world, "requeue", "job 7", tenant_id="acme")
    act(world, "requeue", "job 8", tenant_id="other")
    shown = cells(browser, "/audit")
    assert "job 7" in shown
    assert "job 8" not in shown
    assert browser.get("/audit?tenant_id=other").status_code == 403

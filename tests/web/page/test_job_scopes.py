"""Who sees and changes what on the pages about jobs: a token that reads, a token of one tenant, no token."""

import pytest

from tests.support.forms import Page
from tests.support.tenants import create_token
from tests.support.world import World
from tests.web.page.conftest import Browser

READS = ("/jobs", "/errors", "/operations", "/operations/1", "/jobs/{}")
CHANGES = ("/jobs/{}/requeue", "/jobs/{}/cancel", "/jobs/{}/restore", "/operations/preview", "/operations/1/stop")
OF_ADMINS = ("/jobs/{}/reveal", "/jobs/{}/payload")
WANTED = {"of": "all", "action": "cancel", "stage": "payment", "reason": "a test", "key": "one"}


@pytest.fixture
def job_id(browser: Browser, world: World) -> int:
    """A dead letter of the tenant beta; there is an operation on it, too."""
    found = world.add(
        "payment", tenant_id="beta", status="error", last_error="PermanentError: no", finished_at="2026-01-02"
    )
    sent = WANTED | {"tenant_id": "beta"}
    assert browser.post("/operations", sent).status_code == 303
    return found


def signed_in(world: World, *scopes: str, tenant: str | None = None) -> Browser:
    own = Browser(world)
    own.sign_in(create_token(world, "night", *scopes, tenant=tenant))
    return own


def test_without_a_session_each_address_leads_to_the_sign_in(world: World, job_id: int) -> None:
    nobody = Browser(world)
    for address in (*READS, "/jobs/{}/payload"):
        response = nobody.get(address.format(job_id))
        assert response.headers["Location"].startswith("/sign-in"), address
    for address in (*CHANGES, *OF_ADMINS, "/operations"):
        response = nobody.post(address.format(job_id), WANTED)
        assert response.headers["Location"].startswith("/sign-in"), address


def test_a_token_that_reads_sees_all_and_has_no_buttons(world: World, job_id: int) -> None:
    reader = signed_in(world, "jobs:read")
    for address in READS:
        response = reader.get(address.format(job_id))
        assert response.status_code == 200, address
        sent = {form.action for form in Page(response.text).forms if form.method == "post"}
        assert sent == {"/search", "/sign-out"}, address
    for address in (*CHANGES, *OF_ADMINS, "/operations"):
        assert reader.post(address.format(job_id), WANTED).status_code == 403, address
    assert reader.get(f"/jobs/{job_id}/payload").status_code == 403
    assert world.job(job_id)["status"] == "error"


def test_a_token_that_writes_sees_no_personal_data(world: World, job_id: int) -> None:
    writer = signed_in(world, "jobs:read", "jobs:write")
    page = Page(writer.get(f"/jobs/{job_id}").text)
    assert {f"/jobs/{job_id}/requeue", f"/jobs/{job_id}/cancel"} <= {form.action for form in page.forms}
    assert f"/jobs/{job_id}/payload" not in page.links
    for address in OF_ADMINS:
        assert writer.post(address.format(job_id), WANTED).status_code == 403, address


def test_a_token_of_another_tenant_sees_and_changes_nothing(world: World, job_id: int) -> None:
    other = signed_in(world, "admin", tenant="alpha")
    for address in ("/jobs", "/errors", "/operations"):
        response = other.get(address)
        assert response.status_code == 200
        assert "beta" not in response.text, address
        assert f"/jobs/{job_id}" not in Page(response.text).links, address
    for address in ("/operations/1", "/jobs/{}", "/jobs/{}/payload"):
        assert other.get(address.format(job_id)).status_code == 404, address
    for address in ("/jobs?tenant_id=beta", "/errors?tenant_id=beta"):
        assert other.get(address).status_code == 403, address
    assert "Cancel 0 jobs?" in other.post("/operations/preview", WANTED).text
    assert other.post("/operations/preview", WANTED | {"tenant_id": "beta"}).status_code == 403
    for address in CHANGES[:3]:
        assert "does not exist" in other.follow(other.post(address.format(job_id))).text, address
    assert other.post("/operations/1/stop").status_code in (303, 404)
    assert world.job(job_id)["status"] == "error"
    assert world.value("select state from giftcard_operations where id = 1") == "running"

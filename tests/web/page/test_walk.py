"""Every route of the page, as the application itself lists them: who gets in, what forms need, what each view has."""

from collections.abc import Iterator
from typing import Any, cast

import pytest

from dev.postgres import Embedded
from lib.web.page.app import create_page
from lib.web.services import Services
from tests.support.hostile_rows import stock
from tests.support.world import ADMIN, API, CRON, World, a_world, settings_of
from tests.web.page.conftest import Browser
from tests.web.page.html import Page, create_token

PAGE = create_page(Services(settings_of(), cast(Any, None), cast(Any, None)))
# What the parameters of addresses name in the stocked world. A view with another parameter is walked with a made-up
# value, and may be a 404.
EXAMPLES: dict[str, Any] = {
    "schedule_id": 1,
    "endpoint_id": 1,
    "job_id": 1,
    "batch_id": 1,
    "tenant_id": "default",
    "correlation_id": "flow",
    "day": "2026-01-01",
}
# Without a session; each checks by itself what it needs to.
PUBLIC = {"static_file", "signing.form", "signing.sign_in", "signing.sign_out", "card_page.show", "card_page.file"}
PERSONAL = ("kate@example.com", "kate%40example.com", "Rodgers", "4111111111111111")
RULES = {rule.endpoint: rule for rule in PAGE.url_map.iter_rules() if rule.endpoint not in PUBLIC}
VIEWS = sorted(name for name, rule in RULES.items() if "GET" in (rule.methods or ()))
FORMS = sorted(name for name, rule in RULES.items() if "POST" in (rule.methods or ()))


def address(endpoint: str) -> str:
    rule = RULES[endpoint]
    made_up = {name: 1 if "Integer" in type(kind).__name__ else "flow" for name, kind in rule._converters.items()}
    values = {name: EXAMPLES.get(name, value) for name, value in made_up.items()}
    return str(PAGE.url_map.bind("").build(endpoint, values))


def declared(endpoint: str) -> dict[str, Any]:
    return vars(PAGE.view_functions[endpoint])


def allowed(endpoint: str) -> tuple[int, ...]:
    """The statuses of a view that lets somebody in."""
    return (200,) if RULES[endpoint].arguments <= set(EXAMPLES) else (200, 404)


@pytest.fixture(scope="module")
def stocked(postgres: Embedded, template: str) -> Iterator[World]:
    postgres.start()
    with a_world(postgres.create_database("page_walk", template=template)) as world:
        stock(world)
        yield world
    postgres.drop_database("page_walk")


@pytest.fixture(scope="module")
def sessions(stocked: World) -> dict[str, Browser]:
    """A browser of each kind of token that signs in."""
    tokens = {
        "admin": ADMIN,
        "reader": create_token(stocked, name="reader", scopes=["jobs:read"]),
        "tenant": create_token(stocked, name="tenant", scopes=["jobs:read"], tenant_id="default"),
        "other": create_token(stocked, name="other", scopes=["admin"], tenant_id="elsewhere"),
        "orders": API,
        "clock": CRON,
    }
    made = {name: Browser(stocked) for name in tokens}
    for name, token in tokens.items():
        assert made[name].sign_in(token).status_code == 303
    return made


def contents(world: World) -> dict[str, str]:
    """What each table holds; when a token was used last does not count."""
    rows = "select md5(coalesce(string_agg(row, ' ' order by row), '')) from (select {} from public.{} t) r(row)"
    return {t: world.value(rows.format("(to_jsonb(t) - 'last_used_at')::text", t)) for t in world.row_counts()}


@pytest.mark.parametrize("endpoint", sorted(RULES))
def test_each_route_declares_who_may_use_it(endpoint: str) -> None:
    assert {"scope", "all_tenants"} <= set(declared(endpoint)), "decorate it with session.view, or name it in PUBLIC"


@pytest.mark.parametrize("endpoint", VIEWS)
def test_a_view_lets_in_those_that_it_declares(stocked: World, sessions: dict[str, Browser], endpoint: str) -> None:
    path, needs, of_all = address(endpoint), declared(endpoint)["scope"], declared(endpoint)["all_tenants"]
    without = Browser(stocked).get(path)
    assert (without.status_code, without.headers["Location"].partition("?")[0]) == (303, "/sign-in")
    answers = {name: each.get(path) for name, each in sessions.items()}
    for answer in (without, *answers.values()):
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert answer.headers["Cache-Control"] == "no-store"
        assert "noindex" in answer.headers["X-Robots-Tag"]
    statuses = {name: answer.status_code for name, answer in answers.items()}
    assert statuses.pop("admin") in allowed(endpoint)
    assert {statuses.pop("orders"), statuses.pop("clock")} == {403}
    assert statuses.pop("reader") in (allowed(endpoint) if needs == "jobs:read" else (403,))
    assert statuses.pop("tenant") in (allowed(endpoint) if needs == "jobs:read" and not of_all else (403,))
    is_about_one = bool(RULES[endpoint].arguments)
    if "sandbox" in answers["other"].headers["Content-Security-Policy"]:  # a frame has no page of a problem
        assert answers["other"].text == "this token is for the tenant elsewhere only\n"
        return
    assert statuses.pop("other") in ((403,) if of_all else (403, 404) if is_about_one else (200,))


@pytest.mark.parametrize("endpoint", VIEWS)
def test_each_view_is_a_whole_page_of_its_own(sessions: dict[str, Browser], endpoint: str) -> None:
    response = sessions["admin"].get(address(endpoint))
    assert response.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert response.headers["Cache-Control"] == "no-store"
    assert "noindex" in response.headers["X-Robots-Tag"]
    assert response.headers["Referrer-Policy"] in ("same-origin", "no-referrer")
    is_framed = "sandbox" in response.headers["Content-Security-Policy"]
    if response.mimetype != "text/html" or is_framed:
        return
    page = Page(response.text)
    assert len(page.texts["h1"]) == 1, page.texts["h1"]
    assert page.title
    assert page.unlabelled == []
    assert len(page.ids) == len(set(page.ids)), sorted(page.ids)
    assert page.foreign == []
    for link in page.addresses:
        assert link.startswith(("/", "#", "?")), link
        assert not any(word in link for word in PERSONAL), link
    assert all("csrf" in form for form in page.posted), "a form without the session's token"


@pytest.mark.parametrize("endpoint", VIEWS)
def test_each_view_makes_two_calls_of_the_database_at_most(
    stocked: World, sessions: dict[str, Browser], endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    wire = stocked.store._wire
    call = type(wire).call

    def counted(self: Any, function: str, /, **arguments: Any) -> Any:
        calls.append(function)
        return call(self, function, **arguments)

    monkeypatch.setattr(type(wire), "call", counted)
    sessions["admin"].get(address(endpoint))
    assert len(calls) <= 2, calls


def test_no_two_views_have_the_same_title(sessions: dict[str, Browser]) -> None:
    shown = {name: sessions["admin"].get(address(name)) for name in VIEWS}
    titles = {
        name: Page(each.text).title
        for name, each in shown.items()
        if each.status_code == 200 and each.mimetype == "text/html" and "<main" in each.text
    }
    assert len(set(titles.values())) == len(titles), titles


def test_the_menu_has_what_the_token_may_see(sessions: dict[str, Browser]) -> None:
    for name in ("admin", "reader", "tenant", "other"):
        page = Page(sessions[name].get("/nothing").text)
        menu = [link for link in page.menu if link != "/nothing"]
        assert all(sessions[name].get(link).status_code == 200 for link in menu), (name, menu)
    assert "/tokens" in Page(sessions["admin"].get("/").text).menu
    assert "/tokens" not in Page(sessions["reader"].get("/").text).menu


@pytest.mark.parametrize("endpoint", FORMS)
def test_a_form_without_its_token_or_the_scope_changes_nothing(
    stocked: World, sessions: dict[str, Browser], endpoint: str
) -> None:
    path, before = address(endpoint), contents(stocked)
    fields = {"name": "shop", "reason": "why", "kind": "charge_unknown", "reference": "r", "scopes": "admin"}
    assert Browser(stocked).post(path, fields, csrf="x").status_code == 303
    for csrf in ("", "wrong", sessions["reader"].csrf()):
        assert sessions["admin"].post(path, fields, csrf=csrf).status_code == 403
    if declared(endpoint)["scope"] != "jobs:read":
        assert sessions["reader"].post(path, fields).status_code == 403
        assert sessions["tenant"].post(path, fields).status_code == 403
    assert sessions["orders"].post(path, fields).status_code == 403
    assert contents(stocked) == before


@pytest.mark.parametrize("endpoint", FORMS)
def test_a_form_about_what_is_not_there_leads_back_with_a_sentence(sessions: dict[str, Browser], endpoint: str) -> None:
    """No form without fields is an error of ours."""
    response = sessions["admin"].post(address(endpoint).replace("/1", "/999"))
    assert response.status_code in (200, 303, 404, 409, 422), response.text

"""Working through an API: what can be wrong with it, and that the token goes nowhere else."""

import json
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from flask import Flask, Response, redirect
from pydantic import SecretStr

from lib.api_client.jobs import JobsClient
from lib.api_client.transport import Transport
from lib.errors import Unavailable
from lib.jobs.schemas import BulkRequeueRequest, EnqueueRequest, Filter, JobRequest, Page
from lib.store.postgres import PostgresWire
from tests.cli.conftest import Door, NoDatabase, Served, dead_letters
from tests.support.world import ADMIN, API, World, an_order

Make = Callable[..., World]
Serve = Callable[[Any], Served]


@pytest.fixture
def desk(make_world: Make) -> World:
    """A machine without a database."""
    return make_world(wire=NoDatabase())


def test_url_may_come_from_the_environment(world: World, remote: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    (job_id,) = world.enqueue("email")
    monkeypatch.setenv("GIFTCARD_URL", f"{remote.url}/")
    assert Door(remote.app, world).json("show", job_id)["id"] == job_id


def test_empty_url_means_the_database(direct: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIFTCARD_URL", "https://giftcards.example.com")
    assert direct.run("--url", "", "list", "--json").exit_code == 0


def test_deployment_may_live_under_a_path(world: World, desk: World, serve: Serve) -> None:
    under = Served(lambda environ, start: mounted(world.app, environ, start))
    try:
        assert Door(desk.app, world, url=f"{under.url}/shop/").json("circuits")["circuits"] == []
    finally:
        under.close()


def mounted(app: Any, environ: dict[str, Any], start: Any) -> Any:
    assert environ["PATH_INFO"].startswith("/shop/api/")
    return app(environ | {"PATH_INFO": environ["PATH_INFO"].removeprefix("/shop")}, start)


def test_url_after_the_command_is_explained(direct: Door) -> None:
    assert "flask jobs --url https://… COMMAND" in direct.refuses("list", "--url", "https://example.com")


ADDRESSES = {
    "http://giftcards.example.com": "must begin with https://",
    "giftcards.example.com": "must be a URL like",
    "ftp://example.com": "must be a URL like",
    "https://": "must have a host",
    "https://[": "must have a host",
    "https://example.com:port": "a port that is a number",
    "https://example.com:99999": "must have a port from 1 to 65535",
    "https://kate:secret-word@example.com": "must hold no user",
    "https://example.com/?token=secret-word": "must hold no user",
    "https://exa mple.com\x7f": "must be a URL like",
}


def test_address_that_no_token_may_be_sent_to_is_refused(desk: World) -> None:
    for address, why in ADDRESSES.items():
        said = Door(desk.app, desk, url=address).refuses("list")
        assert why in said, address
        assert "secret-word" not in said


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (None, "set GIFTCARD_ADMIN_TOKEN to the admin token of 127.0.0.1"),
        (API, "requires a token with the scope admin"),
    ],
)
def test_token_that_does_not_open_the_door_is_refused(
    make_world: Make, remote: Door, token: str | None, why: str
) -> None:
    elsewhere = make_world(wire=NoDatabase(), GIFTCARD_ADMIN_TOKEN=token)
    said = Door(elsewhere.app, elsewhere, url=remote.url).refuses("status")
    assert why in said
    assert API not in said


def test_token_that_no_header_can_carry_is_refused(make_world: Make, remote: Door) -> None:
    elsewhere = make_world(wire=NoDatabase(), GIFTCARD_ADMIN_TOKEN="naïve")
    assert "no header can carry" in Door(elsewhere.app, elsewhere, url=remote.url).refuses("status")


def test_nobody_at_the_address_is_code_1(desk: World) -> None:
    said = Door(desk.app, desk, url="http://127.0.0.1:9").refuses("status", code=1)
    assert said.startswith("127.0.0.1 cannot be reached")


def test_database_behind_the_api_that_is_away_is_code_1(
    make_world: Make, desk: World, serve: Serve, database_url: str
) -> None:
    broken = make_world(wire=PostgresWire(psycopg.conninfo.make_conninfo(database_url, port=1, host="127.0.0.1")))
    door = Door(desk.app, desk, url=serve(broken.app).url)
    assert "the database is away" in door.refuses("pause", "email", code=1)


def test_database_that_is_away_is_code_1(make_world: Make, database_url: str) -> None:
    broken = make_world(wire=PostgresWire(psycopg.conninfo.make_conninfo(database_url, port=1, host="127.0.0.1")))
    door = Door(broken.app, broken)
    for command in (["pause", "email"], ["list"], ["tick"], ["requeue", "7"], ["requeue", "7", "8"]):
        assert "cannot be reached" in door.refuses(*command, code=1)


@pytest.fixture
def stranger() -> Flask:
    """Somebody else's application, which answers all kinds of things."""
    app = Flask("stranger")
    answers: dict[str, Any] = {
        "html": ("<html>Log in</html>", 200),
        "list": (["not", "an", "object"], 200),
        "lost": ({"error": "no such page"}, 404),
        "gate": ("Bad Gateway", 502),
        "deep": (Response("[" * 100_000, content_type="application/json"), 200),
        "moved": redirect("https://elsewhere.example.com/"),
        "busy": ({"title": "slow down", "detail": "a hundred a minute"}, 429),
        "cut": Response(iter([b"half"]), headers={"Content-Length": "1000"}),
    }

    @app.route("/<which>/api/<path:rest>", methods=["GET", "POST"])
    def answer(which: str, rest: str) -> Any:
        return answers[which]

    return app


def test_answer_that_is_not_ours_is_code_1(desk: World, serve: Serve, stranger: Flask) -> None:
    url = serve(stranger).url
    for which in ("html", "list", "lost", "gate", "deep"):
        said = Door(desk.app, desk, url=f"{url}/{which}").refuses("status", code=1)
        assert "not a response of this application: check --url" in said, which
    assert "redirects to https://elsewhere.example.com/" in Door(desk.app, desk, url=f"{url}/moved").refuses("status")
    assert "slow down: a hundred a minute" in Door(desk.app, desk, url=f"{url}/busy").refuses("status", code=1)


def test_answer_that_breaks_off_leaves_nobody_in_doubt(desk: World, serve: Serve, stranger: Flask) -> None:
    door = Door(desk.app, desk, url=f"{serve(stranger).url}/cut")
    assert "it may have been carried out" in door.refuses("cancel", 7, code=1)
    assert "it may have been carried out" not in door.refuses("status", code=1)


def test_response_that_never_ends_is_given_up(serve: Serve) -> None:
    def drip(environ: dict[str, Any], start: Any) -> Any:
        start("200 OK", [("Content-Type", "application/json")])
        for _ in range(100):
            yield b" "
            time.sleep(0.02)

    transport = Transport(serve(drip).url, token=SecretStr(ADMIN))
    with pytest.raises(Unavailable, match=r"took longer than 0\.1 s"):
        transport.request("GET", "/api/status", timeout=0.1)
    transport.close()


def test_body_that_is_too_large_for_the_api_says_what_to_do(remote: Door) -> None:
    jobs = [{"stage": "email", "correlation_id": f"f-{n}", "payload": an_order(message="x" * 1500)} for n in range(200)]
    said = remote.refuses("enqueue", "--file", "-", types=json.dumps(jobs))
    assert said.endswith("send fewer jobs at a time")


def test_token_is_never_an_option_and_never_shown(remote: Door) -> None:
    for command in ("list", "requeue", "enqueue", "tick"):
        assert "token" not in remote.says(command, "--help").lower()
    result = remote.run("--help")
    assert "--token" not in result.output
    assert ADMIN not in remote.run("status").output


def test_bulk_work_stops_when_its_time_is_over(world: World, remote: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lib.web.jobs._BULK_SECONDS", 0.0)
    dead_letters(world, 1001)
    transport = Transport(remote.url or "", token=SecretStr(ADMIN))
    far = JobsClient(transport)
    first = far.requeue_jobs(BulkRequeueRequest(all=True), budget=0)
    assert (first["requeued"], first["done"]) == (500, False)
    rest = far.requeue_jobs(BulkRequeueRequest(all=True, after=first["after"]), budget=60)
    assert (rest["requeued"], rest["done"]) == (501, True)
    transport.close()


@pytest.mark.parametrize(
    ("command", "models", "left_out"),
    [
        ("list", (Filter, Page), set()),
        ("requeue", (Filter, BulkRequeueRequest), {"filter", "already"}),
        ("enqueue", (JobRequest, EnqueueRequest), {"stage", "correlation_id", "jobs"}),
    ],
)
def test_every_field_of_the_api_is_an_option(
    direct: Door, command: str, models: tuple[Any, ...], left_out: set[str]
) -> None:
    text = direct.says(command, "--help")
    for name in {name for model in models for name in model.model_fields} - left_out:
        assert f"--{name.replace('_', '-')}" in text

"""Sentry hears what went wrong and nothing personal: real envelopes, at a real HTTP receiver."""

import gzip
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from dev import ROOT
from tests.support.world import ADMIN, API, CRON, ENVIRON, an_order

pytestmark = pytest.mark.slow

MAIL, CARD, SECRET, TOKEN = "kate@example.com", "4111 1111 1111 1111", "a-secret-of-tests-0123456789", "t0ken-of-" * 3

# A process of its own: the SDK is set up once a process, as on the platform.
PROGRAM = """
import json, sys, lib.stages
from pydantic import BaseModel, ConfigDict
from lib.errors import PermanentError, TransientError
from lib.job import Complete, NextJob
from lib.jobs.registry import Registry
from lib.jobs.stage import stage

class Anything(BaseModel):
    model_config = ConfigDict(extra="allow")

MAIL, CARD, SECRET = {personal!r}

@stage("work", payload=Anything)
def work(payload, context):
    local = [MAIL, CARD, SECRET]
    do = context.job.payload.get("do")
    if do == "retry" and context.job.attempts == 1:
        raise TransientError(f"no answer for {{MAIL}} with {{SECRET}}")
    if do == "die":
        raise PermanentError(f"{{MAIL}} {{CARD}} {{SECRET}}")
    if do == "bug":
        return look_up(MAIL)
    if do == "network":
        raise RuntimeError("no answer") from ConnectionResetError()
    return Complete(next=(NextJob(stage="after"),) if do == "follow" else ())

def look_up(name):
    local = [MAIL, CARD, SECRET]
    try:
        return {{}}[name]
    except KeyError as error:
        raise LookupError(f"nothing for {{name}}") from error

@stage("after", payload=Anything)
def after(payload, context):
    return Complete()

lib.stages.load = lambda settings: Registry({{"work": work, "after": after}})
from api.index import app

@app.get("/api/broken")
def broken():
    local = [MAIL, CARD, SECRET]
    raise RuntimeError(f"of {{MAIL}} {{CARD}} {{SECRET}}")

client = app.test_client()
for method, path, token, body in json.load(sys.stdin):
    headers = {{"Authorization": "Bearer " + token, "X-Person": MAIL}}
    response = client.open(path, method=method, headers=headers, json=body)
    print(response.status_code)
"""


class Receiver(ThreadingHTTPServer):
    """What Sentry's ingest is to the SDK."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.bodies: list[str] = []

    @property
    def dsn(self) -> str:
        return f"http://publickey@127.0.0.1:{self.server_address[1]}/1"

    def items(self, kind: str) -> list[dict[str, Any]]:
        """The items of a kind, of all envelopes."""
        found = []
        for body in self.bodies:
            lines = body.splitlines()[1:]
            for head, item in zip(lines[::2], lines[1::2], strict=False):
                if json.loads(head)["type"] == kind:
                    found.append(json.loads(item))
        return found


class _Request(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.bodies.append(
            (gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body).decode()
        )
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver() as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def run(url: str, receiver: Receiver, *calls: tuple[str, str, str, Any], **environ: str) -> list[str]:
    """The statuses of these calls, by an application in a process of its own."""
    given = {name: str(value) for name, value in ENVIRON.items()} | {
        "PATH": os.environ["PATH"],
        "DATABASE_URL": url,
        "SENTRY_DSN": receiver.dsn,
        "GIFTCARD_SECRET_TESTS": SECRET,
        **environ,
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(personal=(MAIL, CARD, SECRET))],
        input=json.dumps(calls),
        env=given,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return done.stdout.split()


def job(flow: str, **payload: str) -> tuple[str, str, str, Any]:
    return "POST", "/api/v1/jobs", ADMIN, {"stage": "work", "correlation_id": flow, "payload": payload | {"mail": MAIL}}


TICK = ("GET", "/api/cron/giftcard-jobs?who=" + MAIL, CRON, None)


def test_dead_letter_is_an_event_grouped_by_stage_and_kind_with_what_led_to_it(
    database_url: str, receiver: Receiver
) -> None:
    calls = [job("one", do="retry"), job("two", do="die"), TICK]
    # One after the other: in parallel, the second may end before the first.
    run(database_url, receiver, *calls, GIFTCARD_CONCURRENCY="1", GIFTCARD_LOG_LEVEL="debug")
    (event,) = receiver.items("event")
    assert event["fingerprint"] == ["work", "PermanentError"]
    assert (event["tags"]["stage"], event["level"], event["environment"]) == ("work", "error", "test")
    trail = [crumb["category"] for crumb in event["breadcrumbs"]["values"]]
    assert "run_failed" in trail
    assert trail.count("run_started") == 2


def test_bug_is_one_exception_with_its_frames_from_the_first_attempt_on(database_url: str, receiver: Receiver) -> None:
    run(database_url, receiver, job("one", do="bug"), job("two", do="bug"), TICK)
    (event,) = receiver.items("event")
    cause, bug = event["exception"]["values"]
    assert [cause["type"], bug["type"], bug["value"]] == ["KeyError", "LookupError", "nothing for [email]"]
    place = [(frame["filename"], frame["function"], frame["in_app"]) for frame in bug["stacktrace"]["frames"]]
    assert place == [("<string>", "work", True), ("<string>", "look_up", True)]
    assert PROGRAM.splitlines()[bug["stacktrace"]["frames"][-1]["lineno"] - 1].lstrip().startswith("raise LookupError")
    assert event["fingerprint"] == ["work", "LookupError", "<string> look_up"]
    assert (event["tags"]["stage"], event["tags"]["attempt"]) == ("work", "1")
    assert not any(value in "".join(receiver.bodies) for value in (MAIL, CARD, SECRET, str(ROOT), '"vars"'))


def test_bug_is_one_event_also_at_the_end_and_network_only_then(database_url: str, receiver: Receiver) -> None:
    run(database_url, receiver, job("one", do="bug"), TICK, GIFTCARD_MAX_ATTEMPTS="1")
    assert [event["tags"]["event"] for event in receiver.items("event")] == ["run_dead_lettered"]
    receiver.bodies.clear()
    run(database_url, receiver, job("two", do="network"), TICK)
    assert receiver.items("event") == []


def test_nothing_personal_is_in_any_envelope(database_url: str, receiver: Receiver) -> None:
    calls = [
        job("one", do="die"),
        TICK,
        ("GET", f"/api/broken?mail={MAIL}", ADMIN, None),
        ("POST", "/api/v1/giftcards", API, an_order(message=f"{MAIL} {CARD}")),
        *(("GET", f"/o/{TOKEN}page1?{TOKEN}", "", None), ("POST", "/api/v1/jobs", ADMIN, {"stage": MAIL})),
    ]
    run(database_url, receiver, *calls, SENTRY_TRACES_SAMPLE_RATE="1", GIFTCARD_PUBLIC_URL="https://cards.example.com")
    assert receiver.items("event")
    assert "/o/<path:token>" in [item["transaction"] for item in receiver.items("transaction")]
    everything = "\n".join(receiver.bodies)
    for personal in (MAIL, CARD, CARD.replace(" ", ""), SECRET, TOKEN, ADMIN, CRON, API, database_url):
        assert personal not in everything, personal
    assert '"vars"' not in everything


@pytest.mark.parametrize(
    "name", ["SMTP_URL", "GIFTCARD_PAYMENT_URL", "GIFTCARD_CARD_URL", "GIFTCARD_ALERT_URL", "DATABASE_URL"]
)
def test_password_of_no_url_is_in_any_envelope(database_url: str, receiver: Receiver, name: str) -> None:
    scheme = "smtp" if name == "SMTP_URL" else "http"
    url = f"{scheme}://kim:{SECRET}@127.0.0.1:9/"
    environ = {"GIFTCARD_SECRET_TESTS": "", name: url}
    if name == "DATABASE_URL":
        environ[name] = database_url.replace("postgres@", f"postgres:{SECRET}@")
    calls = [job("one", do="retry"), job("two", do="die"), TICK, ("GET", "/api/broken", ADMIN, None)]
    run(database_url, receiver, *calls, SENTRY_TRACES_SAMPLE_RATE="1", **environ)
    assert receiver.items("event")
    assert SECRET not in "\n".join(receiver.bodies)


def test_minute_checks_in_and_says_how_it_went(database_url: str, receiver: Receiver) -> None:
    run(database_url, receiver, TICK)
    begun, ended = receiver.items("check_in")
    assert (begun["status"], ended["status"]) == ("in_progress", "ok")
    assert begun["check_in_id"] == ended["check_in_id"]
    assert (begun["monitor_slug"], begun["monitor_config"]["schedule"]["value"]) == ("giftcard-jobs", "* * * * *")
    receiver.bodies.clear()
    broken = re.sub(r"@/[^?]*", "@/nobody_has_this", database_url)
    run(broken, receiver, TICK)
    assert [item["status"] for item in receiver.items("check_in")] == ["in_progress", "error"]


def test_trace_goes_from_the_enqueue_through_every_job_of_the_flow(database_url: str, receiver: Receiver) -> None:
    run(database_url, receiver, job("one", do="follow"), TICK, TICK, SENTRY_TRACES_SAMPLE_RATE="1")
    transactions = receiver.items("transaction")
    runs = {t["transaction"]: t for t in transactions if t["contexts"]["trace"]["op"] == "queue.process"}
    assert set(runs) == {"work", "after"}
    published = [span for t in transactions for span in t["spans"] if span["op"] == "queue.publish"]
    assert {run["contexts"]["trace"]["trace_id"] for run in runs.values()} == {published[0]["trace_id"]}
    assert runs["work"]["contexts"]["trace"]["data"]["messaging.destination.name"] == "work"


def test_without_a_dsn_nothing_is_imported_and_nothing_sent(database_url: str, receiver: Receiver) -> None:
    program = "import sys, api.index; print('sentry_sdk' in sys.modules)"
    given = {name: str(value) for name, value in ENVIRON.items()} | {"DATABASE_URL": database_url}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=given, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "False"
    assert receiver.bodies == []

"""Looking at jobs: list, show, history, status, stages, circuits."""

import shlex
from itertools import product

from tests.cli.conftest import Door, dead_letters
from tests.support.world import ADMIN, World, an_order, bearer

FILTERS: list[tuple[list[str], dict[str, str]]] = [
    ([], {}),
    (["--status", "error"], {"status": "error"}),
    (["--status", "completed", "--stage", "email"], {"status": "completed", "stage": "email"}),
    (["--circuit", "webhook:7"], {"circuit": "webhook:7"}),
    (["--tenant", "acme"], {"tenant_id": "acme"}),
    (["--tenant-id", "acme", "--flow", "a-1"], {"tenant_id": "acme", "correlation_id": "a-1"}),
    (["--correlation-id", "dead-1"], {"correlation_id": "dead-1"}),
    (["--error", "http 500"], {"error": "http 500"}),
    (["--created-after", "2001-01-01T00:00:00Z"], {"created_after": "2001-01-01T00:00:00Z"}),
    (["--created-before", "2001-01-01T00:00:00+02:00"], {"created_before": "2001-01-01T00:00:00+02:00"}),
    (["--limit", "2"], {"limit": "2"}),
]


def test_list_finds_what_the_api_finds(busy: World, door: Door) -> None:
    for options, query in FILTERS:
        found = door.json("list", *options)
        assert found == busy.client.get("/api/v1/jobs", query_string=query, headers=bearer(ADMIN)).json, options
        same = {name: query[name] for name in query if name in ("status", "stage", "tenant_id", "correlation_id")}
        assert all(job[name] == value for job in found["jobs"] for name, value in same.items()), options


def test_list_without_options_has_every_job(busy: World, door: Door) -> None:
    assert len(door.json("list")["jobs"]) == busy.value("select count(*) from public.giftcard_jobs")


def command_after(text: str, way: str) -> list[str]:
    """The command that a page names for the next one."""
    (line,) = (line for line in text.splitlines() if line.startswith(f"{way}: "))
    words = shlex.split(line.removeprefix(f"{way}: "))
    assert words[:2] == ["flask", "jobs"]
    return words[2:]


def test_the_commands_that_pages_name_lead_through_all_jobs_and_back(world: World, door: Door) -> None:
    dead_letters(world, 7, error="it's down")
    world.enqueue("email")
    everything = [f"dead-{n}" for n in range(7, 0, -1)]
    text = door.says("list", "--status", "error", "--limit", 3, "--error", "it's")
    pages = [text]
    while "older: " in pages[-1]:
        words = command_after(pages[-1], "older")
        pages.append(door.says(*words))
    seen = [word for page in pages for word in page.split() if word.startswith("dead-")]
    assert (seen, len(pages)) == (everything, 3)
    back = command_after(pages[-1], "newer")
    assert door.says(*back).splitlines()[1:5] == pages[1].splitlines()[1:5]


def test_cursors_are_in_the_json(world: World, door: Door) -> None:
    dead_letters(world, 5)
    first = door.json("list", "--limit", 2)
    second = door.json("list", "--limit", 2, "--older", first["older"])
    assert (first["newer"], second["newer"]) == (None, second["jobs"][0]["id"])
    assert first == door.json("list", "--limit", 2, "--newer", second["newer"]) | {"newer": None}


def test_list_says_why_each_job_waits(world: World, door: Door) -> None:
    world.enqueue("email", an_order())
    door.says("pause", "email", "--by", "ann", "--reason", "mail is down")
    assert "stage email is paused by ann: mail is down" in door.says("list", "--stage", "email")


def test_list_of_nothing_says_so(door: Door) -> None:
    assert door.says("list") == "No job matches.\n"


BAD_FILTERS = [
    (["--status", "dead"], "--status"),
    (["--stage", "E-Mail"], "--stage"),
    (["--created-after", "yesterday"], "--created-after"),
    (["--created-before", "2026-01-01T00:00:00"], "--created-before"),
    (["--limit", "0"], "--limit"),
    (["--limit", "many"], "--limit"),
    (["--older", "-3"], "--older"),
    (["--older", "3", "--newer", "1"], "older and newer exclude each other"),
    (["--tenant", ""], "--tenant-id"),
    (["--error", ""], "--error"),
    (["--nope"], "--nope"),
    (["extra"], "extra"),
]


def test_bad_filter_is_refused_by_its_name(door: Door) -> None:
    for options, named in BAD_FILTERS:
        assert named in door.refuses("list", *options)


# One job


def test_show_has_the_job_and_its_runs(busy: World, door: Door) -> None:
    job_id = busy.value("select id from public.giftcard_jobs where stage = 'payment' and status = 'completed'")
    found = door.json("show", job_id)
    assert (found["id"], found["status"], found["waiting_for"]) == (job_id, "completed", None)
    assert [run["status"] for run in found["history"]] == ["SUCCESS"]
    text = door.says("show", job_id)
    assert f"Job {job_id}" in text
    assert "completed" in text
    assert "SUCCESS" not in text


def test_show_of_a_dead_letter_says_what_to_do(personal: int, door: Door) -> None:
    text = door.says("show", personal)
    assert "waiting for: dead for good" in text
    assert f"flask jobs requeue {personal}" in text


def test_history_has_one_line_a_run_the_newest_first(world: World, door: Door) -> None:
    (job_id,) = world.enqueue("email", {"not": "an order"})
    for _ in range(3):
        world.tick()
        world.sql("update public.giftcard_jobs set status = 'queued', attempts = 0 where id = %s", job_id)
    runs = door.json("history", job_id)["runs"]
    assert [(run["run_no"], run["status"]) for run in runs] == [(3, "FAILED"), (2, "FAILED"), (1, "FAILED")]
    assert set(runs[0]) >= set(
        "run_no attempt status started_at finished_at start_delay_ms duration_ms error next_run_at".split()
    )
    lines = door.says("history", job_id).splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["run", "3", "2", "1"]
    assert len(door.json("history", job_id, "--limit", 2)["runs"]) == 2


def test_job_that_has_not_run_has_no_history(world: World, door: Door) -> None:
    (job_id,) = world.enqueue("email")
    assert door.json("history", job_id) == {"runs": [], "older": None}
    assert door.says("history", job_id) == f"Job {job_id} has not run yet.\n"


def test_job_that_does_not_exist_is_refused(door: Door) -> None:
    for command in ("show", "history", "requeue", "cancel"):
        assert door.refuses(command, 404) == "job 404 does not exist"


def test_job_id_that_is_none_is_refused(direct: Door) -> None:
    for command, number in product(
        ("show", "history", "requeue", "cancel"), ("0", "-1", "seven", str(2**63), "9" * 5000, "1.0", "٣")
    ):
        assert "is not an id" in direct.refuses(command, "--", number)

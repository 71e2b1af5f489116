"""The scripts that make Supabase Cron the clock, on stand-ins for its extensions (see tests/sql/supabase_cron)."""

from typing import Any

import pytest

from dev import ROOT
from tests.sql.scripts.running import Script, ScriptError
from tests.support.factory import World

DOOR = "/api/cron/giftcard-jobs"
SECRET = "a-secret-of-a-clock"
STAND_INS = [
    (ROOT / "tests/sql/supabase_cron" / name).read_text(encoding="utf-8") for name in ("cron.sql", "net_and_vault.sql")
]


@pytest.fixture
def supabase(world: World) -> World:
    """A database that has the extensions, and somebody else's use of them."""
    for text in STAND_INS:
        world.run(text)
    world.run("select cron.schedule('theirs', '0 * * * *', 'select 1')")
    world.run("select vault.create_secret('their secret', 'theirs')")
    world.run("select vault.create_secret(%s, 'giftcard_cron_secret')", SECRET)
    return world


def _start(
    script: Script, *, url: str = "https://shop.vercel.app", name: str = "giftcard_cron_secret"
) -> dict[str, str]:
    (answer,) = script("supabase_cron", p_url=f"'{url}'", p_secret_name=f"'{name}'")
    return answer


def _jobs(world: World) -> dict[str, dict[str, Any]]:
    return {job["jobname"]: job for job in world.rows("select * from cron.job")}


def _secrets(world: World) -> dict[str, str]:
    rows = world.rows("select name, decrypted_secret from vault.decrypted_secrets")
    return {row["name"]: row["decrypted_secret"] for row in rows}


def _call(world: World) -> dict[str, Any]:
    """What the clock's job puts into the queue of pg_net."""
    world.run("truncate net.http_request_queue")
    world.rows(_jobs(world)["giftcard-jobs"]["command"].replace("%", "%%"))
    (request,) = world.rows("select * from net.http_request_queue")
    return request


# Setting it up


def test_each_minute_the_door_is_called_with_the_secret_from_the_vault(script: Script, supabase: World) -> None:
    answer = _start(script)
    assert answer == {"clock": "giftcard-jobs", "schedule": "* * * * *", "calls": f"https://shop.vercel.app{DOOR}"}
    job = _jobs(supabase)["giftcard-jobs"]
    assert (job["schedule"], job["active"]) == ("* * * * *", True)
    assert SECRET not in job["command"], "anybody who may look at the jobs would see it"
    call = _call(supabase)
    assert (call["method"], call["url"]) == ("POST", f"https://shop.vercel.app{DOOR}")
    assert call["headers"]["Authorization"] == f"Bearer {SECRET}"
    assert call["timeout_milliseconds"] == 5000


def test_run_again_it_changes_what_has_changed_and_makes_nothing_twice(script: Script, supabase: World) -> None:
    _start(script)
    jobs = _jobs(supabase)
    _start(script)
    assert _jobs(supabase) == jobs
    supabase.run("select vault.create_secret('another-secret', 'another')")
    _start(script, url="https://another.example:8443/", name="another")
    assert {name: job["jobid"] for name, job in _jobs(supabase).items()} == {n: j["jobid"] for n, j in jobs.items()}
    call = _call(supabase)
    assert call["url"] == f"https://another.example:8443{DOOR}"
    assert call["headers"]["Authorization"] == "Bearer another-secret"


@pytest.mark.parametrize(
    "url",
    [
        *(
            "",
            "shop.vercel.app",
            "ftp://shop.vercel.app",
            "https://",
            "https://a b",
            "https://shop.vercel.app/api/cron",
        ),
        *("http://shop.vercel.app", "https://user:password@shop.vercel.app", "https://shop.vercel.app?x=1"),
        "https://shop.vercel.app\n",
    ],
)
def test_an_address_that_is_none_is_refused(script: Script, supabase: World, url: str) -> None:
    with pytest.raises(ScriptError, match="p_url must be the address of the deployment and nothing else"):
        _start(script, url=url)
    assert set(_jobs(supabase)) == {"theirs"}


@pytest.mark.parametrize("secret", ["", " ", "two words", "über", "line\nline"])
def test_a_secret_that_no_header_can_carry_is_refused_and_not_shown(
    script: Script, supabase: World, secret: str
) -> None:
    supabase.run("select vault.create_secret(%s, 'odd')", secret)
    with pytest.raises(ScriptError, match="the secret odd in Vault must be the deployment's CRON_SECRET") as raised:
        _start(script, name="odd")
    assert len(secret) < 2 or secret not in str(raised.value)
    assert set(_jobs(supabase)) == {"theirs"}


def test_a_secret_that_vault_does_not_have_is_named(script: Script, supabase: World) -> None:
    with pytest.raises(ScriptError, match="Vault has no secret named none: create it there"):
        _start(script, name="none")
    assert set(_jobs(supabase)) == {"theirs"}


def test_a_secret_that_is_changed_in_vault_is_sent_from_then_on(script: Script, supabase: World) -> None:
    _start(script)
    supabase.run("select vault.update_secret(id, 'a-new-one') from vault.secrets where name = 'giftcard_cron_secret'")
    assert _call(supabase)["headers"]["Authorization"] == "Bearer a-new-one"


def test_where_an_extension_is_missing_it_says_which(script: Script, world: World) -> None:
    with pytest.raises(ScriptError, match="the extension pg_cron is not enabled and cannot be from here"):
        _start(script)
    world.run(STAND_INS[0])
    with pytest.raises(ScriptError, match="the extension pg_net is not enabled and cannot be from here"):
        _start(script)
    assert _jobs(world) == {}


# Clearing up


def _ran(world: World, name: str, *, hours_ago: int) -> None:
    world.run(
        """insert into cron.job_run_details (jobid, status, start_time)
           select jobid, 'succeeded', now() - make_interval(hours => %s) from cron.job where jobname = %s""",
        hours_ago,
        name,
    )


def _runs(world: World) -> list[str]:
    runs = world.rows("select jobname from cron.job_run_details left join cron.job using (jobid) order by runid")
    return [run["jobname"] for run in runs]


def test_each_night_its_own_old_run_details_go_and_nobody_elses(script: Script, supabase: World) -> None:
    _start(script)
    for name in ("giftcard-jobs", "giftcard-jobs-prune", "theirs"):
        _ran(supabase, name, hours_ago=72)
    _ran(supabase, "giftcard-jobs", hours_ago=47)
    prune = _jobs(supabase)["giftcard-jobs-prune"]
    assert prune["schedule"] == "7 3 * * *"
    assert supabase.run(prune["command"]) == 2
    assert _runs(supabase) == ["theirs", "giftcard-jobs"]


def test_removing_it_counts_first_and_takes_all_of_it_away_then(script: Script, supabase: World) -> None:
    _start(script)
    _ran(supabase, "giftcard-jobs", hours_ago=24)
    _ran(supabase, "theirs", hours_ago=24)
    assert script("supabase_cron_remove") == [{"dry_run": "t", "jobs": "2"}]
    assert len(_jobs(supabase)) == 3
    assert script("supabase_cron_remove", p_dry_run="false") == [{"dry_run": "f", "jobs": "2"}]
    assert set(_jobs(supabase)) == {"theirs"}
    assert set(_secrets(supabase)) == {"theirs", "giftcard_cron_secret"}, "secrets are theirs who created them"
    assert _runs(supabase) == ["theirs"]
    assert script("supabase_cron_remove", p_dry_run="false") == [{"dry_run": "f", "jobs": "0"}]


def test_removing_what_never_was_does_no_harm(script: Script, world: World) -> None:
    assert script("supabase_cron_remove", p_dry_run="false") == [{"dry_run": "f", "jobs": "0"}]

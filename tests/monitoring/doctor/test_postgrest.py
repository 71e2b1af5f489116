"""The same through PostgREST: a wrong key, a stale schema cache."""

from collections.abc import Callable, Iterator

import psycopg
import pytest

from dev.migrate import migrate
from tests.monitoring.doctor.conftest import Examine, levels
from tests.support.postgrest.caller import ANON_KEY, SECRET_KEY, SERVICE_ROLE_KEY, jwt
from tests.support.postgrest.roles import make_like_supabase
from tests.support.postgrest.server import Server, stand_in
from tests.support.world import World
from tests.upgrade.conftest import MIGRATIONS

Make = Callable[..., World]


@pytest.fixture
def supabase(empty_database_url: str) -> Iterator[Server]:
    """A project of Supabase's, with our migrations."""
    make_like_supabase(empty_database_url)
    migrate(empty_database_url)
    with stand_in(empty_database_url) as server:
        yield server


@pytest.fixture
def deployed(make_world: Make, supabase: Server) -> Callable[..., World]:
    """A deployment that works through it, with this key."""
    return lambda key, name="SUPABASE_SECRET_KEY": make_world(
        DATABASE_URL=None, **{"SUPABASE_URL": supabase.url, name: key}
    )


@pytest.mark.parametrize(
    ("key", "name"), [(SECRET_KEY, "SUPABASE_SECRET_KEY"), (SERVICE_ROLE_KEY, "SUPABASE_SERVICE_ROLE_KEY")]
)
def test_a_healthy_deployment_on_supabase_is_green_in_every_line(
    deployed: Callable[..., World], examined: Examine, key: str, name: str
) -> None:
    world = deployed(key, name)
    world.tick()
    lines = examined(world)
    assert levels(lines) == {}
    assert len(lines) == 24


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (ANON_KEY, "not the publishable or anon key"),
        (jwt("service_role", secret="of another project, at least 32 characters"), "is not a key of the project"),
        ("sb_secret_of_another_project", "is not a key of the project at SUPABASE_URL"),
    ],
)
def test_a_wrong_key_is_one_red_line(deployed: Callable[..., World], examined: Examine, key: str, message: str) -> None:
    lines = examined(deployed(key))
    assert levels(lines) == {"database": "red"}
    assert "SUPABASE_SECRET_KEY" in lines["database"]["message"]
    assert message in lines["database"]["message"]
    assert key not in str(lines)


def test_a_stale_schema_cache_is_one_red_line_that_says_how_to_reload_it(
    make_world: Make, examined: Examine, empty_database_url: str
) -> None:
    with psycopg.connect(empty_database_url, autocommit=True) as owner, stand_in(empty_database_url) as server:
        make_like_supabase(empty_database_url)
        owner.execute("drop event trigger pgrst_ddl_watch")  # which would reload it at each change
        for path in MIGRATIONS:
            owner.execute(path.read_bytes().replace(b"notify pgrst", b"notify nobody"))
        world = make_world(DATABASE_URL=None, SUPABASE_URL=server.url, SUPABASE_SECRET_KEY=SECRET_KEY)
        lines = examined(world)
        assert levels(lines) == {"database": "red"}
        assert "reload PostgREST's schema cache (notify pgrst, 'reload schema')" in lines["database"]["message"]
        owner.execute("notify pgrst, 'reload schema'")
        while examined(world)["database"]["level"] == "red":
            pass
        world.tick()
        assert levels(examined(world)) == {}

"""A folder of migrations that has one more than the project: what the next release will bring."""

import shutil
from pathlib import Path

import pytest

from dev import ROOT

MIGRATIONS = sorted((ROOT / "supabase/migrations").glob("*.sql"))

NEXT = "29990101000000_next.sql"
# What a release may do: a column, a function of its own, another body for one that every tick calls.
NEXT_SQL = """
set local lock_timeout = '1s';
set local statement_timeout = '1500ms';
alter table public.giftcard_jobs add column note text;
create function public.giftcard_note(p_job_id bigint, p_note text) returns void
language sql volatile security invoker set search_path = '' as $$
  update public.giftcard_jobs set note = p_note where id = p_job_id
$$;
create or replace function public.giftcard_schema_version() returns jsonb
language sql stable security invoker set search_path = '' as $$
  select '{"version": 2, "oldest_code": OLDEST}'::jsonb
$$;
"""


@pytest.fixture
def next_release(tmp_path: Path) -> Path:
    """The folder; the code of today is still served by its schema."""
    return with_next(tmp_path / "next", oldest_code=1)


def with_next(folder: Path, *, oldest_code: int) -> Path:
    """The project's migrations and the next one, in a folder that `migrate` takes."""
    shutil.copytree(ROOT / "supabase/migrations", folder)
    (folder / NEXT).write_text(NEXT_SQL.replace("OLDEST", str(oldest_code)), encoding="utf-8")
    return folder

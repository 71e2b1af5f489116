"""The next migrations: columns of the two busiest tables, an index, a tick function with one more argument.

They are written as CONTRIBUTING.md asks for, and the linter reads them (tests/proof). `FAULTS` are mistakes to plant.
"""

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from dev import ROOT
from lib.store.store import CODE_VERSION
from proof.upgrade.patches import replaced

_SCHEMAS = ROOT / "supabase/schemas"
_BOUNDS = "set local lock_timeout = '1s';\nset local statement_timeout = '1500ms';\n"

COLUMN = "29990101000000_note_of_jobs.sql"
INDEX = "29990101000001_index_of_notes.sql"
FUNCTIONS = "29990101000002_region_of_ticks.sql"

_COLUMN_SQL = f"{_BOUNDS}alter table public.giftcard_jobs add column note text not null default '';\n"
_INDEX_SQL = """-- squawk-disable-assume-in-transaction
set lock_timeout = '5min';
set statement_timeout = '1h';
drop index concurrently if exists public.giftcard_jobs_noted;
create index concurrently if not exists giftcard_jobs_noted on public.giftcard_jobs (id) where note <> '';
"""
_NOTE_SQL = """
create function public.giftcard_note(p_job_id bigint, p_note text) returns void
language sql volatile security invoker set search_path = '' as $$
  update public.giftcard_jobs set note = p_note where id = p_job_id
$$;
"""
_GRANTS_SQL = """
do $$
declare
  v_function regprocedure;
begin
  for v_function in select oid from pg_proc where proname in ('giftcard_note', 'giftcard_begin_tick_v2') loop
    execute format('revoke all on function %s from public', v_function);
    if exists (select from pg_roles where rolname = 'service_role') then
      execute format('revoke all on function %s from anon, authenticated', v_function);
      execute format('grant execute on function %s to service_role', v_function);
    end if;
  end loop;
end $$;
"""

Files = dict[str, str]


def versions() -> tuple[int, int]:
    """Return the schema's version and the oldest code that it supports."""
    found = re.search(r'"version": (\d+), "oldest_code": (\d+)', (_SCHEMAS / "16_versions.sql").read_text())
    assert found is not None, "giftcard_schema_version states no versions"
    return int(found[1]), int(found[2])


def definition(function: str) -> str:
    """Return the statement that creates a function of the schema."""
    for path in sorted(_SCHEMAS.glob("*.sql")):
        found = re.search(rf"(?ms)^create function public\.{function}\(.*?\$\$;$", path.read_text(encoding="utf-8"))
        if found:
            return found[0]
    raise AssertionError(f"the schema has no function {function}")


def with_region(function: str) -> str:
    """Return the function that begins a tick with one more argument, which it writes into the tick's row."""
    text = replaced(definition("giftcard_begin_tick"), "giftcard_begin_tick", function)
    text = replaced(text, "p_wake jsonb default null)", "p_wake jsonb default null, p_region text default null)")
    update = "update public.giftcard_ticks set region = p_region where id = c.tick_id;"
    return replaced(text, "v_id := c.tick_id;", f"v_id := c.tick_id;\n    {update}")


def next_migrations() -> Files:
    """Return the files by name."""
    version, _ = versions()
    schema = replaced(definition("giftcard_schema_version"), f'"version": {version}', f'"version": {version + 1}')
    functions = [
        "alter table public.giftcard_ticks add column region text;\n",
        with_region("giftcard_begin_tick_v2"),
        _NOTE_SQL,
        *(_replacing(one) for one in (schema, definition("giftcard_step"), definition("giftcard_advance_tick"))),
        _GRANTS_SQL,
        "notify pgrst, 'reload schema';\n",
    ]
    return {COLUMN: _COLUMN_SQL, INDEX: _INDEX_SQL, FUNCTIONS: _BOUNDS + "\n".join(functions)}


def _replacing(statement: str) -> str:
    return replaced(statement, "create function", "create or replace function")


# Mistakes, each of which the proof has to find.


def _long_lock(files: Files) -> Files:
    """A rewrite of a large table, without bounds: it holds its lock for seconds."""
    sql = "alter table public.giftcard_jobs add column note text not null default '';\nselect pg_sleep(3);\n"
    return files | {COLUMN: sql}


def _dropped_column(files: Files) -> Files:
    """A column goes that the functions of the previous code read."""
    return files | {FUNCTIONS: files[FUNCTIONS] + "alter table public.giftcard_jobs drop column context cascade;\n"}


def _two_of_one_name(files: Files) -> Files:
    """`create or replace` with one more argument makes a second function: no call finds either."""
    second = _replacing(with_region("giftcard_begin_tick"))
    return files | {FUNCTIONS: f"{files[FUNCTIONS]}\n{second}\n"}


def _refused_code(files: Files) -> Files:
    """The schema supports no code but the next, while the previous one still runs."""
    _, oldest = versions()
    sql = replaced(files[FUNCTIONS], f'"oldest_code": {oldest}', f'"oldest_code": {CODE_VERSION + 1}')
    return files | {FUNCTIONS: sql}


FAULTS: Mapping[str, Callable[[Files], Files]] = {
    "long-lock": _long_lock,
    "dropped-column": _dropped_column,
    "two-of-one-name": _two_of_one_name,
    "refused-code": _refused_code,
}


def write(folder: Path, fault: str | None = None) -> None:
    """Write the files into a folder of migrations, with a fault."""
    files = next_migrations()
    plant = FAULTS.get(fault or "")
    for name, sql in (plant(files) if plant else files).items():
        (folder / name).write_text(sql, encoding="utf-8")

"""The schema cache: what functions and tables there are, and which function a call means."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import psycopg

from tests.support.postgrest.problems import Problem

# Settings of a function that PostgREST makes settings of the transaction before the call (db-hoisted-tx-settings).
_HOISTED = ("statement_timeout", "plan_filter.statement_cost_limit", "default_transaction_isolation")
_UNNAMED = {
    "application/json": ("json", "jsonb"),
    "text/plain": ("text",),
    "text/xml": ("xml",),
    "application/octet-stream": ("bytea",),
}
_SIMILAR = 0.75

_FUNCTIONS = """
with arguments as (
  select p.oid,
         array_agg(array[coalesce(a.name, ''), a.type::regtype::text, (a.n <= p.pronargs - p.pronargdefaults)::text,
                         coalesce(a.mode = 'v', false)::text] order by a.n) as args,
         case count(*) - count(nullif(a.name, '')) when 0 then true
              when 1 then (array_agg(a.type::regtype::text))[1] = any ('{bytea,json,jsonb,text,xml}')
              else false end as callable
    from pg_proc p, unnest(p.proargnames, p.proargtypes::oid[], p.proargmodes) with ordinality a(name, type, mode, n)
   where a.type is not null and a.type <> 0 group by p.oid)
select n.nspname, p.proname, coalesce(a.args, '{}'), p.proretset,
       t.typtype = 'c' or coalesce(p.proargmodes::text[] && '{t,b,o}', false),
       t.typname = 'void' and tn.nspname = 'pg_catalog',
       p.provolatile = 'v', coalesce(p.proconfig, '{}')
  from pg_proc p
  join pg_namespace n on n.oid = p.pronamespace
  join pg_type t on t.oid = p.prorettype
  join pg_namespace tn on tn.oid = t.typnamespace
  left join arguments a on a.oid = p.oid
 where p.prokind = 'f' and t.typname <> 'trigger' and coalesce(a.callable, true) and n.nspname = any (%s)
 order by p.oid
"""
_TABLES = """
select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
 where c.relkind in ('r', 'v', 'm', 'p', 'f') and n.nspname = any (%s)
"""


@dataclass(frozen=True, slots=True)
class Parameter:
    """`name` may be empty."""

    name: str
    type: str
    required: bool
    variadic: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Routine:
    """A function. `composite`: it answers rows with columns. `many`: a set of whatever it answers."""

    schema: str
    name: str
    parameters: tuple[Parameter, ...]
    many: bool
    composite: bool
    void: bool
    volatile: bool
    settings: dict[str, str]

    @property
    def takes_the_body(self) -> bool:
        """Whether its one parameter has no name."""
        return len(self.parameters) == 1 and not self.parameters[0].name

    def takes(self, names: set[str]) -> bool:
        required = {p.name for p in self.parameters if p.required}
        optional = {p.name for p in self.parameters if not p.required}
        return names - optional == required

    def takes_unnamed(self, content_type: str) -> bool:
        return self.takes_the_body and self.parameters[0].type in _UNNAMED.get(content_type, ())


class SchemaCache:
    """As it was when it was read: what was made since is not there yet."""

    def __init__(self, connection: psycopg.Connection, schemas: Sequence[str]) -> None:
        self._routines: dict[tuple[str, str], list[Routine]] = {}
        for schema, name, args, many, composite, void, volatile, config in connection.execute(
            _FUNCTIONS, [list(schemas)]
        ):
            parameters = tuple(Parameter(a[0], a[1], a[2] == "true", a[3] == "true") for a in args)
            settings = dict(setting.split("=", 1) for setting in config)
            routine = Routine(
                schema=schema, name=name, parameters=parameters, many=many, composite=composite, void=void,
                volatile=volatile, settings={name: settings[name] for name in _HOISTED if name in settings},
            )  # fmt: skip
            self._routines.setdefault((schema, name), []).append(routine)
        self.tables = set(connection.execute(_TABLES, [list(schemas)]).fetchall())

    def find(self, schema: str, name: str, names: set[str], *, posted: str | None) -> Routine:
        """The function that takes arguments of these names. `posted`: the body's content type, None without one."""
        called = self._routines.get((schema, name), [])
        raw = posted not in (None, "application/json")
        named = [r for r in called if r.takes(names) and not r.takes_the_body and not (raw and not r.parameters)]
        unnamed = [r for r in called if posted and r.takes_unnamed(posted)]
        found = named or unnamed
        if len(found) > 1:
            raise _ambiguous(found)
        if not found:
            raise self._missing(schema, name, names, posted=posted)
        return found[0]

    def _missing(self, schema: str, name: str, names: set[str], *, posted: str | None) -> Problem:
        function = f"{schema}.{name}"
        listed = ", ".join(sorted(names))
        with_names = f" with parameter{'s' if len(names) > 1 else ''} {listed}" if names else " without parameters"
        signature = f"({listed})" if names else " without parameters"
        hint = self._hint(schema, name, names)
        if posted == "application/json":
            with_names += " or with a single unnamed json/jsonb parameter"
        elif posted:
            with_names, signature, hint = f" with a single unnamed {_UNNAMED[posted][0]} parameter", "", None
        return Problem(
            404,
            "PGRST202",
            f"Could not find the function {function}{signature} in the schema cache",
            details=f"Searched for the function {function}{with_names}, but no matches were found in the schema cache.",
            hint=hint,
        )

    def _hint(self, schema: str, name: str, names: set[str]) -> str | None:
        """A name, or parameters, much like these. PostgREST measures likeness in another way, so it may differ."""
        called = self._routines.get((schema, name))
        if called is None:
            known = [n for s, n in self._routines if s == schema]
            near = difflib.get_close_matches(name, known, n=1, cutoff=_SIMILAR)
            return f"Perhaps you meant to call the function {schema}.{near[0]}" if near else None
        known = [_list(p.name for p in r.parameters) for r in called]
        near = difflib.get_close_matches(_list(names), known, n=1, cutoff=0.33)
        return f"Perhaps you meant to call the function {schema}.{name}{near[0]}" if near else None


def _list(names: Iterable[str]) -> str:
    return f"({', '.join(sorted(names))})"


def _ambiguous(found: list[Routine]) -> Problem:
    listed = ", ".join(
        f"{r.schema}.{r.name}({', '.join(f'{p.name} => {p.type}' for p in r.parameters)})" for r in found
    )
    hint = "Try renaming the parameters or the function itself in the database so function overloading can be resolved"
    return Problem(300, "PGRST203", f"Could not choose the best candidate function between: {listed}", hint=hint)

"""Checks of the database itself, over what `giftcard_doctor` answered."""

from lib.monitoring.doctor.finding import Finding, Patient, green, red, span, yellow
from lib.store.store import CODE_VERSION, OLDEST_SCHEMA

# Autovacuum begins at 10,000 dead rows (10_jobs.sql): so many more mean that it is held up.
_DEAD_ROWS = 50_000
# Seconds. A snapshot that is held keeps dead rows in the way of each claim.
_LONG_TRANSACTION = 300
_VERY_LONG_TRANSACTION = 3_600
# Seconds between the clocks of function and database.
_CLOCKS_APART = 5
_CLOCKS_FAR_APART = 60


def schema(patient: Patient) -> Finding:
    """Code and schema serve each other: each says its version and the oldest of the other that it works with."""
    version, oldest_code = patient.facts["schema"]["version"], patient.facts["schema"]["oldest_code"]
    what = f"the schema is at {version} and serves code from {oldest_code} on, this code is {CODE_VERSION}"
    if oldest_code > CODE_VERSION:
        return red(f"{what}: no job is claimed", mend="deploy newer code")
    if version < OLDEST_SCHEMA:
        return red(f"{what} and needs schema {OLDEST_SCHEMA}", mend="run the migrations: make migrate")
    if version < CODE_VERSION:
        return yellow(f"{what}: it works, without what is new", mend="run the migrations: make migrate")
    if version > CODE_VERSION:
        return yellow(f"{what}: it works, without what is new", mend="deploy the code that the migrations came with")
    return green(f"schema and code are at {version}")


def grants(patient: Patient) -> Finding:
    """Nobody but the owner and the service role touches what is ours, and we are one of them."""
    if patient.facts["hides_rows"]:
        return red(
            "row level security hides every row from the role in DATABASE_URL",
            mend="take the role that ran the migrations, on Supabase postgres",
        )
    doors = patient.facts["excess_privileges"]
    if not doors:
        return green("open to the owner and the service role alone")
    first = [f"{door['kind']} {door['name']} to {door['granted_to']}" for door in doors[:3]]
    more = f" and {len(doors) - 3} more" if len(doors) > 3 else ""
    return red(
        f"open: {', '.join(first)}{more}",
        mend='psql "$DATABASE_URL" -f supabase/schemas/90_grants.sql, or paste that file into the SQL editor',
    )


def clocks(patient: Patient) -> Finding:
    """The database's clock decides; the function's signs requests and checks certificates."""
    # The answer was made at some moment of the call: so much is not known.
    apart = max(0.0, abs(patient.facts["clock"] - (patient.clock - patient.took / 2)) - patient.took / 2)
    if apart <= _CLOCKS_APART:
        return green("function and database agree on the time")
    colour = red if apart > _CLOCKS_FAR_APART else yellow
    return colour(
        f"the clocks of function and database are {span(apart)} apart",
        mend="the database's decides when jobs run: see to the time of whichever machine is wrong",
    )


def transactions(patient: Patient) -> Finding:
    """No transaction is held open: it keeps dead rows in the way, and migrations waiting."""
    oldest = patient.facts["oldest_transaction"]
    limits = "" if patient.facts["sees_all"] else ", as far as this role may see"
    if oldest is None or oldest["age"] <= _LONG_TRANSACTION:
        return green(f"none is held open{limits}")
    colour = red if oldest["age"] > _VERY_LONG_TRANSACTION else yellow
    who = f"process {oldest['pid']} ({oldest['application'] or 'no name'})"
    return colour(
        f"{who} has had one open for {span(oldest['age'])}",
        mend=f"end it: select pg_terminate_backend({oldest['pid']})",
    )


def vacuum(patient: Patient) -> Finding:
    """Dead rows of the job table go: they are what makes a claim slow."""
    dead = patient.facts["dead_rows"]
    if dead <= _DEAD_ROWS:
        return green(f"giftcard_jobs has {dead:,} dead rows")
    return yellow(
        f"giftcard_jobs has {dead:,} dead rows: vacuum does not keep up",
        mend="end what holds it up (the line transactions), then: vacuum analyze public.giftcard_jobs",
    )

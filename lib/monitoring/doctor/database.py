"""Checks of the database itself."""

from lib.monitoring.doctor.finding import Deployment, Finding, green, red, span, yellow
from lib.store.store import CODE_VERSION, OLDEST_SCHEMA

# Autovacuum begins at 10,000 dead rows (10_jobs.sql): this many mean that it is held up.
_DEAD_ROWS = 50_000
# Seconds. An open snapshot keeps dead rows, which every claim has to skip.
_LONG_TRANSACTION = 300
_VERY_LONG_TRANSACTION = 3_600
# Seconds between the clocks of function and database.
_CLOCKS_APART = 5
_CLOCKS_FAR_APART = 60


def writable(deployment: Deployment) -> Finding:
    """Check that the database accepts writes."""
    if deployment.facts["in_recovery"]:
        return red(
            "the database is in recovery, so it only reads: it is a replica, or has not finished starting",
            fix="use the address of the primary; after a crash, wait until it has started",
        )
    if deployment.facts["read_only"]:
        return red(
            "the database is read-only: no order is taken and no job runs",
            fix="free disk space or enlarge the disk (Supabase does this at 95 %), then see docs/doctor.md#writable",
        )
    if deployment.facts.get("disk_full"):
        return red(
            "the disk of the database is full: no order is taken and no job ends",
            fix="free disk space or enlarge the disk; see docs/doctor.md#writable",
        )
    return green("the database accepts writes")


def schema(deployment: Deployment) -> Finding:
    """Check that code and schema support each other's versions."""
    version, oldest_code = deployment.facts["schema"]["version"], deployment.facts["schema"]["oldest_code"]
    versions = f"the schema is at {version} and supports code from {oldest_code} on, this code is at {CODE_VERSION}"
    if oldest_code > CODE_VERSION:
        return red(f"{versions}: no job is claimed", fix="deploy newer code")
    if version < OLDEST_SCHEMA:
        return red(f"{versions} and needs schema {OLDEST_SCHEMA}", fix="run the migrations: make migrate")
    if version < CODE_VERSION:
        return yellow(f"{versions}: new features are missing", fix="run the migrations: make migrate")
    if version > CODE_VERSION:
        return yellow(f"{versions}: new features are missing", fix="deploy the code that the migrations came with")
    return green(f"schema and code are at {version}")


def grants(deployment: Deployment) -> Finding:
    """Check that only the owner and the service role have privileges, and that this role is one of them."""
    if deployment.facts["hides_rows"]:
        return red(
            "row level security hides every row from the role in DATABASE_URL",
            fix="use the role that ran the migrations (on Supabase: postgres)",
        )
    excess = deployment.facts["excess_privileges"]
    if not excess:
        return green("only the owner and the service role have privileges")
    first = [f"{grant['kind']} {grant['name']} to {grant['granted_to']}" for grant in excess[:3]]
    more = f" and {len(excess) - 3} more" if len(excess) > 3 else ""
    return red(
        f"excess privileges: {', '.join(first)}{more}",
        fix='psql "$DATABASE_URL" -f supabase/schemas/90_grants.sql, or paste that file into the SQL editor',
    )


def clocks(deployment: Deployment) -> Finding:
    """Check that the clocks agree: the database's decides, the function's signs requests and checks certificates."""
    # The database read its clock at some moment of the call: that much is uncertain.
    apart = max(0.0, abs(deployment.facts["clock"] - (deployment.clock - deployment.took / 2)) - deployment.took / 2)
    if apart <= _CLOCKS_APART:
        return green("function and database agree on the time")
    colour = red if apart > _CLOCKS_FAR_APART else yellow
    return colour(
        f"the clocks of function and database are {span(apart)} apart",
        fix="correct the clock that is wrong; the database's decides when jobs run",
    )


def transactions(deployment: Deployment) -> Finding:
    """Check for transactions held open: they keep dead rows and block migrations."""
    oldest = deployment.facts["oldest_transaction"]
    limits = "" if deployment.facts["sees_all"] else ", as far as this role can see"
    if oldest is None or oldest["age"] <= _LONG_TRANSACTION:
        return green(f"no transaction is held open{limits}")
    colour = red if oldest["age"] > _VERY_LONG_TRANSACTION else yellow
    process = f"process {oldest['pid']} ({oldest['application'] or 'no name'})"
    return colour(
        f"{process} has held a transaction open for {span(oldest['age'])}",
        fix=f"end it: select pg_terminate_backend({oldest['pid']})",
    )


def vacuum(deployment: Deployment) -> Finding:
    """Check that vacuum removes dead rows of the job table: they slow down claims."""
    dead = deployment.facts["dead_rows"]
    if dead <= _DEAD_ROWS:
        return green(f"giftcard_jobs has {dead:,} dead rows")
    return yellow(
        f"giftcard_jobs has {dead:,} dead rows: vacuum does not keep up",
        fix="end what blocks it (see the line transactions), then: vacuum analyze public.giftcard_jobs",
    )

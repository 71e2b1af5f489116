"""What has to be true of an upgrade: each broken fact is a line that names its order, job or process."""

from pathlib import Path
from typing import Any

import psycopg

from dev.keys import secrets_file
from lib.store.postgres import PostgresWire
from lib.store.store import Store
from proof.upgrade.fleet import Fleet

STAGES = ("customer_ingest", "personal_code", "payment", "issue_card", "email")

MAILED = "select count(*) from giftcard_jobs where stage = 'email' and status = 'completed'"
OPEN = "select stage, status, count(*) from giftcard_jobs where status <> 'completed' group by 1, 2"
OPEN_JOBS = "select count(*) from giftcard_jobs where status in ('queued', 'running')"
RECEIPTS_TO_COME = """
    select count(*) from giftcard_jobs
     where stage = 'receipt' and status = 'queued' and scheduled_at > clock_timestamp() + interval '1 second'"""
RECEIPTS_OPEN = "select count(*) from giftcard_jobs where stage = 'receipt' and status <> 'completed'"
RECEIPTS_OVERDUE = """
    select count(*) from giftcard_jobs
     where stage = 'receipt' and status = 'queued' and scheduled_at < clock_timestamp()"""
# One that a stopped process has given back had a run, and no attempt.
RECEIPTS_UNTOUCHED = """
    select count(*) from giftcard_jobs
     where stage = 'receipt' and status = 'queued' and attempts = 0 and last_error is null"""
# A run that a stopped process has given back is none.
FAILED_RUNS = """
    select format('run %s of job %s (%s) ended as %s: %s', run_no, job_id, stage, result, error)
      from giftcard_job_history where result not in ('SUCCESS', 'RELEASED') order by finished_at limit 5"""
FAILED_TICKS = """
    select distinct 'a tick failed: ' || error from giftcard_ticks
     where stopped_because = 'failed' and error not like '%run the migrations%' limit 3"""

_RUNS = """
    select j.correlation_id, j.stage, h.lock_owner, h.result
      from giftcard_job_history h join giftcard_jobs j on j.id = h.job_id"""
_JOBS = "select correlation_id, stage from giftcard_jobs where stage <> 'receipt' order by id"

_BROKEN = (
    """select format('order %s has %s payments over %s', o.correlation_id, count(p.id), min(p.amount))
         from giftcard_orders o left join giftcard_payments p using (tenant_id, correlation_id)
        group by o.correlation_id, o.amount
       having count(p.id) <> 1 or min(p.amount) <> o.amount""",
    """select format('order %s has %s cards over %s', o.correlation_id, count(c.id), min(c.amount))
         from giftcard_orders o left join giftcard_cards c using (tenant_id, correlation_id)
        group by o.correlation_id, o.amount
       having count(c.id) <> 1 or min(c.amount) <> o.amount""",
    """select format('job %s (%s of %s) is %s: %s', id, stage, correlation_id, status, last_error)
         from giftcard_jobs where status <> 'completed'""",
    """select format('job %s (%s of %s) had %s runs, and succeeded %s times',
                     j.id, j.stage, j.correlation_id, j.run_no, count(h.run_no))
         from giftcard_jobs j left join giftcard_job_history h on h.job_id = j.id and h.result = 'SUCCESS'
        group by j.id having count(h.run_no) <> 1""",
    """select format('effect %s of %s has no result', name, correlation_id)
         from giftcard_effects where result is null""",
    """select format('the index %s is not valid', indexrelid::regclass)
         from pg_index where not indisvalid""",
    FAILED_RUNS,
)


def environment(url: str, folder: Path) -> dict[str, str]:
    """Return the settings of all processes."""
    return {
        "DATABASE_URL": url,
        "GIFTCARD_ENV": "test",
        "GIFTCARD_TICK_LINGER": "0",
        "GIFTCARD_JOBS_PER_CRON_RUN": "20",
        "GIFTCARD_MAIL_DIR": str(folder / "mails"),
        **secrets_file(folder / "secrets.json"),
    }


class _Facts:
    """The rows, with the version that each run was of."""

    def __init__(self, connection: psycopg.Connection, fleet: Fleet, *, new: int) -> None:
        self._connection, self._new = connection, new
        versions = {process.owner: process.version for process in fleet.processes}
        all_runs = [(name, stage, versions.get(owner), result) for name, stage, owner, result in self.rows(_RUNS)]
        self.claims = [(name, stage, version) for name, stage, version, _ in all_runs]
        self.runs = [(name, stage, version) for name, stage, version, result in all_runs if result == "SUCCESS"]

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        return self._connection.execute(query.encode()).fetchall()

    def of_orders(self, names: list[str]) -> list[str]:
        """Compare the jobs of each order with those that it has to have."""
        found: dict[str, list[str]] = {}
        for name, stage in self.rows(_JOBS):
            found.setdefault(name, []).append(stage)
        lines = [f"order {name} is lost" for name in names if name not in found]
        return lines + [f"order {name} has the jobs {its}" for name, its in found.items() if tuple(its) != STAGES]

    def of_versions(self) -> list[str]:
        """Check who ran what: no receipt by code that does not know it, and both versions have run orders."""
        lines = [f"{stage} of {name} was run by an unknown process" for name, stage, one in self.claims if one is None]
        lines += [
            f"the receipt of {name} was run by version {version}, which does not know the stage"
            for name, stage, version in self.claims
            if stage == "receipt" and version != self._new
        ]
        versions = {version for _, stage, version in self.runs if stage != "receipt"}
        if len(versions) != 2:
            lines.append(f"orders were run by the versions {sorted(map(str, versions))} only")
        return lines

    def of_receipts(self) -> list[str]:
        """Check that the orders that the next code has mailed have a receipt, and others none."""
        mailed = {name for name, stage, version in self.runs if stage == "email" and version == self._new}
        had = {name for name, stage, _ in self.runs if stage == "receipt"}
        forms = {name: 1 + (version == self._new) for name, stage, version in self.runs if stage == "personal_code"}
        lines = [f"order {name} has no receipt" for name in sorted(mailed - had)]
        lines += [f"order {name} has a receipt, and was mailed by the previous code" for name in sorted(had - mailed)]
        for name, note in self.rows("select correlation_id, note from giftcard_jobs where stage = 'receipt'"):
            if note != f"form {forms[name]}":
                lines.append(f"the receipt of {name} notes {note!r}, and its code has form {forms[name]}")
        for number in {1, 2} - {forms[name] for name in had}:
            lines.append(f"no receipt reads a code of form {number}: {len(had)} receipts")
        return lines

    def of_ticks(self, fleet: Fleet) -> list[str]:
        """Check what ticks have recorded: their version, the stages that they know, the new column."""
        query = """select owner, code_version, stages ? 'receipt', region, count(*) from giftcard_ticks
                    where stopped_because is distinct from 'failed' group by 1, 2, 3, 4"""
        lines = []
        for owner, code, knows, region, count in self.rows(query):
            version = fleet.version_of(owner)
            is_new = version == self._new
            if (code, knows, region) != (version, is_new, "cdg1" if is_new else None):
                recorded = f"version {code}, knows receipts: {knows}, region {region}"
                lines.append(f"{count} ticks of {owner} (version {version}) are recorded as of {recorded}")
        return lines


def broken(connection: psycopg.Connection, fleet: Fleet, names: list[str], *, new: int) -> list[str]:
    """Return what is wrong after the last step."""
    facts = _Facts(connection, fleet, new=new)
    lines = [str(row[0]) for query in _BROKEN for row in facts.rows(query)]
    return lines + facts.of_orders(names) + facts.of_versions() + facts.of_receipts() + facts.of_ticks(fleet)


def differences(url: str) -> list[str]:
    """Return what the product itself finds in its books: every sum and link is checked."""
    store = Store(PostgresWire(url))
    try:
        found = store.list_differences(tenant_id=None, verify=True, limit=10)
    finally:
        store.close()
    return [f"the books differ: {one}" for one in found["differences"]]


def receipts(connection: psycopg.Connection) -> list[tuple[Any, ...]]:
    """Return some receipts that are not done."""
    query = "select id, status, run_no, last_error from giftcard_jobs where stage = 'receipt' and status <> 'completed'"
    return connection.execute(f"{query} limit 5".encode()).fetchall()


def why_one_waits(connection: psycopg.Connection, url: str) -> str:
    """Return what an operator sees of a receipt with code that does not know the stage."""
    query = "select id from giftcard_jobs where stage = 'receipt' and status = 'queued' limit 1"
    row = connection.execute(query).fetchone()
    assert row is not None
    store = Store(PostgresWire(url))
    try:
        job = store.job(row[0], tenant_id=None, stages=dict.fromkeys(STAGES, 60), missing={})
    finally:
        store.close()
    return str(job["waiting_for"]["text"])

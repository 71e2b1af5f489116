"""The limit: plain psycopg, one statement to claim and one to settle a batch, without leases, history and circuits."""

import psycopg

from bench.measure import Watch

_TABLE = """
create table bench_jobs (
  id bigint generated always as identity primary key,
  status text not null default 'queued',
  payload jsonb not null default '{}',
  scheduled_at timestamptz not null default now()
);
create index on bench_jobs (scheduled_at, id) where status = 'queued';
"""
_ENQUEUE = "insert into bench_jobs (payload) select '{}' from generate_series(1, %s)"
_CLAIM = """
update bench_jobs set status = 'running' where id = any (array(
  select id from bench_jobs where status = 'queued' and scheduled_at <= now()
   order by scheduled_at, id limit %s for update skip locked))
returning id, payload
"""
_SETTLE = "update bench_jobs set status = 'completed' where id = any (%s)"


def install(url: str) -> None:
    """Create the table."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_TABLE)


def enqueue(url: str, *, count: int, batch: int, watch: Watch) -> int:
    """Enqueue `count` jobs, `batch` per transaction."""
    with psycopg.connect(url, autocommit=True) as connection:
        watch.open()
        watch.start()
        for _ in range(count // batch):
            connection.execute(_ENQUEUE, [batch], prepare=True)
        watch.mark()
    return count


def drain(url: str, *, batch: int, watch: Watch, **_: object) -> int:
    """Drain the queue, perhaps together with other processes. Return how many were run here."""
    done = 0
    with psycopg.connect(url, autocommit=True) as connection:
        watch.open()
        watch.start()
        while jobs := connection.execute(_CLAIM, [batch], prepare=True, binary=True).fetchall():
            for _, payload in jobs:
                _handle(payload)
            connection.execute(_SETTLE, [[job_id for job_id, _ in jobs]], prepare=True)
            done += len(jobs)
            watch.mark()
    return done


def _handle(payload: object) -> None:
    pass

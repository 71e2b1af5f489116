-- Faulty rows: what work fails on. Work on many rows is one statement. When it fails, it is done row by row, so that
-- one row stops no other: the row at fault is put aside, with the reason, and the doctor names it.

create table public.giftcard_faulty_rows (
  kind text collate "C" not null,
  row_id text collate "C" not null,
  error text not null,
  first_at timestamptz not null,
  last_at timestamptz not null,
  skip_until timestamptz,
  constraint giftcard_faulty_rows_pkey primary key (kind, row_id)
);

comment on table public.giftcard_faulty_rows is 'Rows that work has failed on, alone, and the last reason.';
comment on column public.giftcard_faulty_rows.kind is
  'job, schedule, circuit, webhook (of a job to an endpoint), rate, alert (of a channel), batch, prune or tick.';
comment on column public.giftcard_faulty_rows.skip_until is
  'A job that could not even become a dead letter, a schedule that could not even be paused, or a circuit: ticks pass '
  'over it until then. null: it is put aside.';

-- Return whether an SQLSTATE means that the database, not a row, is the reason: it is away, full, busy or read-only
-- (25006), or another transaction was in the way (55P03: a lock). Such an error ends the whole call. The rest of the
-- classes 25 and 55 may be one row's: a trigger that asks a sequence for its last value gets 55000.
create function public.giftcard_is_unavailable(p_sqlstate text) returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return left(p_sqlstate, 2) in ('08', '40', '53', '57') or p_sqlstate in ('25006', '55P03');
end $$;

-- Return an error as a row keeps it: with its SQLSTATE, at most 500 characters, without addresses and long numbers.
create function public.giftcard_error_text(p_sqlstate text, p_message text) returns text
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return left(regexp_replace(regexp_replace(regexp_replace(
    left(p_message, 1000), '[[:cntrl:]]+', ' ', 'g'), '[^\s"<>]+@[^\s"<>]+', '[email]', 'g'), '[0-9]{12,}', '[number]',
    'g'), 480) || format(' (SQLSTATE %s)', p_sqlstate);
end $$;

-- Refuse to go on (SQLSTATE 27000) if a statement has changed fewer rows than it should have: a trigger that returns
-- null leaves a row as it was, without an error.
create function public.giftcard_check_changed(p_changed bigint, p_expected integer) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  if p_changed < p_expected then
    perform public.giftcard_refuse('27000', 'a trigger leaves the row as it was');
  end if;
end $$;

-- Record that work has failed on a row. A record that is refused is lost: it fails no work.
create function public.giftcard_record_fault(
  p_kind text, p_row_id text, p_error text, p_now timestamptz, p_skip_until timestamptz default null) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  insert into public.giftcard_faulty_rows as f (kind, row_id, error, first_at, last_at, skip_until)
  values (p_kind, left(p_row_id, 200), p_error, p_now, p_now, p_skip_until)
  on conflict (kind, row_id) do update
    set error = excluded.error, last_at = excluded.last_at, skip_until = excluded.skip_until;
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  raise warning 'the fault of % % cannot be recorded: %', p_kind, left(p_row_id, 200), sqlstate;
end $$;

-- Return whether a row is still at fault: passed over, or put aside and not mended since.
create function public.giftcard_is_faulty(f public.giftcard_faulty_rows, p_now timestamptz) returns boolean
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  if f.skip_until > p_now or f.kind not in ('job', 'schedule') or f.row_id !~ '^-?[0-9]{1,18}$' then
    return true;
  elsif f.kind = 'job' then
    return exists (
      select from public.giftcard_jobs
       where id = f.row_id::bigint
         and (status = 'error' or f.skip_until is not null and status in ('queued', 'running')));
  end if;
  return exists (select from public.giftcard_schedules where id = f.row_id::bigint and paused_at is not null);
end $$;

-- Put a job aside that no work can be done on: a dead letter that does not revive. A run of it ends as interrupted.
-- If even that is refused, ticks pass over it for ten minutes. p_lease_id: only while it runs under this lease. Return
-- whether it is a dead letter now.
create function public.giftcard_put_aside(
  p_job_id bigint, p_error text, p_now timestamptz, p_lease_id uuid default null) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  j public.giftcard_jobs;
  v_changed bigint;
begin
  select * into j from public.giftcard_jobs
   where id = p_job_id and status in ('queued', 'running', 'error')
     and (p_lease_id is null or status = 'running' and lease_id = p_lease_id) for update;
  if not found then
    return false;
  end if;
  update public.giftcard_jobs
     set status = 'error', last_error = left('FaultyRow: ' || p_error, 500), revive_at = null, lease_id = null,
         lease_expires_at = null, finished_at = p_now, updated_at = p_now
   where id = p_job_id;
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, 1);
  if j.status = 'running' then
    insert into public.giftcard_job_history
      (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at, lock_owner, lease_id, error)
    values (j.id, j.run_no, j.attempts, j.stage, 'INTERRUPTED', j.scheduled_at, coalesce(j.locked_at, p_now), p_now,
            j.lock_owner, j.lease_id, left('FaultyRow: ' || p_error, 500))
    on conflict (job_id, run_no) do nothing;
  end if;
  perform public.giftcard_record_fault('job', p_job_id::text, p_error, p_now);
  return true;
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  perform public.giftcard_record_fault('job', p_job_id::text, p_error, p_now, p_now + interval '10 minutes');
  return false;
end $$;

-- Return the jobs (p_kind: or schedules) that ticks pass over now: nearly always none.
create function public.giftcard_skipped(p_kind text, p_now timestamptz) returns bigint[]
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return array(
    select row_id::bigint from public.giftcard_faulty_rows
     where kind = p_kind and skip_until > p_now and skip_until <= p_now + interval '1 hour'
       and row_id ~ '^-?[0-9]{1,18}$' order by row_id limit 1000);
end $$;

-- Return when a circuit that is not closed may be probed: at the end of its cooldown, or later if ticks pass over it.
create function public.giftcard_probe_at(p_circuit text, p_open_until timestamptz, p_now timestamptz)
returns timestamptz
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return greatest(p_open_until, (
    select skip_until from public.giftcard_faulty_rows
     where kind = 'circuit' and row_id = left(p_circuit, 200) and skip_until > p_now
       and skip_until <= p_now + interval '1 hour'));
end $$;

-- Prune: finished rows leave the tables that ticks read and write.
-- A job moves to giftcard_jobs_archive once it is finished for good: it has ended, it has not been changed for as long
-- as the caller asks, and no job of its flow is open. A dead letter is open while it can revive, and for a while after
-- that, because a person may requeue it. A flow that was paid and has no card is open too. Orders, customers, payments,
-- cards and effects stay: they make a repeated order harmless. So does the audit.

-- A table is scanned by its key, a part at a time, and from the beginning again after its end: what cannot leave yet
-- costs one read a round, wherever it lies.
create table public.giftcard_prune_cursors (
  scan text collate "C" not null,
  job_id bigint not null default 0,
  run_no integer not null default 0,
  constraint giftcard_prune_cursors_pkey primary key (scan)
);
comment on table public.giftcard_prune_cursors is
  'How far pruning has scanned a table: jobs by id, history by job and run.';

insert into public.giftcard_prune_cursors (scan) values ('jobs'), ('history');

-- Return those of some jobs whose flows are finished: no job of the flow is queued, runs, can revive or died after
-- p_dead_before (null: all dead letters are recent), none was paid without a card, and their batches have ended. Each
-- flow is checked once, by its key. Scalars, not exists(): those could become a hash of a whole table.
create function public.giftcard_jobs_of_finished_flows(p_ids bigint[], p_dead_before timestamptz) returns bigint[]
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan as $$
begin
  return array(
    select j.id from (
      select f.tenant_id, f.correlation_id, array_agg(f.id) as ids,
             array_agg(f.batch_id) filter (where f.batch_id is not null) as batches
        from public.giftcard_jobs f
       where f.id = any (p_ids) group by f.tenant_id, f.correlation_id) f
     cross join lateral unnest(f.ids) j(id)
     where (select true from public.giftcard_jobs o
             where o.tenant_id = f.tenant_id and o.correlation_id = f.correlation_id
               and (o.status in ('queued', 'running')
                    or o.status = 'error'
                       and (o.revive_at is null and greatest(o.finished_at, o.updated_at) <= p_dead_before) is not true)
             limit 1) is null
       and (select true from public.giftcard_payments p
             where p.tenant_id = f.tenant_id and p.correlation_id = f.correlation_id and p.card_id is null
               and p.worth > 0 limit 1) is null
       and (f.batches is null
            or (select true from public.giftcard_batches b where b.id = any (f.batches) and b.ended_at is null
                 limit 1) is null));
end $$;

-- Scan 10 × p_limit jobs from where the last scan ended, and move up to p_limit of them to the archive. p_keep: how
-- long completed and cancelled ones stay, p_keep_dead: dead letters that do not revive; null: for ever. A dry run scans
-- from the beginning and changes nothing. done: the end of the table was reached.
create function public.giftcard_prune_jobs(
  p_keep interval, p_keep_dead interval, p_limit integer, p_dry_run boolean, p_now timestamptz, out moved integer,
  out done boolean)
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan as $$
declare
  v_over timestamptz := p_now - p_keep;             -- what has not been touched since may leave
  v_dead_over timestamptz := p_now - p_keep_dead;
  v_after bigint := 0::bigint;
  v_last bigint;
  v_looked bigint;
  v_ids bigint[];
begin
  if not p_dry_run then
    -- The lock makes two that prune take turns.
    select job_id into v_after from public.giftcard_prune_cursors where scan = 'jobs' for update;
  end if;
  select count(*), max(l.id), array_agg(l.id order by l.id) filter (where l.over) into v_looked, v_last, v_ids from (
    select id, case when status in ('completed', 'cancelled') then greatest(finished_at, updated_at) <= v_over
                    when status = 'error' and revive_at is null
                    then greatest(finished_at, updated_at) <= v_dead_over end as over
      from public.giftcard_jobs where id > v_after order by id limit 10 * p_limit) l;
  done := v_looked < 10 * p_limit and coalesce(cardinality(v_ids), 0) <= p_limit;
  if cardinality(v_ids) > p_limit then
    v_ids := v_ids[:p_limit];
    v_last := v_ids[p_limit];
  end if;

  v_ids := public.giftcard_jobs_of_finished_flows(v_ids, v_dead_over);
  if p_dry_run then
    moved := cardinality(v_ids);
    return;
  end if;
  -- Checked again once it is locked: it may have been requeued, and have ended anew. A job that someone else has locked
  -- stays.
  v_ids := array(
    select id from public.giftcard_jobs
     where id = any (v_ids) and revive_at is null
       and (status in ('completed', 'cancelled') and greatest(finished_at, updated_at) <= v_over
            or status = 'error' and greatest(finished_at, updated_at) <= v_dead_over)
       order by id for update skip locked);
  v_ids := public.giftcard_jobs_of_finished_flows(v_ids, v_dead_over);
  moved := public.giftcard_try_archive_jobs(v_ids, p_now);
  update public.giftcard_prune_cursors set job_id = case when done then 0 else v_last end where scan = 'jobs';
end $$;

-- Delete runs that ended longer ago than p_keep, whatever became of their jobs. Arguments as in giftcard_prune_jobs.
create function public.giftcard_prune_history(
  p_keep interval, p_limit integer, p_dry_run boolean, p_now timestamptz, out removed integer, out done boolean)
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan as $$
declare
  v_over timestamptz := p_now - p_keep;
  v_after_job bigint := 0::bigint;
  v_after_run integer := 0;
  v_looked bigint;
  v_last bigint[];
  v_keys bigint[];
  v_rows tid[];
begin
  if not p_dry_run then
    select job_id, run_no into v_after_job, v_after_run from public.giftcard_prune_cursors
      where scan = 'history' for update;
  end if;
  select count(*), max(array[l.job_id, l.run_no]),
         array_agg(array[l.job_id, l.run_no] order by l.job_id, l.run_no) filter (where l.finished_at <= v_over),
         array_agg(l.ctid order by l.job_id, l.run_no) filter (where l.finished_at <= v_over)
    into v_looked, v_last, v_keys, v_rows from (
    select ctid, job_id, run_no, finished_at from public.giftcard_job_history
     where (job_id, run_no) > (v_after_job, v_after_run) order by job_id, run_no limit 10 * p_limit) l;
  done := v_looked < 10 * p_limit and coalesce(cardinality(v_rows), 0) <= p_limit;
  if cardinality(v_rows) > p_limit then
    v_rows := v_rows[:p_limit];
    v_last := array[v_keys[p_limit][1], v_keys[p_limit][2]];
  end if;
  if p_dry_run then
    removed := coalesce(cardinality(v_rows), 0);
    return;
  end if;
  -- Checked again: by now the ctid may belong to another row, which is young then.
  delete from public.giftcard_job_history where ctid = any (v_rows) and finished_at <= v_over;
  get diagnostics removed = row_count;
  update public.giftcard_prune_cursors
     set job_id = case when done then 0 else v_last[1] end, run_no = case when done then 0 else v_last[2] end
         where scan = 'history';
end $$;

-- Delete the oldest p_limit rows of one kind that are older than p_keep: ticks, circuit_changes or archive. These are
-- inserted and deleted in the order of their keys. Return how many: in a dry run, how many it would delete.
create function public.giftcard_prune_oldest(
  p_kind text, p_keep interval, p_limit integer, p_dry_run boolean, p_now timestamptz) returns integer
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan as $$
declare
  v_over timestamptz := p_now - p_keep;
  v_ids bigint[];
begin
  v_ids := case p_kind
    when 'ticks' then array(
      select id from (select id, started_at, live_until from public.giftcard_ticks order by id limit p_limit) t
       where t.started_at <= v_over and t.live_until <= p_now)
    when 'circuit_changes' then array(
      select id from (select id, changed_at from public.giftcard_circuit_changes order by id limit p_limit) c
       where c.changed_at <= v_over)
    when 'archive' then array(
      select id from public.giftcard_jobs_archive where archived_at <= v_over order by archived_at, id limit p_limit)
    end;
  if p_dry_run then
    return cardinality(v_ids);
  elsif p_kind = 'ticks' then
    delete from public.giftcard_ticks where id = any (v_ids) and started_at <= v_over and live_until <= p_now;
  elsif p_kind = 'circuit_changes' then
    delete from public.giftcard_circuit_changes where id = any (v_ids) and changed_at <= v_over;
  else
    -- One that was restored meanwhile, and archived again, is young.
    delete from public.giftcard_jobs_archive where id = any (v_ids) and archived_at <= v_over;
  end if;
  return cardinality(v_ids);
end $$;

-- Prune one kind. One that cannot be pruned is recorded and stops no other: it counts as done. p_keep_dead: of jobs.
create function public.giftcard_prune_kind(
  p_kind text, p_keep interval, p_keep_dead interval, p_limit integer, p_dry_run boolean, p_now timestamptz,
  out removed integer, out done boolean)
language plpgsql volatile security invoker set search_path = '' as $$
declare
  r record;
begin
  if p_kind = 'jobs' then
    r := public.giftcard_prune_jobs(p_keep, p_keep_dead, p_limit, p_dry_run, p_now);
    removed := r.moved;
    done := r.done;
  elsif p_kind = 'history' then
    r := public.giftcard_prune_history(p_keep, p_limit, p_dry_run, p_now);
    removed := r.removed;
    done := r.done;
  else
    removed := public.giftcard_prune_oldest(p_kind, p_keep, p_limit, p_dry_run, p_now);
    done := removed < p_limit;
  end if;
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  perform public.giftcard_record_fault('prune', p_kind, public.giftcard_error_text(sqlstate, sqlerrm), p_now);
  removed := 0;
  done := true;
end $$;

-- Prune one step, short enough to delay no tick: of each kind up to p_limit (1,000 at most) rows that are older than
-- the interval; null: that kind stays. p_jobs: completed and cancelled jobs, p_dead_letters: those that do not revive;
-- both go to the archive. Ticks, changes of circuits, runs and archived jobs are deleted for good. Unless p_dry_run is
-- false it only counts, from the beginning. Return {jobs, history, ticks, circuit_changes, archive: how many of each;
-- done: everything was scanned; dry_run}.
create function public.giftcard_prune(
  p_jobs interval default null, p_dead_letters interval default null, p_history interval default null,
  p_ticks interval default null,
  p_circuit_changes interval default null, p_archive interval default null, p_limit integer default 1000,
  p_dry_run boolean default true,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_limit integer := least(greatest(coalesce(p_limit, 1000), 1), 1000);
  v_dry_run boolean := coalesce(p_dry_run, true);
  v_pruned jsonb := '{}'::jsonb;
  v_done boolean := true;
  k record;
  r record;
begin
  -- '30' would be thirty seconds.
  if least(p_jobs, p_dead_letters, p_history, p_ticks, p_circuit_changes, p_archive) < interval '1 day' then
    perform public.giftcard_refuse(
      'GC400', 'nothing younger than a day is pruned: give a day or more, like ''30 days''', 'interval');
  end if;
  for k in values ('jobs', p_jobs), ('history', p_history), ('ticks', p_ticks),
                  ('circuit_changes', p_circuit_changes), ('archive', p_archive) loop
    r := public.giftcard_prune_kind(k.column1, k.column2, p_dead_letters, v_limit, v_dry_run, v_now);
    v_pruned := v_pruned || jsonb_build_object(k.column1, r.removed);
    v_done := v_done and r.done;
  end loop;
  if not v_dry_run then
    v_done := public.giftcard_prune_limits(v_limit, v_now) and v_done;
    delete from public.giftcard_batches where ended_at <= v_now - interval '720 hours';
    delete from public.giftcard_operations where state <> 'running' and finished_at <= v_now - interval '720 hours';
    delete from public.giftcard_faulty_rows where last_at <= v_now - interval '720 hours' or last_at > v_now;
  end if;
  return v_pruned || jsonb_build_object('dry_run', v_dry_run, 'done', v_done);
end $$;

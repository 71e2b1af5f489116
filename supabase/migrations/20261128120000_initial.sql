-- Gift-card jobs: the map.
--
-- Tables                            one row is
--   giftcard_jobs                   one piece of work of one stage: the queue, the lease and the outcome in one place
--   giftcard_job_history            one run of a job (job_id, run_no)
--   giftcard_jobs_archive           a job that has left giftcard_jobs
--   giftcard_circuits               one circuit breaker: closed, open, half_open
--   giftcard_circuit_changes        one change of a circuit, with its cause
--   giftcard_stages                 a stage that is or was paused; the row '*' pauses everything
--   giftcard_ticks                  one bounded pass over due work
--   giftcard_maintenance_tasks      a task that ticks run at an interval, after their jobs
--   giftcard_prune_cursors          how far pruning has scanned a table
--   giftcard_effects                an external effect: the intent before it, the result after it
--   giftcard_orders                 an accepted order: idempotency key and body hash
--   giftcard_customers, giftcard_payments, giftcard_cards    what became of the orders
--   giftcard_audit                  personal data shown in clear, or erased
--   giftcard_schedules              a schedule: each occurrence is a job; Python computes the times
--   giftcard_reports                the report of one tenant's day
--   giftcard_webhook_endpoints      an address that receives a tenant's events: webhooks are jobs, enqueued by a settle
--   giftcard_inbound_events         an event received from a vendor, never removed
--   giftcard_counters, giftcard_counter_watermarks           totals for metrics, and how far they are counted
--   giftcard_alerts                 a condition that operators are or were notified of
--
-- States of a job                   transition            functions
--   - → queued                      enqueue               giftcard_enqueue, giftcard_submit_order, a plain INSERT
--   - → queued                      occurrence            giftcard_enqueue_occurrences → giftcard_apply_plans
--   - → queued | error              pgmq import           giftcard_import_pgmq → …_queue → …_message
--   queued → running                claim: attempts + 1, a new lease                     giftcard_claim_for
--   running → completed             settle                giftcard_settle → giftcard_settle_completed
--   running → queued | error | cancelled    settle        giftcard_settle → giftcard_settle_unfinished
--   running → running               take over an ended lease                             giftcard_take_over
--   error → queued                  revive, once revive_at has come                      giftcard_revive
--   error, cancelled, completed → queued    requeue       giftcard_requeue, giftcard_requeue_jobs,
--                                                         giftcard_requeue_dead_letters
--   queued, error → cancelled       cancel (running: the request is recorded)            giftcard_cancel,
--                                                         giftcard_cancel_flow
--   ended → archived                prune                 giftcard_prune → giftcard_prune_jobs
--   archived → ended                restore               giftcard_restore_job
--
-- Who calls whom, in a tick
--   giftcard_begin_tick             check versions, record the tick, revive, claim
--     giftcard_claim → giftcard_claim_for
--   giftcard_advance_tick           settle, claim, end the tick
--     giftcard_settle               → …_completed, …_unfinished, giftcard_enqueue_next, giftcard_enqueue_webhooks,
--                                   giftcard_count_results (circuits)
--     giftcard_claim_for            → giftcard_scan_queues (→ giftcard_queue_heads, giftcard_remaining_capacity),
--                                   giftcard_pick_probes, giftcard_pick_jobs, giftcard_mark_claimed
--                                   (→ giftcard_take_over), giftcard_claimed_jobs, giftcard_next_due
--
-- The fence: a settle counts only while status = 'running' and lease_id is the one presented. An operator's UPDATE that
-- takes a job out of 'running' therefore wins over the worker that still holds the lease.
--
-- Order of locks: claim key (advisory) → schedule rows (SKIP LOCKED) → job rows → rows that jobs enqueue → circuit rows
-- by name → tick row. A claim takes job and circuit rows with SKIP LOCKED only: it never waits, so it cannot break the
-- order.
--
-- The clock is the database's. Every function that depends on time takes p_now (null: clock_timestamp()), which tests
-- set. Refusals have SQLSTATEs of their own: GC400 bad argument, GC404 not found, GC409 not in this state, GC410 lease
-- lost, GC422 same key with other content, GC426 code and schema do not fit.

do $$
begin
  if to_regclass('public.giftcard_jobs') is not null then
    raise exception 'public.giftcard_jobs exists already and is not ours: nothing was changed'
      using errcode = 'GC409',
            hint = 'Rename that table (ALTER TABLE public.giftcard_jobs RENAME TO giftcard_jobs_old), migrate again, '
                   'then copy its open rows with INSERT (correlation_id, stage, payload).';
  end if;
end $$;
-- Jobs and their history.

-- Keys compare by bytes (collate "C"): the same order everywhere, and cheaper in each index.
-- The types hold the rules of single columns: Postgres reads a table's checks anew in every statement that changes a
-- row, whatever it changes (a tenth of the cost of a claim and a settle); a domain's it reads once, and checks only
-- when the column is set. Their names are those of the columns that they guard. status stays text: drivers that know no
-- arrays of domains read many an array_agg(status).
create domain public.giftcard_job_semantics as text
  constraint giftcard_jobs_semantics_is_known check (value in ('at_least_once', 'at_most_once'));
create domain public.giftcard_object as jsonb
  constraint giftcard_jobs_payload_is_an_object check (jsonb_typeof(value) = 'object');
create domain public.giftcard_attempts as integer
  constraint giftcard_jobs_attempts_are_counted check (value between 0 and 1000000);
create domain public.giftcard_runs as integer
  constraint giftcard_jobs_runs_are_counted check (value between 0 and 1000000000);
create domain public.giftcard_max_attempts as integer
  constraint giftcard_jobs_max_attempts_is_positive check (value between 1 and 1000);
create domain public.giftcard_ttr as integer constraint giftcard_jobs_ttr_is_positive check (value between 1 and 86400);
create domain public.giftcard_delays as double precision[] constraint giftcard_jobs_retry_delays_are_positive check (
  value is null
  or array_ndims(value) = 1 and array_position(value, null) is null and 0 <= all (value) and 86400 >= all (value));
create domain public.giftcard_run_result as text
  constraint giftcard_job_history_result_is_known check (
    value in ('SUCCESS', 'FAILED', 'INTERRUPTED', 'SNOOZED', 'RELEASED'));

create table public.giftcard_jobs (
  id bigint generated by default as identity,
  tenant_id text collate "C" not null default 'default',
  correlation_id text collate "C" not null,
  stage text collate "C" not null,
  dedup_key text collate "C" not null default '',
  circuit text collate "C" not null,
  trigger_type text not null default 'sql',
  status text collate "C" not null default 'queued',
  payload public.giftcard_object not null default '{}',
  context public.giftcard_object not null default '{}',
  attempts public.giftcard_attempts not null default 0,
  max_attempts public.giftcard_max_attempts,
  run_no public.giftcard_runs not null default 0,
  semantics public.giftcard_job_semantics not null default 'at_least_once',
  ttr_seconds public.giftcard_ttr,
  retry_delays public.giftcard_delays,
  scheduled_at timestamptz not null default now(),
  locked_at timestamptz,
  lock_owner text,
  lease_id uuid,
  lease_expires_at timestamptz,
  cancel_requested_at timestamptz,
  revive_at timestamptz,
  revivals public.giftcard_attempts not null default 0,
  last_error text,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  finished_at timestamptz,
  constraint giftcard_jobs_pkey primary key (id),
  constraint giftcard_jobs_flow_key unique (tenant_id, correlation_id, stage, dedup_key),
  constraint giftcard_jobs_status_is_known check (status in ('queued', 'running', 'completed', 'error', 'cancelled')),
  constraint giftcard_jobs_ids_are_not_empty check (tenant_id <> '' and correlation_id <> '' and stage <> ''),
  constraint giftcard_jobs_circuit_belongs_to_stage check (circuit = stage or starts_with(circuit, stage || ':'))
) with (
  -- Each job leaves two dead versions behind: vacuum by number, not by a share of a table that only grows.
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000
);

comment on table public.giftcard_jobs is
  'One row is one piece of work of one stage. A plain INSERT (correlation_id, stage, payload) is a valid job.';
comment on column public.giftcard_jobs.circuit is
  'The circuit breaker of the job: the stage''s name, or stage:<something> for one per endpoint or host.';
comment on column public.giftcard_jobs.attempts is
  'Attempts of the present round, counted at the claim; revival and requeue set it to 0.';
comment on column public.giftcard_jobs.max_attempts is 'null: the policy of its stage.';
comment on column public.giftcard_jobs.run_no is 'All runs for ever; never set back.';
comment on column public.giftcard_jobs.ttr_seconds is 'Time to run of one attempt; null: that of its stage.';
comment on column public.giftcard_jobs.retry_delays is 'Seconds after attempt 1, 2, …; null: the policy of its stage.';
comment on column public.giftcard_jobs.lease_id is
  'The right to settle the present run: the key of the claim that took it. Not tied to the status: what an '
  'operator''s UPDATE leaves in it has no effect.';
comment on column public.giftcard_jobs.cancel_requested_at is
  'A cancel of the present run was requested: if it completes, that still counts.';

-- The claim's index: the oldest due job of each circuit. A query uses it only if it spells out status = 'queued'.
create index giftcard_jobs_queued on public.giftcard_jobs (circuit, scheduled_at, id) where status = 'queued';
-- Leases by their end; a running row without one (made by hand) counts as ended.
create index giftcard_jobs_running on public.giftcard_jobs ((coalesce(lease_expires_at, '-infinity'::timestamptz)), id)
    where status = 'running';
create index giftcard_jobs_ended on public.giftcard_jobs (status, stage, finished_at, id)
    where status in ('completed', 'error', 'cancelled');
-- Holds only jobs that have failed.
create index giftcard_jobs_attempts on public.giftcard_jobs (attempts, id)
    where attempts >= 2 and status in ('queued', 'running', 'error');
create index giftcard_jobs_revival on public.giftcard_jobs (revive_at, id)
    where status = 'error' and revive_at is not null;

create table public.giftcard_job_history (
  job_id bigint not null,
  run_no integer not null,
  attempt integer not null,
  stage text collate "C" not null,
  result public.giftcard_run_result not null,
  scheduled_at timestamptz not null,
  started_at timestamptz not null,
  finished_at timestamptz not null,
  lock_owner text,
  lease_id uuid,
  error text,
  next_run_at timestamptz,
  detail jsonb,
  constraint giftcard_job_history_pkey primary key (job_id, run_no)
) with (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000);

comment on table public.giftcard_job_history is
  'One row is one run of a job; written when it is settled. No foreign key: it outlives the job.';
comment on column public.giftcard_job_history.detail is
  'What the handler kept of this run: the status and the beginning of a vendor''s response.';
comment on column public.giftcard_job_history.lease_id is
  'The lease that settled it, by which a repeated settle is recognized.';

-- Set the circuit of a plain INSERT, which names none.
create function public.giftcard_fill_circuit() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  new.circuit := new.stage;
  return new;
end $$;

create trigger giftcard_jobs_fill_circuit before insert on public.giftcard_jobs
  for each row when (new.circuit is null) execute function public.giftcard_fill_circuit();

-- Refuse a payload that is nested too deeply: JSON parsers have a limit, beyond which no operator could read the row. A
-- trigger, not a check: it runs when a payload is written, not at each change of state.
create function public.giftcard_refuse_deep_payload() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  raise exception 'the payload of job % is nested too deeply: 100 levels are allowed', new.id
    using errcode = '23514', constraint = 'giftcard_jobs_payload_is_not_too_deep', table = 'giftcard_jobs';
end $$;

create trigger giftcard_jobs_payload_is_not_too_deep before insert on public.giftcard_jobs
  for each row when (new.payload @? '$.**{100}') execute function public.giftcard_refuse_deep_payload();

-- After, not before: a trigger before an update locks each row again, even where the payload is not set.
create trigger giftcard_jobs_new_payload_is_not_too_deep after update of payload on public.giftcard_jobs
  for each row when (new.payload @? '$.**{100}') execute function public.giftcard_refuse_deep_payload();

-- Keep the run that an operator's UPDATE takes away from its worker, whose settle no longer counts. An UPDATE that
-- makes it running again gives it back: the settle will write the line. Claim and settle change lease_id, so the
-- trigger's condition is false for them. It is short because Postgres reads it anew in every statement that sets a
-- status.
create function public.giftcard_keep_run_taken_by_hand() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  if new.status = 'running' then
    delete from public.giftcard_job_history where job_id = new.id and run_no = new.run_no and lease_id is null;
    return null;
  elsif old.status <> 'running' then
    return null;
  end if;
  insert into public.giftcard_job_history
    (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at, lock_owner, error, next_run_at)
  values (old.id, old.run_no, old.attempts, old.stage, 'INTERRUPTED', old.scheduled_at,
          coalesce(old.locked_at, clock_timestamp()),
          clock_timestamp(), old.lock_owner, 'TakenByHand: the row was changed to ' || new.status || ' while it ran',
          case when new.status = 'queued' then new.scheduled_at end)
  on conflict (job_id, run_no) do nothing;
  return null;
end $$;

create trigger giftcard_jobs_keep_run_taken_by_hand after update of status on public.giftcard_jobs
  for each row when (new.lease_id = old.lease_id)
  execute function public.giftcard_keep_run_taken_by_hand();
-- Pauses and ticks.

create table public.giftcard_stages (
  stage text collate "C" not null,
  paused_at timestamptz,
  paused_by text,
  reason text,
  resumed_at timestamptz,
  resumed_by text,
  constraint giftcard_stages_pkey primary key (stage)
);

comment on table public.giftcard_stages is
  'A stage that is paused (paused_at not null) or was. The row ''*'' pauses everything.';

create domain public.giftcard_tick_end as text constraint giftcard_ticks_stopped_because_is_known
  check (value in ('limit', 'drained', 'budget', 'shutdown', 'paused', 'duplicate'));

-- Where a tick stands in the queue of a circuit: after this job, the last one it took. null: at the head.
create type public.giftcard_cursor as (circuit text, scheduled_at timestamptz, id bigint);

create table public.giftcard_ticks (
  id bigint generated always as identity,
  key uuid not null,
  source text not null,
  execution_id text collate "C",
  owner text not null,
  started_at timestamptz not null,
  live_until timestamptz not null,
  ended_at timestamptz,
  stopped_because public.giftcard_tick_end,
  -- what it may claim
  stages jsonb not null,
  only_stage text,
  only_job_id bigint,
  -- what it last claimed: a claim repeated with its key, which is their lease, returns the same
  claim_key uuid,
  claim_ids bigint[],
  claim_interrupted bigint[],
  served jsonb not null default '{}',
  -- what became of it
  started integer not null default 0,
  completed integer not null default 0,
  retried integer not null default 0,
  errored integer not null default 0,
  snoozed integer not null default 0,
  released integer not null default 0,
  interrupted integer not null default 0,
  lease_lost integer not null default 0,
  revived integer not null default 0,
  limits jsonb not null default '{}',
  code_version integer not null default 1,
  -- what it knows of the queues
  scanned_at timestamptz,
  cursors public.giftcard_cursor[] not null default '{}',
  constraint giftcard_ticks_pkey primary key (id),
  constraint giftcard_ticks_key_key unique (key)
) with (fillfactor = 50);
create index giftcard_ticks_by_execution on public.giftcard_ticks (execution_id) where execution_id is not null;

comment on table public.giftcard_ticks is
  'One bounded pass over due work. ended_at null past live_until: the function was killed.';
comment on column public.giftcard_ticks.key is 'Made by the caller: a repeated begin finds its tick by it.';
comment on column public.giftcard_ticks.stages is
  'Stages that this code can run, with the time to run of each in seconds: {"email": 60}.';
comment on column public.giftcard_ticks.limits is
  'The most runs of a stage at once in the whole fleet: {"payment": 2}.';
comment on column public.giftcard_ticks.scanned_at is
  'When it last scanned all queues; for a second it continues from its cursors.';
comment on column public.giftcard_ticks.cursors is
  'Circuits whose queues had more at the last claim, in their turn, and where the tick stands in each.';
comment on column public.giftcard_ticks.served is
  'Jobs started so far by circuit: the circuit with the fewest is served first.';
-- Circuits: a breaker for each name, shared by all ticks.

create table public.giftcard_circuits (
  circuit text collate "C" not null,
  state text not null default 'closed',
  failures integer not null default 0,
  changed_at timestamptz not null default '-infinity',
  open_until timestamptz,
  probe_job_id bigint,
  probe_lease_id uuid,
  constraint giftcard_circuits_pkey primary key (circuit),
  constraint giftcard_circuits_state_is_known check (state in ('closed', 'open', 'half_open')),
  constraint giftcard_circuits_open_has_an_end check (state = 'closed' or open_until is not null)
);

-- Nearly all are closed and have not failed: a settle checks whether any is not.
create index giftcard_circuits_failing on public.giftcard_circuits (circuit) where failures > 0 or state <> 'closed';

comment on table public.giftcard_circuits is
  'One breaker; no row means closed. Open past open_until means half-open: the next claim records it.';
comment on column public.giftcard_circuits.failures is 'Transient failures in a row while closed.';
comment on column public.giftcard_circuits.changed_at is 'Results of runs claimed before this do not count.';
comment on column public.giftcard_circuits.probe_lease_id is
  'The one run allowed while half-open; once that lease no longer runs, another may.';

create table public.giftcard_circuit_changes (
  id bigint generated always as identity,
  circuit text collate "C" not null,
  from_state text not null,
  to_state text not null,
  changed_at timestamptz not null,
  cause text not null,
  job_id bigint,
  constraint giftcard_circuit_changes_pkey primary key (id)
);
create index giftcard_circuit_changes_by_circuit on public.giftcard_circuit_changes (circuit, id);

comment on table public.giftcard_circuit_changes is 'Every change of state of a circuit, with time and cause.';

-- Return the stage of a circuit: its name up to the first colon.
create function public.giftcard_stage_of(p_circuit text) returns text
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return split_part(p_circuit, ':', 1);
end $$;

-- Change a circuit's state and record the change. The caller holds the circuit's row.
create function public.giftcard_change_circuit(
  p_circuit text, p_to text, p_cause text, p_job_id bigint, p_open_until timestamptz, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
begin
  insert into public.giftcard_circuit_changes (circuit, from_state, to_state, changed_at, cause, job_id)
  select p_circuit, state, p_to, p_now, p_cause, p_job_id from public.giftcard_circuits where circuit = p_circuit;
  update public.giftcard_circuits
     set state = p_to, failures = 0, changed_at = p_now, open_until = p_open_until, probe_job_id = null,
         probe_lease_id = null
   where circuit = p_circuit;
end $$;

-- Count one result for its circuit. Closed: a failure adds one and the threshold opens it; a success sets the count to
-- 0; runs claimed before the last change do not count. Open or half-open: only the probe's result counts. Return the
-- new state; null: unchanged. The caller holds the circuit's row.
create function public.giftcard_count_result(
  p_circuit text, p_job_id bigint, p_lease_id uuid, p_claimed_at timestamptz, p_threshold integer,
  p_cooldown_seconds double precision,
  p_cause text, p_now timestamptz) returns text
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  c public.giftcard_circuits;
  v_until timestamptz := p_now + make_interval(secs => p_cooldown_seconds);
  v_failed boolean := p_threshold is not null;  -- a success has none
begin
  select * into strict c from public.giftcard_circuits where circuit = p_circuit;
  if c.state <> 'closed' then
    if (c.probe_job_id, c.probe_lease_id) is distinct from (p_job_id, p_lease_id) then
      return null;
    elsif v_failed then
      perform public.giftcard_change_circuit(p_circuit, 'open', 'probe failed: ' || p_cause, p_job_id, v_until, p_now);
      return 'open';
    end if;
    perform public.giftcard_change_circuit(p_circuit, 'closed', 'probe succeeded', p_job_id, null, p_now);
    return 'closed';
  elsif p_claimed_at < c.changed_at then
    return null;
  elsif v_failed and c.failures + 1 >= p_threshold then
    perform public.giftcard_change_circuit(
      p_circuit, 'open', format('%s failures in a row, the last: %s', c.failures + 1, p_cause), p_job_id, v_until,
      p_now);
    return 'open';
  end if;
  update public.giftcard_circuits set failures = case when v_failed then failures + 1 else 0 end
    where circuit = p_circuit;
  return null;
end $$;

-- Count settled results for their circuits, in the order given. Circuits that neither fail now nor have failed are not
-- touched. Return the circuits that opened and closed.
create function public.giftcard_count_results(
  p_results jsonb, p_ids bigint[], p_cooldown_seconds double precision, p_now timestamptz,
  out opened text[], out closed text[])
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_generic_plan as $$
declare
  v_state text;
  v_circuit text;
  r record;
begin
  opened := '{}';
  closed := '{}';
  if not p_results @? '$[*].trips' and not exists (select from public.giftcard_circuits
                                                   where failures > 0 or state <> 'closed') then
    return;
  end if;
  for r in
    select j.id, j.circuit, j.locked_at, (x.r ->> 'lease_id')::uuid as lease_id, (x.r ->> 'trips')::integer as trips,
           x.r ->> 'error' as error
      from jsonb_array_elements(p_results) with ordinality x(r, n)
      join public.giftcard_jobs j on j.id = (x.r ->> 'id')::bigint
      left join public.giftcard_circuits c on c.circuit = j.circuit
     where j.id = any (p_ids) and (x.r ? 'trips' or x.r ->> 'outcome' = 'complete'
                                   and (c.failures > 0 or c.state <> 'closed'
             or p_results @? '$[*].trips'))
     order by j.circuit, x.n
  loop
    if r.circuit is distinct from v_circuit then
      v_circuit := r.circuit;
      if r.trips is not null then
        insert into public.giftcard_circuits (circuit) values (v_circuit) on conflict (circuit) do nothing;
      end if;
      perform 1 from public.giftcard_circuits where circuit = v_circuit for update;
    end if;
    if r.trips is not null or exists (select from public.giftcard_circuits where circuit = v_circuit) then
      v_state := public.giftcard_count_result(r.circuit, r.id, r.lease_id, r.locked_at, r.trips, p_cooldown_seconds,
                                              coalesce(r.error, ''), p_now);
    end if;
    opened := case when v_state = 'open' then opened || r.circuit else opened end;
    closed := case when v_state = 'closed' then closed || r.circuit else closed end;
    v_state := null;
  end loop;
end $$;

-- Close a circuit by hand. Return {circuit, was, state}. GC404 for one that has never failed.
create function public.giftcard_reset_circuit(
  p_circuit text, p_by text default 'operator', p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_state text;
begin
  select state into v_state from public.giftcard_circuits where circuit = p_circuit for update;
  if not found then
    perform public.giftcard_refuse(
      'GC404', format('circuit %s has never failed: there is nothing to reset', p_circuit), 'circuit');
  elsif v_state <> 'closed' then
    perform public.giftcard_change_circuit(
      p_circuit, 'closed', 'reset by ' || p_by, null, null, coalesce(p_now, clock_timestamp()));
  else
    update public.giftcard_circuits set failures = 0 where circuit = p_circuit;
  end if;
  return jsonb_build_object('circuit', p_circuit, 'was', v_state, 'state', 'closed');
end $$;
-- Maintenance tasks: what a tick does at an interval, after its jobs. The first tick after the interval does the task.

create table public.giftcard_maintenance_tasks (
  task text collate "C" not null,
  every interval not null,
  last_at timestamptz not null default '-infinity',
  constraint giftcard_maintenance_tasks_pkey primary key (task),
  constraint giftcard_maintenance_tasks_every_is_positive check (every > interval '0')
);

comment on table public.giftcard_maintenance_tasks is
  'What ticks do after their jobs, each at its interval. A task that failed waits for the next interval.';

insert into public.giftcard_maintenance_tasks (task, every) values ('alerts', '50 seconds'), ('prune', '10 minutes');

-- Return the tasks that are due, as a JSON array. Each tick's begin reads it.
create function public.giftcard_due_maintenance(p_now timestamptz) returns json
language plpgsql stable security invoker set search_path = '' as $$
begin
  return (select coalesce(json_agg(task order by task), '[]') from public.giftcard_maintenance_tasks
           where last_at + every <= p_now);
end $$;

-- Begin a task: true for one of the ticks that find it due at the same time.
create function public.giftcard_begin_maintenance(p_task text, p_now timestamptz default null) returns boolean
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  update public.giftcard_maintenance_tasks set last_at = v_now where task = p_task and last_at + every <= v_now;
  return found;
end $$;
-- Queues: their heads, a scan of all of them, and when the next job may start. A queue is the queued jobs of a circuit.

-- Return the head of each circuit's queue and its availability: 'ready' (jobs may start), 'probing' (one may),
-- 'blocked' (until opens_at) or 'parked' (stage unknown to this code, not configured, or paused). A loose index scan:
-- one index probe per circuit, whatever the number of jobs. The claim and status read the same: one place decides.
create function public.giftcard_queue_heads(p_stages jsonb, p_now timestamptz)
returns table (circuit text, stage text, head_at timestamptz, availability text, opens_at timestamptz)
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan as $$
begin
  return query with recursive heads as (
    (select j.circuit, j.stage, j.scheduled_at from public.giftcard_jobs j
      where j.status = 'queued' order by j.circuit, j.scheduled_at, j.id limit 1)
    union all
    select n.circuit, n.stage, n.scheduled_at from heads h cross join lateral (
      select j.circuit, j.stage, j.scheduled_at from public.giftcard_jobs j
       where j.status = 'queued' and j.circuit > h.circuit order by j.circuit, j.scheduled_at, j.id limit 1) n)
  select h.circuit, h.stage, h.scheduled_at,
         case when s.paused_at is not null or not coalesce(p_stages ? h.stage, true) then 'parked'
              when coalesce(c.state, 'closed') = 'closed' then 'ready'
              when c.open_until <= p_now then 'probing'
              else 'blocked' end,
         c.open_until
    from heads h
    left join public.giftcard_circuits c on c.circuit = h.circuit
    left join public.giftcard_stages s on s.stage = h.stage;
end $$;

-- Scan all queues for a tick. ended: up to 10 runs whose lease has ended, locked; open: circuits with a due job, those
-- that this tick has started the fewest jobs of first; half_open: circuits that wait for a probe; next_due_at: when
-- something else may start; capacity: as giftcard_remaining_capacity returns it.
create function public.giftcard_scan_queues(
  t public.giftcard_ticks, p_limit integer, p_now timestamptz,
  out ended bigint[], out open public.giftcard_cursor[], out half_open text[], out next_due_at timestamptz,
  out capacity jsonb)
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan as $$
begin
  ended := case when p_limit > 0 then array(
    select id from public.giftcard_jobs
     where status = 'running' and coalesce(lease_expires_at, '-infinity'::timestamptz) <= p_now
     order by coalesce(lease_expires_at, '-infinity'::timestamptz), id limit 10 for update skip locked) else '{}' end;
  select coalesce(array_agg(row(q.circuit, null, null)::public.giftcard_cursor)
                    filter (where q.due and q.availability = 'ready'), '{}'),
         coalesce(array_agg(q.circuit) filter (where q.due and q.availability = 'probing'), '{}'),
         min(case q.availability when 'blocked' then greatest(q.head_at, q.opens_at)
                                 when 'probing' then greatest(q.head_at, p_now + interval '1 second')
                                 else q.head_at end)
           filter (where not q.due or q.availability = 'probing' or p_limit <= 0)
    into open, half_open, next_due_at
    from (select h.*, h.availability in ('ready', 'probing')
                      and (h.head_at <= p_now or t.only_job_id is not null) as due
            from public.giftcard_queue_heads(t.stages, p_now) h
           where h.availability <> 'parked' and (t.only_stage is null or h.stage = t.only_stage)
             and (t.only_job_id is null
                  or h.circuit = (select circuit from public.giftcard_jobs where id = t.only_job_id))
           order by coalesce((t.served ->> h.circuit)::integer, 0), h.head_at) q;
  capacity := '{}'::jsonb;
  if t.limits <> '{}' and p_limit > 0 then
    capacity := public.giftcard_remaining_capacity(
      t.limits, array(select circuit from unnest(open)) || half_open, p_now);
  end if;
end $$;

-- Return when something may start for a tick that found less than it asked for: the earliest of p_heads_at, a later job
-- of the circuits that it claimed from, a lease that ends, a revival and, for a tick of all stages, the next occurrence
-- of a schedule. p_is_full: a limited stage has no capacity, and nothing notifies when it has again: in a second.
-- null: never, as things stand.
create function public.giftcard_next_due(
  p_heads_at timestamptz, p_claimed_from text[], p_is_full boolean, p_all_stages boolean, p_now timestamptz)
returns timestamptz
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
begin
  return least(
    p_heads_at,
    case when p_is_full then p_now + interval '1 second' end,
    case when p_all_stages then public.giftcard_next_schedule_at() end,
    (select min(n.scheduled_at) from unnest(p_claimed_from) c(circuit) cross join lateral (
       select j.scheduled_at from public.giftcard_jobs j
        where j.status = 'queued' and j.circuit = c.circuit and j.scheduled_at > p_now
        order by j.scheduled_at, j.id limit 1) n),
    (select coalesce(j.lease_expires_at, '-infinity'::timestamptz) from public.giftcard_jobs j
      where j.status = 'running' order by coalesce(j.lease_expires_at, '-infinity'::timestamptz), j.id limit 1),
    (select j.revive_at from public.giftcard_jobs j
      where j.status = 'error' and j.revive_at is not null order by j.revive_at, j.id limit 1));
end $$;
-- Picks: which due jobs a claim takes.

-- A claim under way.
create type public.giftcard_claim_state as (
  ids bigint[],                       -- jobs picked so far: locked
  remaining integer,                  -- jobs still wanted
  queues public.giftcard_cursor[],    -- circuits with a due job, in their turn
  claimed_from text[],
  served jsonb,                       -- jobs that the tick has started, by circuit
  capacity jsonb,                     -- runs that limited stages may still begin; {}: no limits
  is_full boolean                     -- a limited stage had more due jobs than capacity
);

-- Lock the probe of a half-open circuit and return its id: among the first 50 due jobs the one with the fewest
-- attempts. null: a probe runs, another claim is choosing one, or nothing is due. Records the change open → half_open.
create function public.giftcard_pick_probe(p_circuit text, p_only_job_id bigint, p_now timestamptz) returns bigint
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  c public.giftcard_circuits;
  v_id bigint;
begin
  select * into c from public.giftcard_circuits
   where circuit = p_circuit and state <> 'closed' and open_until <= p_now for update skip locked;
  if not found or exists (
       select from public.giftcard_jobs where id = c.probe_job_id and status = 'running'
              and lease_id = c.probe_lease_id) then
    return null;
  end if;
  select j.id into v_id from public.giftcard_jobs j
   where j.status = 'queued' and j.id = coalesce(p_only_job_id, (
     select f.id from (
       select q.id, q.attempts, q.scheduled_at from public.giftcard_jobs q
        where q.status = 'queued' and q.circuit = p_circuit and q.scheduled_at <= p_now
        order by q.scheduled_at, q.id limit 50) f
      order by f.attempts, f.scheduled_at, f.id limit 1))
   for update skip locked;
  if v_id is not null and c.state = 'open' then
    perform public.giftcard_change_circuit(p_circuit, 'half_open', 'cooldown over', v_id, c.open_until, p_now);
  end if;
  return v_id;
end $$;

-- Pick one job as the probe of each half-open circuit, while jobs are wanted.
create function public.giftcard_pick_probes(
  s public.giftcard_claim_state, p_half_open text[], p_only_job_id bigint, p_now timestamptz)
returns public.giftcard_claim_state
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_circuit text;
  v_id bigint;
begin
  foreach v_circuit in array p_half_open loop
    exit when s.remaining <= 0;
    if s.capacity <> '{}' and (s.capacity ->> public.giftcard_stage_of(v_circuit))::integer = 0 then
      s.is_full := true;
      continue;
    end if;
    v_id := public.giftcard_pick_probe(v_circuit, p_only_job_id, p_now);
    continue when v_id is null;
    s.ids := s.ids || v_id;
    s.remaining := s.remaining - 1;
    s.capacity := public.giftcard_reduce_capacity(s.capacity, v_circuit, 1);
  end loop;
  return s;
end $$;

-- Pick due jobs from s.queues: the circuits take turns, in rounds, the oldest due job of each first. Leaves in s.queues
-- the circuits that had more, those without a turn first. The planner's settings are those of giftcard_claim_for.
create function public.giftcard_pick_jobs(
  s public.giftcard_claim_state, p_only_job_id bigint, p_now timestamptz) returns public.giftcard_claim_state
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_ids bigint[] := s.ids;
  v_left integer := s.remaining;
  v_served jsonb := s.served;
  v_again public.giftcard_cursor[];  -- the queues of the next round
  q public.giftcard_cursor;
  v_share integer;
  v_got bigint[];
  v_got_at timestamptz;              -- scheduled_at of the last of them
begin
  while v_left > 0 and cardinality(s.queues) > 0 loop
    v_again := '{}'::public.giftcard_cursor[];
    for i in 1 .. cardinality(s.queues) loop
      if v_left <= 0 then
        v_again := s.queues[i:] || v_again;
        exit;
      end if;
      q := s.queues[i];
      -- A fair share of what is left; what one circuit does not need comes to the others in the next round.
      v_share := (v_left + cardinality(s.queues) - i) / (cardinality(s.queues) - i + 1);
      if s.capacity <> '{}' then
        -- null, and so without effect, for a stage without a limit
        v_share := least(v_share, (s.capacity ->> public.giftcard_stage_of(q.circuit))::integer);
        s.is_full := s.is_full or v_share = 0;
        continue when v_share = 0;
      end if;
      if p_only_job_id is null then
        select coalesce(array_agg(g.id), '{}'), max(g.scheduled_at) into v_got, v_got_at from (
          select j.id, j.scheduled_at from public.giftcard_jobs j
           where j.status = 'queued' and j.circuit = q.circuit and j.scheduled_at <= p_now and j.id <> all (v_ids)
             and (j.scheduled_at, j.id) > (coalesce(q.scheduled_at, '-infinity'), coalesce(q.id, -9223372036854775808))
           order by j.scheduled_at, j.id limit v_share for update skip locked) g;
      else
        v_got := array(select id from public.giftcard_jobs
                        where id = p_only_job_id and status = 'queued' and id <> all (v_ids) for update skip locked);
      end if;
      v_ids := v_ids || v_got;
      v_left := v_left - cardinality(v_got);
      s.claimed_from := s.claimed_from || q.circuit;
      v_served := v_served || jsonb_build_object(
        q.circuit, coalesce((v_served ->> q.circuit)::integer, 0) + cardinality(v_got));
      if s.capacity <> '{}' then
        s.capacity := public.giftcard_reduce_capacity(s.capacity, q.circuit, cardinality(v_got));
      end if;
      if cardinality(v_got) = v_share then
        v_again := v_again || row(q.circuit, v_got_at, v_got[v_share])::public.giftcard_cursor;
      end if;
    end loop;
    s.queues := v_again;
  end loop;
  s.ids := v_ids;
  s.remaining := v_left;
  s.served := v_served;
  return s;
end $$;
-- Versions: schema and code are deployed separately, and each knows which versions of the other it works with.

-- Return the schema's version, and the oldest version of the code that it still serves. Stable, not immutable: an
-- immutable one is folded into prepared plans, which then answer without checking who may call it.
create function public.giftcard_schema_version() returns jsonb
language sql stable security invoker set search_path = '' as $$
  select '{"version": 1, "oldest_code": 1}'::jsonb
$$;

-- Refuse (GC426) code that the schema is too new for, or a schema that is too old for the code.
create function public.giftcard_check_versions(p_code_version integer, p_oldest_schema integer) returns void
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_schema jsonb := public.giftcard_schema_version();
begin
  if p_code_version < (v_schema ->> 'oldest_code')::integer then
    perform public.giftcard_refuse('GC426', format(
      'the database is at schema %s, which serves code from %s on; this code is %s: deploy newer code',
      v_schema ->> 'version', v_schema ->> 'oldest_code', p_code_version));
  elsif (v_schema ->> 'version')::integer < p_oldest_schema then
    perform public.giftcard_refuse('GC426', format(
      'this code needs schema %s or a later one, and the database is at %s: run the migrations',
      p_oldest_schema, v_schema ->> 'version'));
  end if;
end $$;
-- Enqueue: one job or many.

-- Raise a refusal: giftcard_refuse('GC404', 'job 7 does not exist'). The field at fault becomes the error's DETAIL.
create function public.giftcard_refuse(p_sqlstate text, p_message text, p_field text default null) returns void
language plpgsql security invoker set search_path = '' as $$
begin
  raise exception '%', p_message using errcode = p_sqlstate, detail = coalesce(p_field, '');
end $$;

-- Refuse what cannot be enqueued as a whole: no array, too many jobs, a time without its zone.
create function public.giftcard_check_jobs(p_jobs jsonb) returns void
language plpgsql stable security invoker set search_path = '' as $$
begin
  if p_jobs is null or jsonb_typeof(p_jobs) <> 'array' then
    perform public.giftcard_refuse('GC400', 'p_jobs must be an array of jobs', 'p_jobs');
  elsif jsonb_array_length(p_jobs) > 1000 then
    perform public.giftcard_refuse('GC400', format(
      '%s jobs are too many for one call: send at most 1000', jsonb_array_length(p_jobs)), 'p_jobs');
  elsif p_jobs @? '$[*].scheduled_at ? (@.type() != "null" && (@.type() != "string" || !(@ like_regex
      "^[0-9]{4}(-[0-9]{2}){2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)$" flag "i")))'
  then
    perform public.giftcard_refuse(
      'GC400', 'scheduled_at must be a time with its zone, like 2026-01-31T12:00:00Z', 'scheduled_at');
  end if;
end $$;

-- Return {id, status, created} of each job that an enqueue was given, in its order; p_new are those that it created.
-- With p_replace, one in error or cancelled is queued again with its new payload.
create function public.giftcard_enqueued_jobs(p_jobs jsonb, p_new bigint[], p_replace boolean, p_now timestamptz)
returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_answers json;
begin
  select json_agg(json_build_object('id', j.id, 'status', j.status, 'created', j.id = any (coalesce(p_new, '{}')))
                  order by e.n)
    into v_answers
    from jsonb_array_elements(p_jobs) with ordinality e(job, n)
    left join public.giftcard_jobs j
      on j.tenant_id = coalesce(e.job ->> 'tenant_id', 'default') and j.correlation_id = e.job ->> 'correlation_id'
     and j.stage = e.job ->> 'stage' and j.dedup_key = coalesce(e.job ->> 'dedup_key', '');
  if not p_replace then
    return v_answers;
  end if;
  return (
    select json_agg(
      case when (a.answer ->> 'created')::boolean or a.answer ->> 'status' not in ('error', 'cancelled')
           then a.answer::jsonb
           else public.giftcard_requeue(
                  (a.answer ->> 'id')::bigint, p_jobs -> (a.n - 1)::integer -> 'payload', false,
                  p_jobs -> (a.n - 1)::integer ->> 'circuit', p_now) || '{"created": false}' end order by a.n)
    from json_array_elements(v_answers) with ordinality a(answer, n));
end $$;

-- Enqueue jobs: an array of up to 1,000 objects with stage and correlation_id and, optionally, tenant_id, dedup_key,
-- circuit, trigger_type, payload, context, max_attempts, semantics, ttr_seconds, retry_delays, scheduled_at (with its
-- zone), delay_seconds. Return [{id, status, created}] in the same order. A job that exists already is returned as it
-- stands and not changed; with p_replace, one in error or cancelled is queued again with this payload.
create function public.giftcard_enqueue(
  p_jobs jsonb, p_replace boolean default false, p_now timestamptz default null) returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_new bigint[];
  v_answers json;
begin
  perform public.giftcard_check_jobs(p_jobs);
  if p_jobs = '[]' then
    return '[]'::json;
  end if;
  with inserted as (
    insert into public.giftcard_jobs
      (tenant_id, correlation_id, stage, dedup_key, circuit, trigger_type, payload, context, max_attempts, semantics,
       ttr_seconds, retry_delays, scheduled_at, created_at, updated_at)
    select coalesce(j.tenant_id, 'default'), j.correlation_id, j.stage, coalesce(j.dedup_key, ''),
           coalesce(j.circuit, j.stage), coalesce(j.trigger_type, 'sql'), coalesce(j.payload, '{}'),
           coalesce(j.context, '{}'), j.max_attempts, coalesce(j.semantics, 'at_least_once'), j.ttr_seconds,
           j.retry_delays, coalesce(j.scheduled_at, v_now) + make_interval(secs => coalesce(j.delay_seconds, 0)),
           v_now, v_now
    from jsonb_to_recordset(p_jobs) as j(
      tenant_id text, correlation_id text, stage text, dedup_key text, circuit text, trigger_type text, payload jsonb,
      context jsonb, max_attempts integer, semantics text, ttr_seconds integer, retry_delays double precision[],
      scheduled_at timestamptz, delay_seconds double precision)
    on conflict on constraint giftcard_jobs_flow_key do nothing
    returning id)
  select array_agg(id), json_agg(json_build_object('id', id, 'status', 'queued', 'created', true))
    into v_new, v_answers from inserted;
  if cardinality(v_new) = jsonb_array_length(p_jobs) then
    return v_answers;
  end if;
  -- Some existed already. Another call has a new snapshot: it sees what another transaction has just committed.
  return public.giftcard_enqueued_jobs(p_jobs, v_new, p_replace, p_now);
end $$;
-- The claim: scan the queues, pick jobs, mark them, take over what killed functions left. All of it in one call.

-- Return the claimed jobs as a JSON array in the order of p_ids. json, not jsonb: it is written once, four times as
-- fast. Payload and context are text in it: one that Python cannot parse spoils its own job only.
create function public.giftcard_claimed_jobs(
  p_ids bigint[], p_lease_id uuid, p_interrupted bigint[], p_stages jsonb) returns json
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan as $$
declare
  -- A variable: with a literal the planner may choose the index of running rows for these few ids, and read all of it.
  v_running constant text := 'running';
begin
  return (
    select coalesce(json_agg(c), '[]') from (
      select j.id, j.tenant_id, j.correlation_id, j.stage, j.dedup_key, j.circuit,
             j.payload::text as payload_json, j.context::text as context_json,
             j.attempts, j.max_attempts, j.run_no, j.revivals, j.semantics,
             coalesce(j.ttr_seconds, (p_stages ->> j.stage)::integer, 60) as ttr, j.retry_delays,
             j.scheduled_at, j.locked_at, j.lock_owner, j.lease_id, j.id = any (p_interrupted) as interrupted
        from public.giftcard_jobs j
       where j.id = any (p_ids) and j.status = v_running and j.lease_id = p_lease_id
       order by array_position(p_ids, j.id)) c);
end $$;

-- Give the interrupted runs p_ids a new lease of 30 s. The caller holds their rows.
create function public.giftcard_take_over(p_ids bigint[], p_claim_key uuid, p_owner text, p_now timestamptz)
returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
begin
  update public.giftcard_jobs
     set lease_id = p_claim_key, lease_expires_at = p_now + interval '30 seconds', lock_owner = p_owner,
         locked_at = coalesce(locked_at, p_now), updated_at = p_now
   where id = any (p_ids);
end $$;

-- Mark jobs as claimed by a tick: each runs under a lease for its time to run and 10 s more, interrupted runs are taken
-- over, and the tick's row keeps the claim, what it has served, and its cursors (null: none). The caller holds all
-- rows; the planner's settings are those of giftcard_claim_for.
create function public.giftcard_mark_claimed(
  p_tick_id bigint, p_owner text, p_stages jsonb, p_claim_key uuid, p_ids bigint[], p_interrupted bigint[],
  p_half_open text[], p_served jsonb, p_scanned_at timestamptz, p_cursors public.giftcard_cursor[], p_now timestamptz)
returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  update public.giftcard_jobs
     set status = 'running', attempts = attempts + 1, run_no = run_no + 1, lease_id = p_claim_key,
         lease_expires_at =
           p_now + make_interval(secs => 10 + coalesce(ttr_seconds, (p_stages ->> stage)::integer, 60)),
         locked_at = p_now, lock_owner = p_owner, updated_at = p_now,
         cancel_requested_at = null, revive_at = null, finished_at = null
   where id = any (p_ids);
  if p_interrupted <> '{}' then
    perform public.giftcard_take_over(p_interrupted, p_claim_key, p_owner, p_now);
  end if;
  if p_half_open <> '{}' then
    update public.giftcard_circuits c set probe_job_id = j.id, probe_lease_id = j.lease_id
      from public.giftcard_jobs j
     where j.id = any (p_ids) and c.circuit = j.circuit and c.state = 'half_open' and c.circuit = any (p_half_open);
  end if;
  update public.giftcard_ticks
     set claim_key = p_claim_key, claim_ids = p_interrupted || p_ids, claim_interrupted = p_interrupted,
         served = p_served, started = started + cardinality(p_ids), scanned_at = p_scanned_at,
         cursors = coalesce(p_cursors, '{}')
   where id = p_tick_id;
end $$;

-- Claim up to p_limit due jobs for a tick, after up to 10 interrupted runs (outside the limit). The circuits take
-- turns, those that this tick has started the fewest jobs of first. The claim's key becomes the lease of what it
-- claims: a repeated call with the same key returns the same live leases and claims no others.
-- p_unrestricted: no stage is paused and no circuit has failed. next_due_at: null when as many jobs were found as were
-- asked for, and when nothing waits.
-- A tick in a backlog scans all queues once a second; in between it continues from the cursors of its last claim. Until
-- vacuum, claimed jobs leave dead entries at the head of each queue, which the cursors skip.
-- Statistics of a queue are always stale: every plan here uses an index, or is wrong. A sort that cannot be avoided
-- then costs so much on paper that Postgres before 18 would compile the plan.
create function public.giftcard_claim_for(
  t public.giftcard_ticks, p_unrestricted boolean, p_claim_key uuid, p_limit integer, p_now timestamptz,
  out jobs json, out claimed integer, out paused boolean, out next_due_at timestamptz)
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan as $$
declare
  s public.giftcard_claim_state;
  q record;                  -- the scan
  v_known boolean;           -- the cursors of the last claim still hold
  v_ended bigint[] := '{}'::bigint[];
  v_half_open text[] := '{}'::text[];
begin
  jobs := '[]'::json;
  claimed := 0;
  paused := false;
  if t.claim_key = p_claim_key then
    jobs := public.giftcard_claimed_jobs(t.claim_ids, p_claim_key, t.claim_interrupted, t.stages);
    claimed := json_array_length(jobs);
    return;
  elsif not p_unrestricted and exists (
      select from public.giftcard_stages where stage = '*' and paused_at is not null) then
    paused := true;
    return;
  end if;

  s := row('{}'::bigint[], p_limit, t.cursors, '{}'::text[], t.served, '{}'::jsonb, false);
  v_known := p_unrestricted and p_limit > 0 and t.cursors <> '{}'
             and t.scanned_at between p_now - interval '1 second' and p_now;
  if v_known then
    s := public.giftcard_pick_jobs(s, t.only_job_id, p_now);
  end if;
  if not v_known or s.remaining > 0 then
    t.scanned_at := p_now;
    t.served := s.served;
    q := public.giftcard_scan_queues(t, p_limit, p_now);
    v_ended := q.ended;
    s.queues := q.open;
    s.capacity := q.capacity;
    if q.half_open <> '{}' then
      v_half_open := q.half_open;
      s := public.giftcard_pick_probes(s, v_half_open, t.only_job_id, p_now);
    end if;
    s := public.giftcard_pick_jobs(s, t.only_job_id, p_now);
  end if;

  claimed := cardinality(v_ended) + cardinality(s.ids);
  if claimed > 0 then
    perform public.giftcard_mark_claimed(
      t.id, t.owner, t.stages, p_claim_key, s.ids, v_ended, v_half_open, s.served, t.scanned_at,
      -- Many queues, limits and a single job need a scan each time.
      case when cardinality(s.queues) <= 20 and t.limits = '{}' and t.only_job_id is null then s.queues end, p_now);
    jobs := public.giftcard_claimed_jobs(v_ended || s.ids, p_claim_key, v_ended, t.stages);
  end if;
  if s.remaining > 0 or p_limit <= 0 then
    next_due_at := public.giftcard_next_due(
      q.next_due_at, s.claimed_from, s.is_full, t.only_stage is null and t.only_job_id is null, p_now);
  end if;
end $$;

-- Claim for a tick that has settled nothing in this call. The lock makes a repeated claim wait for the first.
create function public.giftcard_claim(
  p_tick_id bigint, p_claim_key uuid, p_limit integer, p_now timestamptz default null,
  out jobs json, out claimed integer, out paused boolean, out next_due_at timestamptz)
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz;
  r record;
begin
  perform pg_advisory_xact_lock(hashtextextended(p_claim_key::text, 0));
  v_now := coalesce(p_now, clock_timestamp());
  select t as tick,
         not exists (select from public.giftcard_stages where paused_at is not null)
           and not exists (select from public.giftcard_circuits where failures > 0 or state <> 'closed') as unrestricted
    into r from public.giftcard_ticks t where t.id = p_tick_id;
  if not found then
    perform public.giftcard_refuse('GC404', format('tick %s does not exist', p_tick_id), 'tick_id');
  end if;
  r := public.giftcard_claim_for(r.tick, r.unrestricted, p_claim_key, p_limit, v_now);
  jobs := r.jobs;
  claimed := r.claimed;
  paused := r.paused;
  next_due_at := r.next_due_at;
end $$;
-- The settle: outcomes of runs become states of jobs, history, next jobs, webhooks and states of circuits.

-- Record the outcomes of runs. p_results: an array of {id, lease_id, outcome: complete|retry|error|snooze|release} and,
-- as the outcome needs it, delay (seconds), error (text), revive (seconds; absent: never), context (merged), next (jobs
-- to enqueue in this transaction: same tenant and flow, context passed on), interrupted (true for a run taken over),
-- detail (kept with the run), trips (the threshold of its circuit, when this failure counts towards it). Complete
-- counts as a success by itself.
-- settled: [{id, settled: 'settled'|'lease_lost', status, next_run_at}]; opened, closed: circuits; sums: how many by
-- outcome.
create function public.giftcard_settle(
  p_results jsonb, p_cooldown_seconds double precision default 60, p_now timestamptz default null,
  out settled json, out opened text[], out closed text[], out sums jsonb)
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_by_id jsonb;         -- results by the id of their job, where any has more to it than that it is complete
  g record;              -- ids by outcome, and the lease of all results, if they share one: most come from one claim
  v_done bigint[];
  r record;
begin
  if p_results is null or jsonb_typeof(p_results) <> 'array' then
    perform public.giftcard_refuse('GC400', 'p_results must be an array of results', 'p_results');
  end if;
  select array_agg(id) as ids,
         case when min(lease_id) = max(lease_id) and count(lease_id) = count(*) then min(lease_id)
              end::uuid as lease_id,
         array_agg(id) filter (where outcome = 'complete') as complete,
         array_agg(id) filter (where outcome in ('retry', 'snooze', 'release', 'error')) as unfinished
    into g from jsonb_to_recordset(p_results) as x(id bigint, lease_id text, outcome text);
  if coalesce(cardinality(g.complete), 0) + coalesce(cardinality(g.unfinished), 0) < jsonb_array_length(p_results) then
    perform public.giftcard_refuse('GC400', 'outcome must be complete, retry, error, snooze or release', 'outcome');
  end if;
  if g.unfinished is not null or g.lease_id is null or p_results @? '$[*].context ? (@ != null)'
     or p_results @? '$[*].detail ? (@ != null)' or p_results @? '$[*].next ? (@ != null)' then
    v_by_id := public.giftcard_results_by_id(p_results);
  end if;
  if g.complete is not null then
    r := public.giftcard_settle_completed(g.complete, g.lease_id, v_by_id, v_now);
    v_done := r.done;
    settled := r.settled;
  end if;
  sums := jsonb_build_object('completed', coalesce(cardinality(v_done), 0), 'lease_lost', 0);
  if g.unfinished is not null then
    r := public.giftcard_settle_unfinished(g.unfinished, v_by_id, v_now);
    v_done := v_done || r.done;
    sums := sums || r.sums;
  end if;
  if v_by_id @? '$.*.next ? (@ != null)' then
    perform public.giftcard_enqueue_next(v_done, v_by_id, p_now);
  end if;
  -- When all are complete and settled, as nearly always, the rows need not be read again.
  if g.unfinished is not null or cardinality(v_done) is distinct from cardinality(g.ids) then
    r := public.giftcard_settled_jobs(g.ids, v_done, coalesce(v_by_id, public.giftcard_results_by_id(p_results)));
    settled := r.settled;
    sums := sums || jsonb_build_object('lease_lost', r.lease_lost);
  end if;
  select exists (select from public.giftcard_webhook_endpoints where enabled) as notify, '{}'::text[] as opened,
         exists (select from public.giftcard_circuits where failures > 0 or state <> 'closed') as failing,
         '{}'::text[] as closed into r;
  if r.notify then
    perform public.giftcard_enqueue_webhooks(v_done, v_now);
  end if;
  if r.failing or p_results @? '$[*].trips ? (@ != null)' then
    r := public.giftcard_count_results(p_results, v_done, p_cooldown_seconds, v_now);
  end if;
  opened := r.opened;
  closed := r.closed;
end $$;

-- Return results as an object by the id of their job.
create function public.giftcard_results_by_id(p_results jsonb) returns jsonb
language sql stable security invoker set search_path = '' as $$
  select jsonb_object_agg(r ->> 'id', r) from jsonb_array_elements(p_results) r
$$;

-- Return after how long a job that ends in error revives; null: never. A recurring schedule's does not: the next
-- occurrence comes anyway.
create function public.giftcard_revives_in(p_trigger_type text, p_result jsonb) returns interval
language sql immutable security invoker set search_path = '' as $$
  select case when p_trigger_type <> 'schedule' then make_interval(secs => (p_result ->> 'revive')::double precision)
              end
$$;

-- Settle jobs that are complete; p_lease_id null: each result has its own lease. Return the ids of those settled, and
-- their part of what giftcard_settle returns. The line of history is written from the row that was just changed, in the
-- same statement. The planner's settings are those of giftcard_settle.
create function public.giftcard_settle_completed(
  p_ids bigint[], p_lease_id uuid, p_by_id jsonb, p_now timestamptz, out done bigint[], out settled json)
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_contexts boolean := p_by_id @? '$.*.context ? (@ != null)';
  v_details boolean := p_by_id @? '$.*.detail ? (@ != null)';
  -- A variable: with a literal the planner may choose the index of running rows for these few ids, and read all of it.
  v_running constant text := 'running';
begin
  with changed as (
    update public.giftcard_jobs
       set status = 'completed', last_error = null,
           context = case when v_contexts then context || coalesce(p_by_id -> id::text -> 'context', '{}')
                          else context end,
           lease_id = null, lease_expires_at = null, finished_at = p_now, updated_at = p_now
     where id = any (p_ids) and status = v_running
       and lease_id = coalesce(p_lease_id, (p_by_id -> id::text ->> 'lease_id')::uuid)
    returning id, run_no, attempts, stage, scheduled_at, locked_at, lock_owner), kept as (
    insert into public.giftcard_job_history
      (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at, lock_owner, lease_id, detail)
    select id, run_no, attempts, stage, 'SUCCESS', scheduled_at, locked_at, p_now, lock_owner,
           coalesce(p_lease_id, (p_by_id -> id::text ->> 'lease_id')::uuid),
           case when v_details then p_by_id -> id::text -> 'detail' end
      from changed
    returning job_id)
  select array_agg(job_id),
         json_agg(json_build_object('id', job_id, 'status', 'completed', 'settled', 'settled', 'next_run_at', null))
    into done, settled from kept;
end $$;

-- Settle jobs that are not complete: retry, snooze and release send a run back, error ends it; a requested cancel turns
-- each into cancelled. Return the ids of those settled, and how many by outcome.
create function public.giftcard_settle_unfinished(
  p_ids bigint[], p_by_id jsonb, p_now timestamptz, out done bigint[], out sums jsonb)
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
declare
  v_running constant text := 'running';
begin
  with changed as (
    update public.giftcard_jobs j
       set status = case when j.cancel_requested_at is not null then 'cancelled'
                         when r ->> 'outcome' = 'error' then 'error' else 'queued' end,
           attempts = j.attempts - case when r ->> 'outcome' in ('snooze', 'release') then 1 else 0 end,
           last_error = coalesce(r ->> 'error', j.last_error),
           scheduled_at = case
             when j.cancel_requested_at is not null or r ->> 'outcome' = 'release' then j.scheduled_at
             when r ->> 'outcome' = 'error'
             then coalesce(p_now + public.giftcard_revives_in(j.trigger_type, r), j.scheduled_at)
             -- Made due while it ran (giftcard_make_due): what it waits for has come.
             when r ->> 'outcome' = 'snooze' and j.scheduled_at > j.locked_at
             then least(j.scheduled_at, p_now + make_interval(secs => (r ->> 'delay')::double precision))
             else p_now + make_interval(secs => coalesce((r ->> 'delay')::double precision, 0)) end,
           revive_at = case when r ->> 'outcome' = 'error' and j.cancel_requested_at is null
                            then p_now + public.giftcard_revives_in(j.trigger_type, r) end,
           finished_at = case when r ->> 'outcome' = 'error' or j.cancel_requested_at is not null then p_now end,
           lease_id = null, lease_expires_at = null, updated_at = p_now
      from (select (e.key)::bigint as id, e.value as r from jsonb_each(p_by_id) e) x
     where j.id = any (p_ids) and x.id = j.id and j.status = v_running and j.lease_id = (r ->> 'lease_id')::uuid
    returning j.*, x.r, (select o.scheduled_at from public.giftcard_jobs o where o.id = j.id) as was_scheduled_at),
  kept as (
    insert into public.giftcard_job_history
      (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at, lock_owner, lease_id, error,
       next_run_at, detail)
    select id, run_no, attempts + case when r ->> 'outcome' in ('snooze', 'release') then 1 else 0 end, stage,
           case when (r ->> 'interrupted')::boolean then 'INTERRUPTED' when r ->> 'outcome' = 'snooze' then 'SNOOZED'
                when r ->> 'outcome' = 'release' then 'RELEASED' else 'FAILED' end,
           was_scheduled_at, locked_at, p_now, lock_owner, (r ->> 'lease_id')::uuid, r ->> 'error',
           -- giftcard_next_run_at, inline
           case status when 'queued' then scheduled_at when 'error' then revive_at end, r -> 'detail'
      from changed
    on conflict (job_id, run_no) do update
      set result = excluded.result, finished_at = excluded.finished_at, lease_id = excluded.lease_id,
          error = excluded.error, next_run_at = excluded.next_run_at, detail = excluded.detail
    returning job_id)
  select coalesce(array_agg(job_id), '{}') into done from kept;
  sums := public.giftcard_count_outcomes(done, p_by_id);
end $$;

-- Count the unfinished results that were settled, by outcome; interrupted: those of runs taken over.
create function public.giftcard_count_outcomes(p_ids bigint[], p_by_id jsonb) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return (
    select jsonb_build_object(
        'retried', count(*) filter (where r ->> 'outcome' = 'retry'),
        'errored', count(*) filter (where r ->> 'outcome' = 'error'),
        'snoozed', count(*) filter (where r ->> 'outcome' = 'snooze'),
        'released', count(*) filter (where r ->> 'outcome' = 'release'),
        'interrupted', count(*) filter (where (r ->> 'interrupted')::boolean))
      from unnest(p_ids) i cross join lateral (select p_by_id -> i::text as r) x);
end $$;

-- Return how each job of a settle stands now: {id, status, settled, next_run_at}. A settle that is repeated is known by
-- the lease in the history. GC400 if a job is given twice.
create function public.giftcard_settled_jobs(
  p_ids bigint[], p_done bigint[], p_by_id jsonb, out settled json, out lease_lost bigint)
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan as $$
begin
  if (select count(distinct i) from unnest(p_ids) i) < cardinality(p_ids) then
    perform public.giftcard_refuse('GC400', 'each job can be settled once a call', 'id');
  end if;
  select json_agg(s), count(*) filter (where s.settled = 'lease_lost') into settled, lease_lost from (
    select j.id, j.status,
           case when j.id = any (p_done) then 'settled'
                -- A scalar, not exists(): that could become a hash of all history.
                else coalesce((select 'settled' from public.giftcard_job_history h
                                where h.job_id = j.id and h.lease_id = (p_by_id -> j.id::text ->> 'lease_id')::uuid
                                limit 1), 'lease_lost') end as settled,
           -- giftcard_next_run_at, inline
           case j.status when 'queued' then j.scheduled_at when 'error' then j.revive_at end as next_run_at
      from public.giftcard_jobs j where j.id = any (p_ids)) s;
end $$;

-- Enqueue what follows settled jobs: same tenant and flow, context passed on, the payload too unless the next job has
-- its own. Nothing follows a cancelled job; complete wins over a requested cancel.
create function public.giftcard_enqueue_next(p_ids bigint[], p_by_id jsonb, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_next jsonb;
begin
  select jsonb_agg(jsonb_build_object('payload', j.payload)
                   || (select jsonb_object_agg(key, value) from jsonb_each(n.job) where value <> 'null')
           || jsonb_build_object('tenant_id', j.tenant_id, 'correlation_id', j.correlation_id, 'context', j.context,
                                 'trigger_type', 'flow')
           order by j.id)
    into v_next
    from public.giftcard_jobs j
    cross join lateral jsonb_array_elements(p_by_id -> j.id::text -> 'next') n(job)
   where j.id = any (p_ids) and j.status in ('completed', 'error');
  if v_next is not null then
    perform public.giftcard_enqueue(v_next, false, p_now);
  end if;
end $$;
-- A tick's steps: begin, then advance until it has ended. A tick with nothing to do is one call; a batch of jobs is
-- two.
-- Without jit: where no index serves, forbidden scans cost so much on paper before PostgreSQL 18 that each plan would
-- be compiled. A tick never waits for infinity, which cannot be subtracted before PostgreSQL 17.

-- Revive dead letters whose revive_at has come: queued, with a whole new set of attempts, the oldest first, at most
-- p_limit. Return how many. More than ten at once are spread over five minutes, so as not to flood a vendor that has
-- just recovered.
create function public.giftcard_revive(p_limit integer default 100, p_now timestamptz default null) returns integer
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_ids bigint[] := array(
    select id from public.giftcard_jobs
     where status = 'error' and revive_at is not null and revive_at <= v_now
     order by revive_at, id limit p_limit for update skip locked);
  v_count integer := cardinality(v_ids);
begin
  update public.giftcard_jobs
     set status = 'queued', attempts = 0, revivals = revivals + 1, revive_at = null, finished_at = null,
         updated_at = v_now,
         scheduled_at = v_now + case when v_count > 10
                                     then interval '5 minutes' * (array_position(v_ids, id) - 1) / v_count
                                     else interval '0' end
   where id = any (v_ids);
  return v_count;
end $$;

-- End a tick, unless something is due within p_linger_seconds and there is no reason to stop. Return why it stopped;
-- null: it goes on.
create function public.giftcard_end_tick(
  p_tick_id bigint, p_paused boolean, p_next_due_in double precision, p_stop text, p_linger_seconds double precision,
  p_now timestamptz)
returns text language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_stopped_because text := coalesce(p_stop, case when p_paused then 'paused'
                                                  when p_next_due_in is null or p_next_due_in > p_linger_seconds
                                                      then 'drained' end);
begin
  if v_stopped_because is not null then
    update public.giftcard_ticks set ended_at = p_now, stopped_because = v_stopped_because where id = p_tick_id;
  end if;
  return v_stopped_because;
end $$;

-- Return the schedules that a tick should plan now; null: none. A tick for a single stage or job plans nothing.
create function public.giftcard_schedules_for(p_tick_id bigint, p_now timestamptz) returns json
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
begin
  if not exists (select from public.giftcard_schedules where check_at is not null and check_at <= p_now) then
    return null;
  end if;
  return (select public.giftcard_due_schedules(100, p_now) from public.giftcard_ticks
           where id = p_tick_id and only_stage is null and only_job_id is null);
end $$;

-- Return what a begin returns when there is nothing to do: a second delivery, or a repeated call after the end.
create function public.giftcard_ended_tick(p_tick_id bigint, p_stopped_because text) returns json
language sql stable security invoker set search_path = '' as $$
  select json_build_object('tick_id', p_tick_id,
                           'duplicate', p_stopped_because = 'duplicate', 'paused', p_stopped_because = 'paused',
                           'revived', 0, 'jobs', '[]'::json, 'next_due_at', null, 'next_due_in', null,
                           'stopped_because', p_stopped_because)
$$;

-- Return whether an execution id was delivered before, and its tick is live or ended well. Locks the id.
create function public.giftcard_is_duplicate(p_execution_id text, p_now timestamptz) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('execution ' || p_execution_id, 0));
  return exists (
    select from public.giftcard_ticks
     where execution_id = p_execution_id and stopped_because is distinct from 'duplicate'
       and (ended_at is not null or live_until > p_now));
end $$;

-- Revive for a tick, which counts it. Return how many jobs.
create function public.giftcard_revive_for(p_tick_id bigint, p_now timestamptz) returns integer
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_revived integer := public.giftcard_revive(100, p_now);
begin
  if v_revived > 0 then
    update public.giftcard_ticks set revived = revived + v_revived where id = p_tick_id;
  end if;
  return v_revived;
end $$;

-- Begin a tick: record it, revive, claim. p_key: made by the caller, so that a repeated begin finds its tick and the
-- same leases. A second delivery of an execution id does no work while the first is live or ended well.
-- p_code_version, p_oldest_schema: the caller's version, and the oldest schema that it works with (null: any). GC426 if
-- they do not fit.
-- p_stages: {"email": 60}: the stages that this code can run, with the time to run of each in seconds. p_limits:
-- {"payment": 2}: runs at once in the whole fleet. p_linger_seconds: how long it may wait for work.
-- Return {tick_id, duplicate, paused, revived, jobs, next_due_at, next_due_in (seconds), stopped_because (null: it goes
-- on), schedules (due, for the caller to plan before it advances), maintenance (tasks to do after its jobs)}.
create function public.giftcard_begin_tick(
  p_key uuid, p_owner text, p_source text, p_stages jsonb, p_limit integer, p_live_seconds double precision,
  p_code_version integer, p_linger_seconds double precision default 0, p_execution_id text default null,
  p_only_stage text default null, p_only_job_id bigint default null, p_limits jsonb default '{}',
  p_oldest_schema integer default null, p_now timestamptz default null)
returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_id bigint;
  v_duplicate boolean;
  v_revived integer := 0;
  v_stopped_because text;
  v_next_due_in double precision;
  v_schedules json;
  c record;
begin
  perform public.giftcard_check_versions(p_code_version, p_oldest_schema);
  perform pg_advisory_xact_lock(hashtextextended(p_key::text, 0));
  select id, revived, stopped_because::text into v_id, v_revived, v_stopped_because
    from public.giftcard_ticks where key = p_key;
  if v_stopped_because is not null then
    return public.giftcard_ended_tick(v_id, v_stopped_because);
  elsif v_id is null then
    v_duplicate := p_execution_id is not null and public.giftcard_is_duplicate(p_execution_id, v_now);
    insert into public.giftcard_ticks
      (key, owner, source, execution_id, started_at, live_until, ended_at, stopped_because, stages, limits, only_stage,
       only_job_id, code_version)
    values (p_key, p_owner, p_source, p_execution_id, v_now, v_now + make_interval(secs => p_live_seconds),
            case when v_duplicate then v_now end, case when v_duplicate then 'duplicate' end, p_stages, p_limits,
            p_only_stage, p_only_job_id, p_code_version)
    returning id into v_id;
    if v_duplicate then
      return public.giftcard_ended_tick(v_id, 'duplicate');
    end if;
    v_revived := public.giftcard_revive_for(v_id, p_now);
  end if;
  c := public.giftcard_claim(v_id, p_key, p_limit, p_now);
  v_next_due_in := case when isfinite(c.next_due_at) then extract(epoch from c.next_due_at - v_now)::float8 end;
  v_schedules := public.giftcard_schedules_for(v_id, v_now);
  if c.claimed = 0 and v_schedules is null then
    v_stopped_because := public.giftcard_end_tick(v_id, c.paused, v_next_due_in, null, p_linger_seconds, v_now);
  end if;
  return json_build_object(
    'tick_id', v_id, 'duplicate', false, 'paused', c.paused, 'revived', v_revived, 'jobs', c.jobs,
    'next_due_at', c.next_due_at, 'next_due_in', v_next_due_in, 'stopped_because', v_stopped_because,
    'schedules', coalesce(v_schedules, '[]'), 'maintenance', public.giftcard_due_maintenance(v_now));
end $$;

-- Advance a tick: settle what has finished, claim up to p_limit more, and end the tick when nothing runs (p_busy:
-- handlers still running here) and nothing is worth waiting for, or when the caller gives a reason to stop (p_stop:
-- limit, budget, shutdown). Safe to repeat. Return {settled, opened, closed, revived, jobs, paused, next_due_at,
-- next_due_in (seconds), stopped_because, schedules}.
create function public.giftcard_advance_tick(
  p_tick_id bigint, p_claim_key uuid, p_results jsonb, p_limit integer, p_busy integer,
  p_linger_seconds double precision default 0, p_stop text default null,
  p_cooldown_seconds double precision default 60, p_now timestamptz default null) returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_revived integer := 0;
  v_stopped_because text;
  v_next_due_in double precision;
  v_schedules json;
  v_scheduled boolean := true;  -- perhaps: giftcard_schedules_for checks
  s record;
  r record;
  c record;
begin
  if p_results <> '[]' then
    s := public.giftcard_settle(p_results, p_cooldown_seconds, p_now);
    -- In one statement: it counts, makes a repeated call wait for the first, and reads what the claim needs to know.
    update public.giftcard_ticks t
       set completed = completed + (s.sums ->> 'completed')::integer,
           lease_lost = lease_lost + (s.sums ->> 'lease_lost')::integer,
           retried = retried + coalesce((s.sums ->> 'retried')::integer, 0),
           errored = errored + coalesce((s.sums ->> 'errored')::integer, 0),
           snoozed = snoozed + coalesce((s.sums ->> 'snoozed')::integer, 0),
           released = released + coalesce((s.sums ->> 'released')::integer, 0),
           interrupted = interrupted + coalesce((s.sums ->> 'interrupted')::integer, 0)
     where t.id = p_tick_id
    returning t as tick, not exists (select from public.giftcard_stages where paused_at is not null)
                         and not exists (select from public.giftcard_circuits where failures > 0 or state <> 'closed')
                         as unrestricted, exists (
        select from public.giftcard_schedules where check_at is not null and check_at <= v_now) as scheduled into r;
    if not found then
      perform public.giftcard_refuse('GC404', format('tick %s does not exist', p_tick_id), 'tick_id');
    end if;
    v_scheduled := r.scheduled;
  else
    select '[]'::json as settled, '{}'::text[] as opened, '{}'::text[] as closed into s;
    v_revived := public.giftcard_revive_for(p_tick_id, p_now);
  end if;
  if v_scheduled and p_stop is null then
    v_schedules := public.giftcard_schedules_for(p_tick_id, v_now);
  end if;
  if p_limit <= 0 and p_busy > 0 then
    select '[]'::json as jobs, 0 as claimed, false as paused, null::timestamptz as next_due_at into c;
  elsif p_results <> '[]' then
    -- By a later clock than the settle's: what is claimed now was claimed after each circuit that has just changed.
    c := public.giftcard_claim_for(r.tick, r.unrestricted, p_claim_key, p_limit, coalesce(p_now, clock_timestamp()));
  else
    c := public.giftcard_claim(p_tick_id, p_claim_key, p_limit, p_now);
  end if;
  v_next_due_in := case when isfinite(c.next_due_at) then extract(epoch from c.next_due_at - v_now)::float8 end;
  if c.claimed = 0 and p_busy = 0 and v_schedules is null then
    v_stopped_because := public.giftcard_end_tick(p_tick_id, c.paused, v_next_due_in, p_stop, p_linger_seconds, v_now);
  end if;
  return json_build_object(
    'settled', s.settled, 'opened', s.opened, 'closed', s.closed, 'revived', v_revived, 'jobs', c.jobs,
    'paused', c.paused, 'next_due_at', c.next_due_at, 'next_due_in', v_next_due_in,
    'stopped_because', v_stopped_because, 'schedules', coalesce(v_schedules, '[]'));
end $$;
-- External effects: the intent first, the result after. The worker that holds the lease may begin one; the first
-- recorded result stays.

create table public.giftcard_effects (
  tenant_id text collate "C" not null,
  correlation_id text collate "C" not null,
  stage text collate "C" not null,
  dedup_key text collate "C" not null,
  name text collate "C" not null,
  generation integer not null default 1,
  vendor_key text collate "C" not null,
  started_at timestamptz,
  finished_at timestamptz,
  result jsonb,
  note text,
  constraint giftcard_effects_pkey primary key (tenant_id, correlation_id, stage, dedup_key, name),
  constraint giftcard_effects_vendor_key_key unique (vendor_key),
  constraint giftcard_effects_finished_has_a_result check ((finished_at is null) = (result is null))
);

comment on table public.giftcard_effects is
  'An external effect: the intent before it (started_at), the result after it. Keyed by the flow, not the job: kept '
  'when jobs are pruned.';
comment on column public.giftcard_effects.vendor_key is
  'The idempotency key sent to the vendor: the same for all tries of one generation.';
comment on column public.giftcard_effects.started_at is
  'First try under this key; null: not begun, or the vendor refused for certain and the next try is a new '
  'generation.';

-- Return the idempotency key of an effect, the same for all tries of one generation.
create function public.giftcard_vendor_key(
  p_tenant_id text, p_correlation_id text, p_stage text, p_dedup_key text, p_name text, p_generation integer)
returns text language sql stable security invoker set search_path = '' as $$
  select 'gc_' || left(encode(sha256(convert_to(
    jsonb_build_array(p_tenant_id, p_correlation_id, p_stage, p_dedup_key, p_name, p_generation)::text, 'UTF8')),
    'hex'), 48)
$$;

-- Begin an effect, or find that it was begun. Return {state: new|unfinished|finished, result, vendor_key, age_seconds
-- (since the first try under this key)}. GC410 when the lease is not the job's current one.
create function public.giftcard_begin_effect(
  p_job_id bigint, p_lease_id uuid, p_name text, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_state text := 'unfinished';
  j public.giftcard_jobs;
  e public.giftcard_effects;
begin
  select * into j from public.giftcard_jobs where id = p_job_id and status = 'running' and lease_id = p_lease_id;
  if not found then
    perform public.giftcard_refuse(
      'GC410', format('job %s is not run under this lease now', p_job_id), 'lease_id');
  end if;
  insert into public.giftcard_effects (tenant_id, correlation_id, stage, dedup_key, name, vendor_key)
  values (j.tenant_id, j.correlation_id, j.stage, j.dedup_key, p_name,
          public.giftcard_vendor_key(j.tenant_id, j.correlation_id, j.stage, j.dedup_key, p_name, 1))
  on conflict on constraint giftcard_effects_pkey do nothing;
  select * into strict e from public.giftcard_effects
   where tenant_id = j.tenant_id and correlation_id = j.correlation_id and stage = j.stage and dedup_key = j.dedup_key
     and name = p_name
     for update;
  if e.result is not null then
    v_state := 'finished';
  elsif e.started_at is null then
    v_state := 'new';
    e.started_at := v_now;
    update public.giftcard_effects set started_at = v_now where vendor_key = e.vendor_key;
  end if;
  return jsonb_build_object('state', v_state, 'result', e.result, 'vendor_key', e.vendor_key,
                            'age_seconds', extract(epoch from v_now - e.started_at));
end $$;

-- Record the result of an effect, whatever lease the job has now. Return the result that stays: the first. GC404 for an
-- unknown key.
create function public.giftcard_finish_effect(
  p_vendor_key text, p_result jsonb, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_result jsonb;
begin
  update public.giftcard_effects
     set result = coalesce(result, p_result), finished_at = coalesce(finished_at, p_now, clock_timestamp())
   where vendor_key = p_vendor_key returning result into v_result;
  if not found then
    perform public.giftcard_refuse('GC404', 'no effect was begun under this key', 'vendor_key');
  end if;
  return v_result;
end $$;

-- Abandon an effect that did not happen, for certain: the next try is a new effect under the next generation of the
-- key. One with a result, and one whose key has changed, stay as they are. Return {vendor_key, abandoned}.
create function public.giftcard_abandon_effect(p_vendor_key text, p_note text default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_key text;
begin
  update public.giftcard_effects
     set generation = generation + 1, started_at = null, note = p_note,
         vendor_key = public.giftcard_vendor_key(tenant_id, correlation_id, stage, dedup_key, name, generation + 1)
   where vendor_key = p_vendor_key and result is null returning vendor_key into v_key;
  return jsonb_build_object('vendor_key', v_key, 'abandoned', found);
end $$;

-- Record a person's decision on an effect whose outcome cannot be found out ("outcome unknown"): it happened (p_result:
-- how), or it did not. Requeue the job afterwards. GC404 for no unfinished effect of this name.
create function public.giftcard_decide_effect(
  p_job_id bigint, p_name text, p_happened boolean, p_result jsonb default null,
  p_by text default 'operator') returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_key text;
begin
  select e.vendor_key into v_key
    from public.giftcard_jobs j
    join public.giftcard_effects e using (tenant_id, correlation_id, stage, dedup_key)
   where j.id = p_job_id and e.name = p_name and e.result is null and e.started_at is not null;
  if not found then
    perform public.giftcard_refuse(
      'GC404', format('job %s has no unfinished effect named %s', p_job_id, p_name), 'name');
  elsif p_happened and p_result is null then
    perform public.giftcard_refuse('GC400', 'give p_result, what came of it, like {"reference": "ch_123"}', 'result');
  elsif p_happened then
    return public.giftcard_finish_effect(v_key, p_result || jsonb_build_object('key', v_key, 'decided_by', p_by));
  end if;
  return public.giftcard_abandon_effect(v_key, 'did not happen, decided by ' || p_by);
end $$;
-- Limits of whole stages, and longer leases.

-- Return how many runs of a stage have a lease that has not ended.
create function public.giftcard_running(p_stage text, p_now timestamptz) returns integer
language sql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
  select count(*)::integer from public.giftcard_jobs
   where status = 'running' and coalesce(lease_expires_at, '-infinity'::timestamptz) > p_now and stage = p_stage
$$;

-- Return how many more runs each limited stage may begin: {"email": 2}, for the stages of p_circuits. p_limits:
-- {"email": 3}: the most at once in the whole fleet. Lock first, then count in a new statement, which sees what earlier
-- holders of the lock have committed. Nothing is stored that could go wrong: runs of killed functions stop counting
-- when their leases end.
create function public.giftcard_remaining_capacity(p_limits jsonb, p_circuits text[], p_now timestamptz) returns jsonb
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
declare
  v_stage text;
  v_stages text[] := array(
    select distinct s from (select public.giftcard_stage_of(c) as s from unnest(p_circuits) c) x where p_limits ? s
      order by s);
begin
  foreach v_stage in array v_stages loop
    perform pg_advisory_xact_lock(hashtextextended('limit of stage ' || v_stage, 0));
  end loop;
  return (
    select coalesce(jsonb_object_agg(s, greatest(0, (p_limits ->> s)::integer - public.giftcard_running(s, p_now))),
                    '{}')
      from unnest(v_stages) s);
end $$;

-- Return the capacity that is left once p_begun runs of a circuit have begun; stages without a limit change nothing.
create function public.giftcard_reduce_capacity(p_capacity jsonb, p_circuit text, p_begun integer) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_stage text := public.giftcard_stage_of(p_circuit);
begin
  if p_capacity ? v_stage then
    return p_capacity || jsonb_build_object(v_stage, (p_capacity ->> v_stage)::integer - p_begun);
  end if;
  return p_capacity;
end $$;

-- Extend a lease for a handler that needs longer: p_seconds (1 to 86,400) from now, and the margin of every lease.
-- Return {cancel_requested}: this run should be the job's last. GC410 when the job belongs to another run.
create function public.giftcard_heartbeat(
  p_job_id bigint, p_lease_id uuid, p_seconds double precision, p_now timestamptz default null)
returns jsonb language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_cancel boolean;
begin
  if p_seconds is null or p_seconds not between 1 and 86400 then
    perform public.giftcard_refuse('GC400', 'p_seconds must be between 1 and 86400', 'p_seconds');
  end if;
  update public.giftcard_jobs
     set lease_expires_at = greatest(lease_expires_at, v_now + make_interval(secs => p_seconds + 10)),
         updated_at = v_now
   where id = p_job_id and status = 'running' and lease_id = p_lease_id
  returning cancel_requested_at is not null into v_cancel;
  if not found then
    perform public.giftcard_refuse('GC410', format('job %s belongs to another run now', p_job_id), 'lease_id');
  end if;
  return jsonb_build_object('cancel_requested', v_cancel);
end $$;
-- Inspection. Everything here is bounded, so that it stays cheap with millions of rows.

-- Count jobs by stage and status, each up to p_cap.
create function public.giftcard_counts(p_cap integer default 1000) returns table (stage text, status text, jobs bigint)
language sql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
  with recursive ended as (
    (select j.status, j.stage from public.giftcard_jobs j
      where j.status in ('completed', 'error', 'cancelled') order by j.status, j.stage limit 1)
    union all
    select n.status, n.stage from ended e cross join lateral (
      select j.status, j.stage from public.giftcard_jobs j
       where j.status in ('completed', 'error', 'cancelled') and (j.status, j.stage) > (e.status, e.stage)
       order by j.status, j.stage limit 1) n), counts as (
    select e.stage, e.status, n.jobs from ended e cross join lateral (
      select count(*) as jobs from (
        select from public.giftcard_jobs j
         where j.status in ('completed', 'error', 'cancelled') and j.status = e.status and j.stage = e.stage
           limit p_cap) c) n
    union all
    select h.stage, 'queued', n.jobs from public.giftcard_queue_heads('{}', clock_timestamp()) h cross join lateral (
      select count(*) as jobs from (
        select from public.giftcard_jobs j where j.status = 'queued' and j.circuit = h.circuit limit p_cap) c) n
    union all
    select r.stage, 'running', count(*) from (
      select j.stage from public.giftcard_jobs j where j.status = 'running' limit p_cap) r group by r.stage)
  select c.stage, c.status, least(sum(c.jobs), p_cap)::bigint from counts c group by c.stage, c.status
    order by c.stage, c.status limit 1000
$$;

-- Return runs whose lease has ended and jobs that have been due for p_due_for at least, each with the reason.
create function public.giftcard_stuck_jobs(
  p_due_for interval default '5 minutes', p_limit integer default 100, p_now timestamptz default null)
returns table (id bigint, stage text, status text, attempts integer, since timestamptz, lock_owner text, why text,
               last_error text)
language sql stable security invoker
set search_path = '' set enable_seqscan = off as $$
  select s.* from (
    (select j.id, j.stage, j.status, j.attempts, j.lease_expires_at, j.lock_owner,
     'its function was killed: the next tick takes it over', j.last_error
       from public.giftcard_jobs j
      where j.status = 'running' and coalesce(j.lease_expires_at, '-infinity'::timestamptz) <= coalesce(p_now,
        clock_timestamp())
      order by coalesce(j.lease_expires_at, '-infinity'::timestamptz), j.id limit least(p_limit, 1000))
    union all
    (select j.id, j.stage, j.status, j.attempts, j.scheduled_at, null,
            case when c.state <> 'closed' then 'circuit ' || j.circuit || ' is ' || c.state
                 when p.stage = '*' then 'everything is paused by ' || p.paused_by || coalesce(': ' || p.reason, '')
                 when p.stage is not null then 'stage paused by ' || p.paused_by || coalesce(': ' || p.reason, '')
                 else 'due, but no tick has taken it' end, j.last_error
       from public.giftcard_jobs j
       left join public.giftcard_circuits c on c.circuit = j.circuit
       left join lateral (
         select * from public.giftcard_stages g where g.stage in ('*', j.stage) and g.paused_at is not null
           order by g.stage limit 1) p on true
      where j.status = 'queued' and j.scheduled_at <= coalesce(p_now, clock_timestamp()) - p_due_for
      order by j.scheduled_at, j.id limit least(p_limit, 1000))) as s(id, stage, status, attempts, since, lock_owner,
                                                                      why, last_error)
   order by s.since, s.id limit least(p_limit, 1000)
$$;

-- Return jobs that need many attempts (two at least), those with the most first.
create function public.giftcard_jobs_with_many_attempts(p_at_least integer default 3, p_limit integer default 100)
returns table (id bigint, stage text, status text, attempts integer, max_attempts integer, run_no integer,
               revivals integer, scheduled_at timestamptz, last_error text)
language sql stable security invoker set search_path = '' set enable_seqscan = off as $$
  select j.id, j.stage, j.status, j.attempts, j.max_attempts, j.run_no, j.revivals, j.scheduled_at, j.last_error
    from public.giftcard_jobs j
   where j.status in ('queued', 'running', 'error') and j.attempts >= 2 and j.attempts >= p_at_least
   order by j.attempts desc, j.id limit least(p_limit, 1000)
$$;

-- Return the whole picture in one call. p_stages: as in giftcard_begin_tick, what this code can run; null: unknown
-- here, so that only a pause parks.
create function public.giftcard_status(p_stages jsonb default null, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  return jsonb_build_object(
    'now', v_now,
    'schema', public.giftcard_schema_version(),
    'counts', (select coalesce(jsonb_object_agg(s.stage, s.counts), '{}') from (
        select c.stage, jsonb_object_agg(c.status, c.jobs) as counts from public.giftcard_counts() c
          group by c.stage) s),
    'queues', (select coalesce(jsonb_agg(jsonb_build_object(
          'circuit', h.circuit, 'stage', h.stage, 'availability', h.availability,
          'oldest_due_seconds', case when isfinite(h.head_at) then greatest(0, extract(epoch from v_now - h.head_at))
                                     end,
          'next_at', h.head_at, 'opens_at', h.opens_at) order by h.circuit), '[]')
        from (select * from public.giftcard_queue_heads(p_stages, v_now) limit 200) h),
    'circuits', (select coalesce(jsonb_agg(jsonb_build_object(
          'circuit', c.circuit, 'state', case when c.state = 'open' and c.open_until <= v_now then 'half_open'
                                              else c.state end,
          'failures', c.failures, 'changed_at', nullif(c.changed_at, '-infinity'), 'open_until', c.open_until)
              order by c.circuit), '[]')
        from (select * from public.giftcard_circuits where failures > 0 or state <> 'closed' order by circuit
              limit 200) c),
    'paused', (select coalesce(jsonb_agg(jsonb_build_object('stage', s.stage, 'by', s.paused_by, 'reason', s.reason,
                                                            'since', s.paused_at) order by s.stage), '[]')
        from (select * from public.giftcard_stages where paused_at is not null order by stage limit 200) s),
    'dead_letters', (select coalesce(jsonb_agg(jsonb_build_object(
          'id', d.id, 'stage', d.stage, 'attempts', d.attempts, 'revive_at', d.revive_at, 'finished_at', d.finished_at,
          'last_error', d.last_error)), '[]')
        from (select * from public.giftcard_jobs where status = 'error' order by finished_at desc nulls last, id desc
              limit 20) d),
    'paid_without_card', (select coalesce(jsonb_agg(to_jsonb(p)), '[]') from public.giftcard_paid_without_card(20) p),
    'precision', public.giftcard_precision(3600, v_now),
    'ticks',
    (select coalesce(jsonb_agg(to_jsonb(t) - '{key,stages,claim_key,claim_ids,claim_interrupted,served}'::text[]), '[]')
        from (select * from public.giftcard_ticks order by id desc limit 10) t));
end $$;

-- Return where a flow stands: its jobs in order, also archived ones, the payment and the card (last four digits). An
-- order outlives its jobs. GC404 for an unknown flow.
create function public.giftcard_flow(p_tenant_id text, p_correlation_id text) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_jobs jsonb;
begin
  select jsonb_agg(jsonb_build_object(
      'id', j.id, 'stage', j.stage, 'dedup_key', j.dedup_key, 'status', j.status, 'attempts', j.attempts,
      'last_error', j.last_error,
      'scheduled_at', j.scheduled_at, 'revive_at', j.revive_at, 'finished_at', j.finished_at,
      'archived_at', j.archived_at) order by j.id)
    into v_jobs from (
    (select id, stage, dedup_key, status, attempts::integer, last_error, scheduled_at, revive_at, finished_at,
     null::timestamptz as archived_at
       from public.giftcard_jobs where tenant_id = p_tenant_id and correlation_id = p_correlation_id order by id
         limit 100)
    union all
    (select r.id, r.stage, r.dedup_key, r.status, r.attempts, r.last_error, r.scheduled_at, r.revive_at, r.finished_at,
     a.archived_at
       from (select * from public.giftcard_jobs_archive
              where tenant_id = p_tenant_id and correlation_id = p_correlation_id order by id limit 100) a
      cross join jsonb_populate_record(null::public.giftcard_jobs, a.job) r)
     order by id limit 100) j;
  if v_jobs is null and not exists (select from public.giftcard_orders
                                    where tenant_id = p_tenant_id and correlation_id = p_correlation_id) then
    perform public.giftcard_refuse(
      'GC404', format('no order has the correlation id %s', p_correlation_id), 'correlation_id');
  end if;
  return jsonb_build_object('tenant_id', p_tenant_id, 'correlation_id', p_correlation_id,
                            'jobs', coalesce(v_jobs, '[]'),
    'payment', (select jsonb_build_object('amount', amount, 'currency', currency, 'provider', provider,
                                          'paid_at', created_at)
                  from public.giftcard_payments where tenant_id = p_tenant_id and correlation_id = p_correlation_id),
    'card', (select jsonb_build_object('last4', last4, 'amount', amount, 'balance', balance, 'currency', currency,
                                       'state', state, 'issued_at', created_at)
               from public.giftcard_cards where tenant_id = p_tenant_id and correlation_id = p_correlation_id));
end $$;
-- Find jobs, and why one does not run.

-- Refuse a filter with unknown names or invalid times. A filter is an object of {status, stage, circuit, tenant_id,
-- correlation_id, error (part of it, in any case), created_after, created_before (times with a zone)}; what is absent
-- or null fits all jobs. The callers spell the conditions out for the planner.
create function public.giftcard_check_filter(p_filter jsonb) returns void
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_name text;
begin
  if jsonb_typeof(p_filter) is distinct from 'object' then
    perform public.giftcard_refuse('GC400', 'a filter must be an object', 'filter');
  end if;
  for v_name in select jsonb_object_keys(p_filter) loop
    if v_name not in ('status', 'stage', 'circuit', 'tenant_id', 'correlation_id', 'error', 'created_after',
                      'created_before') then
      perform public.giftcard_refuse('GC400', format('there is no filter %s', v_name), v_name);
    elsif jsonb_typeof(p_filter -> v_name) not in ('string', 'null') then
      perform public.giftcard_refuse('GC400', format('the filter %s must be text', v_name), v_name);
    elsif v_name in ('created_after', 'created_before') and p_filter ->> v_name
          !~* '^[0-9]{4}(-[0-9]{2}){2}[t ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?(z|[+-][0-9]{2}(:?[0-9]{2})?)$' then
      perform public.giftcard_refuse(
        'GC400', format('%s must be a time with its zone, like 2026-01-31T12:00:00Z', v_name), v_name);
    end if;
  end loop;
end $$;

-- Return up to p_limit ids of jobs that fit a filter, by id: downwards from p_after (p_up: upwards). Ids are unique, so
-- pages neither skip nor repeat a row, whatever was created in the same instant.
create function public.giftcard_find_jobs(
  p_filter jsonb, p_after bigint default null, p_limit integer default 50, p_up boolean default false) returns bigint[]
language plpgsql stable security invoker
-- Planned for the values of each call: an absent condition folds away.
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_custom_plan as $$
declare
  v_status text := p_filter ->> 'status';
  v_stage text := p_filter ->> 'stage';
  v_circuit text := p_filter ->> 'circuit';
  v_tenant text := p_filter ->> 'tenant_id';
  v_flow text := p_filter ->> 'correlation_id';
  v_error text := lower(p_filter ->> 'error');
  v_from timestamptz;
  v_to timestamptz;
  v_ids bigint[];
begin
  perform public.giftcard_check_filter(p_filter);
  v_from := (p_filter ->> 'created_after')::timestamptz;
  v_to := (p_filter ->> 'created_before')::timestamptz;
  if p_up then
    select array_agg(f.id order by f.id) into v_ids from (
      select j.id from public.giftcard_jobs j
       where (p_after is null or j.id > p_after) and (v_status is null or j.status = v_status)
         and (v_stage is null or j.stage = v_stage)
         and (v_circuit is null or j.circuit = v_circuit) and (v_tenant is null or j.tenant_id = v_tenant)
         and (v_flow is null or j.correlation_id = v_flow)
         and (v_error is null or strpos(lower(j.last_error), v_error) > 0)
         and (v_from is null or j.created_at >= v_from) and (v_to is null or j.created_at < v_to)
       order by j.id limit least(p_limit, 1000)) f;
  else
    select array_agg(f.id order by f.id desc) into v_ids from (
      select j.id from public.giftcard_jobs j
       where (p_after is null or j.id < p_after) and (v_status is null or j.status = v_status)
         and (v_stage is null or j.stage = v_stage)
         and (v_circuit is null or j.circuit = v_circuit) and (v_tenant is null or j.tenant_id = v_tenant)
         and (v_flow is null or j.correlation_id = v_flow)
         and (v_error is null or strpos(lower(j.last_error), v_error) > 0)
         and (v_from is null or j.created_at >= v_from) and (v_to is null or j.created_at < v_to)
       order by j.id desc limit least(p_limit, 1000)) f;
  end if;
  return coalesce(v_ids, '{}');
end $$;

-- Return why a due job of a stage that runs is not running: its circuit, the clock, its stage's limit, or its turn.
create function public.giftcard_waiting_in_queue(j public.giftcard_jobs, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
declare
  c public.giftcard_circuits;
  v_ahead bigint;
  v_tick timestamptz;
  v_limits jsonb;
begin
  select * into c from public.giftcard_circuits where circuit = j.circuit and state <> 'closed';
  if found and c.open_until > p_now then
    return jsonb_build_object('reason', 'circuit_open', 'until', c.open_until,
                              'text', format('circuit %s is open until %s', j.circuit, c.open_until));
  elsif found then
    return jsonb_build_object('reason', 'circuit_half_open',
                              'text', format('circuit %s is half-open: one job at a time tries it', j.circuit));
  end if;
  select started_at, limits into v_tick, v_limits from public.giftcard_ticks order by id desc limit 1;
  if v_tick is null or v_tick < p_now - interval '3 minutes' then
    return jsonb_build_object(
      'reason', 'no_tick', 'until', null, 'since', v_tick,
      'text', coalesce('no tick since ' || v_tick::text, 'no tick has ever run') || ': is the clock calling?');
  end if;
  -- Each tick records the limits of its stages.
  if v_limits ? j.stage and public.giftcard_running(j.stage, p_now) >= (v_limits ->> j.stage)::integer then
    return jsonb_build_object('reason', 'stage_full', 'text', format(
      'stage %s has %s running, which is its limit', j.stage, v_limits ->> j.stage));
  end if;
  select count(*) into v_ahead from (
    select from public.giftcard_jobs q
     where q.status = 'queued' and q.circuit = j.circuit and (q.scheduled_at, q.id) < (j.scheduled_at, j.id)
     limit 1000) a;
  if v_ahead > 0 then
    return jsonb_build_object('reason', 'behind', 'ahead', v_ahead, 'text', format(
      'behind %s%s older jobs of circuit %s', v_ahead, case when v_ahead = 1000 then ' or more' end, j.circuit));
  end if;
  return jsonb_build_object('reason', 'next_tick', 'text', 'due: the next tick takes it');
end $$;

-- Return why a job is not running now, the first reason that holds: {reason, until, by, ahead, text}; null for one that
-- runs or has ended well. p_stages: what this code can run (null: unknown here); p_missing: {"email": "SMTP_URL"}:
-- stages that it knows and that lack a setting.
create function public.giftcard_waiting_for(
  j public.giftcard_jobs, p_stages jsonb, p_missing jsonb, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
declare
  s public.giftcard_stages;
begin
  if j.status = 'error' then
    if j.revive_at is not null then
      return jsonb_build_object('reason', 'reviving', 'until', j.revive_at,
                                'text', 'a dead letter: it revives at ' || j.revive_at::text);
    end if;
    return jsonb_build_object('reason', 'dead', 'text', 'dead for good: it waits for a person to requeue it');
  elsif j.status <> 'queued' then
    return null;
  end if;
  select * into s from public.giftcard_stages where stage = '*' and paused_at is not null;
  if found then
    return jsonb_build_object('reason', 'all_paused', 'by', s.paused_by,
                              'text', 'everything is paused by ' || s.paused_by || coalesce(': ' || s.reason, ''));
  end if;
  select * into s from public.giftcard_stages where stage = j.stage and paused_at is not null;
  if found then
    return jsonb_build_object('reason', 'stage_paused', 'by', s.paused_by, 'text', format(
      'stage %s is paused by %s%s', j.stage, s.paused_by, ': ' || s.reason));
  elsif p_missing ? j.stage then
    return jsonb_build_object('reason', 'stage_not_configured',
                              'text', format('stage %s lacks the setting %s', j.stage, p_missing ->> j.stage));
  elsif not coalesce(p_stages ? j.stage, true) then
    return jsonb_build_object('reason', 'stage_unknown', 'text', 'this code knows no stage ' || j.stage);
  elsif j.scheduled_at > p_now then
    return jsonb_build_object('reason', 'due_at', 'until', j.scheduled_at, 'text', 'due at ' || j.scheduled_at::text);
  end if;
  return public.giftcard_waiting_in_queue(j, p_now);
end $$;

-- Return when a job runs next: a queued one when it is due, a dead letter when it revives; null: never. A settle has
-- the same expression inline: a call for each of its jobs would cost 5 %.
create function public.giftcard_next_run_at(p_status text, p_scheduled_at timestamptz, p_revive_at timestamptz)
returns timestamptz
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return case p_status when 'queued' then p_scheduled_at when 'error' then p_revive_at end;
end $$;

-- Return a page of jobs, each with next_run_at and waiting_for: {jobs, older, newer}: the ids to continue from, null at
-- the end.
create function public.giftcard_list_jobs(
  p_filter jsonb default '{}', p_before bigint default null, p_after bigint default null, p_limit integer default 50,
  p_stages jsonb default null, p_missing jsonb default '{}', p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  v_up boolean := p_after is not null;
  v_ids bigint[];
  v_more boolean;
begin
  -- One more than the page holds: its presence means that there are more.
  v_ids := public.giftcard_find_jobs(p_filter, case when v_up then p_after else p_before end, v_limit + 1, v_up);
  v_more := cardinality(v_ids) > v_limit;
  v_ids := v_ids[:v_limit];
  return jsonb_build_object(
    'jobs', (select coalesce(jsonb_agg(to_jsonb(j) || jsonb_build_object(
                 'next_run_at', public.giftcard_next_run_at(j.status, j.scheduled_at, j.revive_at),
                 'waiting_for', public.giftcard_waiting_for(j, p_stages, p_missing, v_now)) order by j.id desc), '[]')
               from public.giftcard_jobs j where j.id = any (v_ids)),
    -- null for a page without jobs
    'older', case when v_up or v_more then (select min(i) from unnest(v_ids) i) end,
    'newer', case when v_more and v_up or not v_up and p_before is not null
                  then (select max(i) from unnest(v_ids) i) end);
end $$;

-- Return one job as it stands, with next_run_at, waiting_for and archived_at (null: not in the archive). GC404 for
-- none.
create function public.giftcard_show_job(
  p_job_id bigint, p_stages jsonb default null,
  p_missing jsonb default '{}', p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
declare
  j public.giftcard_jobs;
  a record;
begin
  select * into j from public.giftcard_jobs where id = p_job_id;
  if not found then
    select * into a from public.giftcard_jobs_archive where id = p_job_id;
    if not found then
      perform public.giftcard_refuse('GC404', format('job %s does not exist', p_job_id), 'job_id');
    end if;
    return to_jsonb(jsonb_populate_record(null::public.giftcard_jobs, a.job)) || jsonb_build_object(
      'next_run_at', null, 'archived_at', a.archived_at, 'waiting_for', jsonb_build_object(
        'reason', 'archived', 'text', format(
          'it left for the archive at %s: restore it before anything is done with it', a.archived_at)));
  end if;
  return to_jsonb(j) || jsonb_build_object(
    'next_run_at', public.giftcard_next_run_at(j.status, j.scheduled_at, j.revive_at),
    'archived_at', null,
    'waiting_for', public.giftcard_waiting_for(j, p_stages, p_missing, coalesce(p_now, clock_timestamp())));
end $$;

-- Return the runs of a job, the newest first: {run_no, attempt, status, started_at, finished_at, start_delay_ms,
-- duration_ms, error, next_run_at, lock_owner, detail}. GC404 for an unknown job.
create function public.giftcard_history(p_job_id bigint, p_limit integer default 10) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
begin
  if not exists (select from public.giftcard_jobs where id = p_job_id)
      and not exists (select from public.giftcard_job_history where job_id = p_job_id)
     and not exists (select from public.giftcard_jobs_archive where id = p_job_id) then
    perform public.giftcard_refuse('GC404', format('job %s does not exist', p_job_id), 'job_id');
  end if;
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
        'run_no', h.run_no, 'attempt', h.attempt, 'status', h.result, 'started_at', h.started_at,
        'finished_at', h.finished_at,
        'start_delay_ms', case when isfinite(h.scheduled_at)
                               then greatest(0, round(extract(epoch from h.started_at - h.scheduled_at) * 1000)) end,
        'duration_ms', round(extract(epoch from h.finished_at - h.started_at) * 1000),
        'error', h.error, 'next_run_at', h.next_run_at, 'lock_owner', h.lock_owner,
        'detail', h.detail) order by h.run_no desc), '[]')
      from (select * from public.giftcard_job_history where job_id = p_job_id order by run_no desc
            limit least(p_limit, 1000)) h);
end $$;
-- Manage jobs and stages: the operators' actions.

-- Requeue a job in error or cancelled (with p_force: completed): due now, with a whole new set of attempts. p_payload:
-- a corrected payload (p_circuit: its circuit), refused once the job has begun an external effect, which is bound to
-- the old one. History stays. Return {id, status, was}. GC409 for any other state.
create function public.giftcard_requeue(
  p_job_id bigint, p_payload jsonb default null, p_force boolean default false, p_circuit text default null,
  p_now timestamptz default null)
returns jsonb language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  j public.giftcard_jobs;
begin
  select * into j from public.giftcard_jobs where id = p_job_id for update;
  if not found then
    perform public.giftcard_refuse_absent(p_job_id);
  elsif j.status in ('queued', 'running') then
    perform public.giftcard_refuse('GC409', format('job %s is %s already', p_job_id, j.status), 'status');
  elsif j.status = 'completed' and not coalesce(p_force, false) then
    perform public.giftcard_refuse(
      'GC409', format('job %s is completed: use force to run it again', p_job_id), 'force');
  elsif j.status = 'completed' and public.giftcard_is_webhook(j.stage) then
    perform public.giftcard_refuse(
      'GC409', format('job %s is a webhook that was delivered: it is not sent again', p_job_id), 'force');
  elsif p_payload is distinct from j.payload and p_payload is not null
        and public.giftcard_is_webhook(j.stage) then
    perform public.giftcard_refuse(
      'GC409', format('job %s is a webhook: it is sent as it was written', p_job_id), 'payload');
  elsif p_payload is distinct from j.payload and p_payload is not null and exists (
      select from public.giftcard_effects e
       where e.tenant_id = j.tenant_id and e.correlation_id = j.correlation_id and e.stage = j.stage
         and e.dedup_key = j.dedup_key
         and e.started_at is not null) then
    perform public.giftcard_refuse('GC409', format(
      'job %s has begun an effect outside with its old payload: requeue it as it is, or enqueue a new one', p_job_id),
      'payload');
  end if;
  update public.giftcard_jobs
     set status = 'queued', scheduled_at = v_now, attempts = 0, revivals = 0, last_error = null,
         payload = coalesce(p_payload, payload),
         circuit = coalesce(p_circuit, circuit),
         revive_at = null, finished_at = null, cancel_requested_at = null, lease_id = null, lease_expires_at = null,
         updated_at = v_now
   where id = p_job_id;
  return jsonb_build_object('id', p_job_id, 'status', 'queued', 'was', j.status);
end $$;

-- Cancel a job that is queued or in error. For a running one the request is recorded: complete still wins, any other
-- outcome becomes cancelled. Return {id, was, status, cancel_requested}.
create function public.giftcard_cancel(p_job_id bigint, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_status text;
begin
  select status into v_status from public.giftcard_jobs where id = p_job_id for update;
  if not found then
    perform public.giftcard_refuse_absent(p_job_id);
  elsif v_status = 'completed' then
    perform public.giftcard_refuse(
      'GC409', format('job %s is completed: there is nothing to cancel', p_job_id), 'status');
  elsif v_status = 'running' then
    update public.giftcard_jobs set cancel_requested_at = v_now, updated_at = v_now where id = p_job_id;
  elsif v_status <> 'cancelled' then
    update public.giftcard_jobs set status = 'cancelled', revive_at = null, finished_at = v_now, updated_at = v_now
      where id = p_job_id;
  end if;
  return jsonb_build_object('id', p_job_id, 'was', v_status,
                            'status', case v_status when 'running' then 'running' else 'cancelled' end,
                            'cancel_requested', v_status = 'running');
end $$;

-- Pause a stage, or everything ('*'): its jobs wait and lose no attempt. Runs that have begun end normally.
create function public.giftcard_pause(
  p_stage text, p_by text, p_reason text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  if coalesce(p_stage, '') = '' or coalesce(p_by, '') = '' then
    perform public.giftcard_refuse(
      'GC400', 'p_stage (''*'' for all) and p_by must be given',
      case when coalesce(p_stage, '') = '' then 'stage' else 'by' end);
  end if;
  insert into public.giftcard_stages (stage, paused_at, paused_by, reason) values (p_stage, v_now, p_by, p_reason)
  on conflict (stage) do update set paused_at = v_now, paused_by = p_by, reason = p_reason, resumed_at = null,
  resumed_by = null;
  return jsonb_build_object(
    'stage', p_stage, 'paused', true, 'paused_at', v_now, 'paused_by', p_by, 'reason', p_reason);
end $$;

-- End a pause. GC404 for a stage that is not paused.
create function public.giftcard_resume(p_stage text, p_by text, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  update public.giftcard_stages set paused_at = null, resumed_at = v_now, resumed_by = p_by
    where stage = p_stage and paused_at is not null;
  if not found then
    perform public.giftcard_refuse('GC404', format('stage %s is not paused', p_stage), 'stage');
  end if;
  return jsonb_build_object('stage', p_stage, 'paused', false, 'resumed_at', v_now, 'resumed_by', p_by);
end $$;
-- Many jobs at once, in bounded steps.

-- Queue jobs again, each with a whole new set of attempts: the k-th is due after p_first_in + (k - 1) ×
-- p_spread_seconds seconds. The caller holds their rows.
create function public.giftcard_requeue_locked(
  p_ids bigint[], p_first_in double precision, p_spread_seconds double precision, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
begin
  update public.giftcard_jobs
     set status = 'queued', attempts = 0, revivals = 0, last_error = null, revive_at = null, finished_at = null,
         cancel_requested_at = null, lease_id = null, lease_expires_at = null, updated_at = p_now,
         scheduled_at = p_now + make_interval(secs => p_first_in + p_spread_seconds * (array_position(p_ids, id) - 1))
   where id = any (p_ids);
end $$;

-- Requeue by filter, one step: the next p_limit jobs with an id above p_after that are in error or cancelled and fit.
-- Going up by id, each is met once, whatever else moves; rows are waited for, not skipped. Unless p_dry_run is false
-- nothing changes. p_spread_seconds, p_first_in: as in giftcard_requeue_locked.
-- Return {matched, requeued, ids, last_id (continue after it), done, dry_run}.
create function public.giftcard_requeue_jobs(
  p_filter jsonb, p_after bigint default 0, p_limit integer default 500, p_dry_run boolean default true,
  p_spread_seconds double precision default 0, p_first_in double precision default 0,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 500), 1), 1000);
  v_status text := coalesce(p_filter ->> 'status', 'error');
  v_found bigint[];
  v_ids bigint[] := '{}'::bigint[];
begin
  if v_status not in ('error', 'cancelled') then
    perform public.giftcard_refuse('GC400', 'only jobs in error or cancelled are requeued by filter', 'status');
  end if;
  v_found := public.giftcard_find_jobs(p_filter || jsonb_build_object('status', v_status), p_after, v_limit, true);
  if not coalesce(p_dry_run, true) then
    v_ids := array(
      select id from public.giftcard_jobs
       where id = any (v_found) and status in ('error', 'cancelled') order by id for update);
    perform public.giftcard_requeue_locked(v_ids, p_first_in, p_spread_seconds, coalesce(p_now, clock_timestamp()));
  end if;
  return jsonb_build_object(
    'matched', cardinality(v_found), 'requeued', cardinality(v_ids), 'ids', to_jsonb(v_ids),
    'last_id', v_found[cardinality(v_found)], 'done', cardinality(v_found) < v_limit,
    'dry_run', coalesce(p_dry_run, true));
end $$;

-- Requeue dead letters by stage, part of the error and age, the oldest first, due now, at most p_limit a call (repeat
-- it until matched is 0). Unless p_dry_run is false it only counts. Return {dry_run, matched (up to p_limit),
-- requeued}.
create function public.giftcard_requeue_dead_letters(
  p_stage text default null, p_error text default null, p_older_than interval default null,
  p_limit integer default 1000, p_dry_run boolean default true, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_dry_run boolean := coalesce(p_dry_run, true);
  v_ids bigint[] := array(
    select id from public.giftcard_jobs
     where status = 'error' and (p_stage is null or stage = p_stage)
       and (p_error is null or strpos(lower(last_error), lower(p_error)) > 0)
       and (p_older_than is null or finished_at <= v_now - p_older_than)
     order by finished_at, id limit least(coalesce(p_limit, 1000), 1000) for update skip locked);
begin
  if not v_dry_run then
    perform public.giftcard_requeue_locked(v_ids, 0, 0, v_now);
  end if;
  return jsonb_build_object('dry_run', v_dry_run, 'matched', cardinality(v_ids),
                            'requeued', case when v_dry_run then 0 else cardinality(v_ids) end);
end $$;

-- Cancel what is left of a flow: queued and dead jobs at once; for running ones the request is recorded. Return
-- {tenant_id, correlation_id, cancelled, cancel_requested}: how many of each.
create function public.giftcard_cancel_flow(
  p_tenant_id text, p_correlation_id text, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_ids bigint[] := array(
    select id from public.giftcard_jobs where tenant_id = p_tenant_id and correlation_id = p_correlation_id
      order by id for update);
  v_answers jsonb;
begin
  if v_ids = '{}' then
    perform public.giftcard_refuse(
      'GC404', format('no job has the correlation id %s', p_correlation_id), 'correlation_id');
  end if;
  select coalesce(jsonb_agg(public.giftcard_cancel(j.id, p_now)), '[]') into v_answers
    from public.giftcard_jobs j where j.id = any (v_ids) and j.status in ('queued', 'error', 'running');
  return jsonb_build_object('tenant_id', p_tenant_id, 'correlation_id', p_correlation_id,
    'cancelled', (select count(*) from jsonb_array_elements(v_answers) a where a ->> 'status' = 'cancelled'),
    'cancel_requested', (select count(*) from jsonb_array_elements(v_answers) a
                         where (a ->> 'cancel_requested')::boolean));
end $$;
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
-- p_dead_before (null: all dead letters are recent), and none was paid without a card. Each flow is checked once, by
-- its key. Scalars, not exists(): those could become a hash of a whole table.
create function public.giftcard_jobs_of_finished_flows(p_ids bigint[], p_dead_before timestamptz) returns bigint[]
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan as $$
begin
  return array(
    select j.id from (
      select f.tenant_id, f.correlation_id, array_agg(f.id) as ids from public.giftcard_jobs f
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
             limit 1) is null);
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
  -- A job that is locked at this moment stays.
  v_ids := array(
    select id from public.giftcard_jobs
     where id = any (v_ids) and status in ('completed', 'cancelled', 'error') and revive_at is null
       order by id for update skip locked);
  with gone as (
    delete from public.giftcard_jobs where id = any (v_ids) returning *)
  insert into public.giftcard_jobs_archive (id, tenant_id, correlation_id, stage, dedup_key, archived_at, job)
  select g.id, g.tenant_id, g.correlation_id, g.stage, g.dedup_key, p_now,
         -- Without columns that are null; a null inside a payload stays.
         jsonb_strip_nulls(to_jsonb(g) - '{payload,context}'::text[])
             || jsonb_build_object('payload', g.payload, 'context', g.context)
    from gone g
  on conflict (id) do update set archived_at = excluded.archived_at, job = excluded.job;
  moved := cardinality(v_ids);
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
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_limit integer := least(greatest(coalesce(p_limit, 1000), 1), 1000);
  v_dry_run boolean := coalesce(p_dry_run, true);
  v_ticks bigint[];
  v_changes bigint[];
  v_archived bigint[];
  j record;
  h record;
begin
  -- '30' would be thirty seconds.
  if least(p_jobs, p_dead_letters, p_history, p_ticks, p_circuit_changes, p_archive) < interval '1 day' then
    perform public.giftcard_refuse(
      'GC400', 'nothing younger than a day is pruned: give a day or more, like ''30 days''', 'interval');
  end if;
  j := public.giftcard_prune_jobs(p_jobs, p_dead_letters, v_limit, v_dry_run, v_now);
  h := public.giftcard_prune_history(p_history, v_limit, v_dry_run, v_now);
  -- These are inserted and deleted in the order of their keys.
  v_ticks := array(
    select id from (select id, started_at, live_until from public.giftcard_ticks order by id limit v_limit) t
     where t.started_at <= v_now - p_ticks and t.live_until <= v_now);
  v_changes := array(
    select id from (select id, changed_at from public.giftcard_circuit_changes order by id limit v_limit) c
     where c.changed_at <= v_now - p_circuit_changes);
  v_archived := array(
    select id from public.giftcard_jobs_archive where archived_at <= v_now - p_archive order by archived_at, id
      limit v_limit);
  if not v_dry_run then
    delete from public.giftcard_ticks where id = any (v_ticks);
    delete from public.giftcard_circuit_changes where id = any (v_changes);
    delete from public.giftcard_jobs_archive where id = any (v_archived);
  end if;
  return jsonb_build_object(
    'jobs', j.moved, 'history', h.removed, 'ticks', cardinality(v_ticks), 'circuit_changes', cardinality(v_changes),
    'archive', cardinality(v_archived), 'dry_run', v_dry_run,
    'done', j.done and h.done and greatest(cardinality(v_ticks), cardinality(v_changes),
                                           cardinality(v_archived)) < v_limit);
end $$;
-- The archive: jobs that have left giftcard_jobs, and their way back.

create table public.giftcard_jobs_archive (
  id bigint not null,
  tenant_id text collate "C" not null,
  correlation_id text collate "C" not null,
  stage text collate "C" not null,
  dedup_key text collate "C" not null,
  archived_at timestamptz not null,
  job jsonb not null,
  constraint giftcard_jobs_archive_pkey primary key (id)
);
-- Not unique: a job that is enqueued again after it left is a new one.
create index giftcard_jobs_archive_by_flow on public.giftcard_jobs_archive (tenant_id, correlation_id, stage,
  dedup_key);
create index giftcard_jobs_archive_by_age on public.giftcard_jobs_archive (archived_at, id);

comment on table public.giftcard_jobs_archive is
  'Jobs that have left giftcard_jobs. giftcard_restore_job brings one back under its id, which its history refers '
  'to.';
comment on column public.giftcard_jobs_archive.job is
  'The row as it was, without its nulls. A not-null column that giftcard_jobs gets later must be added here.';

-- Refuse a job that is not in giftcard_jobs: GC409 for one that can be restored, GC404 for any other.
create function public.giftcard_refuse_absent(p_job_id bigint) returns void
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
begin
  if exists (select from public.giftcard_jobs_archive where id = p_job_id) then
    perform public.giftcard_refuse('GC409', format('job %s is archived: restore it first', p_job_id), 'job_id');
  end if;
  perform public.giftcard_refuse('GC404', format('job %s does not exist', p_job_id), 'job_id');
end $$;

-- Restore a job from the archive as it was, under its id. Its time until the next pruning begins again. Return {id,
-- status, restored}. GC404: it is not there; GC409: it is not archived, or another job has its place in the flow by
-- now.
create function public.giftcard_restore_job(p_job_id bigint, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_job jsonb;
  v_other bigint;
begin
  delete from public.giftcard_jobs_archive where id = p_job_id returning job into v_job;
  if not found then
    if exists (select from public.giftcard_jobs where id = p_job_id) then
      perform public.giftcard_refuse(
        'GC409', format('job %s is not archived: there is nothing to restore', p_job_id), 'job_id');
    end if;
    perform public.giftcard_refuse('GC404', format('job %s is not in the archive', p_job_id), 'job_id');
  end if;
  v_job := v_job || jsonb_build_object('updated_at', coalesce(p_now, clock_timestamp()));
  insert into public.giftcard_jobs select * from jsonb_populate_record(null::public.giftcard_jobs, v_job)
    on conflict do nothing;
  if not found then
    select id into v_other from public.giftcard_jobs
     where id = p_job_id or tenant_id = v_job ->> 'tenant_id' and correlation_id = v_job ->> 'correlation_id'
       and stage = v_job ->> 'stage' and dedup_key = v_job ->> 'dedup_key' limit 1;
    perform public.giftcard_refuse('GC409', format(
      'job %s cannot come back: it was enqueued again, and job %s has its place in the flow', p_job_id, v_other),
      'job_id');
  end if;
  return jsonb_build_object('id', p_job_id, 'status', v_job ->> 'status', 'restored', true);
end $$;
-- Orders and what they became. Money is in minor units.

create table public.giftcard_orders (
  tenant_id text collate "C" not null default 'default',
  correlation_id text collate "C" not null,
  idempotency_key text collate "C",
  body_hash text not null,
  amount bigint not null,
  currency text not null,
  customer_id bigint,
  created_at timestamptz not null,
  constraint giftcard_orders_pkey primary key (tenant_id, correlation_id),
  constraint giftcard_orders_idempotency_key_key unique (tenant_id, idempotency_key),
  constraint giftcard_orders_amount_is_positive check (amount > 0)
);
create index giftcard_orders_by_customer on public.giftcard_orders (customer_id) where customer_id is not null;

comment on column public.giftcard_orders.customer_id is
  'Known once customer_ingest has run: erasing a customer finds the order by it.';

create table public.giftcard_customers (
  id bigint generated always as identity,
  tenant_id text collate "C" not null default 'default',
  external_id text collate "C",
  email text not null,
  given_name text not null,
  family_name text,
  personal_code text collate "C",
  created_at timestamptz not null,
  updated_at timestamptz not null,
  constraint giftcard_customers_pkey primary key (id),
  constraint giftcard_customers_external_id_key unique (tenant_id, external_id),
  constraint giftcard_customers_personal_code_key unique (tenant_id, personal_code),
  constraint giftcard_customers_personal_code_is_plain check (personal_code ~ '^[A-Z0-9]{1,10}[0-9]{4}$')
);
-- Without an external id, the address identifies the customer.
create unique index giftcard_customers_email_key on public.giftcard_customers (tenant_id, lower(email))
    where external_id is null;

create table public.giftcard_payments (
  id bigint generated always as identity,
  tenant_id text collate "C" not null,
  correlation_id text collate "C" not null,
  idempotency_key text collate "C" not null,
  provider text not null,
  provider_ref text not null,
  amount bigint not null,
  currency text not null,
  card_id bigint,
  created_at timestamptz not null,
  constraint giftcard_payments_pkey primary key (id),
  constraint giftcard_payments_order_key unique (tenant_id, correlation_id),
  constraint giftcard_payments_idempotency_key_key unique (idempotency_key),
  constraint giftcard_payments_amount_is_positive check (amount > 0)
);
create index giftcard_payments_without_card on public.giftcard_payments (created_at, id) where card_id is null;

comment on table public.giftcard_payments is
  'Money taken: one payment per order. With the provider ledger this row is the payment itself.';

create table public.giftcard_cards (
  id bigint generated always as identity,
  tenant_id text collate "C" not null,
  correlation_id text collate "C" not null,
  customer_id bigint,
  provider text not null,
  provider_ref text not null,
  number_encrypted text not null,
  number_hash text collate "C" not null,
  last4 text not null,
  amount bigint not null,
  balance bigint not null,
  currency text not null,
  state text not null default 'active',
  created_at timestamptz not null,
  vendor_updated_at timestamptz,
  constraint giftcard_cards_pkey primary key (id),
  constraint giftcard_cards_order_key unique (tenant_id, correlation_id),
  constraint giftcard_cards_number_key unique (number_hash),
  constraint giftcard_cards_customer_fkey foreign key (customer_id) references public.giftcard_customers (id),
  constraint giftcard_cards_state_is_known check (state in ('active', 'blocked', 'redeemed')),
  constraint giftcard_cards_balance_is_not_negative check (amount > 0 and balance >= 0),
  constraint giftcard_cards_last4_is_four_digits check (last4 ~ '^[0-9]{4}$')
);

create index giftcard_cards_by_customer on public.giftcard_cards (customer_id);
create index giftcard_cards_by_reference on public.giftcard_cards (tenant_id, provider_ref);

comment on table public.giftcard_cards is
  'One card per order. The number is encrypted; number_hash (keyed) finds it, last4 shows it.';
comment on column public.giftcard_cards.vendor_updated_at is
  'The vendor''s time of the newest known balance and state: an older event changes nothing.';
-- Orders, customers, codes, payments, cards: one function each, each safe to repeat.

-- Accept an order and enqueue its first job, in one transaction. The same idempotency key (or correlation id) with the
-- same body returns the same order; with another body it is refused: GC422 for the key, GC409 for the correlation id.
-- Return {correlation_id, created, job_id}.
create function public.giftcard_submit_order(
  p_tenant_id text, p_correlation_id text, p_body_hash text, p_payload jsonb, p_idempotency_key text default null,
  p_trigger_type text default 'api', p_job jsonb default '{}', p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  o public.giftcard_orders;
  v_job json;
begin
  insert into public.giftcard_orders (tenant_id, correlation_id, idempotency_key, body_hash, amount, currency,
                                      created_at)
  values (p_tenant_id, p_correlation_id, p_idempotency_key, p_body_hash, (p_payload #>> '{amount,amount}')::bigint,
          p_payload #>> '{amount,currency}', v_now)
  on conflict do nothing
  returning * into o;
  if found then
    v_job := public.giftcard_enqueue(jsonb_build_array(jsonb_build_object(
      'tenant_id', p_tenant_id, 'correlation_id', p_correlation_id, 'stage', 'customer_ingest', 'payload', p_payload,
      'trigger_type', p_trigger_type) || p_job), false, p_now) -> 0;
    return jsonb_build_object('correlation_id', p_correlation_id, 'created', true, 'job_id', v_job -> 'id');
  end if;
  select * into o from public.giftcard_orders where tenant_id = p_tenant_id and idempotency_key = p_idempotency_key;
  if found and o.body_hash <> p_body_hash then
    perform public.giftcard_refuse('GC422', 'this Idempotency-Key was used for another order', 'Idempotency-Key');
  elsif not found then
    select * into strict o from public.giftcard_orders
      where tenant_id = p_tenant_id and correlation_id = p_correlation_id;
    if o.body_hash <> p_body_hash then
      perform public.giftcard_refuse(
        'GC409', format('correlation id %s belongs to another order', p_correlation_id), 'correlation_id');
    end if;
  end if;
  -- An order outlives its jobs: sent again, it makes no new ones, archived or not.
  return jsonb_build_object('correlation_id', o.correlation_id, 'created', false, 'job_id', coalesce(
    (select id from public.giftcard_jobs
      where tenant_id = p_tenant_id and correlation_id = o.correlation_id and stage = 'customer_ingest'
        and dedup_key = ''),
    (select id from public.giftcard_jobs_archive
      where tenant_id = p_tenant_id and correlation_id = o.correlation_id and stage = 'customer_ingest'
        and dedup_key = ''
      order by id limit 1)));
end $$;

-- Create or update a customer: one per (tenant, external id), or without one per (tenant, lower-case e-mail).
-- p_correlation_id: the order that the customer comes from, if any. Return {id, personal_code}.
create function public.giftcard_save_customer(
  p_tenant_id text, p_external_id text, p_email text, p_given_name text, p_family_name text,
  p_correlation_id text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  c public.giftcard_customers;
begin
  if p_external_id is null then
    insert into public.giftcard_customers (tenant_id, email, given_name, family_name, created_at, updated_at)
    values (p_tenant_id, p_email, p_given_name, p_family_name, v_now, v_now)
    on conflict (tenant_id, lower(email)) where external_id is null
    do update set email = excluded.email, given_name = excluded.given_name, family_name = excluded.family_name,
    updated_at = v_now
    returning * into c;
  else
    insert into public.giftcard_customers (tenant_id, external_id, email, given_name, family_name, created_at,
                                           updated_at)
    values (p_tenant_id, p_external_id, p_email, p_given_name, p_family_name, v_now, v_now)
    on conflict on constraint giftcard_customers_external_id_key
    do update set email = excluded.email, given_name = excluded.given_name, family_name = excluded.family_name,
    updated_at = v_now
    returning * into c;
  end if;
  update public.giftcard_orders set customer_id = c.id
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id and customer_id is distinct from c.id;
  return jsonb_build_object('id', c.id, 'personal_code', c.personal_code);
end $$;

-- Assign a customer the first free of some codes. A customer that has one keeps it. Return {code, assigned}; code null:
-- all are taken, or another transaction took it first: try others.
create function public.giftcard_assign_code(
  p_customer_id bigint, p_candidates text[], p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  c public.giftcard_customers;
  v_code text;
  v_constraint text;
begin
  select * into c from public.giftcard_customers where id = p_customer_id for update;
  if not found then
    perform public.giftcard_refuse('GC404', format('customer %s does not exist', p_customer_id), 'customer_id');
  elsif c.personal_code is not null then
    return jsonb_build_object('code', c.personal_code, 'assigned', false);
  end if;
  select candidate into v_code
    from unnest(p_candidates) with ordinality u(candidate, n)
   where not exists (select from public.giftcard_customers x
                     where x.tenant_id = c.tenant_id and x.personal_code = u.candidate)
   order by u.n limit 1;
  if v_code is not null then
    update public.giftcard_customers set personal_code = v_code, updated_at = coalesce(p_now, clock_timestamp())
      where id = p_customer_id;
  end if;
  return jsonb_build_object('code', v_code, 'assigned', v_code is not null);
exception when unique_violation then
  get stacked diagnostics v_constraint = constraint_name;
  if v_constraint <> 'giftcard_customers_personal_code_key' then
    raise;
  end if;
  return jsonb_build_object('code', null, 'assigned', false);
end $$;

-- Record a payment: one per order, and one per idempotency key. Return the recorded one: the first.
create function public.giftcard_record_payment(
  p_tenant_id text, p_correlation_id text, p_idempotency_key text, p_provider text, p_amount bigint, p_currency text,
  p_provider_ref text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_payment jsonb;
begin
  insert into public.giftcard_payments (tenant_id, correlation_id, idempotency_key, provider, provider_ref, amount,
                                        currency, created_at)
  values (p_tenant_id, p_correlation_id, p_idempotency_key, p_provider,
          coalesce(p_provider_ref, 'ledger:' || p_idempotency_key),
          p_amount, p_currency, coalesce(p_now, clock_timestamp()))
  on conflict do nothing;
  select jsonb_build_object('id', id, 'reference', provider_ref, 'amount', amount, 'currency', currency,
                            'provider', provider) into v_payment
    from public.giftcard_payments where tenant_id = p_tenant_id and correlation_id = p_correlation_id;
  if v_payment is null then
    perform public.giftcard_refuse(
      'GC409', 'this idempotency key belongs to the payment of another order', 'idempotency_key');
  end if;
  return v_payment;
end $$;

-- Return the payment made under an idempotency key; null: none.
create function public.giftcard_find_payment(p_idempotency_key text) returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off as $$
  select jsonb_build_object('id', id, 'reference', provider_ref, 'amount', amount, 'currency', currency,
                            'provider', provider)
    from public.giftcard_payments where idempotency_key = p_idempotency_key
$$;

-- Record a card, one per order, and link the order's payment to it. Return the recorded one: the first. A number that
-- another card has is a unique violation of giftcard_cards_number_key.
create function public.giftcard_record_card(
  p_tenant_id text, p_correlation_id text, p_customer_id bigint, p_provider text, p_provider_ref text,
  p_number_encrypted text,
  p_number_hash text, p_last4 text, p_amount bigint, p_currency text, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  c public.giftcard_cards;
begin
  insert into public.giftcard_cards
    (tenant_id, correlation_id, customer_id, provider, provider_ref, number_encrypted, number_hash, last4, amount,
     balance, currency, created_at)
  values (p_tenant_id, p_correlation_id, p_customer_id, p_provider, p_provider_ref, p_number_encrypted, p_number_hash,
          p_last4,
          p_amount, p_amount, p_currency, coalesce(p_now, clock_timestamp()))
  on conflict on constraint giftcard_cards_order_key do nothing;
  select * into strict c from public.giftcard_cards where tenant_id = p_tenant_id and correlation_id = p_correlation_id;
  update public.giftcard_payments set card_id = c.id
    where tenant_id = p_tenant_id and correlation_id = p_correlation_id and card_id is null;
  return jsonb_build_object('id', c.id, 'reference', c.provider_ref, 'number_encrypted', c.number_encrypted,
                            'number_hash', c.number_hash,
                            'last4', c.last4);
end $$;

-- Return the card of an order, with its number as stored: encrypted. null: none.
create function public.giftcard_find_card(p_tenant_id text, p_correlation_id text) returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off as $$
  select jsonb_build_object('id', c.id, 'reference', c.provider_ref, 'number_encrypted', c.number_encrypted,
                            'number_hash', c.number_hash,
                            'last4', c.last4, 'amount', c.amount, 'currency', c.currency,
                            'personal_code', u.personal_code)
    from public.giftcard_cards c
    left join public.giftcard_customers u on u.id = c.customer_id
   where c.tenant_id = p_tenant_id and c.correlation_id = p_correlation_id
$$;

-- Return whether the jobs of a stage only notify of what other jobs have done: they are sent as written, and are no
-- part of a flow's work. The engine asks here: it names no stage itself.
create function public.giftcard_is_webhook(p_stage text) returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return p_stage = 'webhook';
end $$;

-- Return whether an order was paid, has no card, and nothing of its flow is queued or runs but webhooks: the job that
-- should issue the card is dead, cancelled or missing. A dead letter counts although it may revive tomorrow: today the
-- customer has paid for nothing. The callers filter card_id is null themselves, for the planner.
create function public.giftcard_is_paid_without_card(p public.giftcard_payments) returns boolean
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
begin
  return p.card_id is null and not exists (
    select from public.giftcard_jobs j
     where j.tenant_id = p.tenant_id and j.correlation_id = p.correlation_id and j.status in ('queued', 'running')
       and not public.giftcard_is_webhook(j.stage));
end $$;

-- Return orders paid without a card, the oldest payment first, each with the newest dead or cancelled job of its flow.
create function public.giftcard_paid_without_card(p_limit integer default 100)
returns table (tenant_id text, correlation_id text, amount bigint, currency text, paid_at timestamptz, stage text,
               status text, last_error text)
language sql stable security invoker set search_path = '' set enable_seqscan = off as $$
  select p.tenant_id, p.correlation_id, p.amount, p.currency, p.created_at, d.stage, d.status, d.last_error
    from public.giftcard_payments p
    left join lateral (
      select j.stage, j.status, j.last_error from public.giftcard_jobs j
       where j.tenant_id = p.tenant_id and j.correlation_id = p.correlation_id and j.status in ('error', 'cancelled')
         and not public.giftcard_is_webhook(j.stage)
       order by j.id desc limit 1) d on true
   where p.card_id is null and public.giftcard_is_paid_without_card(p)
   order by p.created_at, p.id limit least(p_limit, 1000)
$$;
-- Personal data: shown in clear only with an audit record, and erased on request.

create table public.giftcard_audit (
  id bigint generated always as identity,
  at timestamptz not null,
  by text not null,
  action text not null,
  subject text not null,
  details jsonb not null default '{}',
  constraint giftcard_audit_pkey primary key (id),
  constraint giftcard_audit_action_is_known check (action in ('reveal', 'erase_customer'))
);

comment on table public.giftcard_audit is 'One row each time personal data was shown in clear or erased.';

-- Record that personal data was shown in clear.
create function public.giftcard_record_reveal(p_by text, p_subject text, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
begin
  insert into public.giftcard_audit (at, by, action, subject)
    values (coalesce(p_now, clock_timestamp()), p_by, 'reveal', p_subject);
  return jsonb_build_object('noted', true);
end $$;

-- Return {id} of a customer: by external id, by one of their orders, or by the address of a customer without an
-- external id. GC404 for none.
create function public.giftcard_find_customer(
  p_tenant_id text, p_external_id text default null, p_email text default null,
  p_correlation_id text default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_id bigint;
begin
  if p_external_id is not null then
    select id into v_id from public.giftcard_customers where tenant_id = p_tenant_id and external_id = p_external_id;
  elsif p_correlation_id is not null then
    -- A flow that began with a plain INSERT has no order: its jobs know the customer, here or in the archive.
    select coalesce(
      (select customer_id from public.giftcard_orders
       where tenant_id = p_tenant_id and correlation_id = p_correlation_id),
      (select (context ->> 'customer_id')::bigint from public.giftcard_jobs
        where tenant_id = p_tenant_id and correlation_id = p_correlation_id
          and jsonb_typeof(context -> 'customer_id') = 'number' order by id limit 1),
      (select (job #>> '{context,customer_id}')::bigint from public.giftcard_jobs_archive
        where tenant_id = p_tenant_id and correlation_id = p_correlation_id
          and jsonb_typeof(job #> '{context,customer_id}') = 'number' order by id limit 1))
      into v_id;
  else
    select id into v_id from public.giftcard_customers
     where tenant_id = p_tenant_id and lower(email) = lower(p_email) and external_id is null;
  end if;
  if v_id is null then
    perform public.giftcard_refuse('GC404', 'there is no such customer', case
      when p_external_id is not null then 'external_id' when p_correlation_id is not null then 'correlation_id'
      else 'email' end);
  end if;
  return jsonb_build_object('id', v_id);
end $$;

-- Return the flows of a customer: those of their orders and cards, and those whose jobs name them. Until its
-- customer_ingest has run, an order is found by its payload alone.
create function public.giftcard_flows_of(p_customer_id bigint, p_tenant_id text, p_external_id text, p_email text)
returns text[]
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
begin
  return array(
    select correlation_id from public.giftcard_orders where customer_id = p_customer_id
    union select correlation_id from public.giftcard_cards where customer_id = p_customer_id
    union select j.correlation_id from public.giftcard_jobs j
     where j.tenant_id = p_tenant_id
       and (j.payload #>> '{customer,external_id}' = p_external_id
            or p_external_id is null and j.payload #>> '{customer,external_id}' is null
               and lower(j.payload #>> '{customer,email}') = lower(p_email))
    union select a.correlation_id from public.giftcard_jobs_archive a
     where a.tenant_id = p_tenant_id
       and (a.job #>> '{payload,customer,external_id}' = p_external_id
            or p_external_id is null and a.job #>> '{payload,customer,external_id}' is null
               and lower(a.job #>> '{payload,customer,email}') = lower(p_email)));
end $$;

-- Erase payload, context and errors of some jobs (whose rows the caller holds) and of their flows' archived jobs, of
-- all their histories, and the results of their mails. Return the ids of all these jobs.
create function public.giftcard_erase_jobs(p_ids bigint[], p_tenant_id text, p_flows text[], p_now timestamptz)
returns bigint[]
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_ids bigint[];
begin
  update public.giftcard_jobs
     set payload = jsonb_strip_nulls(jsonb_build_object('erased', true, 'amount', payload -> 'amount')), context = '{}',
         last_error = case when last_error is null then null else 'erased' end,
         status = case when status in ('queued', 'error') then 'cancelled' else status end,
         revive_at = null, finished_at = coalesce(finished_at, p_now), updated_at = p_now
   where id = any (p_ids);
  with gone as (
    update public.giftcard_jobs_archive
       set job = job || jsonb_build_object(
             'payload', jsonb_strip_nulls(jsonb_build_object('erased', true, 'amount', job #> '{payload,amount}')),
             'context', '{}'::jsonb,
             'last_error', case when job ->> 'last_error' is null then null else 'erased' end,
             'status', case when job ->> 'status' = 'error' then 'cancelled' else job ->> 'status' end)
     where tenant_id = p_tenant_id and correlation_id = any (p_flows)
    returning id)
  select p_ids || coalesce(array_agg(id), '{}') into v_ids from gone;
  update public.giftcard_job_history set error = case when error is not null then 'erased' end, detail = null
   where job_id = any (v_ids) and (error is not null or detail is not null);
  update public.giftcard_effects
     set result = case when result is null then null else '{"erased": true}'::jsonb end, note = null
   where tenant_id = p_tenant_id and correlation_id = any (p_flows) and stage = 'email';
  return v_ids;
end $$;

-- Erase a person: names, address, external id and code of the customer; payload, context and errors of the jobs and
-- histories of their flows, also of those in the archive. Queued jobs and dead letters are cancelled. Payments, cards
-- and amounts stay, so that totals do. Return {customer_id, flows, jobs, mails: the vendor keys of their mails (an
-- outbox of files is named by them)}. GC409 while one of their jobs runs.
create function public.giftcard_erase_customer(
  p_customer_id bigint, p_by text, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_tenant text;
  v_external_id text;
  v_email text;
  v_flows text[];
  v_ids bigint[];
  v_mails jsonb;
begin
  select tenant_id, external_id, email into v_tenant, v_external_id, v_email
    from public.giftcard_customers where id = p_customer_id for update;
  if not found then
    perform public.giftcard_refuse('GC404', format('customer %s does not exist', p_customer_id), 'customer_id');
  end if;
  v_flows := public.giftcard_flows_of(p_customer_id, v_tenant, v_external_id, v_email);
  v_ids := array(
    select id from public.giftcard_jobs
     where tenant_id = v_tenant and correlation_id = any (v_flows) order by id for update);
  if exists (select from public.giftcard_jobs where id = any (v_ids) and status = 'running') then
    perform public.giftcard_refuse(
      'GC409', format('a job of customer %s is running: try again in a minute', p_customer_id), 'customer_id');
  end if;
  v_mails := (select coalesce(jsonb_agg(vendor_key), '[]') from public.giftcard_effects
               where tenant_id = v_tenant and correlation_id = any (v_flows) and stage = 'email');
  v_ids := public.giftcard_erase_jobs(v_ids, v_tenant, v_flows, v_now);
  update public.giftcard_customers
     set external_id = 'erased-' || id, email = 'erased-' || id || '@erased.invalid', given_name = '',
         family_name = null, personal_code = null, updated_at = v_now
   where id = p_customer_id;
  insert into public.giftcard_audit (at, by, action, subject, details)
  values (v_now, p_by, 'erase_customer', 'customer ' || p_customer_id,
          jsonb_build_object('jobs', cardinality(v_ids), 'flows', cardinality(v_flows)));
  return jsonb_build_object(
    'customer_id', p_customer_id, 'flows', cardinality(v_flows), 'jobs', cardinality(v_ids), 'mails', v_mails);
end $$;
-- Schedules: work at set times. Python computes the times; 51_occurrences.sql turns them into jobs.

create table public.giftcard_schedules (
  id bigint generated by default as identity,
  tenant_id text collate "C" not null default 'default',
  name text collate "C",
  schedule text not null,
  timezone text not null default 'UTC',
  stage text collate "C" not null,
  payload public.giftcard_object not null default '{}',
  semantics public.giftcard_job_semantics not null default 'at_least_once',
  is_recurring boolean not null default true,
  max_attempts public.giftcard_max_attempts,
  ttr_seconds public.giftcard_ttr,
  retry_delays public.giftcard_delays,
  missed_policy text not null default 'skip',
  catch_up_seconds integer not null default 300,
  missed_cap integer not null default 100,
  overlap_policy text not null default 'skip',
  pause_after_failures integer,
  -- what became of it so far
  version integer not null default 1,
  next_at timestamptz,
  check_at timestamptz default now(),
  paused_at timestamptz,
  paused_by text,
  pause_reason text,
  last_at timestamptz,
  last_job_id bigint,
  open_jobs bigint[] not null default '{}',
  failures integer not null default 0,
  missed bigint not null default 0,
  last_missed_at timestamptz,
  skipped bigint not null default 0,
  last_skipped_at timestamptz,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  constraint giftcard_schedules_pkey primary key (id),
  constraint giftcard_schedules_name_key unique (tenant_id, name),
  constraint giftcard_schedules_ids_are_not_empty check (tenant_id <> '' and stage <> ''),
  constraint giftcard_schedules_schedule_is_short check (char_length(schedule) <= 500 and char_length(timezone) <= 100),
  constraint giftcard_schedules_missed_policy_is_known check (missed_policy in ('skip', 'one', 'all')),
  constraint giftcard_schedules_overlap_policy_is_known check (overlap_policy in ('skip', 'queue', 'allow')),
  constraint giftcard_schedules_catch_up_is_bounded check (
    catch_up_seconds between 1 and 86400 and missed_cap between 1 and 100),
  constraint giftcard_schedules_pause_after_is_positive check (pause_after_failures between 1 and 1000)
);

comment on table public.giftcard_schedules is
  'One row is one schedule. A plain INSERT (schedule, stage, payload) is a valid one.';
comment on column public.giftcard_schedules.version is
  'Incremented at each change: a plan made for another version is ignored.';
comment on column public.giftcard_schedules.next_at is
  'The next occurrence. null: none, because it is paused or has no more jobs to make; or new and not planned yet.';
comment on column public.giftcard_schedules.check_at is
  'When a tick checks it: at next_at; or later, while it waits for the end of a job. null: never.';
comment on column public.giftcard_schedules.last_at is 'The latest occurrence that became a job: last_job_id.';
comment on column public.giftcard_schedules.open_jobs is 'Jobs that had not ended at the last check, the newest 100.';
comment on column public.giftcard_schedules.failures is 'Failures in a row, of the jobs that have left open_jobs.';
comment on column public.giftcard_schedules.missed is
  'Occurrences that made no job because no tick checked in time; skipped: because a job of an earlier one had not '
  'ended.';

create index giftcard_schedules_due on public.giftcard_schedules (check_at, id) where check_at is not null;
-- Those that a tick waits for: a schedule that only waits for the end of its job is not among them.
create index giftcard_schedules_next on public.giftcard_schedules (check_at)
    where check_at is not null and next_at is not null;

-- Return the database's time, from which schedules are computed.
create function public.giftcard_clock(p_now timestamptz default null) returns timestamptz
language sql volatile security invoker set search_path = '' as $$
  select coalesce(p_now, clock_timestamp())
$$;

-- Return what became of a schedule's jobs: those that have not ended, when the newest of them was made (busy_since),
-- until when some surely have not ended (busy_until), and the failures in a row. A dead letter of a schedule that runs
-- once has not ended while it can revive; an archived job has.
create function public.giftcard_schedule_outcomes(
  p_jobs bigint[], p_is_recurring boolean, p_failures integer,
  out unfinished bigint[], out failures integer, out busy_since timestamptz, out busy_until timestamptz)
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  v_id bigint;
  j record;
begin
  unfinished := '{}';
  failures := p_failures;
  foreach v_id in array p_jobs loop
    select status, created_at, public.giftcard_next_run_at(status, scheduled_at, revive_at) as until,
           revive_at into j from public.giftcard_jobs where id = v_id;
    if j.status in ('queued', 'running') or j.status = 'error' and j.revive_at is not null and not p_is_recurring then
      unfinished := unfinished || v_id;
      busy_since := j.created_at;
      if isfinite(j.until) then
        busy_until := greatest(busy_until, j.until);
      end if;
    elsif j.status = 'error' then
      failures := failures + 1;
    elsif j.status = 'completed' then
      failures := 0;
    end if;
  end loop;
end $$;

-- Return a schedule as the API shows it; null for one that ran once and is over: the next tick deletes it.
create function public.giftcard_schedule_json(s public.giftcard_schedules, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
declare
  o record := public.giftcard_schedule_outcomes(s.open_jobs, s.is_recurring, s.failures);
begin
  if not s.is_recurring and s.last_at is not null and s.next_at is null and o.unfinished = '{}' then
    return null;
  end if;
  return to_jsonb(s) - '{check_at,open_jobs}'::text[] || jsonb_build_object(
    'now', p_now, 'unfinished', cardinality(o.unfinished), 'failures', o.failures,
    'last_job', (select jsonb_build_object(
        'id', j.id, 'status', j.status, 'attempts', j.attempts, 'scheduled_at', j.scheduled_at,
        'finished_at', j.finished_at, 'last_error', j.last_error)
      from public.giftcard_jobs j where j.id = s.last_job_id));
end $$;

-- Return one schedule. GC404 for none.
create function public.giftcard_show_schedule(p_id bigint, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_schedule jsonb := (select public.giftcard_schedule_json(s, coalesce(p_now, clock_timestamp()))
                     from public.giftcard_schedules s where s.id = p_id);
begin
  if v_schedule is null then
    perform public.giftcard_refuse('GC404', format('schedule %s does not exist', p_id), 'schedule_id');
  end if;
  return v_schedule;
end $$;

-- Return a page of schedules, the newest first: {schedules, older: the id to continue from, null at the end}.
create function public.giftcard_list_schedules(
  p_tenant_id text default null, p_name text default null, p_paused boolean default null, p_before bigint default null,
  p_limit integer default 50, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  v_found jsonb[];
begin
  v_found := array(
    select t.schedule from public.giftcard_schedules s
     cross join lateral (select public.giftcard_schedule_json(s, coalesce(p_now, clock_timestamp())) as schedule) t
     where (p_before is null or s.id < p_before) and (p_tenant_id is null or s.tenant_id = p_tenant_id)
       and (p_name is null or s.name = p_name)
       and (p_paused is null or (s.paused_at is not null) = p_paused) and t.schedule is not null
     order by s.id desc limit v_limit + 1);
  return jsonb_build_object('schedules', to_jsonb(v_found[:v_limit]),
                            'older', case when cardinality(v_found) > v_limit then v_found[v_limit] -> 'id' end);
end $$;

-- Return the jobs of a schedule, the newest first: {id, time (of the occurrence), status, …}. Archived ones are left
-- out.
create function public.giftcard_occurrences(p_id bigint, p_limit integer default 10) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set enable_sort = off as $$
declare
  v_tenant text := public.giftcard_show_schedule(p_id) ->> 'tenant_id';
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
        'id', j.id, 'time', substr(j.correlation_id, length('schedule:' || p_id || ':') + 1), 'status', j.status,
        'attempts', j.attempts,
        'scheduled_at', j.scheduled_at, 'created_at', j.created_at, 'finished_at', j.finished_at,
        'last_error', j.last_error) order by j.correlation_id desc), '[]')
      from (select * from public.giftcard_jobs
             where tenant_id = v_tenant and correlation_id >= 'schedule:' || p_id || ':'
               and correlation_id < 'schedule:' || p_id || ';'
               and starts_with(trigger_type, 'schedule')
             order by correlation_id desc limit least(p_limit, 1000)) j);
end $$;
-- Occurrences: a tick reads the schedules that are due, Python plans, and each plan is applied if its schedule is still
-- as it was read: of two ticks, two clocks or a clock that was set back, one makes the job.

-- Return the schedules to plan now, the longest due first, with all that Python needs. now: the database's time.
create function public.giftcard_due_schedules(p_limit integer default 100, p_now timestamptz default null) returns json
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set enable_sort = off
set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  return (
    select coalesce(json_agg(json_build_object(
        'id', s.id, 'version', s.version, 'now', v_now, 'tenant_id', s.tenant_id, 'schedule', s.schedule,
        'timezone', s.timezone,
        'stage', s.stage, 'payload', s.payload, 'semantics', s.semantics, 'is_recurring', s.is_recurring,
        'max_attempts', s.max_attempts,
        'ttr_seconds', s.ttr_seconds, 'retry_delays', s.retry_delays, 'next_at', s.next_at, 'last_at', s.last_at,
        'missed_policy', s.missed_policy, 'catch_up_seconds', s.catch_up_seconds, 'missed_cap', s.missed_cap,
        'overlap_policy', s.overlap_policy, 'pause_after_failures', s.pause_after_failures,
        'failures', o.failures, 'unfinished', cardinality(o.unfinished), 'busy_since', o.busy_since,
        'busy_until', o.busy_until)), '[]')
      from (select * from public.giftcard_schedules where check_at is not null and check_at <= v_now
             order by check_at, id limit least(p_limit, 1000)) s
     cross join lateral public.giftcard_schedule_outcomes(s.open_jobs, s.is_recurring, s.failures) o);
end $$;

-- Return when the next occurrence is due; null: none. What waits for the end of an earlier job is checked later.
create function public.giftcard_next_schedule_at() returns timestamptz
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set enable_sort = off as $$
begin
  return (select check_at from public.giftcard_schedules where check_at is not null and next_at is not null
          order by check_at limit 1);
end $$;

-- Apply plans; giftcard_enqueue_occurrences has locked their schedules. Return the ids of the new jobs.
create function public.giftcard_apply_plans(p_plans jsonb, p_now timestamptz) returns bigint[]
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  v_jobs jsonb;
  v_owners bigint[];  -- the schedule of each job
  v_answers jsonb := '[]'::jsonb;
begin
  -- The payload as stored, unless a hook has changed it: JSON that went through Python may have lost digits.
  select jsonb_agg(jsonb_build_object('payload', s.payload) || j.job order by p.n, j.n),
         array_agg(s.id order by p.n, j.n)
    into v_jobs, v_owners
    from jsonb_array_elements(p_plans) with ordinality p(plan, n)
    cross join lateral jsonb_array_elements(p.plan -> 'jobs') with ordinality j(job, n)
    join public.giftcard_schedules s on s.id = (p.plan ->> 'id')::bigint;
  if v_jobs is not null then
    v_answers := public.giftcard_enqueue(v_jobs, false, p_now)::jsonb;
  end if;
  with made as (
    select v_owners[e.n] as schedule_id, array_agg((e.job ->> 'id')::bigint order by e.n) as ids,
           array_agg((e.job ->> 'id')::bigint order by e.n)
             filter (where e.job ->> 'status' in ('queued', 'running')) as unfinished
      from jsonb_array_elements(v_answers) with ordinality e(job, n) group by v_owners[e.n]), moved as (
    select s.id, p.plan, p.plan ? 'pause' as pauses, o.failures,
           o.unfinished || coalesce(m.unfinished, '{}') as open_jobs,
           m.ids[cardinality(m.ids)] as last_job_id
      from jsonb_array_elements(p_plans) p(plan)
      join public.giftcard_schedules s on s.id = (p.plan ->> 'id')::bigint
     cross join lateral public.giftcard_schedule_outcomes(s.open_jobs, s.is_recurring, s.failures) o
      left join made m on m.schedule_id = s.id)
  update public.giftcard_schedules s
     set version = s.version + 1, failures = m.failures,
         open_jobs = m.open_jobs[greatest(1, cardinality(m.open_jobs) - 99):],
         next_at = case when not pauses then (plan ->> 'next_at')::timestamptz end,
         check_at = case when pauses then null
                        when plan ? 'check_in'
                            then p_now + make_interval(secs => (plan ->> 'check_in')::double precision)
                        else (plan ->> 'next_at')::timestamptz end,
         last_at = greatest(s.last_at, (plan ->> 'last_at')::timestamptz),
         last_job_id = coalesce(m.last_job_id, s.last_job_id),
         missed = s.missed + coalesce((plan ->> 'missed')::integer, 0),
         last_missed_at = coalesce((plan ->> 'missed_at')::timestamptz, s.last_missed_at),
         skipped = s.skipped + coalesce((plan ->> 'skipped')::integer, 0),
         last_skipped_at = coalesce((plan ->> 'skipped_at')::timestamptz, s.last_skipped_at),
         paused_at = case when pauses then p_now else s.paused_at end,
         paused_by = case when pauses then 'tick' else s.paused_by end,
         pause_reason = coalesce(plan ->> 'pause', s.pause_reason)
    from moved m
   where s.id = m.id;
  return array(select (j ->> 'id')::bigint from jsonb_array_elements(v_answers) j where (j ->> 'created')::boolean);
end $$;

-- Apply plans, in one transaction. Each: {id, version, and one of
--   delete: true                   it ran once and is over
--   pause: reason                  it is paused
--   next_at (null: none), and optionally jobs (as giftcard_enqueue takes them), last_at, check_in (seconds: check it
--                                  then, not at next_at), missed, missed_at, skipped, skipped_at}; up to 1,000 jobs.
-- A schedule that has changed since it was read is left alone, and so is one that another tick works on. One whose job
-- cannot be stored is paused with the reason, and stops no other.
-- Return {jobs: ids of the new ones, paused: [{id, reason}], deleted, left: how many}.
create function public.giftcard_enqueue_occurrences(p_planned jsonb, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_ids bigint[] := array(
    select s.id from jsonb_array_elements(p_planned) p
      join public.giftcard_schedules s on s.id = (p ->> 'id')::bigint and s.version = (p ->> 'version')::integer
     order by s.id for update of s skip locked);
  v_plans jsonb := (
    select coalesce(jsonb_agg(p), '[]') from jsonb_array_elements(p_planned) p
      where (p ->> 'id')::bigint = any (v_ids) and not p ? 'delete');
  v_over bigint[] := array(
    select (p ->> 'id')::bigint from jsonb_array_elements(p_planned) p
      where (p ->> 'id')::bigint = any (v_ids) and p ? 'delete');
  v_paused jsonb := (
    select coalesce(jsonb_agg(jsonb_build_object('id', p -> 'id', 'reason', p -> 'pause')), '[]')
      from jsonb_array_elements(v_plans) p where p ? 'pause');
  v_jobs bigint[] := '{}'::bigint[];
  v_plan jsonb;
begin
  delete from public.giftcard_schedules where id = any (v_over);
  begin
    v_jobs := public.giftcard_apply_plans(v_plans, v_now);
  exception when data_exception or integrity_constraint_violation or raise_exception or sqlstate 'GC400' then
    -- One job cannot be stored: each schedule is planned by itself, so that the others are not affected.
    for v_plan in select value from jsonb_array_elements(v_plans) loop
      begin
        v_jobs := v_jobs || public.giftcard_apply_plans(jsonb_build_array(v_plan), v_now);
      exception when data_exception or integrity_constraint_violation or raise_exception or sqlstate 'GC400' then
        v_plan := jsonb_build_object('id', v_plan -> 'id', 'pause', 'its job cannot be stored: ' || left(sqlerrm, 300));
        perform public.giftcard_apply_plans(jsonb_build_array(v_plan), v_now);
        v_paused := v_paused || jsonb_build_object('id', v_plan -> 'id', 'reason', v_plan -> 'pause');
      end;
    end loop;
  end;
  return jsonb_build_object('jobs', to_jsonb(v_jobs), 'paused', v_paused, 'deleted', cardinality(v_over),
                            'left', jsonb_array_length(p_planned) - cardinality(v_ids));
end $$;
-- Manage schedules: the operators' actions.

-- Create a schedule, or update one (p_id) that is still at p_version. p_schedule holds all columns that a caller may
-- set; p_next_at is its next occurrence (null: none). GC409 for a name that another has, and for another version.
create function public.giftcard_save_schedule(
  p_schedule jsonb, p_next_at timestamptz, p_id bigint default null, p_version integer default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  n public.giftcard_schedules := jsonb_populate_record(null::public.giftcard_schedules, p_schedule);
  s public.giftcard_schedules;
begin
  if n.payload @? '$.**{100}' then
    perform public.giftcard_refuse('GC400', 'the payload is nested too deeply: 100 levels are allowed', 'payload');
  elsif p_id is null then
    insert into public.giftcard_schedules
      (tenant_id, name, schedule, timezone, stage, payload, semantics, is_recurring, max_attempts, ttr_seconds,
       retry_delays, missed_policy,
       catch_up_seconds, missed_cap, overlap_policy, pause_after_failures, next_at, check_at, created_at, updated_at)
    values (n.tenant_id, n.name, n.schedule, n.timezone, n.stage, n.payload, n.semantics, n.is_recurring,
            n.max_attempts, n.ttr_seconds,
            n.retry_delays, n.missed_policy, n.catch_up_seconds, n.missed_cap, n.overlap_policy, n.pause_after_failures,
            p_next_at, p_next_at,
            v_now, v_now)
    returning * into s;
  else
    update public.giftcard_schedules
       set name = n.name, schedule = n.schedule, timezone = n.timezone, stage = n.stage, payload = n.payload,
           semantics = n.semantics,
           is_recurring = n.is_recurring, max_attempts = n.max_attempts, ttr_seconds = n.ttr_seconds,
           retry_delays = n.retry_delays,
           missed_policy = n.missed_policy, catch_up_seconds = n.catch_up_seconds, missed_cap = n.missed_cap,
           overlap_policy = n.overlap_policy,
           pause_after_failures = n.pause_after_failures, next_at = p_next_at, check_at = coalesce(p_next_at, check_at),
           version = version + 1,
           updated_at = v_now
     where id = p_id and version = p_version
    returning * into s;
    if not found then
      perform public.giftcard_show_schedule(p_id);  -- GC404 for one that is gone
      perform public.giftcard_refuse(
        'GC409', format('schedule %s has changed meanwhile: read it and try again', p_id), 'schedule_id');
    end if;
  end if;
  return public.giftcard_schedule_json(s, v_now);
exception when unique_violation then
  raise exception 'tenant % has another schedule of the name %', n.tenant_id,
  n.name using errcode = 'GC409', detail = 'name';
end $$;

-- Delete a schedule. Its jobs go on. GC404 for none.
create function public.giftcard_delete_schedule(p_id bigint) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
begin
  delete from public.giftcard_schedules where id = p_id;
  if not found then
    perform public.giftcard_refuse('GC404', format('schedule %s does not exist', p_id), 'schedule_id');
  end if;
  return jsonb_build_object('id', p_id, 'deleted', true);
end $$;

-- Pause a schedule: no occurrences until it is resumed. Its jobs go on.
create function public.giftcard_pause_schedule(
  p_id bigint, p_by text, p_reason text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  update public.giftcard_schedules
     set paused_at = coalesce(paused_at, v_now), paused_by = p_by, pause_reason = p_reason, next_at = null,
         version = version + 1,
         -- a schedule that runs once still waits for the end of its one job
         check_at = case when not is_recurring and last_at is not null then check_at end
   where id = p_id;
  return public.giftcard_show_schedule(p_id, v_now);
end $$;

-- Resume a schedule from p_next_at on: occurrences of the pause are not made up for. GC409 for one that is not paused
-- or not at p_version.
create function public.giftcard_resume_schedule(
  p_id bigint, p_version integer, p_next_at timestamptz, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
begin
  update public.giftcard_schedules
     set paused_at = null, paused_by = null, pause_reason = null, failures = 0,
         open_jobs = (public.giftcard_schedule_outcomes(open_jobs, is_recurring, failures)).unfinished,
         next_at = p_next_at, check_at = coalesce(p_next_at, check_at), version = version + 1
   where id = p_id and version = p_version and paused_at is not null;
  if not found then
    perform public.giftcard_show_schedule(p_id);  -- GC404 for one that is gone
    perform public.giftcard_refuse(
      'GC409', format('schedule %s is not paused, or has changed meanwhile', p_id), 'schedule_id');
  end if;
  return public.giftcard_show_schedule(p_id, p_now);
end $$;
-- Precision: how long after its time each run began.

-- The newest runs, of whatever jobs.
create index giftcard_job_history_finished on public.giftcard_job_history (finished_at);

-- Return start delays by stage, of the newest 10,000 runs that ended within p_window_seconds: [{stage, runs, p50_ms,
-- p95_ms, max_ms}]. Runs that never began, and those started before their time on request, do not count.
create function public.giftcard_precision(
  p_window_seconds double precision default 3600, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
        'stage', d.stage, 'runs', d.runs, 'p50_ms', round(d.ms[1]), 'p95_ms', round(d.ms[2]), 'max_ms', round(d.ms[3]))
            order by d.stage), '[]')
      from (
        select h.stage, count(*) as runs,
               percentile_disc(array[0.5, 0.95, 1]) within group (order by extract(epoch
                 from h.started_at - h.scheduled_at) * 1000) as ms
          from (select * from public.giftcard_job_history
                where finished_at > v_now - make_interval(secs => p_window_seconds)
                 order by finished_at desc limit 10000) h
         where h.result <> 'RELEASED' and isfinite(h.scheduled_at) and h.started_at >= h.scheduled_at
         group by h.stage) d);
end $$;
-- The report of a day: what became of one tenant's orders from one midnight to the next, in UTC. It holds no personal
-- data.

create table public.giftcard_reports (
  tenant_id text collate "C" not null,
  day date not null,
  made_at timestamptz not null,
  report jsonb not null,
  constraint giftcard_reports_pkey primary key (tenant_id, day)
);
create index giftcard_reports_by_day on public.giftcard_reports (day, tenant_id);

comment on table public.giftcard_reports is 'One row is the report of one tenant''s day, as it was last made.';

create index giftcard_orders_by_day on public.giftcard_orders (tenant_id, created_at);
create index giftcard_payments_by_day on public.giftcard_payments (tenant_id, created_at);
create index giftcard_cards_by_day on public.giftcard_cards (tenant_id, created_at);
-- Holds only runs that have failed: a successful run does not pay for it.
create index giftcard_job_history_failures on public.giftcard_job_history (finished_at)
    where result in ('FAILED', 'INTERRUPTED');

-- Sum orders, payments and cards created between two times, by currency: counts, and amounts in minor units. The source
-- tables keep their rows also when a customer is erased or jobs are pruned.
create function public.giftcard_report_money(p_tenant_id text, p_from timestamptz, p_to timestamptz) returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off as $$
  select coalesce(jsonb_agg(to_jsonb(c) order by c.currency), '[]') from (
    select m.currency,
           count(*) filter (where m.what = 'order') as orders,
           coalesce(sum(m.amount) filter (where m.what = 'order'), 0) as orders_amount,
           count(*) filter (where m.what = 'payment') as payments,
           coalesce(sum(m.amount) filter (where m.what = 'payment'), 0) as payments_amount,
           count(*) filter (where m.what = 'card') as cards,
           coalesce(sum(m.amount) filter (where m.what = 'card'), 0) as cards_amount
      from (
        select 'order' as what, currency, amount from public.giftcard_orders
         where tenant_id = p_tenant_id and created_at >= p_from and created_at < p_to
        union all
        select 'payment', currency, amount from public.giftcard_payments
         where tenant_id = p_tenant_id and created_at >= p_from and created_at < p_to
        union all
        select 'card', currency, amount from public.giftcard_cards
         where tenant_id = p_tenant_id and created_at >= p_from and created_at < p_to) m
     group by m.currency) c
$$;

-- Return what an error is grouped by: its type, and its message up to the first word that may name a person, a host or
-- an order.
create function public.giftcard_error_reason(p_error text) returns text
language sql immutable security invoker set search_path = '' as $$
  select coalesce(left(substring(p_error from '^[A-Za-z_][A-Za-z0-9_]*(?::(?: (?:[a-z]+|[45][0-9]{2})(?![^ :,;]))+)?'),
                       120), 'unknown')
$$;

-- Return what failed between two times, by stage and reason, the most frequent 200, and the totals of all. A failed run
-- was retried if the job's next attempt belongs to the same round, and became a dead letter if a new round began after
-- it, or would. A dead letter that never ran (a message that no job could be made of) counts as a failure too.
create function public.giftcard_report_failures(
  p_tenant_id text, p_from timestamptz, p_to timestamptz, out rows jsonb, out totals jsonb)
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
begin
  with failed as (
    select h.stage, public.giftcard_error_reason(h.error) as reason,
           coalesce(n.attempt, case when j.run_no > h.run_no then j.attempts
                                    when j.status = 'queued' then j.attempts + 1
                                    when coalesce(j.status, a.job ->> 'status') = 'error' then 1 end) as next_attempt
      from public.giftcard_job_history h
      left join public.giftcard_jobs j on j.id = h.job_id
      left join public.giftcard_jobs_archive a on a.id = h.job_id and j.id is null
      left join public.giftcard_job_history n on n.job_id = h.job_id and n.run_no = h.run_no + 1
     where h.result in ('FAILED', 'INTERRUPTED') and h.finished_at >= p_from and h.finished_at < p_to
       and coalesce(j.tenant_id, a.tenant_id) = p_tenant_id
       -- A run that an operator's UPDATE took away has not failed: it was not settled.
       and h.lease_id is not null
    union all
    select j.stage, public.giftcard_error_reason(j.last_error), 1
      from public.giftcard_jobs j
     where j.status = 'error' and j.run_no = 0 and j.finished_at >= p_from and j.finished_at < p_to
       and j.tenant_id = p_tenant_id), counted as (
    select f.stage, f.reason, count(*) as failures, count(*) filter (where f.next_attempt > 1) as retries,
           count(*) filter (where f.next_attempt = 1) as dead_letters
      from failed f group by f.stage, f.reason)
  select (select coalesce(jsonb_agg(to_jsonb(t) order by t.failures desc, t.stage, t.reason), '[]')
            from (select * from counted c order by c.failures desc, c.stage, c.reason limit 200) t),
         jsonb_build_object('failures', coalesce(sum(failures), 0), 'retries', coalesce(sum(retries), 0),
                            'dead_letters', coalesce(sum(dead_letters), 0))
    into rows, totals
    from counted;
end $$;

-- Sum the payments before p_to that have no card, by currency; see giftcard_is_paid_without_card.
create function public.giftcard_report_paid_without_card(p_tenant_id text, p_to timestamptz) returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off as $$
  select coalesce(jsonb_agg(to_jsonb(c) order by c.currency), '[]') from (
    select p.currency, count(*) as payments, sum(p.amount) as amount
      from public.giftcard_payments p
     where p.card_id is null and p.tenant_id = p_tenant_id and p.created_at < p_to
       and public.giftcard_is_paid_without_card(p)
     group by p.currency) c
$$;

-- Make the report of a tenant's day and store it; made again it replaces the former one. p_day null: yesterday, by the
-- database's clock. A day that is not over gives what there is so far, with complete: false.
create function public.giftcard_make_report(
  p_tenant_id text, p_day date default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_today date := (v_now at time zone 'UTC')::date;
  v_day date := coalesce(p_day, v_today - 1);
  v_from timestamptz;
  v_to timestamptz;
  v_money jsonb;
  v_unserved jsonb;
  v_days jsonb;
  v_report jsonb;
  f record;
begin
  if coalesce(p_tenant_id, '') = '' then
    perform public.giftcard_refuse('GC400', 'tenant_id must be given', 'tenant_id');
  elsif v_day not between date '2000-01-01' and v_today then
    perform public.giftcard_refuse(
      'GC400', format('day must lie between 2000-01-01 and today, %s in UTC', v_today), 'day');
  end if;
  v_from := v_day::timestamp at time zone 'UTC';
  v_to := (v_day + 1)::timestamp at time zone 'UTC';
  v_money := public.giftcard_report_money(p_tenant_id, v_from, v_to);
  f := public.giftcard_report_failures(p_tenant_id, v_from, v_to);
  v_unserved := public.giftcard_report_paid_without_card(p_tenant_id, v_to);
  select jsonb_agg(jsonb_build_object('day', d.day, 'cards', n.cards) order by d.day) into v_days
    from (select v_day - i as day from generate_series(0, 13) i) d
    cross join lateral (
      select count(*) as cards from public.giftcard_cards c
       where c.tenant_id = p_tenant_id and c.created_at >= d.day::timestamp at time zone 'UTC'
         and c.created_at < (d.day + 1)::timestamp at time zone 'UTC') n;
  v_report := jsonb_build_object(
    'tenant_id', p_tenant_id, 'day', v_day, 'made_at', v_now, 'complete', v_now >= v_to,
    'totals', f.totals || (
        select jsonb_build_object('orders', coalesce(sum((c ->> 'orders')::bigint), 0),
                                  'payments', coalesce(sum((c ->> 'payments')::bigint), 0),
                                  'cards', coalesce(sum((c ->> 'cards')::bigint), 0))
                                      from jsonb_array_elements(v_money) c) || (
        select jsonb_build_object('paid_without_card', coalesce(sum((c ->> 'payments')::bigint), 0))
          from jsonb_array_elements(v_unserved) c),
    'currencies', v_money, 'failures', f.rows, 'paid_without_card', v_unserved, 'last_days', v_days);
  insert into public.giftcard_reports (tenant_id, day, made_at, report) values (p_tenant_id, v_day, v_now, v_report)
  on conflict on constraint giftcard_reports_pkey do update set made_at = excluded.made_at, report = excluded.report;
  return v_report;
end $$;

-- Return the report of a tenant's day, as it was last made. GC404 for none.
create function public.giftcard_report(p_tenant_id text, p_day date) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_report jsonb := (select report from public.giftcard_reports where tenant_id = p_tenant_id and day = p_day);
begin
  if v_report is null then
    perform public.giftcard_refuse(
      'GC404', format('tenant %s has no report of %s: make it first', p_tenant_id, p_day), 'day');
  end if;
  return v_report;
end $$;

-- Return a page of reports, the newest day first: {reports: [{tenant_id, day, made_at, complete, totals}], older}: the
-- cursor to continue from, null at the end.
create function public.giftcard_list_reports(
  p_tenant_id text default null, p_older text default null, p_limit integer default 50) returns jsonb
language plpgsql stable security invoker
-- Planned for the values of each call: an absent condition folds away.
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_custom_plan as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  v_page jsonb;
  v_last jsonb;
begin
  if p_older is not null and p_older !~ '^[0-9]{4}-[0-9]{2}-[0-9]{2}/.' then
    perform public.giftcard_refuse('GC400', 'older must be a cursor that an earlier page gave', 'older');
  end if;
  -- One more than the page holds: its presence means that there are more.
  select coalesce(jsonb_agg(jsonb_build_object('tenant_id', r.tenant_id, 'day', r.day, 'made_at', r.made_at,
                                               'complete', r.report -> 'complete',
                                               'totals', r.report -> 'totals')
                            order by r.day desc, r.tenant_id desc), '[]')
    into v_page from (
    select * from public.giftcard_reports
     where (p_tenant_id is null or tenant_id = p_tenant_id)
       and (p_older is null or (day, tenant_id) < (left(p_older, 10)::date, substr(p_older, 12)))
     order by day desc, tenant_id desc limit v_limit + 1) r;
  if jsonb_array_length(v_page) <= v_limit then
    return jsonb_build_object('reports', v_page, 'older', null);
  end if;
  v_page := v_page - v_limit;
  v_last := v_page -> -1;
  return jsonb_build_object('reports', v_page, 'older', (v_last ->> 'day') || '/' || (v_last ->> 'tenant_id'));
end $$;

-- Return the tenants with an order, a payment, a card or a failure on a day: an array, by name.
create function public.giftcard_report_tenants(p_day date, p_limit integer default 1000) returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off as $$
  with recursive span as (
    select p_day::timestamp at time zone 'UTC' as since, (p_day + 1)::timestamp at time zone 'UTC' as until), known as (
    -- From one name to the next, whatever the number of orders.
    select least((select min(tenant_id) from public.giftcard_orders),
                 (select min(tenant_id) from public.giftcard_payments),
                 (select min(tenant_id) from public.giftcard_cards)) as tenant_id
    union all
    select least((select min(tenant_id) from public.giftcard_orders where tenant_id > k.tenant_id),
                 (select min(tenant_id) from public.giftcard_payments where tenant_id > k.tenant_id),
                 (select min(tenant_id) from public.giftcard_cards where tenant_id > k.tenant_id))
      from known k where k.tenant_id is not null)
  select coalesce(jsonb_agg(t.tenant_id order by t.tenant_id), '[]') from (
    select k.tenant_id from known k cross join span s
     where exists (select from public.giftcard_orders o
                   where o.tenant_id = k.tenant_id and o.created_at >= s.since and o.created_at < s.until)
        or exists (select from public.giftcard_payments p
                   where p.tenant_id = k.tenant_id and p.created_at >= s.since and p.created_at < s.until)
        or exists (select from public.giftcard_cards c
                   where c.tenant_id = k.tenant_id and c.created_at >= s.since and c.created_at < s.until)
    union
    select j.tenant_id from span s
      join public.giftcard_job_history h on h.result in ('FAILED', 'INTERRUPTED') and h.finished_at >= s.since
          and h.finished_at < s.until
      join public.giftcard_jobs j on j.id = h.job_id
    union
    select j.tenant_id from span s
      join public.giftcard_jobs j on j.status = 'error' and j.run_no = 0 and j.finished_at >= s.since
          and j.finished_at < s.until
     order by 1 limit least(p_limit, 1000)) t
$$;
-- Webhooks: where tenants receive events, and the jobs that deliver them.

create table public.giftcard_webhook_endpoints (
  id bigint generated always as identity,
  tenant_id text collate "C" not null,
  url text collate "C" not null,
  events text[] not null,
  enabled boolean not null default true,
  disabled_reason text,
  secret_encrypted text not null,
  previous_secret_encrypted text,
  previous_secret_until timestamptz,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  constraint giftcard_webhook_endpoints_pkey primary key (id),
  constraint giftcard_webhook_endpoints_url_key unique (tenant_id, url),
  constraint giftcard_webhook_endpoints_events_are_known check (cardinality(events) > 0 and events <@ array[
    'giftcard.issued', 'giftcard.delivered', 'giftcard.failed', 'job.completed', 'job.dead_lettered', 'report.ready']),
  constraint giftcard_webhook_endpoints_disabled_has_a_reason check (enabled = (disabled_reason is null))
);
-- Read by each settle: empty where no tenant receives events.
create index giftcard_webhook_endpoints_enabled on public.giftcard_webhook_endpoints (tenant_id, id) where enabled;

comment on table public.giftcard_webhook_endpoints is
  'An address that receives events of a tenant. Its secrets are encrypted: only the application can read what signs '
  'the requests.';
comment on column public.giftcard_webhook_endpoints.previous_secret_encrypted is
  'Signs beside the new one until previous_secret_until, so that the receiver has time to change over.';

-- Return the events of jobs that have just ended: {tenant_id, correlation_id, event, event_id, body, trace}, at most
-- 3,000. The same fact always has the same event id; a card is issued and delivered once, however often its jobs run.
-- Only ids, amounts and last four digits.
create function public.giftcard_events_for(p_ids bigint[], p_now timestamptz)
returns table (tenant_id text, correlation_id text, event text, event_id text, body text, trace jsonb)
language sql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  select coalesce(t.tenant_id, j.tenant_id), j.correlation_id, t.event,
         'msg_' || left(encode(sha256(convert_to(jsonb_build_array(
           j.tenant_id, j.correlation_id, j.stage, j.dedup_key, j.created_at, t.event, t.run_no)::text, 'UTF8')),
           'hex'), 32),
         json_build_object('type', t.event,
                           'timestamp', to_char(p_now at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                           'data', t.data)::text,
         j.context -> 'trace'
    from public.giftcard_jobs j
    cross join lateral (
      select case j.stage when 'issue_card' then 'giftcard.issued' else 'giftcard.delivered' end as event,
             null::integer as run_no,
             null::text as tenant_id, json_build_object(
               'tenant_id', j.tenant_id, 'correlation_id', j.correlation_id, 'card_id', c.id, 'last4', c.last4,
               'amount', c.amount,
               'currency', c.currency) as data
        from public.giftcard_cards c
       where j.stage in ('issue_card', 'email') and j.status = 'completed'
         and c.tenant_id = j.tenant_id and c.correlation_id = j.correlation_id
      union all
      select 'giftcard.failed', j.run_no, null, json_build_object(
               'tenant_id', j.tenant_id, 'correlation_id', j.correlation_id, 'job_id', j.id, 'stage', j.stage,
               'amount', o.amount, 'currency', o.currency, 'paid', exists (
                 select from public.giftcard_payments p
                   where p.tenant_id = j.tenant_id and p.correlation_id = j.correlation_id),
               'reason', public.giftcard_error_reason(j.last_error), 'revive_at', j.revive_at)
        from (select) one
        left join public.giftcard_orders o on o.tenant_id = j.tenant_id and o.correlation_id = j.correlation_id
       where j.stage in ('customer_ingest', 'personal_code', 'payment', 'issue_card', 'email') and j.status = 'error'
         and (j.payload -> 'without_order') is distinct from 'true'
      union all
      select case j.status when 'completed' then 'job.completed' else 'job.dead_lettered' end, j.run_no, null,
             json_build_object(
               'tenant_id', j.tenant_id, 'correlation_id', j.correlation_id, 'job_id', j.id, 'stage', j.stage,
               'run_no', j.run_no,
               'attempts', j.attempts, 'reason', case when j.status = 'error'
                                                      then public.giftcard_error_reason(j.last_error) end,
               'revive_at', j.revive_at)
      union all
      select 'report.ready', j.run_no, r.tenant_id, json_build_object(
               'tenant_id', r.tenant_id, 'day', r.day, 'made_at', r.made_at, 'totals', r.report -> 'totals')
        from public.giftcard_reports r
       where j.stage = 'report' and j.status = 'completed'
         and r.tenant_id = coalesce(j.payload ->> 'tenant_id', j.tenant_id) and r.day::text = j.context ->> 'day') t
   where j.id = any (p_ids) and j.status in ('completed', 'error') and j.stage <> 'webhook'
     -- A key that is too long for an index is no reason for a settle to fail.
     and octet_length(j.tenant_id) + octet_length(j.correlation_id) < 2000
   order by j.id, t.event limit 3000
$$;

-- Enqueue the webhooks of jobs that have just been settled: in the same transaction, so that there is no event without
-- its fact and no fact without its event.
create function public.giftcard_enqueue_webhooks(p_ids bigint[], p_now timestamptz) returns void
language sql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  insert into public.giftcard_jobs
    (tenant_id, correlation_id, stage, dedup_key, circuit, trigger_type, payload, context, scheduled_at, created_at,
     updated_at)
  select e.tenant_id, m.correlation_id, 'webhook', m.event_id || ':' || e.id, 'webhook:' || e.id, 'event',
         jsonb_build_object('endpoint_id', e.id, 'event_id', m.event_id, 'body', m.body),
         case when m.trace is null then '{}' else jsonb_build_object('trace', m.trace) end, p_now, p_now, p_now
    from public.giftcard_events_for(p_ids, p_now) m
    join public.giftcard_webhook_endpoints e on e.tenant_id = m.tenant_id and e.enabled and m.event = any (e.events)
   order by m.correlation_id, m.event, e.id
  on conflict on constraint giftcard_jobs_flow_key do nothing
$$;

-- Return what a delivery needs: {url, secrets (encrypted; the newest first), at: the database's time in seconds}. null:
-- the endpoint is disabled or deleted; then a cancel of the job is recorded, which its run ends with. GC410 when the
-- lease is not the job's current one.
create function public.giftcard_webhook_target(
  p_job_id bigint, p_lease_id uuid, p_endpoint_id bigint, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_tenant text;
  e public.giftcard_webhook_endpoints;
begin
  select tenant_id into v_tenant from public.giftcard_jobs
    where id = p_job_id and status = 'running' and lease_id = p_lease_id;
  if not found then
    perform public.giftcard_refuse(
      'GC410', format('job %s is not run under this lease now', p_job_id), 'lease_id');
  end if;
  select * into e from public.giftcard_webhook_endpoints where id = p_endpoint_id and tenant_id = v_tenant and enabled;
  if not found then
    update public.giftcard_jobs set cancel_requested_at = v_now
      where id = p_job_id and status = 'running' and lease_id = p_lease_id;
    return null;
  end if;
  return jsonb_build_object('url', e.url, 'at', extract(epoch from v_now), 'secrets', to_jsonb(array_remove(array[
    e.secret_encrypted, case when e.previous_secret_until > v_now then e.previous_secret_encrypted end], null)));
end $$;

-- Disable an endpoint whose receiver refuses events for good, unless its address has changed meanwhile. Return {id,
-- disabled}.
create function public.giftcard_disable_webhook_endpoint(
  p_endpoint_id bigint, p_url text, p_reason text, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
begin
  update public.giftcard_webhook_endpoints set enabled = false, disabled_reason = p_reason,
    updated_at = coalesce(p_now, clock_timestamp())
   where id = p_endpoint_id and url = p_url and enabled;
  return jsonb_build_object('id', p_endpoint_id, 'disabled', found);
end $$;
-- Manage webhook endpoints: the operators' actions.

-- Return an endpoint as the API shows it: never with its secrets.
create function public.giftcard_webhook_endpoint_json(
  e public.giftcard_webhook_endpoints, p_now timestamptz) returns jsonb
language sql stable security invoker set search_path = '' as $$
  select jsonb_build_object(
    'id', e.id, 'tenant_id', e.tenant_id, 'url', e.url, 'events', to_jsonb(e.events), 'enabled', e.enabled,
    'disabled_reason', e.disabled_reason,
    'previous_secret_until', case when e.previous_secret_until > p_now then e.previous_secret_until end,
    'created_at', e.created_at, 'updated_at', e.updated_at)
$$;

-- Lock an endpoint and return it. GC404 for none.
create function public.giftcard_lock_webhook_endpoint(p_endpoint_id bigint) returns public.giftcard_webhook_endpoints
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  e public.giftcard_webhook_endpoints;
begin
  select * into e from public.giftcard_webhook_endpoints where id = p_endpoint_id for update;
  if not found then
    perform public.giftcard_refuse('GC404', format('webhook endpoint %s does not exist', p_endpoint_id), 'endpoint_id');
  end if;
  return e;
end $$;

-- Refuse an address that another endpoint of the tenant has: each event would arrive there twice.
create function public.giftcard_refuse_duplicate_endpoint(
  p_tenant_id text, p_url text, p_except bigint default null) returns void
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_id bigint := (select id from public.giftcard_webhook_endpoints
                  where tenant_id = p_tenant_id and url = p_url and id is distinct from p_except);
begin
  if v_id is not null then
    perform public.giftcard_refuse(
      'GC409', format('webhook endpoint %s of this tenant has this address already', v_id), 'url');
  end if;
end $$;

-- Create an endpoint. A tenant has at most 20, because each event is a job for each of them; the lock makes two that
-- create for one tenant take turns.
create function public.giftcard_create_webhook_endpoint(
  p_tenant_id text, p_url text, p_events text[], p_enabled boolean, p_secret_encrypted text,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  e public.giftcard_webhook_endpoints;
begin
  perform pg_advisory_xact_lock(hashtextextended('webhook endpoints of ' || p_tenant_id, 0));
  perform public.giftcard_refuse_duplicate_endpoint(p_tenant_id, p_url);
  if (select count(*) from public.giftcard_webhook_endpoints where tenant_id = p_tenant_id) >= 20 then
    perform public.giftcard_refuse('GC409', 'this tenant has 20 webhook endpoints, which is the most', 'tenant_id');
  end if;
  insert into public.giftcard_webhook_endpoints (tenant_id, url, events, enabled, disabled_reason, secret_encrypted,
                                                 created_at, updated_at)
  values (p_tenant_id, p_url, p_events, p_enabled, case when not p_enabled then 'made off' end, p_secret_encrypted,
          v_now, v_now)
  returning * into e;
  return public.giftcard_webhook_endpoint_json(e, v_now);
end $$;

-- Update what is given: another address, other events, enabled or not. Queued webhooks use the new values.
create function public.giftcard_update_webhook_endpoint(
  p_endpoint_id bigint, p_url text default null, p_events text[] default null, p_enabled boolean default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  e public.giftcard_webhook_endpoints := public.giftcard_lock_webhook_endpoint(p_endpoint_id);
begin
  perform public.giftcard_refuse_duplicate_endpoint(e.tenant_id, p_url, e.id);
  update public.giftcard_webhook_endpoints
     set url = coalesce(p_url, url), events = coalesce(p_events, events), enabled = coalesce(p_enabled, enabled),
         disabled_reason = case when coalesce(p_enabled, enabled) then null
                                else coalesce(disabled_reason, 'turned off by hand') end, updated_at = v_now
   where id = p_endpoint_id returning * into e;
  return public.giftcard_webhook_endpoint_json(e, v_now);
end $$;

-- Delete an endpoint for good. Its queued webhooks are cancelled when they run.
create function public.giftcard_delete_webhook_endpoint(p_endpoint_id bigint) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
begin
  perform public.giftcard_lock_webhook_endpoint(p_endpoint_id);
  delete from public.giftcard_webhook_endpoints where id = p_endpoint_id;
  return jsonb_build_object('id', p_endpoint_id, 'deleted', true);
end $$;

-- Replace an endpoint's secret. The previous one signs too for p_former_seconds, so that the receiver can change over.
create function public.giftcard_rotate_webhook_secret(
  p_endpoint_id bigint, p_secret_encrypted text, p_former_seconds double precision,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  e public.giftcard_webhook_endpoints := public.giftcard_lock_webhook_endpoint(p_endpoint_id);
begin
  update public.giftcard_webhook_endpoints
     set secret_encrypted = p_secret_encrypted,
         previous_secret_encrypted = case when p_former_seconds > 0 then secret_encrypted end,
         previous_secret_until = case when p_former_seconds > 0 then v_now + make_interval(secs => p_former_seconds)
                                      end, updated_at = v_now
   where id = p_endpoint_id returning * into e;
  return public.giftcard_webhook_endpoint_json(e, v_now);
end $$;

-- Send a test event, whatever events the endpoint receives; each call is a new event. Return {job_id, event_id}. GC409
-- for a disabled endpoint.
create function public.giftcard_test_webhook_endpoint(
  p_endpoint_id bigint, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_event_id text := 'msg_' || replace(gen_random_uuid()::text, '-', '');
  e public.giftcard_webhook_endpoints := public.giftcard_lock_webhook_endpoint(p_endpoint_id);
  v_job json;
begin
  if not e.enabled then
    perform public.giftcard_refuse(
      'GC409', format('webhook endpoint %s is off (%s): turn it on first', p_endpoint_id, e.disabled_reason),
      'enabled');
  end if;
  v_job := public.giftcard_enqueue(jsonb_build_array(jsonb_build_object(
    'tenant_id', e.tenant_id, 'correlation_id', 'webhook-endpoint:' || e.id,
    'stage', 'webhook', 'dedup_key', v_event_id || ':' || e.id,
    'circuit', 'webhook:' || e.id, 'trigger_type', 'test', 'payload', jsonb_build_object(
      'endpoint_id', e.id, 'event_id', v_event_id, 'body', json_build_object(
        'type', 'webhook.test', 'timestamp', to_char(v_now at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
        'data', json_build_object('tenant_id', e.tenant_id, 'endpoint_id', e.id))::text))), false, p_now) -> 0;
  return jsonb_build_object('job_id', v_job -> 'id', 'event_id', v_event_id);
end $$;

-- Return one endpoint. GC404 for none.
create function public.giftcard_webhook_endpoint(p_endpoint_id bigint, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
declare
  e public.giftcard_webhook_endpoints;
begin
  select * into e from public.giftcard_webhook_endpoints where id = p_endpoint_id;
  if not found then
    perform public.giftcard_refuse('GC404', format('webhook endpoint %s does not exist', p_endpoint_id), 'endpoint_id');
  end if;
  return public.giftcard_webhook_endpoint_json(e, coalesce(p_now, clock_timestamp()));
end $$;

-- Return a page of endpoints, the newest first: {endpoints, older}: the id to continue from, null at the end.
create function public.giftcard_list_webhook_endpoints(
  p_tenant_id text default null, p_older bigint default null, p_limit integer default 50,
  p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off
set plan_cache_mode = force_custom_plan as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  v_page jsonb;
begin
  -- One more than the page holds: its presence means that there are more.
  select coalesce(jsonb_agg(public.giftcard_webhook_endpoint_json(e, coalesce(p_now, clock_timestamp()))
                            order by e.id desc), '[]') into v_page from (
    select * from public.giftcard_webhook_endpoints
     where (p_tenant_id is null or tenant_id = p_tenant_id) and (p_older is null or id < p_older) order by id desc
       limit v_limit + 1) e;
  if jsonb_array_length(v_page) <= v_limit then
    return jsonb_build_object('endpoints', v_page, 'older', null);
  end if;
  v_page := v_page - v_limit;
  return jsonb_build_object('endpoints', v_page, 'older', v_page -> -1 -> 'id');
end $$;
-- Inbound webhooks: events that vendors send. Each counts once, for good.

create table public.giftcard_inbound_events (
  source text collate "C" not null,
  event_id text collate "C" not null,
  type text collate "C" not null,
  kind text not null,
  tenant_id text collate "C" not null,
  correlation_id text collate "C",
  facts jsonb not null default '{}',
  received_at timestamptz not null,
  constraint giftcard_inbound_events_pkey primary key (source, event_id),
  constraint giftcard_inbound_events_became_is_known check (kind in ('job', 'payment', 'card', 'ignored', 'unknown'))
);
create index giftcard_inbound_events_payments on public.giftcard_inbound_events (tenant_id, correlation_id)
    where kind = 'payment';

comment on table public.giftcard_inbound_events is
  'One row is an event of a vendor, never removed: sent again, even years later, it does nothing. It holds no '
  'personal data.';
comment on column public.giftcard_inbound_events.kind is
  'job: it was enqueued. payment: an order is paid. card: a card of ours has changed. ignored: facts hold the '
  'reason. unknown: no type that is handled here.';
comment on column public.giftcard_inbound_events.correlation_id is
  'Of a payment: the order that it names, whether or not there is one yet.';

-- Make a job of a flow due at once: a queued one, or a running one in case its run ends in a snooze. Return whether
-- there was one.
create function public.giftcard_make_due(
  p_tenant_id text, p_correlation_id text, p_stage text, p_now timestamptz default null) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  update public.giftcard_jobs set scheduled_at = v_now, updated_at = v_now
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id and stage = p_stage and dedup_key = ''
     and (status = 'running' or status = 'queued' and scheduled_at > v_now);
  return found;
end $$;

-- Update the balance and state of a gift card, found by the vendor's reference. p_card: {reference, balance, currency,
-- blocked (null: unchanged), at}. Events may arrive in any order: one that is older than the last one changes nothing.
-- Return why it changed nothing; null: it did.
create function public.giftcard_update_card(p_tenant_id text, p_card jsonb) returns text
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_at timestamptz := (p_card ->> 'at')::timestamptz;
  v_balance bigint := (p_card ->> 'balance')::bigint;
  c public.giftcard_cards;
begin
  select * into c from public.giftcard_cards
   where tenant_id = p_tenant_id and provider_ref = p_card ->> 'reference' order by id limit 1 for update;
  if not found then
    return 'no card of ours';
  elsif c.currency <> p_card ->> 'currency' then
    return 'another currency';
  elsif c.vendor_updated_at >= v_at then
    return 'not the newest';
  end if;
  update public.giftcard_cards
     set balance = v_balance, vendor_updated_at = v_at,
         state = case when coalesce((p_card ->> 'blocked')::boolean, state = 'blocked') then 'blocked'
                      when v_balance = 0 then 'redeemed' else 'active' end
   where id = c.id;
  return null;
end $$;

-- Receive an event, once: sent again, at the same time or years later, it changes nothing. p_action: what it means
-- here, one of job (to enqueue), payment ({correlation_id, reference, amount, currency}), card (as giftcard_update_card
-- takes it), ignored (the reason); none of them: an unknown type. Return {kind, repeated}.
create function public.giftcard_receive_event(
  p_source text, p_event_id text, p_type text, p_tenant_id text, p_action jsonb,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_kind text := case when p_action ? 'job' then 'job' when p_action ? 'payment' then 'payment' when p_action ? 'card'
                      then 'card'
                        when p_action ? 'ignored' then 'ignored' else 'unknown' end;
  v_why text := p_action ->> 'ignored';
begin
  -- Of two deliveries at once, the second waits here and finds the first.
  insert into public.giftcard_inbound_events (source, event_id, type, kind, tenant_id, correlation_id, facts,
                                              received_at)
  values (p_source, p_event_id, p_type, v_kind, p_tenant_id, p_action #>> '{payment,correlation_id}',
          coalesce(p_action -> 'payment', '{}') - 'correlation_id', coalesce(p_now, clock_timestamp()))
  on conflict on constraint giftcard_inbound_events_pkey do nothing;
  if not found then
    return (select jsonb_build_object('kind', kind, 'repeated', true) from public.giftcard_inbound_events
             where source = p_source and event_id = p_event_id);
  elsif v_kind = 'job' then
    perform public.giftcard_enqueue(jsonb_build_array(p_action -> 'job'), false, p_now);
  elsif v_kind = 'payment' then
    perform public.giftcard_make_due(p_tenant_id, p_action #>> '{payment,correlation_id}', 'payment', p_now);
  elsif v_kind = 'card' then
    v_why := public.giftcard_update_card(p_tenant_id, p_action -> 'card');
  end if;
  if v_why is not null then
    v_kind := 'ignored';
    update public.giftcard_inbound_events set kind = v_kind, facts = jsonb_build_object('why', v_why)
     where source = p_source and event_id = p_event_id;
  end if;
  return jsonb_build_object('kind', v_kind, 'repeated', false);
end $$;

-- Return the payment received for an order: {reference, amount, currency}; of several the one over this amount, else
-- the first. null: none.
create function public.giftcard_inbound_payment(
  p_tenant_id text, p_correlation_id text, p_amount bigint, p_currency text) returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off as $$
  select facts from public.giftcard_inbound_events
   where kind = 'payment' and tenant_id = p_tenant_id and correlation_id = p_correlation_id
   order by facts @> jsonb_build_object('amount', p_amount, 'currency', p_currency) desc, received_at, event_id limit 1
$$;
-- Metrics: numbers for Prometheus, in one call that stays cheap with millions of rows.

-- Totals that only grow, although history and ticks are pruned. giftcard_update_counters defines each.
create table public.giftcard_counters (
  name text collate "C" not null,
  stage text collate "C" not null default '',
  label text collate "C" not null default '',
  value double precision not null default 0,
  constraint giftcard_counters_pkey primary key (name, stage, label)
);

comment on table public.giftcard_counters is
  'Counters for metrics: runs by stage and result, seconds, start delays, ticks. Kept when history is pruned.';

-- How far history and ticks are counted.
create table public.giftcard_counter_watermarks (
  source text collate "C" not null,
  until timestamptz not null default '-infinity',
  constraint giftcard_counter_watermarks_pkey primary key (source)
);

comment on table public.giftcard_counter_watermarks is
  'Up to which time history and ticks are counted in giftcard_counters.';

insert into public.giftcard_counter_watermarks (source) values ('history'), ('ticks');

create index giftcard_ticks_ended on public.giftcard_ticks (ended_at) where ended_at is not null;

-- Add to counters: [{name, stage, label, value}].
create function public.giftcard_increment_counters(p_counters jsonb) returns void
language sql volatile security invoker set search_path = '' as $$
  insert into public.giftcard_counters (name, stage, label, value)
  select s.name, coalesce(s.stage, ''), coalesce(s.label, ''), s.value
    from jsonb_to_recordset(p_counters) as s(name text, stage text, label text, value double precision)
   order by s.name, s.stage, s.label
  on conflict (name, stage, label) do update set value = giftcard_counters.value + excluded.value
$$;

-- Count what has ended since the last call, except for the last ten seconds, so that no transaction about to commit is
-- skipped. At most p_limit rows of each kind a call; the rest is counted by the next. Of two calls at once, one counts.
create function public.giftcard_update_counters(
  p_limit integer default 20000, p_now timestamptz default null) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_settled timestamptz := coalesce(p_now, clock_timestamp()) - interval '10 seconds';
  v_from timestamptz;
  v_to timestamptz;
begin
  select until into v_from from public.giftcard_counter_watermarks where source = 'history' for update skip locked;
  if not found then
    return;
  end if;
  -- All rows of the last instant are counted: the next call begins after it.
  select max(finished_at) into v_to from (
    select finished_at from public.giftcard_job_history where finished_at > v_from and finished_at <= v_settled
      order by finished_at limit p_limit) h;
  if v_to is not null then
    perform public.giftcard_increment_counters(jsonb_agg(to_jsonb(s))) from (
      with h as (
        select stage, result, extract(epoch from finished_at - started_at) as seconds,
               case when result <> 'RELEASED' and isfinite(scheduled_at) and started_at >= scheduled_at
                    then extract(epoch from started_at - scheduled_at) end as delay
          from public.giftcard_job_history where finished_at > v_from and finished_at <= v_to)
      select 'runs' as name, stage, result as label, count(*) as value from h group by stage, result
      union all
      select 'run_seconds', stage, result, sum(seconds) from h group by stage, result
      union all
      select 'start_delays', stage, b.le, count(*) from h
       cross join (values ('1', 1.0), ('2', 2), ('5', 5), ('15', 15), ('60', 60), ('120', 120), ('300', 300),
                   ('1800', 1800), ('+Inf', 'infinity'::double precision)) as b(le, most)
       where delay <= b.most::double precision group by stage, b.le
      union all
      select 'start_delay_seconds', stage, '', sum(delay) from h where delay is not null group by stage) s;
    update public.giftcard_counter_watermarks set until = v_to where source = 'history';
  end if;
  select until into v_from from public.giftcard_counter_watermarks where source = 'ticks' for update;
  select max(ended_at) into v_to from (
    select ended_at from public.giftcard_ticks
      where ended_at is not null and ended_at > v_from and ended_at <= v_settled order by ended_at limit p_limit) t;
  if v_to is not null then
    perform public.giftcard_increment_counters(jsonb_agg(to_jsonb(s))) from (
      with t as (select * from public.giftcard_ticks
                 where ended_at is not null and ended_at > v_from and ended_at <= v_to)
      select 'ticks' as name, '' as stage, stopped_because as label, count(*) as value from t group by stopped_because
      union all
      select 'tick_seconds', '', '', sum(extract(epoch from ended_at - started_at)) from t having count(*) > 0
      union all
      select 'leases_lost', '', '', sum(lease_lost) from t having count(*) > 0
      union all
      select 'interrupted', '', '', sum(interrupted) from t having count(*) > 0) s;
    update public.giftcard_counter_watermarks set until = v_to where source = 'ticks';
  end if;
end $$;

-- Return all that a scrape shows: {counters: [{name, stage, label, value}], jobs: [{stage, status, jobs}] of those that
-- have not ended well (each counted up to 100,000), due: {stage: seconds its oldest due job waits}, dead: {stage:
-- seconds since its oldest died}, circuits: [{stage, state, circuits}], tick: {age, seconds, gap} of the newest ticks}.
create function public.giftcard_metrics(p_stages jsonb default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off
set enable_bitmapscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  perform public.giftcard_update_counters(20000, p_now);
  return jsonb_build_object(
    'counters', (select coalesce(jsonb_agg(to_jsonb(s) order by s.name, s.stage, s.label), '[]')
               from (select * from public.giftcard_counters order by name, stage, label limit 10000) s),
    'jobs', (select coalesce(jsonb_agg(to_jsonb(c)), '[]') from public.giftcard_open_counts(100000) c),
    'due', (select coalesce(jsonb_object_agg(d.stage, d.seconds), '{}') from (
              select h.stage, extract(epoch from v_now - min(h.head_at)) as seconds
                from public.giftcard_queue_heads(p_stages, v_now) h
               where h.head_at <= v_now and isfinite(h.head_at) group by h.stage order by h.stage limit 1000) d),
    'dead', (select coalesce(jsonb_object_agg(d.stage, d.seconds), '{}') from (
              select c.stage, (
                select extract(epoch from v_now - j.finished_at) from public.giftcard_jobs j
                 where j.status = 'error' and j.stage = c.stage and j.finished_at is not null
                   order by j.finished_at, j.id limit 1) as seconds
                from public.giftcard_dead_stages() c) d where d.seconds is not null),
    'circuits', (select coalesce(jsonb_agg(to_jsonb(k)), '[]') from (
              select public.giftcard_stage_of(circuit) as stage, state, count(*) as circuits
                from (select circuit, state from public.giftcard_circuits where failures > 0 or state <> 'closed'
                      order by circuit limit 10000) t
               where state <> 'closed' group by 1, 2 order by 1, 2) k),
    'tick', (select jsonb_build_object(
                 'age', extract(epoch from v_now - max(n.started_at)), 'gap', extract(epoch from max(n.gap)),
                 'seconds', (select extract(epoch from e.ended_at - e.started_at) from public.giftcard_ticks e
                              where e.ended_at is not null order by e.ended_at desc limit 1))
               from (select started_at, started_at - lag(started_at) over (order by id) as gap
                       from (select id, started_at from public.giftcard_ticks order by id desc limit 20) l) n));
end $$;

-- Return the stages that have dead letters: one index probe per stage, whatever their number.
create function public.giftcard_dead_stages() returns table (stage text)
language sql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
  with recursive dead as (
    (select j.stage from public.giftcard_jobs j where j.status = 'error' order by j.status, j.stage limit 1)
    union all
    select n.stage from dead d cross join lateral (
      select j.stage from public.giftcard_jobs j where j.status = 'error' and j.stage > d.stage
        order by j.status, j.stage limit 1) n)
  select d.stage from dead d order by d.stage limit 1000
$$;

-- Count jobs that are queued, running or dead, by stage and status, each up to p_cap.
create function public.giftcard_open_counts(p_cap integer) returns table (stage text, status text, jobs bigint)
language sql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
  with counts as (
    select d.stage, 'error' as status, n.jobs from public.giftcard_dead_stages() d cross join lateral (
      select count(*) as jobs from (
        select from public.giftcard_jobs j where j.status = 'error' and j.stage = d.stage limit p_cap) c) n
    union all
    select h.stage, 'queued', n.jobs from public.giftcard_queue_heads('{}', clock_timestamp()) h cross join lateral (
      select count(*) as jobs from (select from public.giftcard_jobs j
                                    where j.status = 'queued' and j.circuit = h.circuit limit p_cap) c) n
    union all
    select r.stage, 'running', count(*) from (select j.stage from public.giftcard_jobs j where j.status = 'running'
                                              limit p_cap) r group by r.stage)
  select c.stage, c.status, least(sum(c.jobs), p_cap)::bigint from counts c group by c.stage, c.status
    order by c.stage, c.status limit 1000
$$;
-- Alerts: operators are notified of a condition once when it begins and once when it is over. Each notification is
-- stored, because ticks have no memory.

create table public.giftcard_alerts (
  condition text collate "C" not null,
  since timestamptz not null,
  detail jsonb not null default '{}',
  notified_at timestamptz,
  notified_through timestamptz,
  resolved_at timestamptz,
  sending_until timestamptz,
  constraint giftcard_alerts_pkey primary key (condition)
);

comment on table public.giftcard_alerts is
  'One row is one condition that was found. It is deleted once its end was notified.';
comment on column public.giftcard_alerts.condition is
  'dead_letters, circuit:<name>, no_tick, late:<stage>, paid_without_card, limit.';
comment on column public.giftcard_alerts.notified_at is 'When operators were last notified of it. null: not yet.';
comment on column public.giftcard_alerts.notified_through is 'dead_letters: when the newest of those notified died.';
comment on column public.giftcard_alerts.resolved_at is
  'When it was over; the notification of that is still to be sent.';
comment on column public.giftcard_alerts.sending_until is
  'A tick is sending the notification. After this time another one tries.';

-- Return the conditions that hold now: (condition, since, detail). p_stages: as in giftcard_status; p_late: how long a
-- due job may wait.
create function public.giftcard_active_conditions(p_stages jsonb, p_late interval, p_now timestamptz)
returns table (condition text, since timestamptz, detail jsonb)
language sql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
  select t.* from (
    -- Occurrences of recurring schedules are not counted: the next one comes anyway.
    (select 'dead_letters', min(d.oldest), jsonb_build_object('jobs', sum(d.jobs), 'stages', jsonb_agg(d.stage),
                                                              'newest', max(d.newest))
       from (select c.stage, count(*) as jobs, min(e.finished_at) as oldest, max(e.finished_at) as newest
               from public.giftcard_dead_stages() c cross join lateral (
                 select j.finished_at from public.giftcard_jobs j
                  where j.status = 'error' and j.stage = c.stage and j.trigger_type <> 'schedule'
                    and j.finished_at <= p_now - interval '5 minutes'
                  order by j.finished_at desc limit 1000) e
              group by c.stage) d having count(*) > 0)
    union all
    (select 'circuit:' || c.circuit, c.changed_at,
     jsonb_build_object('circuit', c.circuit, 'open_until', c.open_until, 'cause', (
         select h.cause from public.giftcard_circuit_changes h where h.circuit = c.circuit order by h.id desc limit 1))
       from public.giftcard_circuits c where (c.failures > 0 or c.state <> 'closed') and c.state <> 'closed'
         order by c.circuit limit 100)
    union all
    -- Found by the tick that follows, and by a status request while there is none.
    (select 'no_tick', g.began, jsonb_build_object('seconds', round(extract(epoch from g.ended - g.began)))
       from (select n.started_at as began, coalesce(lead(n.started_at) over (order by n.id), p_now) as ended
               from (select id, started_at from public.giftcard_ticks order by id desc limit 20) n) g
      where g.ended - g.began > interval '3 minutes' and g.ended > p_now - interval '5 minutes' order by g.began desc
        limit 1)
    union all
    (select 'late:' || h.stage, min(h.head_at),
     jsonb_build_object('stage', h.stage, 'seconds', round(extract(epoch from p_now - min(h.head_at))))
       from public.giftcard_queue_heads(p_stages, p_now) h
      where h.availability <> 'parked' and isfinite(h.head_at) and h.head_at <= p_now - p_late group by h.stage
        order by h.stage limit 100)
    union all
    (select 'paid_without_card', min(p.paid_at), jsonb_build_object('orders', count(*), 'first', min(p.correlation_id))
       from public.giftcard_paid_without_card(100) p
         where p.paid_at <= p_now - interval '5 minutes' having count(*) > 0)
    union all
    (select 'limit', min(k.started_at), jsonb_build_object('ticks', count(*), 'stopped_because', max(k.stopped_because))
       from (select x.started_at, x.stopped_because from public.giftcard_ticks x
             where x.source = 'cron' and x.ended_at is not null order by x.id desc limit 10) k
     having count(*) = 10 and bool_and(k.stopped_because in ('limit', 'budget')) and exists (
         select from public.giftcard_queue_heads(p_stages, p_now) h
           where h.availability = 'ready' and h.head_at <= p_now))) as t(condition, since, detail)
   order by t.condition limit 1000
$$;

-- Compare the active conditions with those notified, and return the notifications to send now: [{condition, kind:
-- 'raised'|'repeated'|'resolved', since, detail}]. Of two ticks at once one gets them, for a minute: unless
-- giftcard_record_notifications confirms them, the next check returns them again. Dead letters: only those not notified
-- yet, at most once an hour; again after p_repeat_hours while any is left.
create function public.giftcard_check_alerts(
  p_stages jsonb, p_late_seconds double precision default 900, p_repeat_hours double precision default 24,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_conditions text[];
  v_due jsonb;
begin
  perform pg_advisory_xact_lock(hashtextextended('giftcard alerts', 0));
  with found as (
    insert into public.giftcard_alerts (condition, since, detail)
    select t.condition, t.since, t.detail from public.giftcard_active_conditions(p_stages,
      make_interval(secs => p_late_seconds), v_now) t
    on conflict (condition) do update set detail = excluded.detail, resolved_at = null
    returning condition)
  select coalesce(array_agg(condition), '{}') into v_conditions from found;
  -- What ended before it was notified needs no notification.
  delete from public.giftcard_alerts where notified_at is null and condition <> all (v_conditions);
  update public.giftcard_alerts set resolved_at = v_now where resolved_at is null and condition <> all (v_conditions);
  with due as (
    update public.giftcard_alerts a set sending_until = v_now + interval '1 minute'
     where (a.sending_until is null or a.sending_until <= v_now)
       and (a.notified_at is null or a.resolved_at is not null
            or a.notified_at <= v_now - make_interval(secs => p_repeat_hours * 3600)
            or a.condition = 'dead_letters' and a.notified_at <= v_now - interval '1 hour'
            and (a.detail ->> 'newest')::timestamptz > a.notified_through)
    returning a.*)
  select coalesce(jsonb_agg(jsonb_build_object(
      'condition', d.condition, 'since', d.since, 'detail', d.detail,
      'kind', case when d.resolved_at is not null then 'resolved' when d.notified_at is null then 'raised'
                   else 'repeated' end) order by d.condition), '[]')
    into v_due from due d;
  return v_due;
end $$;

-- Record that operators were notified of these, as giftcard_check_alerts returned them. Resolved conditions are
-- deleted.
create function public.giftcard_record_notifications(p_notified jsonb, p_now timestamptz default null) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
begin
  delete from public.giftcard_alerts a
   using jsonb_array_elements(p_notified) t where a.condition = t ->> 'condition' and t ->> 'kind' = 'resolved'
       and a.resolved_at is not null;
  update public.giftcard_alerts a
     set notified_at = coalesce(p_now, clock_timestamp()), notified_through = (t -> 'detail' ->> 'newest')::timestamptz,
         sending_until = null
    from jsonb_array_elements(p_notified) t where a.condition = t ->> 'condition' and t ->> 'kind' <> 'resolved';
end $$;

-- Return the conditions found and not over: [{condition, since, notified_at, detail}].
create function public.giftcard_active_alerts() returns jsonb
language sql stable security invoker set search_path = '' as $$
  select coalesce(jsonb_agg(jsonb_build_object('condition', condition, 'since', since, 'notified_at', notified_at,
                                               'detail', detail) order by since), '[]')
    from (select * from public.giftcard_alerts where resolved_at is null order by since limit 200) a
$$;
-- Doctor: facts about the database, which lib's doctor judges. Each is bounded, so that a status may ask at any time.

-- Return privileges on our objects of Supabase's web roles or of everyone, and tables without row level security.
create function public.giftcard_excess_privileges(
  p_limit integer default 20) returns table (name text, kind text, granted_to text)
language sql stable security invoker set search_path = '' as $$
  with everybody as (
    select 0::oid as id, 'public' as who union all select oid, rolname from pg_roles
      where rolname in ('anon', 'authenticated')), ours as (
    select c.oid, c.relname, c.relkind, c.relowner, c.relacl, c.relrowsecurity from pg_class c
     where c.relnamespace = 'public'::regnamespace and c.relname like 'giftcard\_%'
       and c.relkind in ('r', 'p', 'v', 'm', 'S')), grants as (
    select o.relname as name, case o.relkind when 'S' then 'sequence' else 'table' end as kind, a.grantee
      from ours o cross join aclexplode(coalesce(o.relacl,
                                                 acldefault(case o.relkind when 'S' then 's'::"char" else 'r' end,
                                                            o.relowner))) a
    union all
    select o.relname, 'table', a.grantee
      from ours o join pg_attribute t on t.attrelid = o.oid and t.attacl is not null cross join aclexplode(t.attacl) a
    union all
    select p.proname, 'function', a.grantee
      from pg_proc p cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
     where p.pronamespace = 'public'::regnamespace and p.proname like 'giftcard\_%'), excess as (
    select distinct g.name, g.kind, e.who from grants g join everybody e on e.id = g.grantee
    union all
    select o.relname, 'table', 'every role with a grant: row level security is off' from ours o
      where o.relkind in ('r', 'p') and not o.relrowsecurity)
  select d.name::text, d.kind, string_agg(d.who, ', ' order by d.who) from excess d group by d.name, d.kind
    order by d.kind, d.name limit least(p_limit, 1000)
$$;

-- Return the facts that the doctor judges. p_stages: as in giftcard_status. Ages are seconds before p_now. A role sees
-- only its own sessions' transactions, unless it may read all statistics (`sees_all`); prepared statements are those
-- that psycopg has made in this session.
create function public.giftcard_doctor(p_stages jsonb default null, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  return jsonb_build_object(
    'clock', extract(epoch from clock_timestamp()),
    'schema', public.giftcard_schema_version(),
    'hides_rows', row_security_active('public.giftcard_jobs'),
    'excess_privileges', (select coalesce(jsonb_agg(to_jsonb(d)), '[]') from public.giftcard_excess_privileges() d),
    -- Ticks of the clock, the newest first.
    'ticks', (select coalesce(jsonb_agg(jsonb_build_object(
          'age', extract(epoch from v_now - t.started_at), 'ended_age', extract(epoch from v_now - t.ended_at),
          'killed', t.ended_at is null and t.live_until <= v_now, 'stopped_because', t.stopped_because)
              order by t.id desc), '[]')
        from (select * from (select * from public.giftcard_ticks order by id desc limit 200) n where n.source = 'cron'
              order by n.id desc limit 20) t),
    -- Stages with queued jobs; due: a tick that began now could start one.
    'queued', (select coalesce(jsonb_object_agg(q.stage, q.due), '{}') from (
          select h.stage, bool_or(h.availability in ('ready', 'probing') and h.head_at <= v_now) as due
            from public.giftcard_queue_heads(p_stages, v_now) h group by h.stage order by h.stage limit 200) q),
    'paused', (select coalesce(jsonb_agg(s.stage order by s.stage), '[]')
        from (select stage from public.giftcard_stages where paused_at is not null order by stage limit 200) s),
    -- The newest and the oldest card.
    'cards', (select coalesce(jsonb_agg(jsonb_build_object('encrypted', c.number_encrypted, 'hash', c.number_hash)
                                        order by c.id desc), '[]')
        from ((select * from public.giftcard_cards order by id desc limit 1)
              union (select * from public.giftcard_cards order by id limit 1)) c),
    'sees_all', pg_has_role('pg_read_all_stats', 'usage'),
    'oldest_transaction', (select jsonb_build_object('age', extract(epoch from v_now - o.began), 'pid', o.pid,
                                                     'application', o.application)
        from (select a.xact_start as began, a.pid, a.application_name as application from pg_stat_activity a
               where a.datname = current_database() and a.backend_type = 'client backend' and a.pid <> pg_backend_pid()
                 and a.xact_start is not null
               order by a.xact_start limit 1) o),
    'dead_rows', pg_stat_get_dead_tuples('public.giftcard_jobs'::regclass),
    'prepared_statements', (select count(*) from pg_prepared_statements where name like '\_pg3\_%'));
end $$;
-- pgmq import: messages of pgmq queues (Supabase Queues) become jobs. A tick reads messages, prepares a job of each as
-- it prepares every job, and imports them. A message that was read and not imported is visible again after a minute.

-- Return the text under a key of a message if it can name something: 1 to 200 characters, no control characters, no
-- surrounding spaces; else null.
create function public.giftcard_message_field(p_message jsonb, p_key text) returns text
language sql immutable security invoker set search_path = '' as $$
  select case when jsonb_typeof(p_message -> p_key) = 'string' and p_message ->> p_key ~ '^[^[:cntrl:]]{1,200}$'
                   and p_message ->> p_key = btrim(p_message ->> p_key) then p_message ->> p_key end
$$;

-- Return the job of a message: {tenant_id, correlation_id, dedup_key, payload_json}, with `error` if it cannot be one.
-- tenant_id, correlation_id and dedup_key are those of the message; everything else is the payload. A message without a
-- correlation id is a flow of its own, named by its queue, its number and the time it was sent, because numbers start
-- again when a queue is created again. The payload is text: Python may not read every number that Postgres stores.
create function public.giftcard_message_job(p_queue text, p_msg_id bigint, p_sent_at timestamptz, p_message jsonb)
returns jsonb language sql stable security invoker set search_path = '' as $$
  select jsonb_build_object(
           'tenant_id', m.tenant_id, 'correlation_id', coalesce(m.flow, format('pgmq:%s:%s', p_queue, p_msg_id)),
           'dedup_key', coalesce(m.dedup_key, case when m.flow is null then extract(epoch from p_sent_at)::text end),
           'payload_json', case when m.is_object then (p_message - array_remove(array[
               case when m.tenant_id is not null then 'tenant_id' end,
               case when m.flow is not null then 'correlation_id' end,
               case when m.dedup_key is not null then 'dedup_key' end], null))::text else p_message::text end)
         || case when m.is_object then '{}'::jsonb
                 else jsonb_build_object('error', 'the message is not a JSON object') end
    from (select public.giftcard_message_field(p_message, 'tenant_id') as tenant_id,
                 public.giftcard_message_field(p_message, 'correlation_id') as flow,
                 public.giftcard_message_field(p_message, 'dedup_key') as dedup_key,
                 coalesce(jsonb_typeof(p_message) = 'object', false) as is_object) m
$$;

-- Read up to p_limit messages of a queue, which no one else reads for a minute: in steps of 1, 2, 4 … 64, until they
-- come to 2 MB. `more`: there may be more. With a p_limit of 0, only check that they can be read and archived.
create function public.giftcard_read_pgmq_queue(p_queue text, p_limit integer) returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_messages jsonb := '[]'::jsonb;
  v_bytes bigint := 0::bigint;
  v_step integer := 1;
  v_count integer := 0;
  v_read integer;
  r record;
begin
  if to_regclass('pgmq.meta') is null then
    perform public.giftcard_refuse('GC404',
      'there is no pgmq in this database: create extension pgmq, or remove the queue from GIFTCARD_PGMQ_QUEUES');
  elsif not exists (select from pgmq.meta where queue_name = p_queue) then
    perform public.giftcard_refuse('GC404',
      format('pgmq has no queue %s: create it with select pgmq.create(%L)', p_queue, p_queue));
  elsif p_limit <= 0 then
    perform pgmq.read(p_queue, 60, 0), pgmq.archive(p_queue, '{}'::bigint[]);
  end if;
  while v_count < p_limit and v_bytes < 2000000 loop
    v_read := 0;
    for r in select m.msg_id, m.enqueued_at, m.message
               from pgmq.read(p_queue, 60, least(v_step, p_limit - v_count)) m order by m.msg_id loop
      v_messages := v_messages || jsonb_build_object(
        'msg_id', r.msg_id, 'sent_at', extract(epoch from r.enqueued_at)::text,
        'job', public.giftcard_message_job(p_queue, r.msg_id, r.enqueued_at, r.message));
      v_bytes := v_bytes + coalesce(octet_length(r.message::text), 0);
      v_read := v_read + 1;
    end loop;
    v_count := v_count + v_read;
    exit when v_read < least(v_step, p_limit - v_count + v_read);
    v_step := least(2 * v_step, 64);
  end loop;
  return jsonb_build_object('messages', v_messages, 'more', v_count < p_limit and v_bytes >= 2000000);
end $$;

-- Read up to p_limit messages of each queue, at most 1,000 (0: only check). Return, by queue, {messages: [{msg_id,
-- sent_at, job}], more}, or {problem} for a queue that cannot be read; the others are read all the same.
create function public.giftcard_read_pgmq(p_queues text[], p_limit integer) returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_read jsonb := '{}'::jsonb;
  v_queue text;
begin
  foreach v_queue in array p_queues loop
    begin
      v_read := v_read || jsonb_build_object(v_queue,
        public.giftcard_read_pgmq_queue(v_queue, least(greatest(p_limit, 0), 1000)));
    exception when others then
      v_read := v_read || jsonb_build_object(v_queue, jsonb_build_object('problem', sqlerrm));
    end;
  end loop;
  return v_read;
end $$;

-- Enqueue the job of one message. A message that cannot be a job becomes a dead letter, with its text. Return moved,
-- repeated (the job was there already) or refused. p_item: {msg_id, sent_at, job}; job as giftcard_enqueue takes it,
-- its payload as an object or, as it was read, in payload_json.
create function public.giftcard_import_pgmq_message(p_queue text, p_item jsonb, p_now timestamptz) returns text
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_row jsonb := (p_item -> 'job') - '{payload_json,error}'::text[];
  v_payload text := p_item #>> '{job,payload_json}';
  v_job json;
begin
  if p_item -> 'job' ? 'error' then
    perform public.giftcard_refuse('GC400', p_item #>> '{job,error}');
  elsif not v_row ? 'payload' then
    v_row := v_row || jsonb_build_object('payload', v_payload::jsonb);
  end if;
  v_job := public.giftcard_enqueue(jsonb_build_array(v_row || '{"trigger_type": "pgmq"}'), false, p_now) -> 0;
  return case when (v_job ->> 'created')::boolean then 'moved' else 'repeated' end;
-- Only what is wrong with the message itself: a database that is out of space refuses no message for good.
exception when data_exception or integrity_constraint_violation or program_limit_exceeded or sqlstate 'GC400' then
  insert into public.giftcard_jobs
    (tenant_id, correlation_id, stage, dedup_key, trigger_type, status, payload, last_error, scheduled_at, created_at,
     updated_at, finished_at)
  values (coalesce(v_row ->> 'tenant_id', 'default'), format('pgmq:%s:%s', p_queue, p_item ->> 'msg_id'),
          v_row ->> 'stage', p_item ->> 'sent_at', 'pgmq', 'error',
          jsonb_build_object('message', left(v_payload, 10000)),
          left('PermanentError: ' || sqlerrm, 500), v_now, v_now, v_now, v_now)
  on conflict on constraint giftcard_jobs_flow_key do nothing;
  return 'refused';
end $$;

-- Import what was read of a queue: in this transaction the messages are archived and their jobs enqueued, or neither.
-- A message that someone else has archived meanwhile is passed over.
create function public.giftcard_import_pgmq_queue(p_queue text, p_items jsonb, p_now timestamptz) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_counts jsonb := '{"moved": 0, "repeated": 0, "refused": 0}'::jsonb;
  v_archived bigint[];
  v_outcome text;
  v_item jsonb;
begin
  v_archived := array(select pgmq.archive(p_queue, array(
    select (i ->> 'msg_id')::bigint from jsonb_array_elements(p_items) i)));
  for v_item in
    select i from jsonb_array_elements(p_items) with ordinality x(i, n)
     where (i ->> 'msg_id')::bigint = any (v_archived) order by n
  loop
    v_outcome := public.giftcard_import_pgmq_message(p_queue, v_item, p_now);
    v_counts := v_counts || jsonb_build_object(v_outcome, (v_counts ->> v_outcome)::integer + 1);
  end loop;
  return v_counts;
end $$;

-- Import messages that giftcard_read_pgmq returned: {queue: [{msg_id, sent_at, job}]}. Return, by queue, {moved,
-- repeated, refused}, with `problem` for a queue that failed: nothing of it was imported, and the others were.
create function public.giftcard_import_pgmq(p_batches jsonb, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off as $$
declare
  v_imported jsonb := '{}'::jsonb;
  b record;
begin
  if jsonb_typeof(p_batches) is distinct from 'object' then
    perform public.giftcard_refuse('GC400', 'p_batches must be an object of queues and their messages', 'p_batches');
  end if;
  for b in select e.key as queue, e.value as items from jsonb_each(p_batches) e order by e.key limit 100 loop
    begin
      v_imported := v_imported || jsonb_build_object(b.queue,
        public.giftcard_import_pgmq_queue(b.queue, b.items, p_now));
    exception when others then
      v_imported := v_imported || jsonb_build_object(b.queue,
        jsonb_build_object('moved', 0, 'repeated', 0, 'refused', 0, 'problem', sqlerrm));
    end;
  end loop;
  return v_imported;
end $$;
-- Supabase Cron as the clock, for platforms without cron by the minute: pg_cron runs each minute, pg_net calls the cron
-- endpoint, Vault keeps the secret. None of the three is needed before these functions are called.

-- Start the clock, or change what it calls: the deployment's address and its CRON_SECRET. A second job deletes
-- pg_cron's records of both; pg_net deletes its responses by itself (after 6 hours). pg_net makes one batch of calls
-- after the other, so it must not wait for a long tick: it gives up after 5 s, and the tick goes on without it.
create function public.giftcard_start_clock(p_url text, p_secret text) returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_url text := rtrim(p_url, '/');
  v_extension text;
  v_schema text;
  v_secret_id uuid;
begin
  if v_url is null
      or v_url !~ '^(https://[A-Za-z0-9.-]+|http://(localhost|127\.0\.0\.1|host\.docker\.internal))(:[0-9]{1,5})?$' then
    perform public.giftcard_refuse('GC400',
      'p_url must be the address of the deployment and nothing else, like https://your-project.vercel.app',
      'p_url');
  elsif p_secret is null or p_secret !~ '^[!-~]+$' then
    perform public.giftcard_refuse(
      'GC400', 'p_secret must be the deployment''s CRON_SECRET, without blanks inside', 'p_secret');
  end if;
  for v_extension, v_schema in
    select e.name, e.its_schema from (values
        (1, 'cron', 'pg_cron', 'pg_catalog'),
        (2, 'net', 'pg_net', 'extensions'),
        (3, 'vault', 'supabase_vault', null)) e(n, provides, name, its_schema)
     where to_regnamespace(e.provides) is null order by e.n limit 3
  loop
    begin
      execute format('create extension %I', v_extension) || coalesce(' with schema ' || quote_ident(v_schema), '');
    exception when others then
      perform public.giftcard_refuse(
        'GC409', format('the extension %s is not enabled and cannot be from here: %s', v_extension, sqlerrm));
    end;
  end loop;
  select s.id into v_secret_id from vault.secrets s where s.name = 'giftcard_cron_secret';
  if v_secret_id is null then
    perform vault.create_secret(p_secret, 'giftcard_cron_secret', 'CRON_SECRET of the gift-card jobs, for their clock');
  else
    perform vault.update_secret(v_secret_id, p_secret);
  end if;
  perform cron.schedule('giftcard-jobs', '* * * * *', format(
    'select net.http_post(url := %L, timeout_milliseconds := 5000, headers := '
    'jsonb_build_object(''Authorization'', ''Bearer '' || '
    '(select decrypted_secret from vault.decrypted_secrets where name = ''giftcard_cron_secret'')))', v_url
        || '/api/cron/giftcard-jobs'));
  perform cron.schedule('giftcard-jobs-prune', '7 3 * * *',
    'delete from cron.job_run_details where start_time < now() - interval ''2 days'' and jobid in '
    '(select jobid from cron.job where jobname in (''giftcard-jobs'', ''giftcard-jobs-prune''))');
  return jsonb_build_object(
    'clock', 'giftcard-jobs', 'schedule', '* * * * *', 'calls', v_url || '/api/cron/giftcard-jobs');
end $$;

-- Remove what giftcard_start_clock has set up, and only that: the extensions may have other users. With p_dry_run only
-- count it.
create function public.giftcard_stop_clock(p_dry_run boolean default false) returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_jobs bigint[] := '{}'::bigint[];
begin
  if to_regnamespace('cron') is not null then
    v_jobs := array(select j.jobid from cron.job j where j.jobname in ('giftcard-jobs', 'giftcard-jobs-prune'));
  end if;
  if not p_dry_run and cardinality(v_jobs) > 0 then
    perform cron.unschedule(j) from unnest(v_jobs) j;
    delete from cron.job_run_details where jobid = any (v_jobs);
  end if;
  if not p_dry_run and to_regnamespace('vault') is not null then
    delete from vault.secrets where name = 'giftcard_cron_secret';
  end if;
  return jsonb_build_object('dry_run', p_dry_run, 'jobs', cardinality(v_jobs));
end $$;
-- Grants: all to the service role, none to any other. Supabase grants new tables and functions to its web roles by
-- default, so each is revoked by name. A later migration repeats this for what it adds; a test reads the catalog.

do $$
declare
  v_object record;
  v_web_roles text := (select string_agg(quote_ident(rolname), ', ') from pg_roles
                       where rolname in ('anon', 'authenticated'));
  v_service boolean := exists (select from pg_roles where rolname = 'service_role');
begin
  for v_object in
    select c.oid::regclass as name from pg_class c
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'S') and c.relname like 'giftcard\_%'
  loop
    if (select relkind from pg_class where oid = v_object.name) = 'r' then
      execute format('alter table %s enable row level security', v_object.name);
      execute format('revoke all on table %s from public%s', v_object.name, coalesce(', ' || v_web_roles, ''));
      if v_service then
        execute format('grant select, insert, update, delete on table %s to service_role', v_object.name);
      end if;
    else
      execute format('revoke all on sequence %s from public%s', v_object.name, coalesce(', ' || v_web_roles, ''));
      if v_service then
        execute format('grant usage, select on sequence %s to service_role', v_object.name);
      end if;
    end if;
  end loop;
  for v_object in
    select p.oid::regprocedure as name from pg_proc p
      where p.pronamespace = 'public'::regnamespace and p.proname like 'giftcard\_%'
  loop
    execute format('revoke all on function %s from public%s', v_object.name, coalesce(', ' || v_web_roles, ''));
    if v_service then
      execute format('grant execute on function %s to service_role', v_object.name);
    end if;
  end loop;
end $$;

-- PostgREST reloads the schema at once, even where no event trigger of Supabase notifies it.
notify pgrst, 'reload schema';

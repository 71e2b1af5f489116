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
--   giftcard_wakes                  when a tick was last called between two calls of the clock, and is next: one row
--   giftcard_faulty_rows            a row that work has failed on, alone, and why
--   giftcard_limits                 a limit of runs or starts above the settings' defaults
--   giftcard_slots                  a place of a limit of runs, and the lease that has it
--   giftcard_rates                  where the rate of a key stands
--   giftcard_turns                  which tenant had the last turn of a circuit; and where a walk through circuits is
--   giftcard_maintenance_tasks      a task that ticks run at an interval, after their jobs
--   giftcard_operations             what an operator does to many jobs, and how far it is
--   giftcard_prune_cursors          how far pruning has scanned a table
--   giftcard_settle_functions       a function of yours that a stage may call as its job is settled
--   giftcard_batches                jobs that end together, and the follow-up of their end
--   giftcard_effects                an external effect: the intent before it, the result after it
--   giftcard_orders                 an order as it was taken in: amount, currency, recipient
--   giftcard_customers              a customer and their personal code
--   giftcard_payments               a payment at a provider, what it is worth now, and the order that it pays
--   giftcard_payment_events         a movement of a payment's money: captured, refunded, voided, disputed
--   giftcard_cards                  the card of an order
--   giftcard_accepted_differences   a difference between money and cards that an operator has accepted
--   giftcard_audit                  an act of an operator; rows are only added
--   giftcard_schedules              a schedule: each occurrence is a job; Python computes the times
--   giftcard_reports                the report of one tenant's day
--   giftcard_webhook_endpoints      an address that receives a tenant's events: webhooks are jobs, enqueued by a settle
--   giftcard_inbound_events         an event received from a vendor, never removed
--   giftcard_tokens                 a token of the API: its hash, tenant and scopes
--   giftcard_denied_requests        wrong tokens and signatures from the addresses of one hash
--   giftcard_counters, giftcard_counter_watermarks           totals for metrics, and how far they are counted
--   giftcard_run_minutes, giftcard_run_hours                 how many runs ended lately, with what result, how fast
--   giftcard_start_minutes          how many runs began lately, and how long after their time
--   giftcard_alerts                 a condition that operators are or were notified of
--   giftcard_alert_notifications    what was sent of a condition to one channel
--
-- States of a job                   transition            functions
--   - → queued                      enqueue               giftcard_enqueue, giftcard_submit_order, a plain INSERT
--   - → queued                      occurrence            giftcard_enqueue_occurrences → giftcard_apply_plans
--   - → queued | error              pgmq import           giftcard_import_pgmq → …_queue, giftcard_import_message
--   queued → running                claim: attempts + 1, a new lease                     giftcard_claim_for,
--                                                         giftcard_step → giftcard_settle_and_claim
--   running → completed             settle                giftcard_settle → giftcard_settle_completed,
--                                                         giftcard_step → giftcard_settle_and_claim
--   running → queued | error | cancelled    settle        giftcard_settle → giftcard_settle_unfinished
--   running → running               take over an ended lease                             giftcard_take_over
--   error → queued                  revive, once revive_at has come                      giftcard_revive
--   error, cancelled, completed → queued    requeue       giftcard_requeue, giftcard_requeue_jobs,
--                                                         giftcard_requeue_dead_letters, giftcard_step_operation
--   queued, error → cancelled       cancel (running: the request is recorded)            giftcard_cancel,
--                                                         giftcard_cancel_flow, giftcard_step_operation
--   ended → archived                prune                 giftcard_prune → giftcard_prune_jobs
--   archived → ended                restore               giftcard_restore_job
--
-- Who calls whom, in a tick
--   giftcard_begin_tick             check versions, record the tick, revive, claim
--     giftcard_claim → giftcard_claim_for
--   giftcard_step                   when all results are complete: settle and claim in one statement, then
--                                   giftcard_after_step; giftcard_advance_tick for what is left
--   giftcard_advance_tick           settle, claim, end the tick
--     giftcard_settle               → …_completed, …_unfinished, giftcard_enqueue_next, giftcard_enqueue_webhooks,
--                                   giftcard_end_batches, giftcard_count_results (circuits)
--     giftcard_claim_for            → giftcard_scan_queues (→ giftcard_queue_heads), giftcard_pick_probes,
--                                   giftcard_pick_jobs (→ giftcard_pick_carefully), giftcard_mark_claimed
--                                   (→ giftcard_take_over), giftcard_claimed_jobs, giftcard_next_due;
--                                   among many circuits giftcard_pick_on_walk (→ giftcard_find_ready)
--   giftcard_settle_with_call       one job that calls a function of yours → giftcard_lock_lease,
--                                   giftcard_call_function, giftcard_settle
--   After a call that has failed    the same, one by one: giftcard_settle_each, giftcard_claim_each,
--                                   giftcard_mark_each, giftcard_revive_each, giftcard_apply_plan,
--                                   and giftcard_recover_row after a jump of the clock;
--                                   a row at fault is put aside: giftcard_put_aside, giftcard_record_fault
-- Limits                            giftcard_set_limit, giftcard_remove_limit, giftcard_list_limits; those that have
--                                   ended leave with giftcard_prune
--
-- Money and cards: what an order costs is fixed in giftcard_orders; foreign keys tie its payment and its card to that
-- amount; a payment's worth is the sum of its events.
--   what providers report           giftcard_record_payment_event → (trigger) giftcard_value_payment
--                                   → giftcard_enqueue_block
--   what vendors send               giftcard_receive_event → giftcard_apply_action → giftcard_record_movements,
--                                   giftcard_update_card
--   the payment of an order         giftcard_find_offered_payment (with Square), giftcard_record_payment
--                                   → giftcard_check_acceptable
--   its card                        giftcard_record_card → (trigger) giftcard_link_card → giftcard_enqueue_block
--   what does not match             giftcard_reconcile
--   what operators decide           giftcard_make_free_of_charge, giftcard_correct_recipient, giftcard_request_block,
--                                   giftcard_accept_difference, giftcard_record_order_event, giftcard_resend_mail
--   what operators look up          giftcard_find_orders → giftcard_order_matches; giftcard_order_story
--
-- Ciphertexts (card numbers, in giftcard_cards and in the results of effects; webhook secrets) name the key that they
-- are under: giftcard_key_id. Another key takes over: giftcard_list_ciphertexts, giftcard_replace_ciphertexts.
--
-- The fence: a settle counts only while status = 'running' and lease_id is the one presented. An operator's UPDATE that
-- takes a job out of 'running' therefore wins over the worker that still holds the lease.
--
-- Order of locks: claim key, vendor's card (advisory) → schedule rows (SKIP LOCKED) → operation → customer → job rows
-- by id → order → payment → card → rows that jobs enqueue, by their keys → batch rows by id, each with its follow-up →
-- rates by key → circuit rows by name → tick row. What locks several rows of one kind locks them in that order,
-- whatever the order of its arguments. A claim takes jobs, circuits, slots, rates and turns with SKIP LOCKED only, and
-- so does what takes a job while it holds books: it never waits, so it cannot break the order.
--
-- The clock is the database's. Every function that depends on time takes p_now (null: clock_timestamp()), which tests
-- set. Refusals have SQLSTATEs of their own: GC400 bad argument, GC404 not found, GC409 not in this state, GC410 lease
-- lost, GC422 same key with other content, GC426 code and schema do not fit.
--
-- The linter of migrations passes over what cannot matter here, in an empty database. Nothing is locked that anyone
-- waits for: no timeouts. Integers of 32 bits are bounded by checks, or are seconds and bytes. The constraints of the
-- domains are as old as their columns. Later migrations have no such line.
-- squawk-ignore-file require-lock-timeout, require-statement-timeout
-- squawk-ignore-file prefer-bigint-over-int, prefer-bigint-over-smallint, ban-create-domain-with-constraint

do $$
begin
  if getdatabaseencoding() <> 'UTF8' then
    raise exception 'this database has the encoding %, which cannot hold each name: nothing was changed',
      getdatabaseencoding()
      using errcode = 'GC409',
            hint = 'Create one of UTF8: CREATE DATABASE giftcards TEMPLATE template0 ENCODING ''UTF8''.';
  end if;
  if to_regclass('public.giftcard_jobs') is not null then
    raise exception 'public.giftcard_jobs exists already and is not ours: nothing was changed'
      using errcode = 'GC409',
            hint = 'Rename that table (ALTER TABLE public.giftcard_jobs RENAME TO giftcard_jobs_old), migrate again, '
                   'then copy its open rows with INSERT (correlation_id, stage, payload).';
  end if;
end $$;
-- Answers: what others wrote as JSON, in a form that every client reads, and never more than fits one answer.

-- Return why JSON parsers may fail on a value: deep nesting, or a number beyond what a double holds. null: they do not.
create function public.giftcard_unreadable(p_value jsonb) returns text
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return case when octet_length(p_value::text) < 200 then null
              when p_value @? '$.**{100}' then 'nested more than 100 levels'
              when p_value @? '$.**{0 to 100} ? (@.abs() >= 1e308)' then 'a number of more than 308 digits' end;
end $$;

-- Return a value as an answer may hold it: itself, or {unreadable: the reason, bytes, text: its first characters} for
-- one that parsers may fail on or that has more than p_most bytes. Long text is cut. The first characters never end in
-- half of an address or of a card number, which could not be masked.
create function public.giftcard_readable(p_value jsonb, p_most integer default 3300000) returns jsonb
language plpgsql immutable security invoker set search_path = '' as $$
declare
  v_reason text := public.giftcard_unreadable(p_value);
  v_text text := p_value::text;
  v_bytes integer := octet_length(v_text);
begin
  if v_reason is null and v_bytes <= p_most then
    return p_value;
  end if;
  v_text := left(case jsonb_typeof(p_value) when 'string' then p_value #>> '{}' else v_text end, 200);
  v_text := regexp_replace(regexp_replace(v_text, '[^\s",:]*@[^\s",:]*$', ''), '(^|[^0-9])([0-9][ -]?){1,18}$', '\1');
  if jsonb_typeof(p_value) = 'string' then
    return to_jsonb(format('%s… (%s bytes)', v_text, v_bytes));
  end if;
  return jsonb_build_object('unreadable', coalesce(v_reason, 'too large'), 'bytes', v_bytes, 'text', v_text);
end $$;

-- Return a row as an answer may hold it: each of its values readable; if it has more than p_most bytes, its large
-- values cut.
create function public.giftcard_readable_row(p_row jsonb, p_most integer default 3300000) returns jsonb
language plpgsql immutable security invoker set search_path = '' as $$
declare
  v_is_long boolean := octet_length(p_row::text) > p_most;
begin
  if not v_is_long and public.giftcard_unreadable(p_row) is null then
    return p_row;
  end if;
  return (select jsonb_object_agg(m.key, public.giftcard_readable(m.value,
                                                                  case when v_is_long then p_most / 50 else p_most end))
            from jsonb_each(p_row) m);
end $$;

-- Return whether a page ends before the next row: it has p_limit rows, or with this row p_bytes, more than one answer
-- holds. Vercel allows 4.5 MB; masking makes a row longer by a third at most. A page has one row at least.
create function public.giftcard_page_ends(p_rows integer, p_limit integer, p_bytes integer) returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return p_rows >= p_limit or p_rows > 0 and p_bytes > 3300000;
end $$;

-- Return the milliseconds between two times; null: one of them is not finite.
create function public.giftcard_milliseconds(p_from timestamptz, p_to timestamptz) returns numeric
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return case when isfinite(p_from) and isfinite(p_to)
              then round((extract(epoch from p_to) - extract(epoch from p_from)) * 1000) end;
end $$;

-- Return a time as sentences have it, in UTC and to the second, as lib/cli/tables.py writes it: 2026-01-31 12:00:00Z.
create function public.giftcard_time_text(p_time timestamptz) returns text
language plpgsql stable security invoker set search_path = '' as $$
begin
  return case when isfinite(p_time) then to_char(p_time at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS"Z"')
              else p_time::text end;
end $$;
-- The kind of an error: giftcard_jobs keeps it beside the text, so that equal errors are found and acted on together.

-- Return what kind of error a text is: without what differs from job to job. Addresses, URLs, hosts, ids, times,
-- numbers and quoted values become [email], [url], [host], [id], [time], [n] and "…". The codes of HTTP, SMTP and SQL
-- stay: they are the kind. Names of fields (customer.email) stay: a host has a port or a usual top-level domain. A kind
-- is one line, without blanks around it, as a filter takes it.
create function public.giftcard_error_kind(p_error text) returns text
language plpgsql immutable security invoker set search_path = '' as $$
declare
  v_text text := regexp_replace(
    left(p_error, 500),
    '[[:cntrl:][:space:]\u0080-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+', ' ', 'g');
  -- What stands before the code of an answer, as in: answered 410, responded with 503, status=404, HTTP/1.1 502.
  v_before constant text := '\m(answered|responded|status|code|http(/\d(\.\d)?)?)( with)?';
  v_rule text[];
begin
  foreach v_rule slice 1 in array array[
    ['[^\s"<>]+@[^\s"<>]+', '[email]'],
    ['\m[a-z][a-z0-9+.-]*://[^\s"''<>,;)]*', '[url]'],
    ['"[^"]*"|“[^”]*”|«[^»]*»|`[^`]*`', '"…"'],
    ['(^|[\s(=:,\[])''[^'']*''', '\1"…"'],
    ['\m\d{4}-\d\d-\d\d([t ]\d\d:\d\d(:\d\d(\.\d+)?)?(z|[+-]\d\d(:?\d\d)?)?)?', '[time]'],
    ['\m\d\d:\d\d(:\d\d(\.\d+)?)?z?\M', '[time]'],
    ['\m\d{1,3}(\.\d{1,3}){3}(:\d+)?\M', '[host]'],
    ['\[[0-9a-f:.]*:[0-9a-f:.]*\](:\d+)?|\m[0-9a-f]{1,4}(:[0-9a-f]{0,4}){2,7}', '[host]'],
    ['\m(?!' || v_before || ':[1-5]\d\d\M)[a-z0-9]([a-z0-9._-]*[a-z0-9])?:\d{2,5}\M', '[host]'],
    ['\m([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+(com|net|org|io|dev|app|cloud|shop|eu|de|uk|example|test|local|localhost|'
     || 'internal|invalid)\M', '[host]'],
    ['\m([a-z0-9]([a-z0-9-]*[a-z0-9])?\.){2,}(?!id\M)[a-z]{2}\M', '[host]'],
    ['(?<![\w-])\d+([.,]\d+)*(ms|s|min|h|d|kb|mb)\M(?!-)', '[n]'],
    ['(?<!(http|smtp|sqlstate|status) )\m(?=[\w-]*[a-z])[\w-]*\d[\w-]*\M', '[id]'],
    ['(?<!(http|smtp|sqlstate|status) )(?!(?<=' || v_before || '[ =:]{1,2})[1-5]\d\d\M)\m\d+([.,]\d+)*\M', '[n]']] loop
    v_text := regexp_replace(v_text, v_rule[1], v_rule[2], 'gi');
  end loop;
  return coalesce(nullif(rtrim(left(btrim(v_text), 200)), ''), 'no error text');
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
create domain public.giftcard_priority as smallint
  constraint giftcard_jobs_priority_is_between_minus_10_and_10 check (value between -10 and 10);
create domain public.giftcard_delays as double precision[] constraint giftcard_jobs_retry_delays_are_positive check (
  value is null
  or array_ndims(value) = 1 and array_position(value, null) is null and 0 <= all (value) and 86400 >= all (value));
create domain public.giftcard_source as text
  constraint giftcard_jobs_source_is_known check (value in ('app', 'pgmq', 'sql'));
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
  source public.giftcard_source not null default 'sql',
  status text collate "C" not null default 'queued',
  payload public.giftcard_object not null default '{}',
  context public.giftcard_object not null default '{}',
  attempts public.giftcard_attempts not null default 0,
  max_attempts public.giftcard_max_attempts,
  run_no public.giftcard_runs not null default 0,
  semantics public.giftcard_job_semantics not null default 'at_least_once',
  ttr_seconds public.giftcard_ttr,
  retry_delays public.giftcard_delays,
  priority public.giftcard_priority not null default 0,
  concurrency_key text collate "C",
  batch_id bigint,
  scheduled_at timestamptz not null default now(),
  locked_at timestamptz,
  lock_owner text,
  lease_id uuid,
  lease_expires_at timestamptz,
  cancel_requested_at timestamptz,
  revive_at timestamptz,
  revivals public.giftcard_attempts not null default 0,
  last_error text,
  error_kind text generated always as (
    case when last_error is not null then public.giftcard_error_kind(last_error) end) stored,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now(),
  finished_at timestamptz,
  constraint giftcard_jobs_pkey primary key (id),
  constraint giftcard_jobs_flow_key unique (tenant_id, correlation_id, stage, dedup_key),
  constraint giftcard_jobs_status_is_known check (status in ('queued', 'running', 'completed', 'error', 'cancelled')),
  constraint giftcard_jobs_ids_are_not_empty check (tenant_id <> '' and correlation_id <> '' and stage <> ''),
  constraint giftcard_jobs_circuit_belongs_to_stage check (circuit = stage or starts_with(circuit, stage || ':'))
) with (
  -- Room for the versions of a claim and a settle on the page of their job: they write less to the log there, and take
  -- the place of the first, so that the table grows by a tenth only. The next jobs go to new pages.
  fillfactor = 70,
  -- Each job leaves two dead versions behind: vacuum by number, not by a share of a table that only grows.
  autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 10000,
  autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000
);

comment on table public.giftcard_jobs is
  'One row is one piece of work of one stage. A plain INSERT (correlation_id, stage, payload) is a valid job.';
comment on column public.giftcard_jobs.circuit is
  'The circuit breaker of the job: the stage''s name, or stage:<something> for one per endpoint or host.';
comment on column public.giftcard_jobs.source is
  'Where its payload comes from: app (API, commands, schedules that they made), pgmq (a message), sql (a plain INSERT '
  'or UPDATE). Next jobs have that of their flow: 19_sources.sql.';
comment on column public.giftcard_jobs.attempts is
  'Attempts of the present round, counted at the claim; revival and requeue set it to 0.';
comment on column public.giftcard_jobs.max_attempts is 'null: the policy of its stage.';
comment on column public.giftcard_jobs.run_no is 'All runs for ever; never set back.';
comment on column public.giftcard_jobs.ttr_seconds is 'Time to run of one attempt; null: that of its stage.';
comment on column public.giftcard_jobs.retry_delays is 'Seconds after attempt 1, 2, …; null: the policy of its stage.';
comment on column public.giftcard_jobs.priority is
  '10 to -10: of the due jobs of a circuit, those with the highest start first; 0 is normal.';
comment on column public.giftcard_jobs.concurrency_key is
  'Of the jobs of a tenant that share it, one runs at a time (or as many as giftcard_limits allows); null: no limit.';
comment on column public.giftcard_jobs.batch_id is
  'Its batch; once the last job of a batch has ended, the batch''s follow-up is enqueued.';
comment on column public.giftcard_jobs.error_kind is
  'The kind of last_error (giftcard_error_kind), whatever set that. Postgres makes it anew only where last_error is '
  'set. A role that inserts jobs needs EXECUTE on that function.';
comment on column public.giftcard_jobs.lease_id is
  'The right to settle the present run: the key of the claim that took it. Not tied to the status: what an '
  'operator''s UPDATE leaves in it has no effect.';
comment on column public.giftcard_jobs.cancel_requested_at is
  'A cancel of the present run was requested: if it completes, that still counts.';

-- The claim's index: the oldest due job of each lane, which is a circuit with a priority. A query uses it only if it
-- spells out status = 'queued'. Minus, so that the highest priority of a circuit comes first while all columns ascend.
-- No two entries are equal, as they end with the id: Postgres need not look for equal ones before it splits a page.
create index giftcard_jobs_queued on public.giftcard_jobs (circuit, (-priority), scheduled_at, id)
    with (deduplicate_items = off) where status = 'queued';
-- The same by tenant, for tenants that take turns.
create index giftcard_jobs_queued_by_tenant on public.giftcard_jobs (
    circuit, (-priority), tenant_id, scheduled_at, id) with (deduplicate_items = off) where status = 'queued';
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
  frames jsonb,
  constraint giftcard_job_history_pkey primary key (job_id, run_no)
) with (autovacuum_vacuum_insert_scale_factor = 0, autovacuum_vacuum_insert_threshold = 50000);

comment on table public.giftcard_job_history is
  'One row is one run of a job; written when it is settled. No foreign key: it outlives the job.';
comment on column public.giftcard_job_history.detail is
  'What the handler kept of this run: the status and the beginning of a vendor''s response.';
comment on column public.giftcard_job_history.frames is
  'Where it failed: file, line and function of each frame, the causes first; null: it did not, or that was expected.';
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

-- Refuse a payload that JSON parsers may fail on (see giftcard_unreadable), of a job or a schedule: no operator could
-- read the row. Or one that is so large that a claim of it takes longer than a call may. A trigger, not a check: it
-- runs when a payload is written, not at each change of state. Its condition looks at the length first: that is cheap,
-- and no short text is nested so deeply or holds such a number. The names of the constraints begin with that of the
-- table: giftcard_jobs_payload_is_not_too_deep.
create function public.giftcard_refuse_unreadable_payload() returns trigger
language plpgsql security invoker set search_path = '' as $$
declare
  v_row text := case tg_table_name when 'giftcard_jobs' then 'job ' else 'schedule ' end || new.id;
begin
  if octet_length(new.payload::text) > 8000000 then
    raise exception 'the payload of % has more than 8,000,000 bytes', v_row
      using errcode = '23514', constraint = tg_table_name || '_payload_is_not_too_large', table = tg_table_name;
  elsif new.payload @? '$.**{100}' then
    raise exception 'the payload of % is nested too deeply: 100 levels are allowed', v_row
      using errcode = '23514', constraint = tg_table_name || '_payload_is_not_too_deep', table = tg_table_name;
  end if;
  raise exception 'the payload of % has a number that is too long: 308 digits are allowed', v_row
    using errcode = '23514', constraint = tg_table_name || '_payload_numbers_are_short', table = tg_table_name;
end $$;

create trigger giftcard_jobs_payload_is_readable before insert on public.giftcard_jobs
  for each row when (octet_length(new.payload::text) >= 200 and (
    octet_length(new.payload::text) > 8000000 or new.payload @? '$.**{100}'
    or new.payload @? '$.**{0 to 100} ? (@.abs() >= 1e308)'))
  execute function public.giftcard_refuse_unreadable_payload();

-- After, not before: a trigger before an update locks each row again, even where the payload is not set.
create trigger giftcard_jobs_new_payload_is_readable after update of payload on public.giftcard_jobs
  for each row when (octet_length(new.payload::text) >= 200 and (
    octet_length(new.payload::text) > 8000000 or new.payload @? '$.**{100}'
    or new.payload @? '$.**{0 to 100} ? (@.abs() >= 1e308)')
    and new.payload is distinct from old.payload)
  execute function public.giftcard_refuse_unreadable_payload();

-- Give a dead letter that is inserted without finished_at the time of now: alerts, metrics and requeues by age read it.
create function public.giftcard_fill_finished_at() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  new.finished_at := clock_timestamp();
  return new;
end $$;

create trigger giftcard_jobs_fill_finished_at before insert on public.giftcard_jobs
  for each row when (new.status = 'error' and new.finished_at is null)
  execute function public.giftcard_fill_finished_at();

-- Complete what an operator's UPDATE leaves out: the time of a dead letter, as above, and the line in the history of a
-- run that it takes away from its worker, whose settle no longer counts. An UPDATE that makes it running again gives it
-- back: the settle will write the line. Claim and settle change lease_id and set finished_at, so the trigger's
-- condition is false for them. There is one condition, and it is short, because Postgres reads it anew in every
-- statement that sets a status.
create function public.giftcard_complete_change_by_hand() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  if new.status = 'error' and new.finished_at is null then
    -- An update of its own: a trigger before the update would lock each row again.
    update public.giftcard_jobs set finished_at = clock_timestamp()
     where id = new.id and status = 'error' and finished_at is null;
  end if;
  if new.lease_id is null or new.lease_id is distinct from old.lease_id then
    return null;
  elsif new.status = 'running' then
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

create trigger giftcard_jobs_complete_change_by_hand after update of status, finished_at on public.giftcard_jobs
  for each row when (new.lease_id = old.lease_id or new.status = 'error' and new.finished_at is null)
  execute function public.giftcard_complete_change_by_hand();
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
  check (value in ('limit', 'drained', 'budget', 'shutdown', 'paused', 'duplicate', 'failed'));

-- Where a tick stands in the queue of a circuit: after this job, the last one it took. null: at the head. lanes: minus
-- the priorities of the due jobs, the highest priority first. plain: only the time of its jobs matters, neither
-- priorities nor tenants, keys or limits; null: not known yet.
create type public.giftcard_cursor as (
  circuit text, lanes smallint[], plain boolean, scheduled_at timestamptz, id bigint);

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
  error text,
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
  tenant_weights jsonb not null default '{}',
  revives boolean not null default true,
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
comment on column public.giftcard_ticks.error is 'Why it failed; stopped_because is failed then.';
comment on column public.giftcard_ticks.key is 'Made by the caller: a repeated begin finds its tick by it.';
comment on column public.giftcard_ticks.stages is
  'Stages that this code can run, with the time to run of each in seconds: {"email": 60}.';
comment on column public.giftcard_ticks.limits is
  'What the settings allow each stage in the whole fleet: {"payment": {"runs": 2, "per_second": 10, "burst": 20}}.';
comment on column public.giftcard_ticks.tenant_weights is
  'How many jobs a tenant gets where another gets one, while tenants take turns: {"acme": 3}.';
comment on column public.giftcard_ticks.revives is 'Whether it revives dead letters: a setting may forbid it.';
comment on column public.giftcard_ticks.scanned_at is
  'When it last scanned all queues; for a second it continues from its cursors.';
comment on column public.giftcard_ticks.cursors is
  'Circuits whose queues had more at the last claim, in their turn, and where the tick stands in each.';
comment on column public.giftcard_ticks.served is
  'Jobs started so far by circuit: the circuit with the fewest is served first.';

-- Return whether a tick ended well: it is over, did not fail, and was not a second delivery, which does no work.
create function public.giftcard_ended_well(p_ended_at timestamptz, p_stopped_because text) returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return p_ended_at is not null and p_stopped_because not in ('failed', 'duplicate');
end $$;

-- Return the newest pause between ticks that ended well, of the newest 200: from the end of one (or the start of the
-- first tick of all) to the end of the next, or p_now; null without a tick. silent: it is longer than three minutes,
-- and than a tick may live here. error: that of the newest tick, if it failed. A time ahead of p_now counts for
-- nothing: it was written while a clock went wrong.
create function public.giftcard_newest_silence(
  p_now timestamptz, out began timestamptz, out ended timestamptz, out silent boolean, out error text)
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  with seen as (
    select t.* from (select * from public.giftcard_ticks order by id desc limit 200) t
     where t.started_at between '2000-01-01' and p_now and coalesce(t.ended_at, p_now) between t.started_at and p_now),
  moments as (
    select min(s.started_at) as at from seen s
    union all
    select s.ended_at from seen s where public.giftcard_ended_well(s.ended_at, s.stopped_because)),
  gaps as (
    select m.at as began, coalesce(lead(m.at) over (order by m.at), p_now) as ended from moments m
     where m.at is not null),
  newest as (select s.* from seen s order by s.id desc limit 1)
  select g.began, g.ended, n.error, g.ended - g.began > greatest(interval '3 minutes', interval '1 minute' + least(
           case when isfinite(n.live_until) then n.live_until - n.started_at end, interval '1 hour'))
    into began, ended, error, silent
    from gaps g left join newest n on true
   order by g.ended - g.began > interval '3 minutes' and g.ended > p_now - interval '5 minutes' desc, g.began desc
   limit 1;
end $$;
-- Wakes: calls of the cron endpoint between two calls of the clock, so that a job need not wait for the minute. One row
-- decides for the whole fleet: at most one wake a second and twenty a minute, and none while a tick waits for jobs.

create table public.giftcard_wakes (
  id integer not null default 1,
  url text,
  secret_name text,
  started_at timestamptz,
  due_at timestamptz,
  sent_at timestamptz,
  minute timestamptz,
  in_minute integer not null default 0,
  sent bigint not null default 0,
  lost bigint not null default 0,
  held_back bigint not null default 0,
  failed bigint not null default 0,
  failed_at timestamptz,
  error text,
  constraint giftcard_wakes_pkey primary key (id),
  constraint giftcard_wakes_has_one_row check (id = 1)
) with (fillfactor = 50);
insert into public.giftcard_wakes (id) values (1);

comment on table public.giftcard_wakes is
  'One row: when the fleet was last woken, when it is to be woken next, and how often.';
comment on column public.giftcard_wakes.url is
  'What pg_net calls (giftcard_start_waking); null: the database itself wakes no tick.';
comment on column public.giftcard_wakes.secret_name is 'The name of the secret in Vault that is CRON_SECRET.';
comment on column public.giftcard_wakes.due_at is 'When the database wakes the next tick, if none waits for jobs then.';
comment on column public.giftcard_wakes.in_minute is 'Wakes in the minute `minute`.';
comment on column public.giftcard_wakes.lost is 'Wakes that no tick followed within ten seconds.';
comment on column public.giftcard_wakes.held_back is 'Wakes that the limit of a minute put off.';
comment on column public.giftcard_wakes.failed is 'Wakes that could not be sent, the last one for the reason `error`.';

-- What a tick states about waking when it begins: {"mode": "url" or "pg_net", "ticks": how many may run side by side,
-- "seconds": how long it starts jobs and waits for them, "limit": how many it starts}. null: waking is off.
alter table public.giftcard_ticks add column wake jsonb;
comment on column public.giftcard_ticks.wake is
  'How long it waits for jobs and how many it starts, by which a wake is spared; null: waking is off.';

-- Return how many live ticks start jobs: within their time, and below their limit. Of the newest 200: a fleet may have
-- a hundred (GIFTCARD_FLEET_TICKS). One whose row makes no sense does not count.
create function public.giftcard_waiting_ticks(p_now timestamptz) returns integer
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    select count(*)::integer from (
      select ended_at, live_until, only_stage, only_job_id, started, started_at, wake
        from public.giftcard_ticks order by id desc limit 200) t
     where t.ended_at is null and t.live_until > p_now and t.wake is not null
       and t.only_stage is null and t.only_job_id is null
       and t.started < public.giftcard_limit_number(t.wake, 'limit', 1e9)
       and t.started_at + interval '1 second' * public.giftcard_limit_number(t.wake, 'seconds', 86400)::float8 > p_now);
end $$;

-- Return whether the application has woken a tick less than a second ago: a job that comes now cannot wake, and would
-- wait for the clock, unless a tick stays for it. Where the database wakes, that wake is planned. A time far ahead of
-- p_now was written while a clock went wrong.
create function public.giftcard_is_woken_just_now(p_now timestamptz) returns boolean
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return exists (
    select from public.giftcard_wakes
     where id = 1 and url is null and sent_at > p_now - interval '1 second'
       and sent_at < p_now + interval '10 seconds');
end $$;

-- Return whether a tick without work is to wait for the next job: because wakes are so frequent (ten in this minute)
-- that waiting costs less, or because the last one was just now.
create function public.giftcard_is_woken_often(p_now timestamptz) returns boolean
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return public.giftcard_is_woken_just_now(p_now) or exists (
    select from public.giftcard_wakes
     where id = 1 and minute = date_trunc('minute', p_now) and in_minute >= 10);
end $$;

-- Plan the next wake by the database, unless an earlier one is planned. p_replaces: by a tick that ends, which knows
-- when the next job is due (null: none waits). Never waits for a lock.
create function public.giftcard_plan_wake(
  p_due_at timestamptz, p_now timestamptz, p_replaces boolean default false, p_held_back boolean default false)
returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  update public.giftcard_wakes
     set due_at = p_due_at, held_back = held_back + p_held_back::integer
   where id = any (array(
     select w.id from public.giftcard_wakes w
      where w.id = 1 and (w.url is not null or p_held_back) and w.due_at is distinct from p_due_at
        and (p_replaces or w.due_at is null or w.due_at > p_due_at or w.due_at <= p_now)
        for update skip locked));
end $$;

-- Decide whether to wake a tick now: true for one caller a second, if fewer than p_ticks ticks wait for jobs, the
-- minute's wakes are not used up and not everything is paused. The caller then sends the wake. p_catches_up: it is a
-- tick that leaves work, so that the next one has some in any case, and no limit of a minute. Waits for no lock. A
-- time far ahead of p_now was written while a clock went wrong, and holds nothing up; one just ahead is that of another
-- caller of this moment.
create function public.giftcard_take_wake(
  p_ticks integer default 1, p_catches_up boolean default false, p_now timestamptz default null) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_minute timestamptz := date_trunc('minute', v_now);
  w public.giftcard_wakes;
begin
  select * into w from public.giftcard_wakes where id = 1;
  if not found or exists (select from public.giftcard_stages where stage = '*' and paused_at is not null)
     or public.giftcard_waiting_ticks(v_now) >= p_ticks then
    return false;
  elsif w.minute = v_minute and w.in_minute >= 20 and not p_catches_up then
    perform public.giftcard_plan_wake(v_minute + interval '1 minute', v_now, false, true);
    return false;
  elsif w.sent_at > v_now - interval '1 second' and w.sent_at < v_now + interval '10 seconds' then
    perform public.giftcard_plan_wake(w.sent_at + interval '1 second', v_now);
    return false;
  end if;
  update public.giftcard_wakes k
     set sent_at = v_now, due_at = null, sent = k.sent + 1, minute = v_minute,
         in_minute = case when k.minute = v_minute then k.in_minute else 0 end + 1,
         lost = k.lost + public.giftcard_is_wake_lost(k.sent_at, v_now)::integer
   where k.id = any (array(
     select f.id from public.giftcard_wakes f
      where f.id = 1 and f.sent_at is not distinct from w.sent_at for update skip locked));
  return found;
end $$;

-- Return whether no tick has followed a wake of that time, of the newest 200. A wake has ten seconds.
create function public.giftcard_is_wake_lost(p_sent_at timestamptz, p_now timestamptz) returns boolean
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return coalesce(p_sent_at < p_now - interval '10 seconds', false) and not exists (
    select from (select source, started_at from public.giftcard_ticks order by id desc limit 200) t
     where t.source = 'wake' and t.started_at between p_sent_at and p_sent_at + interval '10 seconds');
end $$;
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
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_changed bigint;
begin
  insert into public.giftcard_circuit_changes (circuit, from_state, to_state, changed_at, cause, job_id)
  select p_circuit, state, p_to, p_now, p_cause, p_job_id from public.giftcard_circuits where circuit = p_circuit;
  update public.giftcard_circuits
     set state = p_to, failures = 0, changed_at = p_now, open_until = p_open_until, probe_job_id = null,
         probe_lease_id = null
   where circuit = p_circuit;
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, 1);
end $$;

-- Count one result for its circuit. Closed: a failure adds one and the threshold opens it; a success sets the count to
-- 0; runs claimed before the last change do not count. Open or half-open: only the probe's result counts. Return the
-- new state; null: unchanged. The caller holds the circuit's row.
create function public.giftcard_count_result(
  p_circuit text, p_job_id bigint, p_lease_id uuid, p_claimed_at timestamptz, p_threshold integer,
  p_cooldown_seconds double precision,
  p_cause text, p_now timestamptz) returns text
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
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
  elsif v_failed and c.failures >= p_threshold - 1 then
    perform public.giftcard_change_circuit(
      p_circuit, 'open', format('%s failures in a row, the last: %s', c.failures::bigint + 1, p_cause), p_job_id,
      v_until, p_now);
    return 'open';
  end if;
  update public.giftcard_circuits set failures = case when v_failed then least(failures, 1000000) + 1 else 0 end
    where circuit = p_circuit;
  return null;
end $$;

-- Count settled results for their circuits, in the order given. Circuits that neither fail now nor have failed are not
-- touched. Return the circuits that opened and closed.
create function public.giftcard_count_results(
  p_results jsonb, p_ids bigint[], p_cooldown_seconds double precision, p_now timestamptz,
  out opened text[], out closed text[])
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_generic_plan set jit = off as $$
declare
  v_state text;
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
    if r.trips is not null then
      insert into public.giftcard_circuits (circuit) values (r.circuit) on conflict (circuit) do nothing;
    end if;
    perform 1 from public.giftcard_circuits where circuit = r.circuit for update;
    if found then
      v_state := public.giftcard_count_result(r.circuit, r.id, r.lease_id, r.locked_at, r.trips, p_cooldown_seconds,
                                              coalesce(r.error, ''), p_now);
    end if;
    opened := case when v_state = 'open' then opened || r.circuit else opened end;
    closed := case when v_state = 'closed' then closed || r.circuit else closed end;
    v_state := null;
  end loop;
end $$;

-- Close a circuit by hand. p_reason: why, for the audit. Return {circuit, was, state}. GC404 for one that has never
-- failed.
create function public.giftcard_reset_circuit(
  p_circuit text, p_reason text default null, p_by text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_state text;
  v_failures integer;
begin
  select state, failures into v_state, v_failures from public.giftcard_circuits where circuit = p_circuit for update;
  if not found then
    perform public.giftcard_refuse(
      'GC404', format('circuit %s has never failed: there is nothing to reset', p_circuit), 'circuit');
  elsif v_state <> 'closed' then
    perform public.giftcard_change_circuit(
      p_circuit, 'closed', 'reset by ' || public.giftcard_actor(p_by), null, null, v_now);
  else
    update public.giftcard_circuits set failures = 0 where circuit = p_circuit;
  end if;
  if v_state <> 'closed' or v_failures > 0 then
    perform public.giftcard_record_act(
      p_by, null, 'reset_circuit', 'circuit ' || p_circuit,
      jsonb_build_object('was', v_state, 'reason', p_reason), v_now);
  end if;
  return jsonb_build_object('circuit', p_circuit, 'was', v_state, 'state', 'closed');
end $$;

-- Close a circuit of a stage whose threshold is 0. Return whether it was not closed. The caller holds its row.
create function public.giftcard_close_circuit(p_circuit text, p_now timestamptz) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  update public.giftcard_circuits set failures = 0 where circuit = p_circuit and state = 'closed';
  if found then
    return false;
  end if;
  perform public.giftcard_change_circuit(p_circuit, 'closed', 'its threshold is 0', null, null, p_now);
  return true;
end $$;

-- Close a circuit, unless that fails.
create function public.giftcard_try_close_circuit(p_circuit text, p_now timestamptz) returns boolean
language plpgsql volatile security invoker set search_path = '' as $$
begin
  return public.giftcard_close_circuit(p_circuit, p_now);
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  perform public.giftcard_record_fault(
    'circuit', p_circuit, public.giftcard_error_text(sqlstate, sqlerrm), p_now);
  return false;
end $$;

-- Close the circuits of stages whose threshold is 0, which have none: an open or half-open one at once, and failures
-- that were counted are forgotten. At most 1,000 a call; one that another transaction holds is left to the next call.
-- p_guarded: a circuit that cannot be closed is recorded and stays. Return the names of those that were not closed.
create function public.giftcard_close_circuits_of(
  p_stages text[], p_guarded boolean default false, p_now timestamptz default null) returns text[]
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_closed text[] := '{}'::text[];
  c record;
begin
  if coalesce(cardinality(p_stages), 0) = 0 then
    return v_closed;
  end if;
  for c in
    select circuit, state from public.giftcard_circuits
     where (failures > 0 or state <> 'closed') and public.giftcard_stage_of(circuit) = any (p_stages)
     order by circuit limit 1000 for update skip locked
  loop
    if p_guarded and public.giftcard_try_close_circuit(c.circuit, v_now)
       or not p_guarded and public.giftcard_close_circuit(c.circuit, v_now) then
      v_closed := v_closed || c.circuit;
    end if;
  end loop;
  return v_closed;
end $$;
-- Limits: how many runs at once, and how many starts a second, for a stage, a circuit, a tenant in a stage, or a
-- concurrency key. The settings hold the defaults of stages, which each tick brings; rows here override them without a
-- deployment.

create table public.giftcard_limits (
  kind text collate "C" not null,
  name text collate "C" not null,
  tenant_id text collate "C" not null default '',
  runs integer,
  per_second double precision,
  burst integer,
  set_by text,
  reason text,
  until timestamptz,
  updated_at timestamptz not null default now(),
  constraint giftcard_limits_pkey primary key (kind, name, tenant_id),
  constraint giftcard_limits_kind_is_known check (kind in ('stage', 'circuit', 'tenant', 'key')),
  constraint giftcard_limits_tenant_fits_kind check (name <> '' and (tenant_id <> '') = (kind in ('tenant', 'key'))),
  constraint giftcard_limits_runs_are_counted check (runs between 0 and 10000),
  constraint giftcard_limits_rate_is_positive check (per_second between 0.0001 and 10000),
  constraint giftcard_limits_burst_is_positive check (
    burst is null or burst between 1 and 100000 and per_second is not null),
  constraint giftcard_limits_limit_something check (runs is not null or per_second is not null)
);
-- As giftcard_list_limits lists them.
create index giftcard_limits_listed on public.giftcard_limits
    (kind, (case kind when 'key' then md5(name) else name end), tenant_id);

comment on table public.giftcard_limits is
  'A limit that overrides the settings, until its end. A plain INSERT (kind, name, runs) is a valid one.';
comment on column public.giftcard_limits.kind is
  'stage, circuit: name is that; tenant: name is the stage, tenant_id the tenant, or * for each tenant; key: name is '
  'the concurrency key of tenant_id''s jobs.';
comment on column public.giftcard_limits.runs is
  'The most runs at once in the whole fleet; 0: none start. null: the default.';
comment on column public.giftcard_limits.per_second is
  'Starts a second; burst: the most at once (default: those of a second).';
comment on column public.giftcard_limits.until is 'When the limit ends by itself; null: never.';

-- A place of a limited key: taken while its job runs under that lease, then free. Nothing is given back that could be
-- lost: places of killed functions are free when their leases end.
create table public.giftcard_slots (
  key text collate "C" not null,
  n integer not null,
  job_id bigint,
  lease_id uuid,
  constraint giftcard_slots_pkey primary key (key, n)
) with (fillfactor = 50);

comment on table public.giftcard_slots is
  'A place of a limit of runs: key is "stage payment", "circuit http_call:api.example.com", "tenant email acme" or '
  '"key acme customer-7".';

-- Rates: GCRA with one row a key. full_at: when its burst is whole again if nothing starts meanwhile.
create table public.giftcard_rates (
  key text collate "C" not null,
  full_at timestamptz not null default '-infinity',
  held_until timestamptz not null default '-infinity',
  constraint giftcard_rates_pkey primary key (key)
) with (fillfactor = 50);

comment on column public.giftcard_rates.held_until is
  'Nothing starts before: the other side asked for it (Retry-After).';

-- Where tenants take turns: the tenant that had the last turn of a circuit, and how many jobs in a row.
create table public.giftcard_turns (
  circuit text collate "C" not null,
  tenant_id text collate "C" not null,
  taken integer not null,
  constraint giftcard_turns_pkey primary key (circuit)
) with (fillfactor = 50);

-- Forget the slots of a limit that is set, changed or removed: the next claim that it holds adds them, with the runs
-- that began without it.
create function public.giftcard_forget_slots() returns trigger
language plpgsql security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  l public.giftcard_limits := coalesce(new, old);
begin
  delete from public.giftcard_slots where key = public.giftcard_limit_key(l.kind, l.name, l.tenant_id);
  return null;
end $$;

create trigger giftcard_limits_forget_slots after insert or update of runs or delete on public.giftcard_limits
  for each row execute function public.giftcard_forget_slots();

-- Of the runs of a concurrency key. Holds only jobs that have one.
create index giftcard_jobs_running_keys on public.giftcard_jobs (tenant_id, concurrency_key)
    where status = 'running' and concurrency_key is not null;
-- The queues that have such jobs: giftcard_step leaves them to the careful way.
create index giftcard_jobs_queued_keys on public.giftcard_jobs (circuit)
    where status = 'queued' and concurrency_key is not null;

-- Return the key of a limit, as in giftcard_slots and giftcard_rates. A tenant with a space in its name shares no key
-- with another.
create function public.giftcard_limit_key(p_kind text, p_name text, p_tenant_id text) returns text
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return p_kind || ' ' || case p_kind when 'tenant' then p_name || ' ' || p_tenant_id
                                      when 'key' then replace(p_tenant_id, ' ', '%20') || ' ' || p_name else p_name end;
end $$;

-- Return a limit that a tick has brought, within bounds: {runs, per_second, burst}, without what is no number. A number
-- is a limit of runs. A rate has at least a start in four months: no burst of it reaches beyond the calendar.
create function public.giftcard_sound_limit(p_value jsonb) returns jsonb
language plpgsql immutable security invoker set search_path = '' as $$
declare
  v jsonb := case jsonb_typeof(p_value) when 'number' then jsonb_build_object('runs', p_value) else p_value end;
  v_per_second numeric := nullif(public.giftcard_limit_number(v, 'per_second', 10000), 0);
begin
  return jsonb_strip_nulls(jsonb_build_object(
    'runs', public.giftcard_limit_number(v, 'runs', 10000)::integer,
    'per_second', case when v_per_second is not null then greatest(v_per_second, 1e-7) end,
    'burst', case when v_per_second is not null and jsonb_typeof(v -> 'burst') = 'number'
                  then greatest(public.giftcard_limit_number(v, 'burst', 100000), 1) end));
end $$;

-- Return the limits in force, by key: {"stage payment": {"runs": 2, "per_second": 10, "burst": 20}}. p_defaults: those
-- of the settings, by stage; a number is a limit of runs. A row replaces runs, or the rate with its burst, or both.
create function public.giftcard_effective_limits(p_defaults jsonb, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return (
    with defaults as (
      select 'stage ' || d.key as key, public.giftcard_sound_limit(d.value) as value
        from jsonb_each(case jsonb_typeof(p_defaults) when 'object' then p_defaults else '{}' end) d),
    overrides as (
      select public.giftcard_limit_key(l.kind, l.name, l.tenant_id) as key, l.per_second is not null as is_rate,
             jsonb_strip_nulls(jsonb_build_object('runs', l.runs, 'per_second', l.per_second, 'burst', l.burst))
               as value
        from public.giftcard_limits l where l.until is null or l.until > p_now)
    select coalesce(jsonb_object_agg(x.key, x.value), '{}') from (
      select d.key, d.value from defaults d where d.key not in (select key from overrides)
      union all
      select o.key, coalesce((select case when o.is_rate then d.value - 'burst' else d.value end
                                from defaults d where d.key = o.key), '{}') || o.value
        from overrides o) x);
end $$;

-- Return whether a slot is taken: the claim p_claim_key has just taken it, or its job runs under its lease.
create function public.giftcard_is_taken(s public.giftcard_slots, p_claim_key uuid, p_now timestamptz) returns boolean
language plpgsql stable security invoker set search_path = '' as $$
declare
  -- A variable: with a literal the planner may choose the index of running rows.
  v_running constant text := 'running';
begin
  return s.job_id is not null and (coalesce(s.lease_id = p_claim_key, false) or coalesce((
    select j.status = v_running and j.lease_id is not distinct from s.lease_id and j.lease_expires_at > p_now
      from public.giftcard_jobs j where j.id = s.job_id), false));
end $$;

-- Return how many runs of a limited key there are now.
create function public.giftcard_running(p_key text, p_claim_key uuid, p_now timestamptz) returns integer
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  return (select count(*)::integer from public.giftcard_slots s
           where s.key = p_key and public.giftcard_is_taken(s, p_claim_key, p_now));
end $$;

-- Return when one more may start at a rate: p_now, if it may now. p_limit: a limit of the key, with
-- per_second. full_at of a clock that has jumped counts for a whole burst at most.
create function public.giftcard_starts_at(p_limit jsonb, r public.giftcard_rates, p_now timestamptz) returns timestamptz
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return greatest(r.held_until, p_now + make_interval(
    secs => greatest(0, 1 - public.giftcard_tokens(p_limit, r, p_now)) / (p_limit ->> 'per_second')::double precision));
end $$;

-- Return how many a key's rate allows to start now; below 1: none.
create function public.giftcard_tokens(p_limit jsonb, r public.giftcard_rates, p_now timestamptz)
returns double precision
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return greatest(0, public.giftcard_burst(p_limit) + 1e-6
    - extract(epoch from least(greatest(r.full_at, p_now), p_now + interval '9000000 hours') - p_now)::double precision
      * (p_limit ->> 'per_second')::double precision);
end $$;

-- Return the burst of a rate: its own, else what it allows in a second, at least one.
create function public.giftcard_burst(p_limit jsonb) returns double precision
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return coalesce((p_limit ->> 'burst')::double precision,
                  greatest(1, ceil((p_limit ->> 'per_second')::double precision)));
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

insert into public.giftcard_maintenance_tasks (task, every) values
  ('alerts', '50 seconds'), ('counters', '50 seconds'), ('prune', '10 minutes'),
  ('operations', '1 millisecond'), ('batches', '5 minutes');

-- Return whether a task is due. One is at least once a day, and if it was last done in the future: the clock was wrong.
-- Not for any later time: another tick may have begun it since p_now was read.
create function public.giftcard_is_due(p_last_at timestamptz, p_every interval, p_now timestamptz) returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return p_last_at <= p_now - least(p_every, interval '24 hours') or p_last_at > p_now + interval '1 minute';
end $$;

-- Make a task due again at once: it has more to do.
create function public.giftcard_continue_maintenance(p_task text) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  update public.giftcard_maintenance_tasks set last_at = '-infinity' where task = p_task;
end $$;

-- Return the tasks that are due, as a JSON array. Each tick's begin reads it. Counters are due only if there is
-- something to count, operations and batches while one runs: a tick with nothing to do is one call.
create function public.giftcard_due_maintenance(p_now timestamptz) returns json
language plpgsql stable security invoker set search_path = '' as $$
begin
  return (select coalesce(json_agg(task order by task), '[]') from public.giftcard_maintenance_tasks
           where public.giftcard_is_due(last_at, every, p_now)
             and (task <> 'counters' or public.giftcard_has_uncounted_runs(p_now))
             and (task <> 'operations'
                  or exists (select from public.giftcard_operations where state = 'running'))
             and (task <> 'batches' or exists (
                    select from public.giftcard_batches where sealed_at is not null and ended_at is null)));
end $$;

-- Begin a task: true for one of the ticks that find it due at the same time.
create function public.giftcard_begin_maintenance(p_task text, p_now timestamptz default null) returns boolean
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  update public.giftcard_maintenance_tasks set last_at = v_now
   where task = p_task and public.giftcard_is_due(last_at, every, v_now);
  return found;
end $$;
-- Admission: which of the picked jobs may start, under the limits of their tenants and concurrency keys. The planner's
-- settings are those of giftcard_claim_for.

-- Return the limit of a tenant's jobs of a stage: its own, else that of each tenant; null: none.
create function public.giftcard_tenant_limit(p_limits jsonb, p_stage text, p_tenant_id text) returns jsonb
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return coalesce(p_limits -> ('tenant ' || p_stage || ' ' || p_tenant_id), p_limits -> ('tenant ' || p_stage || ' *'));
end $$;

-- Return which concurrency keys are free, of those without a limit of their own: one job of each runs at a time. Locks
-- first, then reads: a statement sees only what was committed before it began. A key that another claim decides about
-- is not free.
create function public.giftcard_free_keys(p_tenant_ids text[], p_keys text[], p_now timestamptz)
returns table (tenant_id text, concurrency_key text)
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_locked boolean[] := array(
    select pg_try_advisory_xact_lock(hashtextextended('key ' || replace(u.tenant_id, ' ', '%20') || ' ' || u.key, 0))
      from unnest(p_tenant_ids, p_keys) with ordinality u(tenant_id, key, n) order by u.n);
begin
  return query
    select u.tenant_id, u.key from unnest(p_tenant_ids, p_keys, v_locked) u(tenant_id, key, locked)
     where u.locked and (
       select true from public.giftcard_jobs j
        where j.status = 'running' and j.concurrency_key is not null and j.tenant_id = u.tenant_id
          and j.concurrency_key = u.key and j.lease_expires_at > p_now limit 1) is null
     order by u.tenant_id, u.key limit 1000;
end $$;

-- Admit the first of the picked jobs of each concurrency key that is free, and all others as they are. The caller holds
-- them. busy: keys that let no more start, those of the admitted jobs too: these run only once the claim marks them.
-- limited: jobs of keys that have a limit of their own.
create function public.giftcard_admit_by_key(
  p_limits jsonb, p_ids bigint[], p_now timestamptz, out admitted bigint[], out busy text[], out limited boolean)
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_tenant_ids text[];
  v_keys text[];
begin
  select array_agg(x.tenant_id), array_agg(x.concurrency_key),
         coalesce(bool_or(p_limits ? ('key ' || replace(x.tenant_id, ' ', '%20') || ' ' || x.concurrency_key)), false)
    into v_tenant_ids, v_keys, limited from (
    -- By the primary key, row for row: a sort is forbidden here, and an index that spares it would be read as a whole.
    select distinct j.tenant_id, j.concurrency_key from unnest(p_ids) u(id) cross join lateral (
      select o.tenant_id, o.concurrency_key from public.giftcard_jobs o where o.id = u.id limit 1) j
     where j.concurrency_key is not null order by j.tenant_id, j.concurrency_key) x;
  admitted := p_ids;
  busy := '{}';
  if v_keys is null then
    return;
  end if;
  with free as materialized (select * from public.giftcard_free_keys(v_tenant_ids, v_keys, p_now)),
  ranked as (
    select u.id, u.n, 'key ' || replace(j.tenant_id, ' ', '%20') || ' ' || j.concurrency_key as key,
           j.concurrency_key is null
             or p_limits ? ('key ' || replace(j.tenant_id, ' ', '%20') || ' ' || j.concurrency_key)
             or f.tenant_id is not null
                and row_number() over (partition by j.tenant_id, j.concurrency_key order by u.n) = 1 as may_start
      from unnest(p_ids) with ordinality u(id, n)
     cross join lateral (
       select o.tenant_id, o.concurrency_key from public.giftcard_jobs o where o.id = u.id limit 1) j
      left join free f on f.tenant_id = j.tenant_id and f.concurrency_key = j.concurrency_key)
  select coalesce(array_agg(r.id order by r.n) filter (where r.may_start), '{}'),
         coalesce(array_agg(distinct r.key) filter (where not p_limits ? r.key), '{}')
    into admitted, busy from ranked r;
end $$;

-- Admit picked jobs under the limits of their tenants and concurrency keys, and take what these need. The caller holds
-- the jobs. admitted: those that may start, in their order; busy: keys that let no more start; until: when they may.
create function public.giftcard_admit(
  p_limits jsonb, p_ids bigint[], p_claim_key uuid, p_now timestamptz,
  out admitted bigint[], out busy text[], out until timestamptz)
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_reserved jsonb := '{}'::jsonb;
  v_first record := public.giftcard_admit_by_key(p_limits, p_ids, p_now);
  k record;
  r record;
begin
  admitted := v_first.admitted;
  busy := v_first.busy;
  if not v_first.limited and not exists (
      select from jsonb_object_keys(p_limits) n where starts_with(n, 'tenant ')) then
    return;
  end if;
  for k in
    select x.key, x.value as its_limit, array_agg(j.id order by array_position(p_ids, j.id)) as ids
      from unnest(admitted) i(id) cross join lateral (
        select o.* from public.giftcard_jobs o where o.id = i.id limit 1) j cross join lateral (values
        ('key ' || replace(j.tenant_id, ' ', '%20') || ' ' || j.concurrency_key,
         '{"runs": 1}' || (p_limits -> ('key ' || replace(j.tenant_id, ' ', '%20') || ' ' || j.concurrency_key))),
        ('tenant ' || j.stage || ' ' || j.tenant_id, public.giftcard_tenant_limit(p_limits, j.stage, j.tenant_id)))
        x(key, value)
     where x.key is not null and x.value is not null
     group by x.key, x.value order by x.key
  loop
    k.ids := array(select i from unnest(k.ids) with ordinality u(i, n) where i = any (admitted) order by n);
    continue when k.ids = '{}';
    r := public.giftcard_reserve(k.key, k.its_limit, cardinality(k.ids), p_claim_key, p_now);
    if r.allowed < cardinality(k.ids) then
      admitted := array(select i from unnest(admitted) with ordinality u(i, n)
                         where i <> all (k.ids[r.allowed + 1 :]) order by n);
      busy := busy || k.key;
      until := least(until, r.until);
    end if;
    v_reserved := v_reserved || jsonb_build_object(k.key, jsonb_build_object(
      'limit', k.its_limit, 'slots', coalesce(r.slots, '{}'), 'ids', k.ids[1 : r.allowed]));
  end loop;
  perform public.giftcard_take(
      e.key, e.value -> 'limit', array(select jsonb_array_elements_text(e.value -> 'slots')::integer),
      array(select i::bigint from jsonb_array_elements_text(e.value -> 'ids') with ordinality u(i, n)
             where i::bigint = any (admitted) order by n), p_claim_key, p_now)
    from jsonb_each(v_reserved) e;
end $$;
-- Queues: their heads, a scan of all of them, and when the next job may start. A queue is the queued jobs of a circuit.

-- Return the lanes of a circuit's queue: minus the priorities of its jobs, the highest priority first. A loose index
-- scan: one index probe per lane.
create function public.giftcard_lanes(p_circuit text) returns setof smallint
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
begin
  return query with recursive lanes as (
    (select (-j.priority)::smallint as lane from public.giftcard_jobs j
      where j.status = 'queued' and j.circuit = p_circuit order by j.circuit, (-j.priority) limit 1)
    union all
    select n.lane from lanes l cross join lateral (
      select (-j.priority)::smallint as lane from public.giftcard_jobs j
       where j.status = 'queued' and j.circuit = p_circuit and (-j.priority) > l.lane
       order by j.circuit, (-j.priority) limit 1) n)
  select lane from lanes order by lane limit 21;
end $$;

-- Return the head of each circuit's queue and its availability: 'ready' (jobs may start), 'probing' (one may),
-- 'blocked' (until opens_at) or 'parked' (stage unknown to this code, not configured, or paused). lanes: those with due
-- jobs. A loose index scan: one index probe per lane, whatever the number of jobs; it stops after p_most. read: in this
-- circuit. The claim and status read the same: one place decides (a claim among many circuits: 14_walks.sql).
create function public.giftcard_queue_heads(p_stages jsonb, p_now timestamptz, p_most integer default 2147483647)
returns table (circuit text, stage text, head_at timestamptz, availability text, opens_at timestamptz,
               lanes smallint[], read bigint)
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan as $$
begin
  return query with recursive heads as (
    (select j.circuit, (-j.priority)::smallint as lane, j.stage, j.scheduled_at, 1 as n from public.giftcard_jobs j
      where j.status = 'queued' order by j.circuit, (-j.priority), j.scheduled_at, j.id limit 1)
    union all
    select n.circuit, n.lane, n.stage, n.scheduled_at, h.n + 1 from heads h cross join lateral (
      select j.circuit, (-j.priority)::smallint as lane, j.stage, j.scheduled_at from public.giftcard_jobs j
       where j.status = 'queued' and (j.circuit, (-j.priority)) > (h.circuit, h.lane)
       order by j.circuit, (-j.priority), j.scheduled_at, j.id limit 1) n
     where h.n < p_most),
  queues as (
    select h.circuit, min(h.stage) as stage, min(h.scheduled_at) as head_at,
           coalesce(array_agg(h.lane order by h.lane) filter (where h.scheduled_at <= p_now), '{}') as lanes,
           count(*) as read
      from heads h group by h.circuit)
  select h.circuit, h.stage, h.head_at,
         case when s.paused_at is not null or not coalesce(p_stages ? h.stage, true) then 'parked'
              when coalesce(c.state, 'closed') = 'closed' then 'ready'
              when o.opens_at <= p_now then 'probing'
              else 'blocked' end,
         o.opens_at, h.lanes, h.read
    from queues h
    left join public.giftcard_circuits c on c.circuit = h.circuit
    left join lateral (
      select case when c.state <> 'closed'
                       and (select exists (select from public.giftcard_faulty_rows where kind = 'circuit'))
                  then public.giftcard_probe_at(c.circuit, c.open_until, p_now)
                  else c.open_until end as opens_at) o on true
    left join public.giftcard_stages s on s.stage = h.stage;
end $$;

-- Scan all queues for a tick. ended: up to 10 runs whose lease has ended, locked; open: circuits with a due job, those
-- that this tick has started the fewest jobs of first; half_open: circuits that wait for a probe; next_due_at: when
-- something else may start; skipped: jobs to pass over. many: there are more circuits or lanes than it reads, and open,
-- half_open and next_due_at are left to giftcard_pick_on_walk.
create function public.giftcard_scan_queues(
  t public.giftcard_ticks, p_limit integer, p_now timestamptz,
  out ended bigint[], out open public.giftcard_cursor[], out half_open text[], out next_due_at timestamptz,
  out skipped bigint[], out many boolean)
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan as $$
declare
  v_most integer := case when t.only_job_id is null then 32 else 2147483647 end;
begin
  skipped := public.giftcard_skipped('job', p_now);
  ended := case when p_limit > 0 then array(
    select id from public.giftcard_jobs
     where status = 'running' and coalesce(lease_expires_at, '-infinity'::timestamptz) <= p_now and id <> all (skipped)
     order by coalesce(lease_expires_at, '-infinity'::timestamptz), id limit 10 for update skip locked) else '{}' end;
  select coalesce(array_agg(row(q.circuit, q.lanes, null, null, null)::public.giftcard_cursor)
                    filter (where q.due and q.availability = 'ready'), '{}'),
         coalesce(array_agg(q.circuit) filter (where q.due and q.availability = 'probing'), '{}'),
         min(case q.availability when 'blocked' then greatest(q.head_at, q.opens_at)
                                 when 'probing' then greatest(q.head_at, p_now + interval '1 second')
                                 else q.head_at end)
           filter (where q.counts and (not q.due or p_limit <= 0)),
         coalesce(sum(q.read), 0) >= v_most
    into open, half_open, next_due_at, many
    from (select h.*, c.counts,
                 c.counts and h.availability in ('ready', 'probing')
                 and (h.head_at <= p_now or t.only_job_id is not null) as due
            from public.giftcard_queue_heads(t.stages, p_now, v_most) h cross join lateral (
              select h.availability <> 'parked' and (t.only_stage is null or h.stage = t.only_stage)
                     and (t.only_job_id is null or h.circuit = (
                       select circuit from public.giftcard_jobs where id = t.only_job_id)) as counts) c
           order by coalesce((t.served ->> h.circuit)::integer, 0), h.head_at, h.circuit) q;
end $$;

-- Return when something may start for a tick that found less than it asked for: the earliest of p_heads_at, a later job
-- of the circuits that it claimed from, a lease that ends, a revival and, for a tick of all stages, the next occurrence
-- of a schedule. p_limited_until: when what a limit holds back may start.
-- p_revives: whether dead letters revive. p_skipped: jobs that ticks pass over. null: never, as things stand.
create function public.giftcard_next_due(
  p_heads_at timestamptz, p_claimed_from text[], p_limited_until timestamptz, p_all_stages boolean,
  p_revives boolean, p_skipped bigint[], p_now timestamptz)
returns timestamptz
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
begin
  return least(
    p_heads_at,
    p_limited_until,
    case when p_all_stages then public.giftcard_next_schedule_at(p_now) end,
    (select min(n.scheduled_at) from unnest(p_claimed_from) c(circuit)
      cross join lateral public.giftcard_lanes(c.circuit) l(lane) cross join lateral (
       select j.scheduled_at from public.giftcard_jobs j
        where j.status = 'queued' and j.circuit = c.circuit and (-j.priority) = l.lane and j.scheduled_at > p_now
          and j.id <> all (p_skipped)
        order by j.scheduled_at, j.id limit 1) n),
    (select coalesce(j.lease_expires_at, '-infinity'::timestamptz) from public.giftcard_jobs j
      where j.status = 'running' and j.id <> all (p_skipped)
      order by coalesce(j.lease_expires_at, '-infinity'::timestamptz), j.id limit 1),
    (select j.revive_at from public.giftcard_jobs j
      where p_revives and j.status = 'error' and j.revive_at is not null and j.id <> all (p_skipped)
      order by j.revive_at, j.id limit 1));
end $$;
-- Reservations: what limits leave to a claim. Everything is locked with SKIP LOCKED: what another claim decides about
-- now counts as taken, and none waits for another. The planner's settings are those of giftcard_claim_for: setting them
-- in each function again costs more than what most of these do.

-- Add the slots of a key that are missing, unless another claim adds them now. The first ones get the runs that began
-- without this limit, of which there may be more than it allows.
create function public.giftcard_add_slots(p_key text, p_runs integer, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  if not pg_try_advisory_xact_lock(hashtextextended('slots of ' || p_key, 0)) then
    return;
  elsif not exists (select from public.giftcard_slots where key = p_key) then
    insert into public.giftcard_slots (key, n, job_id, lease_id)
    select p_key, row_number() over (), j.id, j.lease_id from public.giftcard_jobs j
     where j.status = 'running' and coalesce(j.lease_expires_at, '-infinity'::timestamptz) > p_now
       and p_key in ('stage ' || j.stage, 'circuit ' || j.circuit, 'tenant ' || j.stage || ' ' || j.tenant_id,
                     'key ' || replace(j.tenant_id, ' ', '%20') || ' ' || j.concurrency_key)
    on conflict do nothing;
  end if;
  insert into public.giftcard_slots (key, n) select p_key, n from generate_series(1, p_runs) n on conflict do nothing;
end $$;

-- Lock up to p_want free slots of a key, and return their numbers. The rows are locked first and read again then: a
-- statement sees only what was committed before it began. Where the limit was lowered, runs in higher slots count too.
create function public.giftcard_lock_slots(
  p_key text, p_runs integer, p_want integer, p_claim_key uuid, p_now timestamptz) returns integer[]
language plpgsql volatile security invoker
set search_path = '' as $$
declare
  v_above bigint := 0::bigint;
  v_slots integer[];
  v_running constant text := 'running';  -- a variable, as in giftcard_is_taken, which is inline here
begin
  if p_runs > 0 and not exists (select from public.giftcard_slots where key = p_key and n = p_runs) then
    perform public.giftcard_add_slots(p_key, p_runs, p_now);
  end if;
  if exists (select from public.giftcard_slots where key = p_key and n > p_runs) then
    v_above := (select count(*) from public.giftcard_slots s
                 where s.key = p_key and s.n > p_runs and public.giftcard_is_taken(s, p_claim_key, p_now));
  end if;
  v_slots := array(
    select s.n from public.giftcard_slots s
     where s.key = p_key and s.n between 1 and p_runs and s.lease_id is distinct from p_claim_key
       and (select true from public.giftcard_jobs j
             where j.id = s.job_id and j.status = v_running and j.lease_id is not distinct from s.lease_id
               and j.lease_expires_at > p_now limit 1) is null
     order by s.n limit p_want + v_above for update skip locked);
  v_slots := array(
    select s.n from public.giftcard_slots s
     where s.key = p_key and s.n = any (v_slots) and s.lease_id is distinct from p_claim_key
       and (select true from public.giftcard_jobs j
             where j.id = s.job_id and j.status = v_running and j.lease_id is not distinct from s.lease_id
               and j.lease_expires_at > p_now limit 1) is null
     order by s.n);
  return v_slots[1 : greatest(0, least(p_want, cardinality(v_slots) - v_above))::integer];
end $$;

-- Lock the row of a key's rate, unless another claim holds it, and return it. A row that lets nothing start for longer
-- than its burst takes is of another clock or another limit: it begins anew, with nothing to start.
create function public.giftcard_lock_rate(p_key text, p_limit jsonb, p_now timestamptz)
returns public.giftcard_rates
language plpgsql volatile security invoker set search_path = '' as $$
declare
  r public.giftcard_rates;
  v_empty timestamptz := p_now + make_interval(
    secs => public.giftcard_burst(p_limit) / (p_limit ->> 'per_second')::double precision);
begin
  if not exists (select from public.giftcard_rates where key = p_key)
     and pg_try_advisory_xact_lock(hashtextextended('rate of ' || p_key, 0)) then
    insert into public.giftcard_rates (key) values (p_key) on conflict do nothing;
  end if;
  select * into r from public.giftcard_rates where key = p_key for update skip locked;
  if r.full_at > v_empty + interval '1 second' then
    update public.giftcard_rates set full_at = v_empty where key = p_key returning * into r;
  end if;
  return r;
end $$;

-- Reserve up to p_want starts under the limit of one key. allowed: how many; slots: theirs; until: when more may start,
-- if fewer are allowed. A rate lets a claim wait for a second's worth: who comes for each single start comes too often.
create function public.giftcard_reserve(
  p_key text, p_limit jsonb, p_want integer, p_claim_key uuid, p_now timestamptz,
  out allowed integer, out slots integer[], out until timestamptz)
language plpgsql volatile security invoker set search_path = '' as $$
declare
  r public.giftcard_rates;
  v_tokens double precision;
  v_worth double precision;  -- of a second
begin
  allowed := p_want;
  if p_limit ? 'runs' then
    slots := public.giftcard_lock_slots(p_key, (p_limit ->> 'runs')::integer, p_want, p_claim_key, p_now);
    allowed := cardinality(slots);
    -- Nothing notifies of a free slot. A limit of 0 has none to wait for.
    until := case when allowed < p_want and p_limit ->> 'runs' <> '0' then p_now + interval '1 second' end;
  end if;
  if not p_limit ? 'per_second' or allowed = 0 then
    return;
  end if;
  r := public.giftcard_lock_rate(p_key, p_limit, p_now);
  v_tokens := public.giftcard_tokens(p_limit, r, p_now);
  if r.key is null then
    allowed := 0;  -- another claim reserves now
    until := p_now + interval '50 milliseconds';
  elsif r.held_until > p_now then
    allowed := 0;
    until := r.held_until;
  elsif allowed > floor(v_tokens) then
    allowed := floor(v_tokens)::integer;
    v_worth := least(public.giftcard_burst(p_limit), greatest(1, floor((p_limit ->> 'per_second')::double precision)));
    until := p_now + make_interval(
      secs => greatest(0.05, (v_worth - v_tokens + allowed) / (p_limit ->> 'per_second')::double precision));
  end if;
end $$;

-- Take what was reserved under one key, for the jobs p_ids. The caller holds the rows.
create function public.giftcard_take(
  p_key text, p_limit jsonb, p_slots integer[], p_ids bigint[], p_claim_key uuid, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  if cardinality(p_ids) = 0 then
    return;
  end if;
  if p_limit ? 'runs' then
    update public.giftcard_slots set job_id = p_ids[array_position(p_slots, n)], lease_id = p_claim_key
     where key = p_key and n = any (p_slots[1 : cardinality(p_ids)]);
  end if;
  if p_limit ? 'per_second' then
    update public.giftcard_rates
       set full_at = greatest(p_now, p_now + make_interval(
             secs => (public.giftcard_burst(p_limit) + 1e-6 + cardinality(p_ids)
                      - public.giftcard_tokens(p_limit, giftcard_rates, p_now))
                     / (p_limit ->> 'per_second')::double precision))
     where key = p_key;
  end if;
end $$;

-- Reserve up to p_want starts of a circuit, under the limits of its stage and its own. p_same: the circuits of the
-- stage that have their turn now, itself too: they share what the stage's limit leaves. reserved: slots by key.
create function public.giftcard_reserve_starts(
  p_limits jsonb, p_circuit text, p_want integer, p_same integer, p_claim_key uuid, p_now timestamptz,
  out allowed integer, out reserved jsonb, out until timestamptz)
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_key text;
  r record;
begin
  allowed := p_want;
  reserved := '{}';
  foreach v_key in array array['stage ' || public.giftcard_stage_of(p_circuit), 'circuit ' || p_circuit] loop
    if p_limits ? v_key and allowed > 0 then
      r := public.giftcard_reserve(v_key, p_limits -> v_key, allowed, p_claim_key, p_now);
      allowed := case when starts_with(v_key, 'stage ') and r.allowed < p_want then (r.allowed + p_same - 1) / p_same
                      else r.allowed end;
      -- Where nothing may start until a limit changes, there is nothing to wait for.
      until := case when r.allowed = 0 and r.until is null then null else greatest(until, r.until) end;
      reserved := reserved || jsonb_build_object(v_key, coalesce(r.slots, '{}'));
    end if;
  end loop;
end $$;

-- Take what giftcard_reserve_starts has reserved, for the jobs p_ids.
create function public.giftcard_take_starts(
  p_limits jsonb, p_reserved jsonb, p_ids bigint[], p_claim_key uuid, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  perform public.giftcard_take(
      e.key, p_limits -> e.key, array(select jsonb_array_elements_text(e.value)::integer), p_ids, p_claim_key, p_now)
    from jsonb_each(p_reserved) e;
end $$;

-- Hold the rates of circuits whose other side asked for it (Retry-After): p_results with `hold`, in seconds, of jobs
-- that were settled. A circuit that is its stage's holds the rate of the stage. Where there is no rate, only the job
-- waits.
create function public.giftcard_hold_rates(p_results jsonb, p_ids bigint[], p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  h record;
begin
  for h in
    select r.key, max(least((x.r ->> 'hold')::double precision, 86400)) as seconds
      from jsonb_array_elements(p_results) x(r)
      join public.giftcard_jobs j on j.id = (x.r ->> 'id')::bigint
      join public.giftcard_rates r
        on r.key in ('circuit ' || j.circuit, case when j.circuit = j.stage then 'stage ' || j.stage end)
     where j.id = any (p_ids) and (x.r ->> 'hold')::double precision > 0
     group by r.key order by r.key
  loop
    update public.giftcard_rates set held_until = greatest(held_until, p_now + make_interval(secs => h.seconds))
     where key = h.key;
  end loop;
end $$;
-- Walks: how a tick scans where many circuits have queued jobs. It walks through them in a circle, by name, from where
-- the last scan stopped, and stops once it has found as many as it wants: a claim costs about the same for a thousand
-- circuits as for ten thousand, and each has its turn once in a circle. Circuits with nothing due are passed over by an
-- index of time; only a scan that finds nothing else goes all round. The planner's settings are those of
-- giftcard_claim_for.

-- A walk under way.
create type public.giftcard_walk as (
  name text,                          -- its row in giftcard_turns
  began text,                         -- the circuit after which it began, as kept in that row; empty: at the first
  at text,                            -- the last circuit that it has read
  circles integer,                    -- how many circles the walks of this name have completed
  again boolean,                      -- whether it has gone on from the first circuit
  complete boolean,                   -- whether all that is due is known
  ready public.giftcard_cursor[],     -- circuits whose jobs may start now; scheduled_at: the head's time
  half_open text[],                   -- and those that wait for a probe
  next_due_at timestamptz,            -- when another one that it has read may start
  was_far text,                       -- a circuit that a walk of this name found only far round
  far text                            -- and one that this walk did
);

-- Read circuits by name, after p_after (with p_at: from it on) and up to p_until (null: to the end), until p_enough
-- have something to start, or p_most lanes are read. walked_to: the last circuit that is read as a whole; null: there
-- are no more. Circuits of a stage that is parked for this tick are passed over in one step; p_plain: so are all that
-- are not their stage.
create function public.giftcard_walk_circuits(
  t public.giftcard_ticks, p_after text, p_until text, p_enough integer, p_most integer, p_plain boolean, p_at boolean,
  p_now timestamptz, out ready public.giftcard_cursor[], out half_open text[], out next_due_at timestamptz,
  out walked_to text)
language plpgsql stable security invoker set search_path = '' as $$
begin
  with recursive walk as (
    -- The next one read comes after (key, lane).
    select p_after collate "C" as key, (case when p_at then -32768 else 32767 end)::smallint as lane,
           p_after collate "C" as circuit, null::timestamptz as head_at, null::timestamptz as starts_at,
           '' as availability, false as due, 0 as seen, 0 as found
    union all
    select case when a.jumps then n.stage || ';' else n.circuit end,
           case when a.jumps then (-32768)::smallint
                when b.due or a.availability = 'parked' or a.availability = 'blocked' and o.opens_at >= n.scheduled_at
                then 32767::smallint else n.lane end,
           n.circuit, n.scheduled_at, b.starts_at, a.availability, b.due, w.seen + 1, w.found + b.due::integer
      from walk w cross join lateral (
        select j.circuit, (-j.priority)::smallint as lane, j.stage, j.scheduled_at from public.giftcard_jobs j
         where j.status = 'queued' and (j.circuit, (-j.priority)) > (w.key, w.lane)
         order by j.circuit, (-j.priority), j.scheduled_at, j.id limit 1) n
      left join public.giftcard_circuits c on c.circuit = n.circuit and c.state <> 'closed'
      left join public.giftcard_stages s on s.stage = n.stage and s.paused_at is not null
     cross join lateral (
       select case when c.circuit is null then null
                   when (select exists (select from public.giftcard_faulty_rows where kind = 'circuit'))
                   then public.giftcard_probe_at(c.circuit, c.open_until, p_now) else c.open_until end as opens_at) o
     cross join lateral (
       select p.parked, case when p.parked then 'parked' when o.opens_at is null then 'ready'
                             when o.opens_at <= p_now then 'probing' else 'blocked' end as availability,
              -- All between 'stage:…' and 'stage;' belongs to that stage.
              n.circuit <> n.stage and (p.parked or p_plain) and strpos(n.stage, ':') = 0 as jumps
         from (select s.stage is not null or not t.stages ? n.stage or n.stage <> t.only_stage is true as parked) p) a
     cross join lateral (
       select not a.jumps and a.availability in ('ready', 'probing') and n.scheduled_at <= p_now as due,
              case a.availability when 'blocked' then greatest(n.scheduled_at, o.opens_at)
                                  when 'probing' then greatest(n.scheduled_at, p_now + interval '1 second')
                                  else n.scheduled_at end as starts_at) b
     where w.seen < p_most and w.found < p_enough and (p_until is null or n.circuit <= p_until)),
  last as materialized (select w.* from walk w order by w.seen desc limit 1)
  select coalesce(array_agg(row(w.circuit, null, null, w.head_at, null)::public.giftcard_cursor order by w.seen)
                    filter (where w.due and w.availability = 'ready'), '{}'),
         coalesce(array_agg(w.circuit order by w.seen) filter (where w.due and w.availability = 'probing'), '{}'),
         min(w.starts_at) filter (where not w.due and w.availability <> 'parked' and w.lane <> -32768),
         max(case when l.seen >= p_most or l.found >= p_enough then w.key end)
           filter (where w.lane in (32767, -32768) or w.circuit < l.circuit)
    into ready, half_open, next_due_at, walked_to
    from walk w cross join last l;
end $$;

-- Return queues with their lanes that have due jobs, in their order.
create function public.giftcard_with_lanes(p_queues public.giftcard_cursor[], p_now timestamptz)
returns public.giftcard_cursor[]
language plpgsql stable security invoker set search_path = '' as $$
begin
  return array(
    select row(q.circuit, d.lanes, null, null, null)::public.giftcard_cursor
      from unnest(p_queues) with ordinality q(circuit, lanes, plain, scheduled_at, id, n) cross join lateral (
        with recursive heads as (
          (select (-j.priority)::smallint as lane, j.scheduled_at from public.giftcard_jobs j
            where j.status = 'queued' and j.circuit = q.circuit
            order by j.circuit, (-j.priority), j.scheduled_at, j.id limit 1)
          union all
          select x.lane, x.scheduled_at from heads h cross join lateral (
            select (-j.priority)::smallint as lane, j.scheduled_at from public.giftcard_jobs j
             where j.status = 'queued' and j.circuit = q.circuit and (-j.priority) > h.lane
             order by j.circuit, (-j.priority), j.scheduled_at, j.id limit 1) x)
        select array_agg(h.lane order by h.lane) as lanes from heads h where h.scheduled_at <= p_now) d
     where d.lanes <> '{}' order by q.n);
end $$;

-- Walk on in the circle, until p_enough circuits have something to start, p_most lanes are read or all are.
create function public.giftcard_walk_on(
  w public.giftcard_walk, t public.giftcard_ticks, p_enough integer, p_most integer, p_now timestamptz)
returns public.giftcard_walk
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_found integer := 0;
  c record;
begin
  w.ready := '{}'::public.giftcard_cursor[];
  w.half_open := '{}'::text[];
  loop
    c := public.giftcard_walk_circuits(t, w.at, case when w.again then w.began end, p_enough - v_found, p_most, false,
                                       false, p_now);
    w.ready := w.ready || c.ready;
    w.half_open := w.half_open || c.half_open;
    w.next_due_at := least(w.next_due_at, c.next_due_at);
    v_found := v_found + cardinality(c.ready) + cardinality(c.half_open);
    if c.walked_to is not null then
      w.at := c.walked_to;
    elsif w.again or w.began = '' then
      w.complete := true;
    else
      w.at := '';
      w.again := true;
      w.circles := w.circles % 1000000 + 1;
    end if;
    exit when w.complete or c.walked_to is not null or v_found >= p_enough;
  end loop;
  return w;
end $$;

-- Begin a walk where the last one of such a tick stopped.
create function public.giftcard_begin_walk(t public.giftcard_ticks) returns public.giftcard_walk
language plpgsql stable security invoker set search_path = '' as $$
declare
  w public.giftcard_walk;
begin
  w.name := '*' || md5(t.stages::text || ' ' || coalesce(t.only_stage, ''));
  select k.tenant_id, k.taken into w.began, w.circles from public.giftcard_turns k where k.circuit = w.name;
  w.began := coalesce(w.began, '');
  w.at := w.began;
  w.circles := coalesce(w.circles, 0);
  w.again := false;
  w.complete := false;
  return w;
end $$;

-- Keep where a walk stopped, for the next one, unless another has moved on from p_was meanwhile. The row is a hint: a
-- claim that holds it is not waited for.
create function public.giftcard_keep_place(p_name text, p_was text, p_at text, p_circles integer) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  update public.giftcard_turns set tenant_id = p_at, taken = p_circles
   where circuit = (select k.circuit from public.giftcard_turns k
                     where k.circuit = p_name and k.tenant_id = p_was for update skip locked);
  if not found and not exists (select from public.giftcard_turns where circuit = p_name)
     and pg_try_advisory_xact_lock(hashtextextended('turns of ' || p_name, 0)) then
    insert into public.giftcard_turns (circuit, tenant_id, taken) values (p_name, p_at, p_circles)
    on conflict do nothing;
  end if;
end $$;

-- Find up to p_enough circuits that have something to start, or more where all are known at once. The circle comes
-- first, so that each circuit has its turn. Where it passes over many, time shows which have something due. Where that
-- finds nothing either, it looks again where the last walk found something far round, and then goes all round.
create function public.giftcard_find_ready(
  w public.giftcard_walk, t public.giftcard_ticks, p_enough integer, p_now timestamptz) returns public.giftcard_walk
language plpgsql stable security invoker set search_path = '' as $$
declare
  c record;  -- circuits that are their stage
  b record;  -- the others
begin
  w := public.giftcard_walk_on(w, t, p_enough, p_enough + 25, p_now);
  if w.complete or cardinality(w.ready) + cardinality(w.half_open) >= p_enough then
    return w;
  end if;
  c := public.giftcard_walk_circuits(t, '', null, 500, 500, true, false, p_now);
  b := public.giftcard_walk_by_time(t, false, p_now);
  if not b.complete and w.ready = '{}' and c.ready = '{}' and b.ready = '{}' then
    b := public.giftcard_walk_by_time(t, true, p_now);
  end if;
  if b.complete and c.walked_to is null then
    w.complete := true;
    w.ready := '{}';
    w.half_open := '{}';
    w.next_due_at := least(c.next_due_at, b.next_due_at);
  end if;
  w.ready := w.ready || array(
    select row(q.circuit, null, null, q.scheduled_at, null)::public.giftcard_cursor from unnest(c.ready || b.ready) q
     where q.circuit not in (select k.circuit from unnest(w.ready) k) order by q.scheduled_at, q.circuit);
  w.half_open := w.half_open || array(
    select q from unnest(c.half_open || b.half_open) q where q <> all (w.half_open));
  if not w.complete and w.ready = '{}' and w.half_open = '{}' then
    select k.tenant_id into w.was_far from public.giftcard_turns k where k.circuit = w.name || ' far';
    c := public.giftcard_walk_circuits(t, w.was_far, w.was_far, 1, 50, false, true, p_now);
    w.ready := c.ready;
  end if;
  while not w.complete and w.ready = '{}' and w.half_open = '{}' loop
    w := public.giftcard_walk_on(w, t, p_enough, 1000, p_now);
    w.far := w.ready[1].circuit;
  end loop;
  return w;
end $$;
-- Where a walk has passed over many circuits with nothing due, the time of their jobs shows which have something.

-- Queued jobs of circuits that are not their stage, by time. A job whose circuit is its stage has no entry.
create index giftcard_jobs_queued_by_time on public.giftcard_jobs (scheduled_at, id)
    where status = 'queued' and circuit <> stage;

-- Look at the jobs of circuits that are not their stage by time: the 51 that have been due for longest and the 51
-- that are due next; p_newest: those that have just come due, too. complete: these are enough to know all that is due,
-- and what is next.
create function public.giftcard_walk_by_time(
  t public.giftcard_ticks, p_newest boolean, p_now timestamptz, out ready public.giftcard_cursor[],
  out half_open text[], out next_due_at timestamptz, out complete boolean)
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_due bigint;
  v_later bigint;
  v_last timestamptz;
begin
  with jobs as materialized (
    (select j.circuit, j.stage, j.scheduled_at from public.giftcard_jobs j
      where j.status = 'queued' and j.circuit <> j.stage and j.scheduled_at <= p_now
      order by j.scheduled_at, j.id limit 51)
    union all
    (select j.circuit, j.stage, j.scheduled_at from public.giftcard_jobs j
      where p_newest and j.status = 'queued' and j.circuit <> j.stage and j.scheduled_at <= p_now
      order by j.scheduled_at desc, j.id desc limit 51)
    union all
    (select j.circuit, j.stage, j.scheduled_at from public.giftcard_jobs j
      where j.status = 'queued' and j.circuit <> j.stage and j.scheduled_at > p_now
      order by j.scheduled_at, j.id limit 51)),
  queues as (
    select q.circuit, q.head_at, q.head_at <= p_now as due, o.opens_at
      from (select j.circuit, min(j.stage) as stage, min(j.scheduled_at) as head_at from jobs j group by j.circuit) q
      left join public.giftcard_circuits c on c.circuit = q.circuit and c.state <> 'closed'
      left join public.giftcard_stages s on s.stage = q.stage and s.paused_at is not null
     cross join lateral (
       select case when c.circuit is null then null
                   when (select exists (select from public.giftcard_faulty_rows where kind = 'circuit'))
                   then public.giftcard_probe_at(c.circuit, c.open_until, p_now) else c.open_until end as opens_at) o
     where s.stage is null and t.stages ? q.stage and (t.only_stage is null or q.stage = t.only_stage))
  select coalesce(array_agg(row(q.circuit, null, null, q.head_at, null)::public.giftcard_cursor
                            order by q.head_at, q.circuit) filter (where q.due and q.opens_at is null), '{}'),
         coalesce(array_agg(q.circuit order by q.head_at, q.circuit)
                    filter (where q.due and q.opens_at <= p_now), '{}'),
         min(case when q.opens_at is null then q.head_at
                  when q.opens_at > p_now then greatest(q.head_at, q.opens_at)
                  else greatest(q.head_at, p_now + interval '1 second') end)
           filter (where not q.due or q.opens_at > p_now),
         (select count(*) filter (where j.scheduled_at <= p_now) from jobs j),
         (select count(*) filter (where j.scheduled_at > p_now) from jobs j), (select max(j.scheduled_at) from jobs j)
    into ready, half_open, next_due_at, v_due, v_later, v_last from queues q;
  complete := v_due <= 50 and (v_later <= 50 or coalesce(next_due_at <= v_last, false));
end $$;
-- Picks: which due jobs a claim takes.

-- A claim under way.
create type public.giftcard_claim_state as (
  ids bigint[],                       -- jobs picked so far: locked
  remaining integer,                  -- jobs still wanted
  queues public.giftcard_cursor[],    -- circuits with a due job, in their turn
  claimed_from text[],
  served jsonb,                       -- jobs that the tick has started, by circuit
  limits jsonb,                       -- as giftcard_effective_limits returns them; {}: none
  limited_until timestamptz,          -- when what a limit or a probe holds back may start; null: none does
  busy text[],                        -- keys whose jobs cannot start now; null: not known, as no job has had a key
  skipped bigint[],                   -- jobs to pass over
  tick_id bigint,
  claim_key uuid,
  weights jsonb,                      -- of tenants
  allowed integer,                    -- starts that limits leave to the queue in turn
  reserved jsonb,                     -- and what is reserved for them
  got bigint[],                       -- jobs that the last careful pick took
  more boolean                        -- and whether its queue may have more
);

-- Lock the probe of a half-open circuit and return its id: among the first 50 due jobs the one with the fewest
-- attempts. p_busy: keys of limits whose jobs cannot start now. null: a probe runs, another claim is choosing one, or
-- nothing is due. Records the change open → half_open.
create function public.giftcard_pick_probe(
  p_circuit text, p_only_job_id bigint, p_skipped bigint[], p_busy text[], p_now timestamptz) returns bigint
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
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
       select l.lane, q.* from public.giftcard_lanes(p_circuit) l(lane) cross join lateral (
         select n.id, n.attempts, n.scheduled_at from public.giftcard_jobs n
          where n.status = 'queued' and n.circuit = p_circuit and (-n.priority) = l.lane and n.scheduled_at <= p_now
            and n.id <> all (p_skipped) and 'tenant ' || n.stage || ' ' || n.tenant_id <> all (p_busy)
            and (n.concurrency_key is null
                 or 'key ' || replace(n.tenant_id, ' ', '%20') || ' ' || n.concurrency_key <> all (p_busy))
          order by n.scheduled_at, n.id limit 50) q
        order by l.lane, q.scheduled_at, q.id limit 50) f
      order by f.attempts, f.lane, f.scheduled_at, f.id limit 1))
   for update skip locked;
  if v_id is not null and c.state = 'open' then
    perform public.giftcard_change_circuit(p_circuit, 'half_open', 'cooldown over', v_id, c.open_until, p_now);
  end if;
  return v_id;
end $$;

-- Pick a probe, unless that fails: the circuit at fault stays as it is, and ticks pass over it for ten minutes.
create function public.giftcard_try_pick_probe(
  p_circuit text, p_only_job_id bigint, p_skipped bigint[], p_busy text[], p_now timestamptz) returns bigint
language plpgsql volatile security invoker set search_path = '' as $$
begin
  return public.giftcard_pick_probe(p_circuit, p_only_job_id, p_skipped, p_busy, p_now);
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  perform public.giftcard_record_fault(
    'circuit', p_circuit, public.giftcard_error_text(sqlstate, sqlerrm), p_now, p_now + interval '10 minutes');
  return null;
end $$;

-- Pick one job as the probe of each half-open circuit, while jobs are wanted. What the limits of its tenant or its key
-- hold back is no probe: the next one is tried, up to 20 a circuit. p_one_by_one: as in giftcard_claim_for.
create function public.giftcard_pick_probes(
  s public.giftcard_claim_state, p_half_open text[], p_only_job_id bigint, p_one_by_one boolean, p_now timestamptz)
returns public.giftcard_claim_state
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_circuit text;
  v_id bigint;
  r record;  -- what the limits of the circuit leave
  a record;  -- and those of the job
begin
  foreach v_circuit in array p_half_open loop
    exit when s.remaining <= 0;
    r := public.giftcard_reserve_starts(s.limits, v_circuit, 1, 1, s.claim_key, p_now);
    s.limited_until := least(s.limited_until, r.until);
    continue when r.allowed = 0;
    s.busy := coalesce(s.busy, public.giftcard_busy_keys(s.limits, p_now));
    for i in 1 .. 20 loop
      v_id := case when p_one_by_one
                   then public.giftcard_try_pick_probe(v_circuit, p_only_job_id, s.skipped, s.busy, p_now)
                   else public.giftcard_pick_probe(v_circuit, p_only_job_id, s.skipped, s.busy, p_now) end;
      if i = 1 and v_id is null then
        s.limited_until := least(s.limited_until, p_now + interval '1 second');  -- nothing notifies of a probe's end
      end if;
      exit when v_id is null;
      a := public.giftcard_admit(s.limits, array[v_id], s.claim_key, p_now);
      s.limited_until := least(s.limited_until, case when a.admitted = '{}' then a.until
                                                     else p_now + interval '1 second' end);
      if a.admitted <> '{}' then
        perform public.giftcard_take_starts(s.limits, r.reserved, a.admitted, s.claim_key, p_now);
        s.ids := s.ids || v_id;
        s.remaining := s.remaining - 1;
      end if;
      s.busy := s.busy || a.busy;
      exit when a.admitted <> '{}' or p_only_job_id is not null;
    end loop;
  end loop;
  return s;
end $$;

-- Begin a claim of up to p_limit jobs for a tick.
create function public.giftcard_begin_claim(
  t public.giftcard_ticks, p_claim_key uuid, p_limit integer, p_now timestamptz) returns public.giftcard_claim_state
language plpgsql stable security invoker set search_path = '' as $$
declare
  s public.giftcard_claim_state;
begin
  s.ids := '{}'::bigint[];
  s.remaining := p_limit;
  s.queues := '{}'::public.giftcard_cursor[];
  s.claimed_from := '{}'::text[];
  s.served := t.served;
  s.limits := case when t.limits = '{}' and not exists (select from public.giftcard_limits) then '{}'::jsonb
                   else public.giftcard_effective_limits(t.limits, p_now) end;
  s.skipped := '{}'::bigint[];
  s.tick_id := t.id;
  s.claim_key := p_claim_key;
  s.weights := t.tenant_weights;
  return s;
end $$;

-- Reserve up to p_wanted starts for the queue at p_place, under the limits of its stage and circuit: sets allowed and
-- reserved. The circuits of its stage whose turn is soon share what the stage's limit leaves.
create function public.giftcard_reserve_for_queue(
  s public.giftcard_claim_state, p_place integer, p_wanted integer, p_now timestamptz)
returns public.giftcard_claim_state
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_circuit text := s.queues[p_place].circuit;
  v_stage text := public.giftcard_stage_of(v_circuit);
  r record;
begin
  r := public.giftcard_reserve_starts(
    s.limits, v_circuit, p_wanted, case when cardinality(s.queues) = p_place then 1 else (
      select count(*)::integer from unnest(s.queues[p_place : p_place + 24]) c
       where starts_with(c.circuit || ':', v_stage || ':')) end, s.claim_key, p_now);
  s.allowed := r.allowed;
  s.reserved := r.reserved;
  s.limited_until := least(s.limited_until, r.until);
  return s;
end $$;

-- Pick due jobs from s.queues: the circuits take turns, in rounds, the oldest due job of each first. Leaves in s.queues
-- the circuits that had more, those without a turn first. The planner's settings are those of giftcard_claim_for.
create function public.giftcard_pick_jobs(
  s public.giftcard_claim_state, p_only_job_id bigint, p_now timestamptz) returns public.giftcard_claim_state
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_again public.giftcard_cursor[];  -- the queues of the next round
  q public.giftcard_cursor;
  v_wanted integer;                  -- jobs that the round is to pick
  v_share integer;
  v_got bigint[];
  v_keyed boolean;                   -- whether one has a concurrency key
  v_more boolean;                    -- whether the queue may have more
begin
  while s.remaining > 0 and cardinality(s.queues) > 0 loop
    v_again := '{}'::public.giftcard_cursor[];
    v_wanted := s.remaining;
    for i in 1 .. cardinality(s.queues) loop
      -- A fair share; what one circuit does not need comes to others in the next round. giftcard_step shares alike.
      v_share := (v_wanted + cardinality(s.queues) - i) / cardinality(s.queues);
      v_again := case when v_share = 0 then s.queues[i:] || v_again else v_again end;
      exit when v_share = 0;
      q := s.queues[i];
      if s.limits <> '{}' then
        s := public.giftcard_reserve_for_queue(s, i, v_share, p_now);
        v_share := s.allowed;
        continue when v_share = 0;
        q.plain := q.plain and not public.giftcard_limits_tenants(s.limits, q.circuit);  -- may be set since the scan
      end if;
      q.plain := coalesce(q.plain, public.giftcard_is_plain(s.limits, q, v_share, p_only_job_id, p_now));
      if q.plain then
        select coalesce(array_agg(g.id), '{}'), max(g.scheduled_at), coalesce(bool_or(g.keyed), false)
          into v_got, q.scheduled_at, v_keyed from (
          select j.id, j.scheduled_at, j.concurrency_key is not null as keyed from public.giftcard_jobs j
           where j.status = 'queued' and j.circuit = q.circuit and (-j.priority) = q.lanes[1]
             and j.scheduled_at <= p_now and j.id <> all (s.ids) and j.id <> all (s.skipped)
             and (j.scheduled_at, j.id) > (coalesce(q.scheduled_at, '-infinity'), coalesce(q.id, -9223372036854775808))
           order by j.scheduled_at, j.id limit v_share for update skip locked) g;
        q.id := v_got[v_share];
        q.plain := not v_keyed;
        v_more := cardinality(v_got) = v_share;
      end if;
      if not q.plain then
        s := public.giftcard_pick_carefully(s, q, v_share, p_only_job_id, p_now);
        v_got := s.got;
        v_more := s.more;
        q.scheduled_at := null;
      end if;
      if s.limits <> '{}' then
        perform public.giftcard_take_starts(s.limits, s.reserved, v_got, s.claim_key, p_now);
      end if;
      s.ids := s.ids || v_got;
      s.remaining := s.remaining - cardinality(v_got);
      s.claimed_from := s.claimed_from || q.circuit;
      s.served := s.served || jsonb_build_object(
        q.circuit, coalesce((s.served ->> q.circuit)::integer, 0) + cardinality(v_got));
      v_again := case when v_more then v_again || q else v_again end;
    end loop;
    s.queues := v_again;
  end loop;
  return s;
end $$;
-- Tenants in turn: the part of a claim that goes to the tenants of a lane one after the other, whatever the length of
-- their queues.

-- Return how many jobs in a row a tenant gets where tenants take turns: 1 to 100; 1 for what is no number.
create function public.giftcard_weight(p_weights jsonb, p_tenant_id text) returns integer
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return greatest(1, coalesce(public.giftcard_limit_number(p_weights, p_tenant_id, 100), 1))::integer;
end $$;

-- Return whether a limit holds back all jobs of a tenant in a stage: one of 0, or one that is known to be used up.
create function public.giftcard_is_held_back(s public.giftcard_claim_state, p_stage text, p_tenant_id text)
returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return 'tenant ' || p_stage || ' ' || p_tenant_id = any (s.busy)
         or coalesce(public.giftcard_tenant_limit(s.limits, p_stage, p_tenant_id) ->> 'runs' = '0', false);
end $$;

-- Return the tenants that have a turn now in a lane, the next one first, p_most at most, and the weight of each.
-- p_last: the tenant of the last turn (empty: none); where its turn goes on, it comes first, else last. stopped_at: the
-- last one walked over, if there may be more behind it; empty: the walk has gone round. One walk: to the end, then from
-- the first tenant on; of 75 tenants at most, those whose jobs are not due among them.
create function public.giftcard_tenants_in_turn(
  s public.giftcard_claim_state, p_circuit text, p_lane smallint, p_last text, p_goes_on boolean, p_most integer,
  p_now timestamptz, out names text[], out weights integer[], out stopped_at text)
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_seen integer;
begin
  with recursive walk as (
    select p_last collate "C" as tenant_id, p_goes_on as has_turn, p_last = '' as again, 0 as seen, 0 as found
    union all
    select n.tenant_id,
           n.due and (s.limits = '{}' or not public.giftcard_is_held_back(
             s, public.giftcard_stage_of(p_circuit), n.tenant_id)),
           n.again, w.seen + 1, w.found + w.has_turn::integer
      from walk w cross join lateral (
        -- Postgres reads the second part only where the first has no row.
        (select j.tenant_id, j.scheduled_at <= p_now as due, w.again from public.giftcard_jobs j
          where j.status = 'queued' and j.circuit = p_circuit and (-j.priority) = p_lane and j.tenant_id > w.tenant_id
          order by j.tenant_id, j.scheduled_at, j.id limit 1)
        union all
        (select j.tenant_id, j.scheduled_at <= p_now, true from public.giftcard_jobs j
          where not w.again and j.status = 'queued' and j.circuit = p_circuit and (-j.priority) = p_lane
          order by j.tenant_id, j.scheduled_at, j.id limit 1)
        limit 1) n
     where w.found + w.has_turn::integer < p_most and w.seen < 75
       and (not n.again or p_last = '' or n.tenant_id < p_last or n.tenant_id = p_last and not p_goes_on))
  select coalesce(array_agg(k.tenant_id order by k.seen) filter (where k.has_turn), '{}'),
         coalesce(array_agg(case when s.weights = '{}' then 1 else public.giftcard_weight(s.weights, k.tenant_id) end
                            order by k.seen) filter (where k.has_turn), '{}'),
         max(k.seen), (array_agg(k.tenant_id order by k.seen desc))[1]
    into names, weights, v_seen, stopped_at from walk k;
  if cardinality(names) < p_most and v_seen < 75 then
    stopped_at := '';
  end if;
end $$;

-- Pick up to p_wanted due jobs of a lane for the tenants whose turn it is, each its weight in a row, from where the
-- last claim of the circuit stopped. The row in giftcard_turns is a hint: a claim that holds it is not waited for.
create function public.giftcard_pick_by_tenant(
  s public.giftcard_claim_state, p_circuit text, p_lane smallint, p_wanted integer, p_now timestamptz) returns bigint[]
language plpgsql volatile security invoker set search_path = '' as $$
declare
  t public.giftcard_turns;
  v_goes_on boolean := false;  -- the tenant of the last turn has not had its weight in a row
  v_picked bigint[];
  v_last text;
  v_taken integer;
  n record;                    -- whose turn it is
begin
  select * into t from public.giftcard_turns where circuit = p_circuit;
  if s.weights <> '{}' and t.tenant_id <> '' then
    v_goes_on := t.taken < public.giftcard_weight(s.weights, t.tenant_id)
                 and not public.giftcard_is_held_back(s, public.giftcard_stage_of(p_circuit), t.tenant_id);
  end if;
  n := public.giftcard_tenants_in_turn(
    s, p_circuit, p_lane, coalesce(t.tenant_id, ''), v_goes_on, least(p_wanted, 25), p_now);
  -- Locks a few more than it picks, where tenants have many turns: of each as many as all turns may need.
  select coalesce(array_agg(x.id order by x.turn, x.place, x.nth), '{}'),
         (array_agg(x.name order by x.turn desc, x.place desc, x.nth desc))[1],
         (array_agg(x.nth order by x.turn desc, x.place desc, x.nth desc))[1]
    into v_picked, v_last, v_taken from (
    select r.id, r.name, r.place, (r.nth - 1) / r.weight as turn, (r.nth - 1) % r.weight + 1 as nth from (
      select g.id, u.name, u.weight, u.place,
             row_number() over (partition by u.place order by g.scheduled_at, g.id)::integer
               + case when v_goes_on and u.name = t.tenant_id then t.taken else 0 end as nth
        from unnest(n.names, n.weights) with ordinality u(name, weight, place) cross join lateral (
        select j.id, j.scheduled_at from public.giftcard_jobs j
         where j.status = 'queued' and j.circuit = p_circuit and (-j.priority) = p_lane and j.tenant_id = u.name
           and j.scheduled_at <= p_now and j.id <> all (s.ids) and j.id <> all (s.skipped)
           and (j.concurrency_key is null
                or 'key ' || replace(j.tenant_id, ' ', '%20') || ' ' || j.concurrency_key <> all (s.busy))
         order by j.scheduled_at, j.id
         limit u.weight * ((p_wanted - 1) / (select sum(a) from unnest(n.weights) a) + 1) for update skip locked) g) r
     order by turn, r.place, r.nth limit p_wanted) x;
  if cardinality(v_picked) < p_wanted then
    v_last := n.stopped_at;
    v_taken := 100;  -- its turn is over
  end if;
  update public.giftcard_turns set tenant_id = v_last, taken = v_taken
   where circuit = (select f.circuit from public.giftcard_turns f where f.circuit = p_circuit for update skip locked);
  if t.circuit is null and pg_try_advisory_xact_lock(hashtextextended('turns of ' || p_circuit, 0)) then
    insert into public.giftcard_turns (circuit, tenant_id, taken) values (p_circuit, v_last, v_taken)
    on conflict do nothing;
  end if;
  return v_picked;
end $$;
-- Turns: how a claim picks from a queue where more than the time of its jobs matters: priorities, tenants, concurrency
-- keys, limits.
--
-- The jobs that a tick starts of a circuit are numbered from the tick's id on. Of several lanes, the one with the
-- highest priority comes first; the last of ten numbers belongs to the lane below whose oldest job has waited for
-- longest, so that none starves. Where more jobs of a lane are due than are wanted, of several tenants, even numbers
-- belong to the tenants in turn, odd ones to the oldest jobs.

-- Return how many of the next p_count numbers of a circuit leave p_rest when divided by p_divisor.
create function public.giftcard_share(
  s public.giftcard_claim_state, p_circuit text, p_count integer, p_divisor integer, p_rest integer) returns integer
language plpgsql immutable security invoker set search_path = '' as $$
declare
  v_first bigint := s.tick_id + coalesce((s.served ->> p_circuit)::integer, 0);
begin
  return ((v_first + p_count + p_divisor - 1 - p_rest) / p_divisor
          - (v_first + p_divisor - 1 - p_rest) / p_divisor)::integer;
end $$;

-- Return whether tenants have to take turns in a lane: more jobs are due than are wanted, of more than one tenant.
create function public.giftcard_takes_turns(p_circuit text, p_lane smallint, p_wanted integer, p_now timestamptz)
returns boolean
language plpgsql stable security invoker set search_path = '' as $$
begin
  return (select j.tenant_id from public.giftcard_jobs j
           where j.status = 'queued' and j.circuit = p_circuit and (-j.priority) = p_lane
           order by j.tenant_id, j.scheduled_at, j.id limit 1)
      <> (select j.tenant_id from public.giftcard_jobs j
           where j.status = 'queued' and j.circuit = p_circuit and (-j.priority) = p_lane
           order by j.tenant_id desc, j.scheduled_at desc, j.id desc limit 1)
     and exists (select from public.giftcard_jobs j
                  where j.status = 'queued' and j.circuit = p_circuit and (-j.priority) = p_lane
                    and j.scheduled_at <= p_now
                  order by j.scheduled_at, j.id limit 1 offset p_wanted);
end $$;

-- Return whether limits by tenant hold in a stage.
create function public.giftcard_limits_tenants(p_limits jsonb, p_circuit text) returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return exists (
    select from jsonb_object_keys(p_limits) k
     where starts_with(k, 'tenant ' || public.giftcard_stage_of(p_circuit) || ' '));
end $$;

-- Return whether only the time of its jobs matters in a queue, as far as can be known before they are picked.
create function public.giftcard_is_plain(
  p_limits jsonb, q public.giftcard_cursor, p_wanted integer, p_only_job_id bigint, p_now timestamptz) returns boolean
language plpgsql stable security invoker set search_path = '' as $$
begin
  return p_only_job_id is null and cardinality(q.lanes) = 1
         and (p_limits = '{}' or not public.giftcard_limits_tenants(p_limits, q.circuit))
         and not public.giftcard_takes_turns(q.circuit, q.lanes[1], p_wanted, p_now);
end $$;

-- Return the concurrency keys that let no more jobs start, as keys of limits.
create function public.giftcard_busy_keys(p_limits jsonb, p_now timestamptz) returns text[]
language plpgsql stable security invoker set search_path = '' as $$
begin
  return array(
    select 'key ' || replace(j.tenant_id, ' ', '%20') || ' ' || j.concurrency_key from public.giftcard_jobs j
     where j.status = 'running' and j.concurrency_key is not null and j.lease_expires_at > p_now
     group by j.tenant_id, j.concurrency_key
    having count(*) >= coalesce(
      (p_limits -> ('key ' || replace(j.tenant_id, ' ', '%20') || ' ' || j.concurrency_key) ->> 'runs')::integer, 1)
    union
    select e.key from jsonb_each(p_limits) e where e.key like 'key %' and e.value ->> 'runs' = '0'
    union
    -- Used up; a row of another clock is not: giftcard_lock_rate lets it begin anew.
    select r.key from public.giftcard_rates r
     where r.key = any (array(
       select e.key from jsonb_each(p_limits) e where e.key like 'key %' and e.value ? 'per_second'))
       and public.giftcard_starts_at(p_limits -> r.key, r, p_now) > p_now
       and r.full_at <= p_now + make_interval(secs => 1 + public.giftcard_burst(p_limits -> r.key)
                                                          / (p_limits -> r.key ->> 'per_second')::double precision));
end $$;

-- Pick up to p_wanted of the oldest due jobs of a lane, without p_ids.
create function public.giftcard_pick_oldest(
  s public.giftcard_claim_state, p_circuit text, p_lane smallint, p_wanted integer, p_ids bigint[], p_now timestamptz)
returns bigint[]
language plpgsql volatile security invoker set search_path = '' as $$
begin
  return array(
    select j.id from public.giftcard_jobs j
     where j.status = 'queued' and j.circuit = p_circuit and (-j.priority) = p_lane and j.scheduled_at <= p_now
       and j.id <> all (s.ids) and j.id <> all (s.skipped) and j.id <> all (p_ids)
       and (j.concurrency_key is null
            or 'key ' || replace(j.tenant_id, ' ', '%20') || ' ' || j.concurrency_key <> all (s.busy))
     order by j.scheduled_at, j.id limit p_wanted for update skip locked);
end $$;

-- Pick up to p_wanted of the 1,000 oldest due jobs of a lane whose tenants and keys are not known to be held back: for
-- lanes with limits by tenant, where the walk over tenants has found too few. It passes many that have nothing due.
create function public.giftcard_pick_allowed(
  s public.giftcard_claim_state, p_circuit text, p_lane smallint, p_wanted integer, p_now timestamptz) returns bigint[]
language plpgsql volatile security invoker set search_path = '' as $$
declare
  -- A variable: with a literal the planner may choose an index of queued rows for these few ids.
  v_queued constant text := 'queued';
  -- Twice as many as are wanted: another claim may hold some.
  v_ids bigint[] := array(
    select o.id from (
      select j.id, j.stage, j.tenant_id, j.concurrency_key from public.giftcard_jobs j
       where j.status = 'queued' and j.circuit = p_circuit and (-j.priority) = p_lane and j.scheduled_at <= p_now
         and j.id <> all (s.ids) and j.id <> all (s.skipped)
       order by j.scheduled_at, j.id limit 1000) o
     where not public.giftcard_is_held_back(s, o.stage, o.tenant_id)
       and (o.concurrency_key is null
            or 'key ' || replace(o.tenant_id, ' ', '%20') || ' ' || o.concurrency_key <> all (s.busy))
     limit 2 * p_wanted);
begin
  v_ids := array(
    select j.id from public.giftcard_jobs j
     where j.id = any (v_ids) and j.status = v_queued and j.scheduled_at <= p_now
     order by array_position(v_ids, j.id) for update skip locked);
  return v_ids[1 : p_wanted];
end $$;

-- Pick up to p_wanted due jobs of one lane. p_ids: those that this claim has picked of the circuit already. p_in_turn:
-- whether tenants take turns; null: not known. With limits by tenant all are picked in turn: what one tenant may not
-- start now hides no job of another.
create function public.giftcard_pick_from_lane(
  s public.giftcard_claim_state, p_circuit text, p_lane smallint, p_wanted integer, p_ids bigint[], p_in_turn boolean,
  p_now timestamptz)
returns bigint[]
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_by_tenant integer := 0;
  v_limited boolean := s.limits <> '{}' and public.giftcard_limits_tenants(s.limits, p_circuit);
  v_got bigint[] := '{}'::bigint[];
begin
  s.ids := s.ids || p_ids;
  if v_limited then
    v_by_tenant := p_wanted;
  elsif coalesce(p_in_turn, public.giftcard_takes_turns(p_circuit, p_lane, p_wanted, p_now)) then
    v_by_tenant := public.giftcard_share(s, p_circuit, p_wanted, 2, 0);
  end if;
  if v_by_tenant > 0 then
    v_got := public.giftcard_pick_by_tenant(s, p_circuit, p_lane, v_by_tenant, p_now);
  end if;
  if v_limited and cardinality(v_got) < p_wanted then
    s.ids := s.ids || v_got;
    v_got := v_got || public.giftcard_pick_allowed(s, p_circuit, p_lane, p_wanted - cardinality(v_got), p_now);
  elsif cardinality(v_got) < p_wanted then
    v_got := v_got || public.giftcard_pick_oldest(
      s, p_circuit, p_lane, p_wanted - cardinality(v_got), v_got, p_now);
  end if;
  return v_got;
end $$;

-- Pick up to p_wanted due jobs of a queue with lanes, from the highest priority on. If that leaves out a lane, the jobs
-- whose numbers belong to those below come last.
create function public.giftcard_pick_from_lanes(
  s public.giftcard_claim_state, q public.giftcard_cursor, p_wanted integer, p_now timestamptz) returns bigint[]
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_got bigint[] := '{}'::bigint[];
  v_below smallint[] := q.lanes;
  v_share integer := public.giftcard_share(s, q.circuit, p_wanted, 10, 9);
  v_longest smallint;
  v_of_longest bigint[];
begin
  while cardinality(v_got) < p_wanted and cardinality(v_below) > 0 loop
    v_got := v_got || public.giftcard_pick_from_lane(
      s, q.circuit, v_below[1], p_wanted - cardinality(v_got), v_got, null, p_now);
    v_below := v_below[2:];
  end loop;
  if v_share = 0 or v_below = '{}' or cardinality(v_got) < p_wanted then
    return v_got;
  end if;
  select l.lane into v_longest from unnest(v_below) l(lane) cross join lateral (
    select j.scheduled_at from public.giftcard_jobs j
     where j.status = 'queued' and j.circuit = q.circuit and (-j.priority) = l.lane
     order by j.scheduled_at, j.id limit 1) h
   order by h.scheduled_at, l.lane limit 1;
  v_of_longest := public.giftcard_pick_from_lane(s, q.circuit, v_longest, v_share, v_got, null, p_now);
  return v_got[1 : p_wanted - cardinality(v_of_longest)] || v_of_longest;
end $$;

-- Pick up to p_wanted due jobs of a queue where more than time matters: sets got and more.
create function public.giftcard_pick_carefully(
  s public.giftcard_claim_state, q public.giftcard_cursor, p_wanted integer, p_only_job_id bigint, p_now timestamptz)
returns public.giftcard_claim_state
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_picked bigint[];
  a record;  -- what the limits of tenants and keys admit
begin
  if s.busy is null then
    s.busy := case when s.limits = '{}' and not exists (
        select from public.giftcard_jobs where status = 'running' and concurrency_key is not null) then '{}'::text[]
      else public.giftcard_busy_keys(s.limits, p_now) end;
  end if;
  if p_only_job_id is not null then
    v_picked := array(select id from public.giftcard_jobs
                       where id = p_only_job_id and status = 'queued' and id <> all (s.ids) for update skip locked);
  elsif cardinality(q.lanes) = 1 then
    -- Without limits and busy keys the queue is here because its tenants take turns, as the scan has found.
    v_picked := public.giftcard_pick_from_lane(
      s, q.circuit, q.lanes[1], p_wanted, '{}', case when s.limits = '{}' and s.busy = '{}' then true end, p_now);
  else
    v_picked := public.giftcard_pick_from_lanes(s, q, p_wanted, p_now);
  end if;
  if s.limits = '{}' and s.busy = '{}' and not exists (
      select from public.giftcard_jobs where id = any (v_picked) and concurrency_key is not null) then
    s.got := v_picked;
    s.more := cardinality(v_picked) = p_wanted;
    return s;
  end if;
  a := public.giftcard_admit(s.limits, v_picked, s.claim_key, p_now);
  s.got := a.admitted;
  s.busy := s.busy || a.busy;
  -- Jobs of a key that turns out to be busy are passed over from now on; a hundred such keys are enough for one claim.
  s.more := p_only_job_id is null and cardinality(v_picked) = p_wanted
            and (s.got <> '{}' or a.busy <> '{}' and cardinality(s.busy) < 100);
  -- Nothing notifies of the end of a run, by which a key becomes free. One whose limit is 0 never does.
  s.limited_until := least(s.limited_until, a.until, case when exists (
    select from unnest(s.busy) b where starts_with(b, 'key ') and s.limits -> b ->> 'runs' is distinct from '0')
    then p_now + interval '1 second' end);
  return s;
end $$;
-- Commits: lateness counts from scheduled_at, and no job can be claimed before the transaction commits that queues it.

-- Set the time of a job that came due in a transaction of more than a second to that of the commit: the same for all of
-- the transaction, whose jobs start by their ids. Not if it inserts more than 10,000 jobs (by their ids): they would
-- leave as many dead entries at the head of their queue. Nor for a role that may not update jobs.
create function public.giftcard_schedule_at_commit() returns trigger
language plpgsql security invoker set search_path = '' as $$
declare
  v_now timestamptz := clock_timestamp();
begin
  if v_now < now() + interval '1 second' or new.scheduled_at < now() or new.scheduled_at > v_now
     or not has_table_privilege('public.giftcard_jobs', 'select')
     or not has_table_privilege('public.giftcard_jobs', 'update') then
    return null;
  end if;
  if coalesce(current_setting('giftcard.commits_at', true), '') = '' then
    perform set_config('giftcard.commits_at', case
      when tg_op = 'INSERT' and (select max(id) from public.giftcard_jobs) - new.id > 10000 then '-infinity'
      else v_now::text end, true);
  end if;
  v_now := current_setting('giftcard.commits_at')::timestamptz;
  update public.giftcard_jobs set scheduled_at = v_now, updated_at = v_now
   where id = new.id and status = 'queued' and scheduled_at = new.scheduled_at and scheduled_at < v_now;
  return null;
end $$;

-- Deferred: they run at the commit. The first for each row of a plain INSERT and of a call of giftcard_enqueue in a
-- transaction that goes on (its writer is `transaction`): what programs enqueue is committed at once, and would pay
-- several percent for it. The second for what an UPDATE or a requeue makes due at once. Both conditions are short, as
-- Postgres reads them anew in every statement.
create constraint trigger giftcard_jobs_inserted_until_commit after insert on public.giftcard_jobs
  deferrable initially deferred
  for each row when (coalesce(current_setting('giftcard.writer', true), '') in ('', 'transaction'))
  execute function public.giftcard_schedule_at_commit();
create constraint trigger giftcard_jobs_made_due_until_commit after update of scheduled_at on public.giftcard_jobs
  deferrable initially deferred
  for each row when (new.scheduled_at between now() and clock_timestamp())
  execute function public.giftcard_schedule_at_commit();
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
-- A claim that walks: where many circuits have queued jobs.

-- What such a claim has picked. half_open: the circuits that wait for a probe; next_due_at: as giftcard_scan_queues
-- returns it, in a moment if there are more to look at.
create type public.giftcard_walk_picks as (
  s public.giftcard_claim_state, half_open text[], next_due_at timestamptz);

-- Pick jobs of circuits, for a claim that walks through them until it has something. They have their turns by the
-- circle: the tick keeps neither cursors of them (unless all are known) nor how many jobs of each it has started, and
-- their jobs are numbered by circles.
create function public.giftcard_pick_on_walk(
  s public.giftcard_claim_state, t public.giftcard_ticks, p_limit integer, p_one_by_one boolean, p_now timestamptz)
returns public.giftcard_walk_picks
language plpgsql volatile security invoker set search_path = '' as $$
declare
  w public.giftcard_walk := public.giftcard_begin_walk(t);
  p public.giftcard_walk_picks;
  v_wanted integer := greatest(s.remaining, 1);
begin
  p.half_open := '{}'::text[];
  s.served := '{}'::jsonb;
  w := public.giftcard_find_ready(w, t, v_wanted, p_now);
  loop
    s.tick_id := case when w.complete then t.id + t.started else w.circles end;
    if w.half_open <> '{}' then
      p.half_open := p.half_open || w.half_open;
      s := public.giftcard_pick_probes(s, w.half_open, null, p_one_by_one, p_now);
    end if;
    if s.remaining > 0 then
      s.queues := public.giftcard_with_lanes(w.ready, p_now);
      s := public.giftcard_pick_jobs(s, null, p_now);
    end if;
    exit when w.complete or s.remaining <= 0 or s.ids <> '{}';
    w := public.giftcard_walk_on(w, t, v_wanted, 1000, p_now);
  end loop;
  p.next_due_at := case when p_limit > 0 then w.next_due_at else least(
    w.next_due_at, (select min(q.scheduled_at) from unnest(w.ready) q),
    case when w.half_open <> '{}' then p_now + interval '1 second' end) end;
  if w.far is not null and p_limit > 0 then
    perform public.giftcard_keep_place(w.name || ' far', w.was_far, w.far, 0);
  end if;
  if not w.complete then
    p.next_due_at := least(p.next_due_at, p_now + interval '100 milliseconds');
    s.queues := '{}'::public.giftcard_cursor[];
    if p_limit > 0 then
      perform public.giftcard_keep_place(w.name, w.began, w.at, w.circles);  -- all that it has found had a turn
    end if;
  end if;
  p.s := s;
  return p;
end $$;
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
-- Marks: what a claim has picked becomes runs, in one statement, or one by one once that has failed.

-- Give the interrupted runs p_ids a new lease of 30 s. The caller holds their rows.
create function public.giftcard_take_over(p_ids bigint[], p_claim_key uuid, p_owner text, p_now timestamptz)
returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_changed bigint;
begin
  update public.giftcard_jobs
     set lease_id = p_claim_key, lease_expires_at = p_now + interval '30 seconds', lock_owner = p_owner,
         locked_at = coalesce(locked_at, p_now), updated_at = p_now
   where id = any (p_ids);
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, cardinality(p_ids));
end $$;

-- Mark jobs as claimed: each runs under a lease for its time to run and 10 s more. The caller holds their rows.
create function public.giftcard_mark_jobs(
  p_ids bigint[], p_owner text, p_stages jsonb, p_claim_key uuid, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_changed bigint;
begin
  update public.giftcard_jobs
     set status = 'running', attempts = least(attempts + 1, 1000000), run_no = least(run_no + 1, 1000000000),
         lease_id = p_claim_key,
         lease_expires_at =
           p_now + make_interval(secs => 10 + coalesce(ttr_seconds, (p_stages ->> stage)::integer, 60)),
         locked_at = p_now, lock_owner = p_owner, updated_at = p_now,
         cancel_requested_at = null, revive_at = null, finished_at = null
   where id = any (p_ids);
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, cardinality(p_ids));
end $$;

-- Keep in the circuits p_half_open which of the jobs p_ids, just marked, is the probe. The caller holds their rows.
create function public.giftcard_mark_probes(p_ids bigint[], p_half_open text[]) returns void
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_changed bigint;
begin
  update public.giftcard_circuits c set probe_job_id = j.id, probe_lease_id = j.lease_id
    from public.giftcard_jobs j
   where j.id = any (p_ids) and c.circuit = j.circuit and c.state = 'half_open' and c.circuit = any (p_half_open);
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, (
    select count(distinct circuit)::integer from public.giftcard_jobs
     where id = any (p_ids) and circuit = any (p_half_open)));
end $$;

-- Keep in a tick's row what it has claimed and served, and its cursors (null: none). p_claimed: what the same call has
-- claimed before. The planner's settings are those of giftcard_claim_for.
create function public.giftcard_mark_tick(
  p_tick_id bigint, p_claim_key uuid, p_claimed bigint[], p_ids bigint[], p_interrupted bigint[], p_served jsonb,
  p_scanned_at timestamptz, p_cursors public.giftcard_cursor[])
returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  update public.giftcard_ticks
     set claim_key = p_claim_key, claim_ids = p_claimed || p_interrupted || p_ids, claim_interrupted = p_interrupted,
         served = p_served, started = started + cardinality(p_ids), scanned_at = p_scanned_at,
         cursors = coalesce(p_cursors, '{}')
   where id = p_tick_id;
end $$;

-- Mark picked jobs one by one, and take over interrupted runs. One that cannot be is put aside. A probe whose circuit
-- is at fault stays queued, and ticks pass over the circuit for ten minutes. Return the ids of both.
create function public.giftcard_mark_each(
  p_tick public.giftcard_ticks, p_claim_key uuid, p_ids bigint[], p_ended bigint[], p_half_open text[],
  p_now timestamptz, out ids bigint[], out ended bigint[])
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_id bigint;
  v_circuit text;  -- what fails now is this circuit; null: the job
begin
  ids := '{}';
  ended := '{}';
  foreach v_id in array p_ended || p_ids loop
    v_circuit := null;
    begin
      if v_id = any (p_ended) then
        perform public.giftcard_take_over(array[v_id], p_claim_key, p_tick.owner, p_now);
        ended := ended || v_id;
      else
        perform public.giftcard_mark_jobs(array[v_id], p_tick.owner, p_tick.stages, p_claim_key, p_now);
        if p_half_open <> '{}' then
          select circuit into v_circuit from public.giftcard_jobs where id = v_id;
          perform public.giftcard_mark_probes(array[v_id], p_half_open);
        end if;
        ids := ids || v_id;
      end if;
    exception when others then
      if public.giftcard_is_unavailable(sqlstate) then
        raise;
      elsif v_circuit is not null then
        perform public.giftcard_record_fault(
          'circuit', v_circuit, public.giftcard_error_text(sqlstate, sqlerrm), p_now, p_now + interval '10 minutes');
      else
        perform public.giftcard_put_aside(v_id, public.giftcard_error_text(sqlstate, sqlerrm), p_now);
      end if;
    end;
  end loop;
end $$;

-- Mark what a claim has picked, take over the runs p_ended, and keep both in the tick's row. Return the ids of both.
-- p_claimed, p_one_by_one: as in giftcard_claim_for.
create function public.giftcard_mark_claimed(
  t public.giftcard_ticks, p_claim_key uuid, s public.giftcard_claim_state, p_claimed bigint[], p_ended bigint[],
  p_half_open text[], p_one_by_one boolean, p_now timestamptz, out ids bigint[], out ended bigint[])
language plpgsql volatile security invoker set search_path = '' as $$
declare
  m record;
begin
  ids := s.ids;
  ended := p_ended;
  if p_one_by_one then
    m := public.giftcard_mark_each(t, p_claim_key, s.ids, p_ended, p_half_open, p_now);
    ids := m.ids;
    ended := m.ended;
    begin
      perform public.giftcard_mark_tick(t.id, p_claim_key, p_claimed, ids, ended, s.served, null, null);
    exception when others then
      if public.giftcard_is_unavailable(sqlstate) then
        raise;
      end if;
      perform public.giftcard_record_fault('tick', t.id::text, public.giftcard_error_text(sqlstate, sqlerrm), p_now);
    end;
    return;
  end if;
  perform public.giftcard_mark_jobs(s.ids, t.owner, t.stages, p_claim_key, p_now);
  if p_half_open <> '{}' then
    perform public.giftcard_mark_probes(s.ids, p_half_open);
  end if;
  if p_ended <> '{}' then
    perform public.giftcard_take_over(p_ended, p_claim_key, t.owner, p_now);
  end if;
  perform public.giftcard_mark_tick(
    t.id, p_claim_key, p_claimed, ids, p_ended, s.served, t.scanned_at,
    -- Many queues and a single job need a scan each time.
    case when cardinality(s.queues) <= 20 and t.only_job_id is null then s.queues end);
end $$;
-- The audit: one row for each act of an operator, written in the transaction of the act. Rows are only added.

create table public.giftcard_audit (
  id bigint generated always as identity,
  at timestamptz not null,
  by text collate "C" not null,
  role text not null default session_user,
  tenant_id text collate "C",
  action text collate "C" not null,
  subject text collate "C" not null,
  details jsonb not null default '{}',
  constraint giftcard_audit_pkey primary key (id),
  constraint giftcard_audit_by_is_short check (char_length(by) between 1 and 200),
  constraint giftcard_audit_action_is_a_name check (action ~ '^[a-z_]{1,50}$')
);
create index giftcard_audit_by_tenant on public.giftcard_audit (tenant_id, id);
create index giftcard_audit_by_actor on public.giftcard_audit (by, id);
create index giftcard_audit_by_action on public.giftcard_audit (action, id);
-- A hash: a subject may be longer than an index entry of another kind.
create index giftcard_audit_by_subject on public.giftcard_audit using hash (subject);
create index giftcard_audit_by_time on public.giftcard_audit (at, id);

comment on table public.giftcard_audit is
  'One row is one act of an operator. It holds no personal data: names of fields, not their values.';
comment on column public.giftcard_audit.by is
  'The name of the token, the user of the command line, or the database role.';
comment on column public.giftcard_audit.role is
  'The database role that connected: authenticator is the Data API. The service role cannot set it.';
comment on column public.giftcard_audit.tenant_id is 'The tenant whose data the act changed; null: all, or none.';

-- Refuse a change of the audit, also by its owner.
create function public.giftcard_refuse_audit_change() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  perform public.giftcard_refuse('GC409', 'the audit is append-only: its rows are neither changed nor removed');
  return null;
end $$;
create trigger giftcard_audit_is_append_only before update or delete or truncate on public.giftcard_audit
  for each statement execute function public.giftcard_refuse_audit_change();

-- Return the name of who acts: p_by, or the database role that connected.
create function public.giftcard_actor(p_by text) returns text
language sql stable security invoker set search_path = '' as $$
  select left(coalesce(nullif(p_by, ''), session_user), 200)
$$;

-- Record an act of an operator. p_action: a verb like 'cancel'. p_subject: what it changed, like 'job 7'. p_details:
-- names and numbers, never personal data.
create function public.giftcard_record_act(
  p_by text, p_tenant_id text, p_action text, p_subject text, p_details jsonb default '{}',
  p_now timestamptz default null) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  insert into public.giftcard_audit (at, by, tenant_id, action, subject, details)
  values (coalesce(p_now, clock_timestamp()), public.giftcard_actor(p_by), p_tenant_id, p_action, p_subject,
          jsonb_strip_nulls(coalesce(p_details, '{}')));
end $$;

-- Record an act on jobs: one row for each tenant whose jobs they are. None for no job.
create function public.giftcard_record_jobs(
  p_by text, p_action text, p_ids bigint[], p_details jsonb default '{}', p_now timestamptz default null) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  perform public.giftcard_record_act(
      p_by, t.tenant_id, p_action,
      case when t.jobs = 1 then 'job ' || t.first else format('jobs %s to %s', t.first, t.last) end,
      p_details || jsonb_build_object('jobs', nullif(t.jobs, 1)), p_now)
    from (select tenant_id, count(*) as jobs, min(id) as first, max(id) as last
            from public.giftcard_jobs where id = any (p_ids) group by tenant_id order by tenant_id) t;
end $$;

-- Return the names of the fields that differ, the first 50 of them: what the audit keeps of a change.
create function public.giftcard_changed_fields(p_old jsonb, p_new jsonb) returns jsonb
language sql immutable security invoker set search_path = '' as $$
  select coalesce(jsonb_agg(k.name order by k.name), '[]') from (
    select left(n.name, 100) as name
      from (select jsonb_object_keys(p_old) union select jsonb_object_keys(p_new)) n(name)
     where p_old -> n.name is distinct from p_new -> n.name order by 1 limit 50) k
$$;

-- Return a page of the audit, the newest first: {acts: [{id, at, by, role, tenant_id, action, subject, details}],
-- older: the id to continue from, null at the end}. Each filter that is not null must match; p_since: at or after it.
create function public.giftcard_list_audit(
  p_by text default null, p_action text default null, p_subject text default null, p_since timestamptz default null,
  p_older bigint default null, p_limit integer default 50, p_tenant_id text default null) returns jsonb
language plpgsql stable security invoker
-- Planned for the values of each call: an absent condition folds away.
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  a public.giftcard_audit;
  v_row jsonb;
  v_bytes integer := 0;
  v_rows jsonb[] := array[]::jsonb[];
  v_more boolean := false;
begin
  -- One more than the page holds: its presence means that there are more.
  for a in select * from public.giftcard_audit
            where (p_older is null or id < p_older) and (p_by is null or by = p_by)
              and (p_action is null or action = p_action) and (p_subject is null or subject = p_subject)
              and (p_since is null or at >= p_since) and (p_tenant_id is null or tenant_id = p_tenant_id)
            order by id desc limit v_limit + 1 loop
    v_row := public.giftcard_readable_row(to_jsonb(a), 20000);
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes);
    exit when v_more;
    v_rows := v_rows || v_row;
  end loop;
  return jsonb_build_object('acts', to_jsonb(v_rows),
                            'older', case when v_more then v_rows[cardinality(v_rows)] -> 'id' end);
end $$;
-- Sources: where the payload of a job or a schedule comes from. What the application has not written gets no secrets.
-- Functions of this schema name themselves in the setting giftcard.writer while they write, until the transaction ends
-- at the latest; without it, a row is the work of plain SQL, whatever it contains. A guard against mistakes and against
-- roles that only write rows: a role that may also set that setting, or call these functions, can pass for them.

-- Mark a new row as one of plain SQL.
create function public.giftcard_mark_inserted_by_hand() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  new.source := 'sql';
  return new;
end $$;

-- Mark a row whose payload or source plain SQL has changed. An update of its own: a trigger before the update would
-- lock each row again.
create function public.giftcard_mark_changed_by_hand() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  execute format('update public.%I set source = ''sql'' where id = $1', tg_table_name) using new.id;
  return null;
end $$;

create trigger giftcard_jobs_mark_inserted_by_hand before insert on public.giftcard_jobs
  for each row when (new.source <> 'sql' and coalesce(current_setting('giftcard.writer', true), '') = '')
  execute function public.giftcard_mark_inserted_by_hand();
create trigger giftcard_jobs_mark_changed_by_hand after update of payload, source on public.giftcard_jobs
  for each row when (new.source <> 'sql' and coalesce(current_setting('giftcard.writer', true), '') = ''
    and (new.source <> old.source or new.payload is distinct from old.payload))
  execute function public.giftcard_mark_changed_by_hand();
-- Enqueue: one job or many.

-- Raise a refusal: giftcard_refuse('GC404', 'job 7 does not exist'). The field at fault becomes the error's DETAIL.
create function public.giftcard_refuse(p_sqlstate text, p_message text, p_field text default null) returns void
language plpgsql security invoker set search_path = '' as $$
begin
  raise exception '%', p_message using errcode = p_sqlstate, detail = coalesce(p_field, '');
end $$;

-- Refuse what cannot be enqueued as a whole: no array, too many jobs, a time without its zone, a concurrency key that
-- is no name.
create function public.giftcard_check_jobs(p_jobs jsonb) returns void
language plpgsql stable security invoker set search_path = '' as $$
begin
  -- The checks of times and keys only where there are any.
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
  elsif p_jobs @? '$[*].concurrency_key ? (@.type() != "null" && (@.type() != "string"
      || !(@ like_regex "^[^[:cntrl:]]{0,200}$")))' then
    perform public.giftcard_refuse(
      'GC400', 'concurrency_key must be up to 200 characters without control characters', 'concurrency_key');
  end if;
end $$;

-- Return {id, status, created} of each job that an enqueue was given, in its order; p_new are those that it created.
-- With p_replace, one in error or cancelled is queued again with its new payload.
create function public.giftcard_enqueued_jobs(p_jobs jsonb, p_new bigint[], p_replace boolean, p_now timestamptz)
returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
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
           else (public.giftcard_requeue_job(
                  (a.answer ->> 'id')::bigint, p_jobs -> (a.n - 1)::integer -> 'payload', false,
                  p_jobs -> (a.n - 1)::integer ->> 'circuit', p_jobs -> (a.n - 1)::integer ->> 'source', null,
                  p_now)).answer || '{"created": false}' end
      order by a.n)
    from json_array_elements(v_answers) with ordinality a(answer, n));
end $$;

-- Lock the jobs that an enqueue with p_replace may queue again, before it adds any: by id, as everybody does.
create function public.giftcard_lock_enqueued(p_jobs jsonb) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  perform from public.giftcard_jobs
   where id = any (array(
     select j.id from jsonb_array_elements(p_jobs) e(job)
       join public.giftcard_jobs j
         on j.tenant_id = coalesce(e.job ->> 'tenant_id', 'default') and j.correlation_id = e.job ->> 'correlation_id'
        and j.stage = e.job ->> 'stage' and j.dedup_key = coalesce(e.job ->> 'dedup_key', '')))
   order by id for update;
end $$;

-- Return the rows of the jobs that an enqueue was given, to be added in this order. Ids follow the caller's order, in
-- which jobs of one time start. Rows are added by their keys: of two calls with the same keys one waits for the other
-- at the first, and neither holds what the other needs.
create function public.giftcard_asked_jobs(p_jobs jsonb, p_now timestamptz) returns table (
  id bigint, tenant_id text, correlation_id text, stage text, dedup_key text, circuit text, trigger_type text,
  source text, payload jsonb, context jsonb, max_attempts integer, semantics text, ttr_seconds integer,
  retry_delays double precision[], priority smallint, concurrency_key text, batch_id bigint, scheduled_at timestamptz,
  created_at timestamptz, updated_at timestamptz)
language plpgsql volatile security invoker set search_path = '' as $$
begin
  return query
  with asked as materialized (
    select nextval('public.giftcard_jobs_id_seq') as id, coalesce(j.tenant_id, 'default') as tenant_id,
           j.correlation_id, j.stage, coalesce(j.dedup_key, '') as dedup_key, coalesce(j.circuit, j.stage),
           coalesce(j.trigger_type, 'sql'), coalesce(j.source, 'sql'), coalesce(j.payload, '{}'),
           coalesce(j.context, '{}'), j.max_attempts, coalesce(j.semantics, 'at_least_once'), j.ttr_seconds,
           j.retry_delays, coalesce(j.priority, 0::smallint), nullif(j.concurrency_key, ''), j.batch_id,
           coalesce(j.scheduled_at, p_now) + make_interval(secs => coalesce(j.delay_seconds, 0)), p_now, p_now
      from jsonb_to_recordset(p_jobs) as j(
        tenant_id text, correlation_id text, stage text, dedup_key text, circuit text, trigger_type text, source text,
        payload jsonb, context jsonb, max_attempts integer, semantics text, ttr_seconds integer,
        retry_delays double precision[], priority smallint, concurrency_key text, batch_id bigint,
        scheduled_at timestamptz, delay_seconds double precision))
  select a.* from asked a
   order by a.correlation_id collate "C", a.tenant_id collate "C", a.stage collate "C", a.dedup_key collate "C", a.id
   limit 1000;
end $$;

-- Add many jobs of which none is there yet, as nearly always: without ON CONFLICT, which writes a confirmation for each
-- row and looks each up first, an enqueue of 1,000 costs a seventh less. Return their ids and what giftcard_enqueue
-- answers; null: one is there already, and nothing was added.
create function public.giftcard_add_new_jobs(
  p_jobs jsonb, p_now timestamptz, out ids bigint[], out answers json)
language plpgsql volatile security invoker set search_path = '' as $$
begin
  with inserted as (
    insert into public.giftcard_jobs
      (id, tenant_id, correlation_id, stage, dedup_key, circuit, trigger_type, source, payload, context, max_attempts,
       semantics, ttr_seconds, retry_delays, priority, concurrency_key, batch_id, scheduled_at, created_at, updated_at)
    select * from public.giftcard_asked_jobs(p_jobs, p_now)
    returning id)
  -- As text: a third of the cost of json_build_object.
  select array_agg(id),
         ('[' || string_agg('{"id": ' || id || ', "status": "queued", "created": true}', ', ' order by id) || ']')::json
    into ids, answers from inserted;
exception when unique_violation then
  ids := null;
end $$;

-- Enqueue jobs: an array of up to 1,000 objects with stage and correlation_id and, optionally, tenant_id, dedup_key,
-- circuit, trigger_type, source (app, pgmq; without it, sql), payload, context, max_attempts, semantics, ttr_seconds,
-- retry_delays, priority, concurrency_key, batch_id, scheduled_at (with its zone), delay_seconds. Return [{id, status,
-- created}] in the same order. A job that exists already is returned as it stands and not changed; with p_replace, one
-- in error or cancelled is queued again with this payload. p_by: the operator whose act it is; null: a program
-- enqueues, which the audit leaves out.
-- p_commits: the transaction ends with this call; else jobs are due from its commit on (giftcard_schedule_at_commit).
create function public.giftcard_enqueue(
  p_jobs jsonb, p_replace boolean default false, p_by text default null, p_commits boolean default false,
  p_now timestamptz default null) returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_new bigint[];
  v_answers json;
begin
  -- The checks of times and keys only where there are any.
  if p_jobs is null or jsonb_typeof(p_jobs) <> 'array' or jsonb_array_length(p_jobs) > 1000
     or p_jobs @? '$[*] ? (exists (@.scheduled_at) || exists (@.concurrency_key))' then
    perform public.giftcard_check_jobs(p_jobs);
  end if;
  if p_jobs = '[]' then
    return '[]'::json;
  end if;
  if p_replace then
    perform public.giftcard_lock_enqueued(p_jobs);
  end if;
  if p_jobs @? '$[*].batch_id ? (@ != null)' then
    perform public.giftcard_check_batches(p_jobs);
  end if;
  perform set_config('giftcard.writer', case when p_commits then 'enqueue' else 'transaction' end, true);
  if jsonb_array_length(p_jobs) >= 20 then
    select n.ids, n.answers into v_new, v_answers from public.giftcard_add_new_jobs(p_jobs, v_now) n;
  end if;
  if v_new is null then
    with inserted as (
      insert into public.giftcard_jobs
        (id, tenant_id, correlation_id, stage, dedup_key, circuit, trigger_type, source, payload, context, max_attempts,
         semantics, ttr_seconds, retry_delays, priority, concurrency_key, batch_id, scheduled_at, created_at,
         updated_at)
      select * from public.giftcard_asked_jobs(p_jobs, v_now)
      on conflict on constraint giftcard_jobs_flow_key do nothing
      returning id)
    select array_agg(id), json_agg(json_build_object('id', id, 'status', 'queued', 'created', true) order by id)
      into v_new, v_answers from inserted;
  end if;
  perform set_config('giftcard.writer', '', true);
  if cardinality(v_new) is distinct from jsonb_array_length(p_jobs) then
    -- Some existed already. Another call has a new snapshot: it sees what another transaction has just committed.
    v_answers := public.giftcard_enqueued_jobs(p_jobs, v_new, p_replace, p_now);
  end if;
  if p_by is not null then
    perform public.giftcard_record_jobs(p_by, 'enqueue', array(
      select (a ->> 'id')::bigint from json_array_elements(v_answers) a
       where (a ->> 'created')::boolean or (a -> 'was') is not null), '{}', v_now);
  end if;
  return v_answers;
end $$;
-- The claim: scan the queues, pick jobs, mark them, take over what killed functions left. All of it in one call.

-- Return the claimed jobs as a JSON array in the order of p_ids: an array for each, as lib/store/codec.py reads it and
-- giftcard_step writes it. What the caller knows is left out: the lease and the owner. json, not jsonb: it is written
-- once, four times as fast. Payload and context are text in it: one that Python cannot parse spoils its own job only.
create function public.giftcard_claimed_jobs(
  p_ids bigint[], p_lease_id uuid, p_interrupted bigint[], p_stages jsonb) returns json
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan set jit = off as $$
declare
  -- A variable: with a literal the planner may choose the index of running rows for these few ids, and read all of it.
  v_running constant text := 'running';
begin
  return (
    select coalesce(json_agg(json_build_array(
             j.id, j.tenant_id, j.correlation_id, j.stage, j.dedup_key, j.circuit, j.payload::text, j.context::text,
             j.attempts, j.max_attempts, j.run_no, j.revivals, j.semantics,
             coalesce(j.ttr_seconds, (p_stages ->> j.stage)::integer, 60), j.retry_delays, j.scheduled_at, j.locked_at,
             j.id = any (p_interrupted), j.source) order by array_position(p_ids, j.id)), '[]')
      from public.giftcard_jobs j
     where j.id = any (p_ids) and j.status = v_running and j.lease_id = p_lease_id);
end $$;

-- Return the queues that a tick knows from its last claim, within a second of its scan. Empty: there are none, or one
-- is not open any more.
create function public.giftcard_known_queues(t public.giftcard_ticks, p_now timestamptz)
returns public.giftcard_cursor[]
language plpgsql stable security invoker set search_path = '' as $$
begin
  return case when t.scanned_at between p_now - interval '1 second' and p_now
    and not exists (select from public.giftcard_stages s where s.paused_at is not null and (
      s.stage = '*' or s.stage = any (array(select public.giftcard_stage_of(q.circuit) from unnest(t.cursors) q))))
    and not exists (select from public.giftcard_circuits c
                     where c.state <> 'closed'
                       and c.circuit = any (array(select q.circuit from unnest(t.cursors) q)))
    then t.cursors else '{}' end;
end $$;

-- Return whether a claim's key is older than another of its tick: the call comes late, and no one runs what it claims.
-- The keys of a tick share all but the last group, which counts. Other keys have no order.
create function public.giftcard_is_older_key(p_claim_key uuid, p_than uuid) returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return coalesce(p_claim_key < p_than and left(p_claim_key::text, 24) = left(p_than::text, 24), false);
end $$;

-- Keep the key of a claim that has found nothing, so that an older one which comes late is known. Not the begin's: it
-- is the first.
create function public.giftcard_mark_scan(t public.giftcard_ticks, p_claim_key uuid) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  if p_claim_key <> t.key then
    update public.giftcard_ticks set claim_key = p_claim_key, claim_ids = '{}', claim_interrupted = '{}'
     where id = t.id;
  end if;
end $$;

-- Claim up to p_limit due jobs for a tick, after up to 10 interrupted runs (outside the limit). The circuits take
-- turns, those that this tick has started the fewest jobs of first. The claim's key becomes the lease of what it
-- claims: a repeated call with the same key returns the same live leases and claims no others. late: a later claim of
-- the tick was carried out before it.
-- next_due_at: null when as many jobs were found as were asked for, and when nothing waits. p_one_by_one: slower, for a
-- call that has failed: a row at fault is put aside.
-- p_claimed: jobs that this call has claimed already. put_aside: how many picked jobs were not claimed; served: the
-- tick's, with what was picked.
-- A tick in a backlog scans all queues once a second; in between it continues from the cursors of its last claim. Until
-- vacuum, claimed jobs leave dead entries at the head of each queue, which the cursors skip.
-- Statistics of a queue are always stale: every plan here uses an index, or is wrong. A sort that cannot be avoided
-- then costs so much on paper that Postgres before 18 would compile the plan.
create function public.giftcard_claim_for(
  t public.giftcard_ticks, p_claim_key uuid, p_limit integer, p_one_by_one boolean, p_now timestamptz,
  p_claimed bigint[] default '{}', out jobs json, out claimed integer, out paused boolean,
  out next_due_at timestamptz, out put_aside integer, out served jsonb, out late boolean)
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan as $$
declare
  s public.giftcard_claim_state;
  q record; m record;        -- the scan, and what was marked
  v_ended bigint[] := '{}'::bigint[]; v_half_open text[] := '{}'::text[];
begin
  select '[]'::json, 0, 0, false, public.giftcard_is_older_key(p_claim_key, t.claim_key)
    into jobs, claimed, put_aside, paused, late;
  if t.claim_key = p_claim_key and t.claim_ids <> '{}' and p_claimed = '{}' then
    jobs := public.giftcard_claimed_jobs(t.claim_ids, p_claim_key, t.claim_interrupted, t.stages);
    claimed := json_array_length(jobs);
    return;
  elsif late or t.ended_at is not null then
    return;  -- no one runs what it claims
  elsif exists (select from public.giftcard_stages where stage = '*' and paused_at is not null) then
    select true, cardinality(p_claimed), public.giftcard_claimed_jobs(p_claimed, p_claim_key, '{}', t.stages)
      into paused, claimed, jobs;
    return;
  end if;
  s := public.giftcard_begin_claim(t, p_claim_key, p_limit, p_now);
  s.queues := public.giftcard_known_queues(t, p_now);
  s := case when p_limit > 0 and s.queues <> '{}' then public.giftcard_pick_jobs(s, t.only_job_id, p_now) else s end;
  if s.remaining > 0 or p_limit <= 0 then
    t.scanned_at := p_now;
    t.served := s.served;
    q := public.giftcard_scan_queues(t, p_limit, p_now);
    v_ended := q.ended;
    s.queues := q.open;
    s.skipped := q.skipped;
    if q.many then
      q := public.giftcard_pick_on_walk(s, t, p_limit, p_one_by_one, p_now);
      s := q.s;
    elsif q.half_open <> '{}' then
      s := public.giftcard_pick_probes(s, q.half_open, t.only_job_id, p_one_by_one, p_now);
    end if;
    v_half_open := q.half_open;
    s := public.giftcard_pick_jobs(s, t.only_job_id, p_now);
  end if;
  if cardinality(v_ended) + cardinality(s.ids) > 0 then
    m := public.giftcard_mark_claimed(t, p_claim_key, s, p_claimed, v_ended, v_half_open, p_one_by_one, p_now);
    put_aside := cardinality(v_ended) + cardinality(s.ids) - cardinality(m.ended) - cardinality(m.ids);
    p_claimed := p_claimed || m.ended || m.ids;
  end if;
  if p_claimed <> '{}' then
    select cardinality(p_claimed), public.giftcard_claimed_jobs(p_claimed, p_claim_key, v_ended, t.stages)
      into claimed, jobs;
  elsif not p_one_by_one then perform public.giftcard_mark_scan(t, p_claim_key); end if;
  served := s.served;
  if s.remaining > 0 or p_limit <= 0 then
    next_due_at := public.giftcard_next_due(
      q.next_due_at, s.claimed_from, s.limited_until, t.only_stage is null and t.only_job_id is null, t.revives,
      s.skipped, p_now);
  end if;
end $$;

-- Claim one by one, until a job is claimed, no row is at fault or 3 s are over; then more is due at once. What is put
-- aside counts as served, so that the circuits take turns.
create function public.giftcard_claim_each(
  t public.giftcard_ticks, p_claim_key uuid, p_limit integer, p_now timestamptz, out jobs json, out claimed integer,
  out paused boolean, out next_due_at timestamptz, out late boolean)
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_until timestamptz := clock_timestamp() + interval '3 seconds';
  c record;
begin
  -- What the tick has written down of itself may be what is at fault.
  t.served := '{}'::jsonb;
  t.cursors := '{}'::public.giftcard_cursor[];
  loop
    c := public.giftcard_claim_for(t, p_claim_key, p_limit, true, p_now);
    exit when c.claimed > 0 or c.put_aside = 0 or clock_timestamp() >= v_until;
    t.served := c.served;
  end loop;
  jobs := c.jobs;
  claimed := c.claimed;
  paused := c.paused;
  late := c.late;
  next_due_at := case when c.claimed = 0 and c.put_aside > 0 then p_now else c.next_due_at end;
end $$;

-- Claim for a tick that has settled nothing in this call. The lock, of what the keys of a tick share, makes a repeated
-- claim and one that comes late wait for the first.
-- p_one_by_one: as in giftcard_claim_for.
create function public.giftcard_claim(
  p_tick_id bigint, p_claim_key uuid, p_limit integer, p_now timestamptz default null,
  p_one_by_one boolean default false, out jobs json, out claimed integer, out paused boolean,
  out next_due_at timestamptz, out late boolean)
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz;
  t public.giftcard_ticks;
  c record;
begin
  perform pg_advisory_xact_lock(hashtextextended(left(p_claim_key::text, 24), 0));
  v_now := coalesce(p_now, clock_timestamp());
  select * into t from public.giftcard_ticks where id = p_tick_id;
  if not found then
    perform public.giftcard_refuse('GC404', format('tick %s does not exist', p_tick_id), 'tick_id');
  end if;
  if p_one_by_one then
    c := public.giftcard_claim_each(t, p_claim_key, p_limit, v_now);
  else
    c := public.giftcard_claim_for(t, p_claim_key, p_limit, false, v_now);
  end if;
  jobs := c.jobs;
  claimed := c.claimed;
  paused := c.paused;
  next_due_at := c.next_due_at;
  late := c.late;
end $$;
-- The settle: outcomes of runs become states of jobs, history, next jobs, webhooks and states of circuits.

-- Record the outcomes of runs. p_results: an array of {id, lease_id, outcome: complete|retry|error|snooze|release} and,
-- as the outcome needs it, delay (seconds), error (text), revive (seconds; absent: never), context (merged), next (jobs
-- to enqueue in this transaction: same tenant and flow, context passed on), interrupted (true for a run taken over),
-- detail and frames (kept with the run), trips (the threshold of its circuit, when this failure counts towards it).
-- Complete counts as a success by itself.
-- settled: [{id, settled: 'settled'|'lease_lost', status, next_run_at}]; opened, closed: circuits; sums: how many by
-- outcome. p_guarded: webhooks and circuits that fail do not undo the settle.
create function public.giftcard_settle(
  p_results jsonb, p_cooldown_seconds double precision default 60, p_now timestamptz default null,
  p_guarded boolean default false, out settled json, out opened text[], out closed text[], out sums jsonb)
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off
set enable_bitmapscan = off set plan_cache_mode = force_generic_plan set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_by_id jsonb;         -- results by the id of their job, where any has more to it than that it is complete
  g record;              -- ids by outcome, and the lease of all results, if they share one: most come from one claim
  v_done bigint[];
  v_batches bigint[];    -- of jobs that have ended; nearly always null
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
  if g.complete is not null and g.unfinished is not null then
    -- Two statements: each locks its jobs by id, and this one those of both.
    perform from public.giftcard_jobs where id = any (g.ids) order by id for update;
  end if;
  if g.complete is not null then
    r := public.giftcard_settle_completed(g.complete, g.lease_id, v_by_id, v_now);
    v_done := r.done;
    v_batches := r.batches;
    settled := r.settled;
  end if;
  sums := jsonb_build_object('completed', coalesce(cardinality(v_done), 0), 'lease_lost', 0);
  if g.unfinished is not null then
    r := public.giftcard_settle_unfinished(g.unfinished, v_by_id, v_now);
    v_done := v_done || r.done;
    v_batches := v_batches || r.batches;
    sums := sums || r.sums;
  end if;
  if v_batches is not null or v_by_id @? '$.*.next ? (@ != null)' then
    perform public.giftcard_enqueue_next(v_done, v_by_id, v_batches, p_now);
  end if;
  -- When all are complete and settled, as nearly always, the rows need not be read again.
  if g.unfinished is not null or cardinality(v_done) is distinct from cardinality(g.ids) then
    r := public.giftcard_settled_jobs(g.ids, v_done, coalesce(v_by_id, public.giftcard_results_by_id(p_results)));
    settled := r.settled;
    sums := sums || jsonb_build_object('lease_lost', r.lease_lost);
  end if;
  r := public.giftcard_follow_up(p_results, v_done, p_cooldown_seconds, p_guarded, v_now);
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

-- Settle jobs that are complete; p_lease_id null: each result has its own lease. Return the ids of those settled, their
-- batches (null: none has one), and their part of what giftcard_settle returns. The line of history is written from
-- the row that was just changed, in the same statement. The planner's settings are those of giftcard_settle.
create function public.giftcard_settle_completed(
  p_ids bigint[], p_lease_id uuid, p_by_id jsonb, p_now timestamptz, out done bigint[], out batches bigint[],
  out settled json)
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
    returning id, run_no, attempts, stage, scheduled_at, locked_at, lock_owner, batch_id), kept as (
    insert into public.giftcard_job_history
      (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at, lock_owner, lease_id, detail)
    select id, run_no, attempts, stage, 'SUCCESS', scheduled_at, coalesce(locked_at, p_now), p_now, lock_owner,
           coalesce(p_lease_id, (p_by_id -> id::text ->> 'lease_id')::uuid),
           case when v_details then p_by_id -> id::text -> 'detail' end
      from changed
    -- A line that is there already is another's: of an import, or of ids that began anew.
    on conflict (job_id, run_no) do update
      set attempt = excluded.attempt, stage = excluded.stage, result = excluded.result,
          scheduled_at = excluded.scheduled_at, started_at = excluded.started_at, finished_at = excluded.finished_at,
          lock_owner = excluded.lock_owner, lease_id = excluded.lease_id, error = null, next_run_at = null,
          detail = excluded.detail, frames = null
    returning job_id)
  select array_agg(job_id), (select array_agg(batch_id) from changed where batch_id is not null),
         json_agg(json_build_object('id', job_id, 'status', 'completed', 'settled', 'settled', 'next_run_at', null))
    into done, batches, settled from kept;
end $$;

-- Settle jobs that are not complete: retry, snooze and release send a run back, error ends it; a requested cancel turns
-- each into cancelled. Return the ids of those settled, the batches of those that have ended, and how many by outcome.
create function public.giftcard_settle_unfinished(
  p_ids bigint[], p_by_id jsonb, p_now timestamptz, out done bigint[], out batches bigint[], out sums jsonb)
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
set jit = off as $$
declare
  v_running constant text := 'running';
begin
  with changed as (
    update public.giftcard_jobs j
       set status = case when j.cancel_requested_at is not null then 'cancelled'
                         when r ->> 'outcome' = 'error' then 'error' else 'queued' end,
           -- Set to 0 by hand while it ran, it stays 0.
           attempts = greatest(0, j.attempts - case when r ->> 'outcome' in ('snooze', 'release') then 1 else 0 end),
           last_error = coalesce(left(r ->> 'error', 500), j.last_error),
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
       next_run_at, detail, frames)
    select id, run_no, attempts + case when r ->> 'outcome' in ('snooze', 'release') then 1 else 0 end, stage,
           case when (r ->> 'interrupted')::boolean then 'INTERRUPTED' when r ->> 'outcome' = 'snooze' then 'SNOOZED'
                when r ->> 'outcome' = 'release' then 'RELEASED' else 'FAILED' end,
           was_scheduled_at, coalesce(locked_at, p_now), p_now, lock_owner, (r ->> 'lease_id')::uuid,
           left(r ->> 'error', 500),
           -- giftcard_next_run_at, inline
           case status when 'queued' then scheduled_at when 'error' then revive_at end, r -> 'detail', r -> 'frames'
      from changed
    on conflict (job_id, run_no) do update
      set attempt = excluded.attempt, stage = excluded.stage, result = excluded.result,
          scheduled_at = excluded.scheduled_at, started_at = excluded.started_at, finished_at = excluded.finished_at,
          lock_owner = excluded.lock_owner, lease_id = excluded.lease_id, error = excluded.error,
          next_run_at = excluded.next_run_at, detail = excluded.detail, frames = excluded.frames
    returning job_id)
  select coalesce(array_agg(job_id), '{}'),
         (select array_agg(batch_id) from changed
           where batch_id is not null and status <> 'queued' and revive_at is null)
    into done, batches from kept;
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
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set plan_cache_mode = force_generic_plan
set jit = off as $$
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

-- Enqueue what follows settled jobs: same tenant, flow, batch and source, context passed on; payload, priority and
-- concurrency key too unless the next job has its own. Nothing follows a cancelled job; complete wins over a requested
-- cancel. Then end p_batches, those of the jobs that have ended (null: none has one), if they were the last.
create function public.giftcard_enqueue_next(
  p_ids bigint[], p_by_id jsonb, p_batches bigint[], p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_next jsonb;
begin
  select jsonb_agg(jsonb_build_object('payload', j.payload, 'priority', j.priority,
                                      'concurrency_key', j.concurrency_key)
                   || (select jsonb_object_agg(key, value) from jsonb_each(n.job) where value <> 'null')
           || jsonb_build_object('tenant_id', j.tenant_id, 'correlation_id', j.correlation_id, 'context', j.context,
                                 'batch_id', j.batch_id, 'trigger_type', 'flow', 'source', j.source)
           order by j.id)
    into v_next
    from public.giftcard_jobs j
    cross join lateral jsonb_array_elements(p_by_id -> j.id::text -> 'next') n(job)
   where j.id = any (p_ids) and j.status in ('completed', 'error');
  if v_next is not null then
    perform public.giftcard_enqueue(v_next, p_commits => true, p_now => p_now);
  end if;
  if p_batches is not null then
    -- After the next jobs: these are in the batch.
    perform public.giftcard_end_batches(p_batches, coalesce(p_now, clock_timestamp()));
  end if;
end $$;
-- A tick's steps: begin, then advance until it has ended. A tick with nothing to do is one call; a batch of jobs is
-- two.
-- Without jit: where no index serves, forbidden scans cost so much on paper before PostgreSQL 18 that each plan would
-- be compiled. A tick never waits for infinity, which cannot be subtracted before PostgreSQL 17.

-- Revive these dead letters of p_batch, whose rows the caller holds: queued, with a whole new set of attempts. A batch
-- of more than ten is spread over five minutes, so as not to flood a vendor that has just recovered.
create function public.giftcard_revive_locked(p_ids bigint[], p_batch bigint[], p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_changed bigint;
begin
  update public.giftcard_jobs
     set status = 'queued', attempts = 0, revivals = least(revivals + 1, 1000000), revive_at = null, finished_at = null,
         updated_at = p_now,
         scheduled_at = p_now + case when cardinality(p_batch) > 10
                                     then interval '5 minutes' * (array_position(p_batch, id) - 1)
                                          / cardinality(p_batch)
                                     else interval '0' end
   where id = any (p_ids);
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, cardinality(p_ids));
end $$;

-- Revive dead letters whose revive_at has come, the oldest first, at most p_limit. Return how many. p_one_by_one: one
-- that cannot be revived is put aside.
create function public.giftcard_revive(
  p_limit integer default 100, p_now timestamptz default null, p_one_by_one boolean default false) returns integer
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_skipped bigint[] := public.giftcard_skipped('job', v_now);
  v_ids bigint[] := array(
    select id from public.giftcard_jobs
     where status = 'error' and revive_at is not null and revive_at <= v_now and id <> all (v_skipped)
     order by revive_at, id limit p_limit for update skip locked);
begin
  if v_ids = '{}' then
    return 0;
  elsif p_one_by_one then
    return public.giftcard_revive_each(v_ids, v_now);
  end if;
  perform public.giftcard_revive_locked(v_ids, v_ids, v_now);
  return cardinality(v_ids);
end $$;

-- End a tick, unless something is due within p_linger_seconds and there is no reason to stop. A tick that does not wait
-- has nothing to wait for: others hold what is due now. p_wake: as in giftcard_ticks.wake. Return why it stopped (null:
-- it goes on), and as wake_in what giftcard_wake_after does.
create function public.giftcard_end_tick(
  p_tick_id bigint, p_paused boolean, p_next_due_at timestamptz, p_stop text, p_linger_seconds double precision,
  p_now timestamptz, p_wake jsonb, out stopped_because text, out wake_in integer)
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare v_started boolean;
begin
  stopped_because := coalesce(p_stop, case when p_paused then 'paused'
    when p_linger_seconds <= 0 or p_next_due_at is null or not isfinite(p_next_due_at)
         or extract(epoch from p_next_due_at - p_now) > p_linger_seconds then 'drained' end);
  if p_wake is not null and p_stop is null and stopped_because = 'drained' and p_linger_seconds > 0
     and public.giftcard_is_woken_often(p_now) then
    stopped_because := null;
  end if;
  if stopped_because is not null then
    update public.giftcard_ticks set ended_at = p_now, stopped_because = giftcard_end_tick.stopped_because
     where id = p_tick_id returning started > 0 into v_started;
    if p_wake is not null then
      wake_in := public.giftcard_wake_after(p_wake, stopped_because, v_started, p_next_due_at, p_now);
    end if;
  end if;
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  perform public.giftcard_record_fault('tick', p_tick_id::text, public.giftcard_error_text(sqlstate, sqlerrm), p_now);
end $$;

-- Record that a tick has failed, and why. A tick that has ended stays as it is. p_key: that of its begin, which may
-- have failed before it was recorded.
create function public.giftcard_fail_tick(
  p_key uuid, p_owner text, p_source text, p_error text, p_now timestamptz default null) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  insert into public.giftcard_ticks as t
    (key, owner, source, started_at, live_until, ended_at, stopped_because, error, stages)
  values (p_key, p_owner, p_source, v_now, v_now, v_now, 'failed', left(p_error, 500), '{}')
  on conflict (key) do update
    set ended_at = excluded.ended_at, stopped_because = excluded.stopped_because, error = excluded.error
    where t.ended_at is null;
end $$;

-- Return the schedules that a tick should plan now; null: none. A tick for a single stage or job plans nothing.
-- p_one_by_one: one that cannot be read is paused.
create function public.giftcard_schedules_for(p_tick_id bigint, p_one_by_one boolean, p_now timestamptz) returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  if not exists (select from public.giftcard_schedules where check_at is not null and check_at <= p_now) then
    return null;
  elsif p_one_by_one then
    perform public.giftcard_pause_unreadable_schedules(p_now);
  end if;
  return (
    select d.schedules from public.giftcard_ticks t
     cross join lateral (select public.giftcard_due_schedules(100, p_now) as schedules) d
     where t.id = p_tick_id and t.only_stage is null and t.only_job_id is null
       and json_array_length(d.schedules) > 0);
end $$;

-- Return what a begin returns when there is nothing to do: a pause, a second delivery, a repeated call after the end.
create function public.giftcard_ended_tick(p_tick_id bigint, p_stopped_because text, p_now timestamptz) returns json
language plpgsql stable security invoker set search_path = '' as $$
begin
  return json_build_object(
    'tick_id', p_tick_id, 'duplicate', p_stopped_because = 'duplicate', 'paused', p_stopped_because = 'paused',
    'revived', 0, 'jobs', '[]'::json, 'next_due_at', null, 'next_due_in', null, 'stopped_because', p_stopped_because,
    'maintenance', case when p_stopped_because = 'duplicate' then '[]'::json
                        else public.giftcard_due_maintenance(p_now) end);
end $$;

-- Return whether an execution id was delivered before, and its tick is live or ended without failing. Locks the id.
create function public.giftcard_is_duplicate(p_execution_id text, p_now timestamptz) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  perform pg_advisory_xact_lock(hashtextextended('execution ' || p_execution_id, 0));
  return exists (
    select from public.giftcard_ticks
     where execution_id = p_execution_id
       and (public.giftcard_ended_well(ended_at, stopped_because) or ended_at is null and live_until > p_now));
end $$;

-- Revive for a tick that revives, which counts it. p_one_by_one: a tick's row that refuses the count is recorded, and
-- stays. Return how many jobs.
create function public.giftcard_revive_for(p_tick_id bigint, p_one_by_one boolean, p_now timestamptz) returns integer
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_revived integer := 0;
begin
  if (select revives from public.giftcard_ticks where id = p_tick_id) then
    v_revived := public.giftcard_revive(100, p_now, p_one_by_one);
  end if;
  if v_revived > 0 then
    begin
      update public.giftcard_ticks set revived = least(revived::bigint + v_revived, 2147483647) where id = p_tick_id;
    exception when others then
      if not p_one_by_one or public.giftcard_is_unavailable(sqlstate) then
        raise;
      end if;
      perform public.giftcard_record_fault('tick', p_tick_id::text, public.giftcard_error_text(sqlstate, sqlerrm),
                                           coalesce(p_now, clock_timestamp()));
    end;
  end if;
  return v_revived;
end $$;

-- Record a tick that begins, as giftcard_begin_tick takes it. It has ended already when it is paused, or a second
-- delivery of its execution id.
create function public.giftcard_record_tick(
  p_key uuid, p_owner text, p_source text, p_stages jsonb, p_live_seconds double precision, p_code_version integer,
  p_execution_id text, p_only_stage text, p_only_job_id bigint, p_limits jsonb, p_tenant_weights jsonb,
  p_paused boolean, p_revives boolean, p_wake jsonb, p_now timestamptz, out tick_id bigint, out stopped_because text)
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  if p_execution_id is not null and public.giftcard_is_duplicate(p_execution_id, p_now) then
    stopped_because := 'duplicate';
  elsif p_paused then
    stopped_because := 'paused';
  end if;
  insert into public.giftcard_ticks as t
    (key, owner, source, execution_id, started_at, live_until, ended_at, stopped_because, stages, limits,
     tenant_weights, only_stage, only_job_id, revives, code_version, wake)
  values (p_key, p_owner, p_source, p_execution_id, p_now, p_now + make_interval(secs => p_live_seconds),
          case when stopped_because is not null then p_now end, stopped_because, p_stages, p_limits,
          p_tenant_weights, p_only_stage, p_only_job_id, p_revives, p_code_version, p_wake)
  returning t.id into tick_id;
end $$;

-- Begin a tick: record it, revive, claim. p_key: made by the caller, so that a repeated begin finds its tick and the
-- same leases. A second delivery of an execution id does no work while the first is live or ended well.
-- p_code_version, p_oldest_schema: the caller's version, and the oldest schema that it works with (null: any). GC426 if
-- they do not fit.
-- p_stages: {"email": 60}: the stages that this code can run, with the time to run of each in seconds. p_limits:
-- {"payment": {"runs": 2, "per_second": 10, "burst": 20}}: in the whole fleet. p_tenant_weights: {"acme": 3}: jobs of
-- a tenant for one of another. p_linger_seconds: how long it may wait for work. p_paused: it only
-- does its maintenance. p_revives: whether dead letters revive at all. p_without_circuit: stages whose circuits close.
-- p_one_by_one: after a call that has failed; each row that work fails on is put aside, with the reason. p_wake: as in
-- giftcard_ticks.wake; the same of each advance.
-- Return {tick_id, duplicate, paused, revived, closed (circuits), jobs, next_due_at, next_due_in (seconds),
-- stopped_because (null: it goes on), schedules (due, for the caller to plan before it advances), maintenance (tasks to
-- do after its jobs), wake_in (the caller is to wake another tick: giftcard_wake_after)}.
create function public.giftcard_begin_tick(
  p_key uuid, p_owner text, p_source text, p_stages jsonb, p_limit integer, p_live_seconds double precision,
  p_code_version integer, p_linger_seconds double precision default 0, p_execution_id text default null,
  p_only_stage text default null, p_only_job_id bigint default null, p_limits jsonb default '{}',
  p_oldest_schema integer default null, p_now timestamptz default null, p_paused boolean default false,
  p_revives boolean default true, p_without_circuit text[] default '{}', p_one_by_one boolean default false,
  p_tenant_weights jsonb default '{}', p_wake jsonb default null)
returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_id bigint;
  v_revived integer := 0;
  v_stopped_because text;
  v_next_due_in double precision;
  v_schedules json;
  v_closed text[] := '{}'::text[];
  v_wake_in integer;
  c record;
  e record;
begin
  perform public.giftcard_check_versions(p_code_version, p_oldest_schema);
  if p_one_by_one then
    set constraints all immediate;  -- an error at the commit would be no row's
  end if;
  perform pg_advisory_xact_lock(hashtextextended(left(p_key::text, 24), 0));  -- as giftcard_claim
  select id, revived, stopped_because::text into v_id, v_revived, v_stopped_because
    from public.giftcard_ticks where key = p_key;
  if v_id is null then
    c := public.giftcard_record_tick(p_key, p_owner, p_source, p_stages, p_live_seconds, p_code_version, p_execution_id,
                                     p_only_stage, p_only_job_id, p_limits, p_tenant_weights, p_paused, p_revives,
                                     p_wake, v_now);
    v_id := c.tick_id;
    v_stopped_because := c.stopped_because;
    if v_stopped_because is null then
      perform public.giftcard_recover(v_id, v_now);
      v_closed := public.giftcard_close_circuits_of(p_without_circuit, p_one_by_one, v_now);
      v_revived := public.giftcard_revive_for(v_id, p_one_by_one, p_now);
    end if;
  end if;
  if v_stopped_because is not null then
    return public.giftcard_ended_tick(v_id, v_stopped_because, v_now);
  end if;
  c := public.giftcard_claim(v_id, p_key, p_limit, p_now, p_one_by_one);
  v_next_due_in := case when isfinite(c.next_due_at) then extract(epoch from c.next_due_at - v_now)::float8 end;
  v_schedules := public.giftcard_schedules_for(v_id, p_one_by_one, v_now);
  if c.claimed = 0 and v_schedules is null and not c.late then
    e := public.giftcard_end_tick(v_id, c.paused, c.next_due_at, null, p_linger_seconds, v_now, p_wake);
    v_stopped_because := e.stopped_because;
    v_wake_in := e.wake_in;
  elsif p_wake is not null then
    v_wake_in := public.giftcard_wake_helper(p_wake, c.claimed, p_limit, v_now);
  end if;
  return json_build_object(
    'tick_id', v_id, 'duplicate', false, 'paused', c.paused, 'revived', v_revived, 'jobs', c.jobs,
    'closed', v_closed, 'next_due_at', c.next_due_at, 'next_due_in', v_next_due_in,
    'stopped_because', v_stopped_because, 'schedules', coalesce(v_schedules, '[]'),
    'maintenance', public.giftcard_due_maintenance(v_now), 'wake_in', v_wake_in);
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
  tries integer not null default 0,
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
comment on column public.giftcard_effects.tries is
  'How often it was begun under this key: a run that finds out that it did not happen has to be the last to begin it.';

-- Return the idempotency key of an effect, the same for all tries of one generation.
create function public.giftcard_vendor_key(
  p_tenant_id text, p_correlation_id text, p_stage text, p_dedup_key text, p_name text, p_generation integer)
returns text language sql stable security invoker set search_path = '' as $$
  select 'gc_' || left(encode(sha256(convert_to(
    jsonb_build_array(p_tenant_id, p_correlation_id, p_stage, p_dedup_key, p_name, p_generation)::text, 'UTF8')),
    'hex'), 48)
$$;

-- Begin an effect, or find that it was begun. Return {state: new|unfinished|finished, result, vendor_key, age_seconds
-- (since the first try under this key), tries (under this key, this one too)}. p_of_flow: all jobs of this stage and
-- flow share the effect, whatever their dedup keys: it happens once for all of them. GC410 when the lease is not the
-- job's current one.
create function public.giftcard_begin_effect(
  p_job_id bigint, p_lease_id uuid, p_name text, p_of_flow boolean default false,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_state text := 'finished';
  j public.giftcard_jobs;
  e public.giftcard_effects;
begin
  select * into j from public.giftcard_jobs where id = p_job_id and status = 'running' and lease_id = p_lease_id;
  if not found then
    perform public.giftcard_refuse(
      'GC410', format('job %s is not run under this lease now', p_job_id), 'lease_id');
  end if;
  if p_of_flow then
    j.dedup_key := '';
  end if;
  insert into public.giftcard_effects (tenant_id, correlation_id, stage, dedup_key, name, vendor_key)
  values (j.tenant_id, j.correlation_id, j.stage, j.dedup_key, p_name,
          public.giftcard_vendor_key(j.tenant_id, j.correlation_id, j.stage, j.dedup_key, p_name, 1))
  on conflict on constraint giftcard_effects_pkey do nothing;
  select * into strict e from public.giftcard_effects
   where tenant_id = j.tenant_id and correlation_id = j.correlation_id and stage = j.stage and dedup_key = j.dedup_key
     and name = p_name
     for update;
  if e.result is null then
    v_state := case when e.started_at is null then 'new' else 'unfinished' end;
    update public.giftcard_effects
       set started_at = coalesce(started_at, v_now), tries = least(tries, 1000000) + 1
     where vendor_key = e.vendor_key returning * into e;
  end if;
  return jsonb_build_object('state', v_state, 'result', e.result, 'vendor_key', e.vendor_key,
                            'age_seconds', public.giftcard_milliseconds(e.started_at, v_now) / 1000.0,
                            'tries', e.tries);
end $$;

-- Record the result of an effect, whatever lease the job has now. Return the result that stays: the first. GC404 for an
-- unknown key.
create function public.giftcard_finish_effect(
  p_vendor_key text, p_result jsonb, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
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
-- key. One with a result, and one whose key has changed, stay as they are. p_tries: as its begin has returned it; one
-- that was begun again since stays, too: the other run has the same key, and may have had more success (null: a person
-- decides). Return {vendor_key, abandoned}.
create function public.giftcard_abandon_effect(
  p_vendor_key text, p_note text default null, p_tries integer default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_key text;
begin
  update public.giftcard_effects
     set generation = generation + 1, started_at = null, tries = 0, note = p_note,
         vendor_key = public.giftcard_vendor_key(tenant_id, correlation_id, stage, dedup_key, name, generation + 1)
   where vendor_key = p_vendor_key and result is null and tries = coalesce(p_tries, tries)
  returning vendor_key into v_key;
  return jsonb_build_object('vendor_key', v_key, 'abandoned', found);
end $$;

-- Record a person's decision on an effect whose outcome cannot be found out ("outcome unknown"): it happened (p_result:
-- how), or it did not. Requeue the job afterwards. GC404 for no unfinished effect of this name.
create function public.giftcard_decide_effect(
  p_job_id bigint, p_name text, p_happened boolean, p_result jsonb default null, p_by text default null,
  p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_key text;
  v_actor text := public.giftcard_actor(p_by);
begin
  select e.vendor_key into v_key
    from public.giftcard_jobs j
    join public.giftcard_effects e using (tenant_id, correlation_id, stage)
   where j.id = p_job_id and (p_tenant_id is null or j.tenant_id = p_tenant_id)
     and e.dedup_key in (j.dedup_key, '') and e.name = p_name and e.result is null and e.started_at is not null
   order by e.dedup_key = j.dedup_key desc limit 1;
  if not found then
    perform public.giftcard_refuse(
      'GC404', format('job %s has no unfinished effect named %s', p_job_id, p_name), 'name');
  elsif p_happened and p_result is null then
    perform public.giftcard_refuse('GC400', 'give p_result, what came of it, like {"reference": "ch_123"}', 'result');
  end if;
  perform public.giftcard_record_jobs(
    p_by, 'decide_effect', array[p_job_id], jsonb_build_object('name', p_name, 'happened', p_happened), p_now);
  if p_happened then
    return public.giftcard_finish_effect(
      v_key, p_result || jsonb_build_object('key', v_key, 'decided_by', v_actor), p_now);
  end if;
  return public.giftcard_abandon_effect(v_key, 'did not happen, decided by ' || v_actor);
end $$;
-- Heartbeats: a handler that needs longer extends its lease.

-- Extend a lease for a handler that needs longer: p_seconds (1 to 86,400) from now, and the margin of every lease.
-- Return {cancel_requested}: this run should be the job's last. GC410 when the job belongs to another run.
create function public.giftcard_heartbeat(
  p_job_id bigint, p_lease_id uuid, p_seconds double precision, p_now timestamptz default null)
returns jsonb language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off
set jit = off as $$
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
-- One by one: what a tick does after a call has failed, so that one row stops no other.

-- Do what follows a settle: enqueue webhooks, hold rates, count the results for their circuits. Arguments as in
-- giftcard_settle; p_ids: the jobs that were settled. Return the circuits that opened and closed.
create function public.giftcard_follow_up(
  p_results jsonb, p_ids bigint[], p_cooldown_seconds double precision, p_guarded boolean, p_now timestamptz,
  out opened text[], out closed text[])
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  r record;
begin
  opened := '{}';
  closed := '{}';
  if p_guarded then
    r := public.giftcard_try_follow_up(p_results, p_ids, p_cooldown_seconds, p_now);
    opened := r.opened;
    closed := r.closed;
    return;
  elsif exists (select from public.giftcard_webhook_endpoints where enabled) then
    perform public.giftcard_enqueue_webhooks(p_ids, p_now);
  end if;
  if p_results @? '$[*].hold ? (@ != null)' then
    perform public.giftcard_hold_rates(p_results, p_ids, p_now);
  end if;
  if p_results @? '$[*].trips ? (@ != null)'
     or exists (select from public.giftcard_circuits where failures > 0 or state <> 'closed') then
    r := public.giftcard_count_results(p_results, p_ids, p_cooldown_seconds, p_now);
    opened := r.opened;
    closed := r.closed;
  end if;
end $$;

-- Enqueue the webhooks of jobs that have just been settled, each job's to each endpoint for itself. Those that the
-- database refuses are recorded and left out: they cost no other endpoint its events.
create function public.giftcard_enqueue_webhooks_each(p_ids bigint[], p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  r record;
begin
  for r in
    select i.id as job_id, e.id as endpoint_id
      from unnest(p_ids) i(id)
     cross join lateral (
       select distinct w.id from public.giftcard_events_for(array[i.id], p_now) m
         join public.giftcard_webhook_endpoints w
           on w.tenant_id = m.tenant_id and w.enabled and m.event = any (w.events)) e
     order by i.id, e.id limit 3000
  loop
    begin
      perform public.giftcard_enqueue_webhooks(array[r.job_id], p_now, r.endpoint_id);
    exception when others then
      if public.giftcard_is_unavailable(sqlstate) then
        raise;
      end if;
      perform public.giftcard_record_fault(
        'webhook', format('of job %s to endpoint %s', r.job_id, r.endpoint_id),
        public.giftcard_error_text(sqlstate, sqlerrm), p_now);
    end;
  end loop;
end $$;

-- Do what follows a settle, each step for itself: enqueue webhooks, hold rates, count the results for their circuits.
-- A step that fails is recorded and left out. Return the circuits that opened and closed.
create function public.giftcard_try_follow_up(
  p_results jsonb, p_ids bigint[], p_cooldown_seconds double precision, p_now timestamptz, out opened text[],
  out closed text[])
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_kind text;
  r record;
begin
  opened := '{}';
  closed := '{}';
  for v_kind in select k from unnest(array['webhook', 'rate', 'circuit']) with ordinality x(k, n) order by n loop
    begin
      if v_kind = 'webhook' then
        perform public.giftcard_enqueue_webhooks_each(p_ids, p_now);
      elsif v_kind = 'rate' then
        perform public.giftcard_hold_rates(p_results, p_ids, p_now);
      else
        r := public.giftcard_count_results(p_results, p_ids, p_cooldown_seconds, p_now);
        opened := r.opened;
        closed := r.closed;
      end if;
    exception when others then
      -- A circuit that someone else holds counts nothing now.
      if public.giftcard_is_unavailable(sqlstate) and sqlstate <> '55P03' then
        raise;
      end if;
      perform public.giftcard_record_fault(
        v_kind, 'of job ' || p_ids[1], public.giftcard_error_text(sqlstate, sqlerrm), p_now);
    end;
  end loop;
end $$;

-- Return two objects of numbers added up: {"a": 1} and {"a": 2, "b": 3} give {"a": 3, "b": 3}.
create function public.giftcard_add(p_one jsonb, p_other jsonb) returns jsonb
language sql immutable security invoker set search_path = '' as $$
  select jsonb_object_agg(s.key, s.total) from (
    select e.key, sum(e.value::bigint) as total
      from (select * from jsonb_each_text(p_one) union all select * from jsonb_each_text(p_other)) e
     group by e.key) s
$$;

-- Settle results one by one. One that the database refuses, or whose rows someone else holds (55P03), changes nothing:
-- its `settled` is refused, with sqlstate and error; with `last_resort` in it, its job is put aside. Returns what
-- giftcard_settle returns, and how many were refused.
create function public.giftcard_settle_each(
  p_results jsonb, p_cooldown_seconds double precision, p_now timestamptz, out settled json, out opened text[],
  out closed text[], out sums jsonb, out refused integer)
language plpgsql volatile security invoker set search_path = '' set lock_timeout = '200ms' as $$
declare
  v_settled jsonb := '[]'::jsonb;
  v_result jsonb;
  v_error text;
  s record;
begin
  opened := '{}';
  closed := '{}';
  sums := '{"completed": 0, "lease_lost": 0}';
  for v_result in select value from jsonb_array_elements(p_results) order by (value ->> 'id')::bigint loop
    begin
      s := public.giftcard_settle(jsonb_build_array(v_result), p_cooldown_seconds, p_now, true);
      v_settled := v_settled || coalesce(s.settled::jsonb, '[]');
      opened := opened || s.opened;
      closed := closed || s.closed;
      sums := public.giftcard_add(sums, s.sums);
    exception when others then
      if public.giftcard_is_unavailable(sqlstate) and sqlstate <> '55P03' then
        raise;
      end if;
      v_error := public.giftcard_error_text(sqlstate, sqlerrm);
      v_settled := v_settled || jsonb_build_object(
        'id', (v_result ->> 'id')::bigint, 'status', 'running', 'next_run_at', null, 'sqlstate', sqlstate,
        'error', v_error,
        'settled', case when not v_result ? 'last_resort' or sqlstate = '55P03' then 'refused'
                        when public.giftcard_put_aside(
                          (v_result ->> 'id')::bigint, v_error, coalesce(p_now, clock_timestamp()),
                          (v_result ->> 'lease_id')::uuid) then 'put_aside'
                        else 'skipped' end);
    end;
  end loop;
  settled := v_settled::json;
  refused := jsonb_array_length(jsonb_path_query_array(v_settled, '$[*] ? (@.settled == "refused")'));
end $$;

-- Add to the counts of a tick's row, as giftcard_advance_tick does; a row that refuses it is recorded, and stays.
create function public.giftcard_try_count_in_tick(p_tick_id bigint, p_sums jsonb, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  perform public.giftcard_count_in_tick(p_tick_id, p_sums);
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  perform public.giftcard_record_fault('tick', p_tick_id::text, public.giftcard_error_text(sqlstate, sqlerrm), p_now);
end $$;

-- Revive one by one: a dead letter that cannot be revived is put aside; the others keep their places in the spread.
-- Return how many were revived.
create function public.giftcard_revive_each(p_ids bigint[], p_now timestamptz) returns integer
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_count integer := 0;
  v_id bigint;
begin
  foreach v_id in array p_ids loop
    begin
      perform public.giftcard_revive_locked(array[v_id], p_ids, p_now);
      v_count := v_count + 1;
    exception when others then
      if public.giftcard_is_unavailable(sqlstate) then
        raise;
      end if;
      perform public.giftcard_put_aside(v_id, public.giftcard_error_text(sqlstate, sqlerrm), p_now);
    end;
  end loop;
  return v_count;
end $$;
-- Advance: the steps of a tick after its begin.

-- Add what a settle did to the counts of a tick's row, which makes a repeated call wait for the first. Return the row.
-- GC404 for no such tick.
create function public.giftcard_count_in_tick(p_tick_id bigint, p_sums jsonb) returns public.giftcard_ticks
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_tick public.giftcard_ticks;
begin
  update public.giftcard_ticks t
     set completed = completed + (p_sums ->> 'completed')::integer,
         lease_lost = lease_lost + (p_sums ->> 'lease_lost')::integer,
         retried = retried + coalesce((p_sums ->> 'retried')::integer, 0),
         errored = errored + coalesce((p_sums ->> 'errored')::integer, 0),
         snoozed = snoozed + coalesce((p_sums ->> 'snoozed')::integer, 0),
         released = released + coalesce((p_sums ->> 'released')::integer, 0),
         interrupted = interrupted + coalesce((p_sums ->> 'interrupted')::integer, 0)
   where t.id = p_tick_id
  returning t.* into v_tick;
  if not found then
    perform public.giftcard_refuse('GC404', format('tick %s does not exist', p_tick_id), 'tick_id');
  end if;
  return v_tick;
end $$;

-- Return whether the last claim of a tick had this key: a call that is repeated after a lost reply brings what the
-- first one claimed, even if no more is wanted by now.
create function public.giftcard_has_claimed(p_tick_id bigint, p_claim_key uuid) returns boolean
language plpgsql stable security invoker set search_path = '' as $$
begin
  return exists (
    select from public.giftcard_ticks where id = p_tick_id and claim_key = p_claim_key and claim_ids <> '{}');
end $$;

-- Advance a tick: settle what has finished, claim up to p_limit more, and end the tick when nothing runs (p_busy:
-- handlers still running here) and nothing is worth waiting for, or when the caller gives a reason to stop (p_stop:
-- limit, budget, shutdown). Safe to repeat, also without the results, which may wait for a later call: the claim's key
-- is locked, as in giftcard_claim. p_plan: whether the caller plans schedules; p_one_by_one: as in
-- giftcard_begin_tick. Return {settled, opened, closed, revived, jobs, paused, next_due_at, next_due_in (seconds),
-- stopped_because, schedules, wake_in}: as giftcard_begin_tick does; settled null: all is settled that was given. The
-- jobs that a settle queues wake no other tick: they have this one, unless it stops. p_step, p_claimed: what
-- giftcard_step has done already in this call, {settled, opened, closed}, and the ids that it has claimed.
create function public.giftcard_advance_tick(
  p_tick_id bigint, p_claim_key uuid, p_results jsonb, p_limit integer, p_busy integer,
  p_linger_seconds double precision default 0, p_stop text default null,
  p_cooldown_seconds double precision default 60, p_now timestamptz default null, p_plan boolean default true,
  p_one_by_one boolean default false, p_wake jsonb default null, p_step jsonb default null,
  p_claimed bigint[] default '{}') returns json
language plpgsql volatile security invoker
-- Someone else's open transaction may hold a row: it must not hold up the other results.
set search_path = '' set enable_seqscan = off set jit = off set lock_timeout = '2s' as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_revived integer := 0;
  v_next_due_in double precision;
  v_schedules json;
  v_tick public.giftcard_ticks;
  v_busy integer := p_busy;
  s record;  -- what was settled
  c record; e record;  -- what is claimed, and the end
begin
  if p_one_by_one then set constraints all immediate; end if;  -- an error at the commit would be no row's
  if p_wake is not null and p_stop is null then perform set_config('giftcard.wakes', 'tick', true); end if;
  if p_results <> '[]' then perform pg_advisory_xact_lock(hashtextextended(left(p_claim_key::text, 24), 0)); end if;
  if p_results <> '[]' and p_one_by_one then
    s := public.giftcard_settle_each(p_results, p_cooldown_seconds, p_now);
    perform public.giftcard_try_count_in_tick(p_tick_id, s.sums, v_now);
    v_busy := v_busy + s.refused;  -- the caller sends them again
  elsif p_results <> '[]' then
    s := public.giftcard_settle(p_results, p_cooldown_seconds, p_now);
    v_tick := public.giftcard_count_in_tick(p_tick_id, s.sums);
  elsif p_step is not null then
    select x.* into s from jsonb_to_record(p_step) x(settled json, opened text[], closed text[]);
    select * into v_tick from public.giftcard_ticks where id = p_tick_id;
  else
    select '[]'::json as settled, '{}'::text[] as opened, '{}'::text[] as closed into s;
    v_revived := public.giftcard_revive_for(p_tick_id, p_one_by_one, p_now);
  end if;
  if p_stop is null and p_plan then
    v_schedules := public.giftcard_schedules_for(p_tick_id, p_one_by_one, v_now);
  end if;
  if p_limit <= 0 and v_busy > 0 and not public.giftcard_has_claimed(p_tick_id, p_claim_key) then
    select '[]'::json as jobs, 0 as claimed, false as paused, null::timestamptz as next_due_at, false as late into c;
  elsif v_tick.id is not null then
    -- By a later clock than the settle's: what is claimed now was claimed after each circuit that just changed.
    c := public.giftcard_claim_for(
      v_tick, p_claim_key, p_limit - cardinality(p_claimed), false, coalesce(p_now, clock_timestamp()), p_claimed);
  else
    c := public.giftcard_claim(p_tick_id, p_claim_key, p_limit, p_now, p_one_by_one);
  end if;
  v_next_due_in := case when isfinite(c.next_due_at) then extract(epoch from c.next_due_at - v_now)::float8 end;
  if c.claimed = 0 and v_busy = 0 and v_schedules is null and not c.late then
    e := public.giftcard_end_tick(p_tick_id, c.paused, c.next_due_at, p_stop, p_linger_seconds, v_now, p_wake);
  else
    select null::text as stopped_because, public.giftcard_wake_helper(p_wake, c.claimed, p_limit, v_now) as wake_in
      into e;
  end if;
  return json_build_object(
    'settled', s.settled, 'opened', s.opened, 'closed', s.closed, 'revived', v_revived, 'jobs', c.jobs,
    'paused', c.paused, 'next_due_at', c.next_due_at, 'next_due_in', v_next_due_in,
    'stopped_because', e.stopped_because, 'schedules', coalesce(v_schedules, '[]'), 'wake_in', e.wake_in);
end $$;
-- The step: what nearly every call of a busy tick does. One statement settles the runs that are complete, keeps their
-- history and claims as many jobs; one before it locks the tick, one after it keeps what was claimed. What is rare is
-- left to giftcard_advance_tick.

-- Return the queues that a tick may claim from in the statement that settles: those that it knows, if only the time of
-- their jobs matters. Empty: the claim has to look first. p_looks: whether anything is paused, limited or not well, or
-- a job with a concurrency key is queued.
create function public.giftcard_plain_queues(
  t public.giftcard_ticks, p_claim_key uuid, p_limit integer, p_looks boolean, p_now timestamptz)
returns public.giftcard_cursor[]
language plpgsql stable security invoker set search_path = '' as $$
declare
  q public.giftcard_cursor;
begin
  if p_limit <= 0 or t.ended_at is not null or t.limits <> '{}' or t.claim_key = p_claim_key
     or public.giftcard_is_older_key(p_claim_key, t.claim_key)
     or not t.scanned_at between p_now - interval '1 second' and p_now then
    return '{}'::public.giftcard_cursor[];
  end if;
  foreach q in array t.cursors loop
    if q.plain is not true then
      return '{}'::public.giftcard_cursor[];
    end if;
  end loop;
  if p_looks and (exists (select from public.giftcard_limits) or exists (
      select from public.giftcard_jobs j
       where j.status = 'queued' and j.concurrency_key is not null
         and j.circuit = any (array(select k.circuit from unnest(t.cursors) k)))) then
    return '{}'::public.giftcard_cursor[];
  end if;
  return case when p_looks then public.giftcard_known_queues(t, p_now) else t.cursors end;
end $$;

-- Settle runs that are complete, as giftcard_settle_completed does, and claim up to p_limit jobs from p_queues, as
-- giftcard_pick_jobs and giftcard_mark_jobs do. Return the ids of those settled, their batches (null: none has one),
-- and of the claimed jobs, in their order: what they are, their ids, times and queues.
create function public.giftcard_settle_and_claim(
  t public.giftcard_ticks, p_ids bigint[], p_lease_ids uuid[], p_results jsonb, p_queues public.giftcard_cursor[],
  p_claim_key uuid, p_limit integer, p_now timestamptz,
  out done bigint[], out batches bigint[], out jobs json, out ids bigint[], out times timestamptz[],
  out queues integer[])
language plpgsql volatile security invoker set search_path = '' as $$
declare
  -- A variable: with a literal the planner may choose the index of running rows for these few ids, and read all of it.
  v_running constant text := 'running';
begin
  with done as (
    update public.giftcard_jobs j
       set status = 'completed', last_error = null, lease_id = null, lease_expires_at = null,
           finished_at = p_now, updated_at = p_now,
           context = case when p_results is null then j.context
                          else j.context || coalesce(p_results -> j.id::text -> 'context', '{}') end
      from unnest(p_ids, p_lease_ids) x(id, lease)
     where j.id = x.id and j.status = v_running and j.lease_id = x.lease
    returning j.id, j.run_no, j.attempts, j.stage, j.scheduled_at, j.locked_at, j.lock_owner, j.batch_id, x.lease),
  kept as (
    insert into public.giftcard_job_history
      (job_id, run_no, attempt, stage, result, scheduled_at, started_at, finished_at, lock_owner, lease_id, detail)
    select id, run_no, attempts, stage, 'SUCCESS', scheduled_at, coalesce(locked_at, p_now), p_now, lock_owner, lease,
           p_results -> id::text -> 'detail'
      from done
    on conflict (job_id, run_no) do update
      set attempt = excluded.attempt, stage = excluded.stage, result = excluded.result,
          scheduled_at = excluded.scheduled_at, started_at = excluded.started_at, finished_at = excluded.finished_at,
          lock_owner = excluded.lock_owner, lease_id = excluded.lease_id, error = null, next_run_at = null,
          detail = excluded.detail, frames = null),
  claimed as (
    update public.giftcard_jobs j
       set status = 'running', attempts = least(j.attempts + 1, 1000000), run_no = least(j.run_no + 1, 1000000000),
           lease_id = p_claim_key, lease_expires_at = p_now + make_interval(
             secs => 10 + coalesce(j.ttr_seconds, (t.stages ->> j.stage)::integer, 60)),
           locked_at = p_now, lock_owner = t.owner, updated_at = p_now,
           cancel_requested_at = null, revive_at = null, finished_at = null
      from (
        select i.at, q.n
          from unnest(p_queues) with ordinality q(circuit, lanes, plain, scheduled_at, id, n) cross join lateral (
            select k.ctid as at from public.giftcard_jobs k
             where k.status = 'queued' and k.circuit = q.circuit and (-k.priority) = q.lanes[1]
               and k.scheduled_at <= p_now and k.concurrency_key is null
               and (k.scheduled_at, k.id)
                   > (coalesce(q.scheduled_at, '-infinity'), coalesce(q.id, -9223372036854775808))
             order by k.scheduled_at, k.id limit (p_limit + cardinality(p_queues) - q.n) / cardinality(p_queues)
               for update skip locked) i) p
     where j.ctid = p.at
    returning p.n, j.scheduled_at, j.id, json_build_array(
      j.id, j.tenant_id, j.correlation_id, j.stage, j.dedup_key, j.circuit, j.payload::text, j.context::text,
      j.attempts, j.max_attempts, j.run_no, j.revivals, j.semantics,
      coalesce(j.ttr_seconds, (t.stages ->> j.stage)::integer, 60), j.retry_delays, j.scheduled_at, j.locked_at,
      false, j.source) as job)
  select d.ids, d.batches, c.jobs, c.ids, c.times, c.queues into done, batches, jobs, ids, times, queues
    from (select array_agg(d.id) as ids, array_agg(d.batch_id) filter (where d.batch_id is not null) as batches
            from done d) d,
         (select json_agg(o.job) as jobs, array_agg(o.id) as ids, array_agg(o.scheduled_at) as times,
                 array_agg(o.n::integer) as queues
            from (select * from claimed order by n, scheduled_at, id) o) c;
end $$;

-- Keep in a tick's row what a step has settled and claimed, as giftcard_count_in_tick and giftcard_mark_tick do.
create function public.giftcard_mark_step(
  t public.giftcard_ticks, p_queues public.giftcard_cursor[], p_claim_key uuid, p_limit integer, p_completed integer,
  p_ids bigint[], p_times timestamptz[], p_numbers integer[]) returns void
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_last integer := 0;   -- where a queue's jobs end
  v_share integer;
  v_got integer;
  v_more public.giftcard_cursor[] := '{}'::public.giftcard_cursor[];
  q public.giftcard_cursor;
begin
  if p_ids is null then
    update public.giftcard_ticks set completed = completed + p_completed where id = t.id;
    return;
  end if;
  for i in 1 .. cardinality(p_queues) loop
    v_share := (p_limit + cardinality(p_queues) - i) / cardinality(p_queues);
    if v_share = 0 then
      v_more := p_queues[i:] || v_more;  -- those without a turn first
      exit;
    end if;
    q := p_queues[i];
    v_got := case when cardinality(p_ids) = p_limit then v_share
                  else cardinality(array_positions(p_numbers, i)) end;
    v_last := v_last + v_got;
    t.served := t.served || jsonb_build_object(q.circuit, coalesce((t.served ->> q.circuit)::integer, 0) + v_got);
    if v_got = v_share then
      q.scheduled_at := p_times[v_last];
      q.id := p_ids[v_last];
      v_more := v_more || q;
    end if;
  end loop;
  update public.giftcard_ticks
     set completed = completed + p_completed, started = started + cardinality(p_ids), claim_key = p_claim_key,
         claim_ids = p_ids, claim_interrupted = '{}', served = t.served, cursors = v_more
   where id = t.id;
end $$;

-- Advance a tick whose results are all complete: as giftcard_advance_tick does, which is called for what is left.
-- p_ids, p_lease_ids: the runs, by id, as everybody locks jobs. p_results: what any of them has besides, by its id:
-- {"7": {context, detail, next}}; null: none has. The claim's key and the tick's row are locked first: a call that is
-- repeated waits for the first, and finds what it did.
create function public.giftcard_step(
  p_tick_id bigint, p_claim_key uuid, p_ids bigint[], p_lease_ids uuid[], p_limit integer, p_busy integer,
  p_results jsonb default null, p_linger_seconds double precision default 0, p_stop text default null,
  p_cooldown_seconds double precision default 60, p_now timestamptz default null, p_plan boolean default true,
  p_wake jsonb default null) returns json
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off
set plan_cache_mode = force_generic_plan set lock_timeout = '2s' as $$
declare
  v_now timestamptz;
  v_queues public.giftcard_cursor[];
  t public.giftcard_ticks;
  r record;  -- what it has to look at
  o record;  -- what the statement did
  f record;  -- and what followed
begin
  perform pg_advisory_xact_lock(hashtextextended(left(p_claim_key::text, 24), 0));  -- as giftcard_claim
  select * into t from public.giftcard_ticks where id = p_tick_id for update;
  if not found then
    perform public.giftcard_refuse('GC404', format('tick %s does not exist', p_tick_id), 'tick_id');
  end if;
  -- What has changed while the row was waited for counts: by a later clock, and in another statement, which sees it.
  v_now := coalesce(p_now, clock_timestamp());
  select exists (select from public.giftcard_circuits where failures > 0 or state <> 'closed') as circuits,
         exists (select from public.giftcard_webhook_endpoints where enabled) as webhooks,
         exists (select from public.giftcard_stages where paused_at is not null)
           or exists (select from public.giftcard_limits)
           or exists (select from public.giftcard_jobs where status = 'queued' and concurrency_key is not null) as looks
    into r;
  v_queues := public.giftcard_plain_queues(t, p_claim_key, p_limit, r.looks or r.circuits, v_now);
  o := public.giftcard_settle_and_claim(
    t, p_ids, p_lease_ids, p_results, v_queues, p_claim_key, p_limit, v_now);
  perform public.giftcard_mark_step(
    t, v_queues, p_claim_key, p_limit, coalesce(cardinality(o.done), 0), o.ids, o.times, o.queues);
  f := public.giftcard_after_step(
    p_tick_id, p_ids, p_lease_ids, p_results, o.done, o.batches, r.circuits or r.webhooks, p_cooldown_seconds,
    p_wake is not null and p_stop is null, v_now);
  if cardinality(o.ids) = p_limit then
    return json_build_object(
      'settled', f.settled, 'opened', f.opened, 'closed', f.closed, 'jobs', o.jobs,
      'schedules', case when p_plan then public.giftcard_schedules_for(p_tick_id, false, v_now) end,
      'wake_in', case when p_wake is not null then public.giftcard_wake_helper(p_wake, p_limit, p_limit, v_now) end);
  end if;
  return public.giftcard_advance_tick(
    p_tick_id, p_claim_key, '[]', p_limit, p_busy, p_linger_seconds, p_stop, p_cooldown_seconds, p_now, p_plan, false,
    p_wake, jsonb_build_object('settled', f.settled, 'opened', f.opened, 'closed', f.closed), coalesce(o.ids, '{}'));
end $$;

-- Do what follows the settle of a step: next jobs, batches, webhooks and circuits; and find out about runs that it did
-- not settle. settled: null if it settled all.
create function public.giftcard_after_step(
  p_tick_id bigint, p_ids bigint[], p_lease_ids uuid[], p_results jsonb, p_done bigint[], p_batches bigint[],
  p_follow_up boolean, p_cooldown_seconds double precision, p_wakes boolean, p_now timestamptz,
  out settled json, out opened text[], out closed text[])
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_results jsonb;
  r record;
begin
  opened := '{}';
  closed := '{}';
  if p_wakes then perform set_config('giftcard.wakes', 'tick', true); end if;
  if p_batches is not null or p_results @? '$.*.next[*]' then
    perform public.giftcard_enqueue_next(p_done, p_results, p_batches, p_now);
  end if;
  if p_follow_up or cardinality(p_done) is distinct from cardinality(p_ids) then
    v_results := (select jsonb_agg(jsonb_build_object('id', id, 'lease_id', lease, 'outcome', 'complete'))
                    from unnest(p_ids, p_lease_ids) x(id, lease));
  end if;
  if cardinality(p_done) is distinct from cardinality(p_ids) then
    r := public.giftcard_settled_jobs(
      p_ids, coalesce(p_done, '{}'), public.giftcard_results_by_id(v_results));
    settled := coalesce(r.settled, '[]');  -- none: the rows are gone
    update public.giftcard_ticks set lease_lost = lease_lost + r.lease_lost where id = p_tick_id;
  end if;
  if p_follow_up then
    r := public.giftcard_follow_up(v_results, p_done, p_cooldown_seconds, false, p_now);
    opened := r.opened;
    closed := r.closed;
  end if;
end $$;
-- Recover: what a clock that went wrong has left behind. If the database's clock jumps forward by hours and back, some
-- rows hold times from the future. Nothing may wait for longer than its own delay, counted from now.

-- Return the time as far after p_now as p_at is after p_since; p_now, if that has no meaning.
create function public.giftcard_shifted(p_at timestamptz, p_since timestamptz, p_now timestamptz) returns timestamptz
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return case when isfinite(p_at) and isfinite(p_since) and p_at > p_since then p_now + (p_at - p_since)
              when p_at is not null then p_now end;
end $$;

-- Shift the times of a job that was changed in the future. Leases, retries and revivals keep their delays; a job that
-- has never run keeps the time that was asked for.
create function public.giftcard_recover_job(p_id bigint, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_changed bigint;
begin
  update public.giftcard_jobs
     set lease_expires_at = case when status <> 'running' then lease_expires_at
                                 when locked_at > p_now + interval '30 seconds'
                                 then public.giftcard_shifted(lease_expires_at, locked_at, p_now) else p_now end,
         locked_at = case status when 'running' then least(locked_at, p_now) else locked_at end,
         scheduled_at = case
           when status = 'error' then coalesce(public.giftcard_shifted(revive_at, finished_at, p_now), scheduled_at)
           when status = 'running' or run_no = 0 and trigger_type <> 'flow' and scheduled_at > updated_at
           then scheduled_at
           else least(scheduled_at, public.giftcard_shifted(scheduled_at, updated_at, p_now)) end,
         revive_at = case status when 'error' then public.giftcard_shifted(revive_at, finished_at, p_now)
                                 else revive_at end,
         finished_at = case status when 'error' then p_now else finished_at end,
         updated_at = p_now
   where id = p_id;
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, 1);
end $$;

-- Shift the times of a circuit that lie in the future.
create function public.giftcard_recover_circuit(p_circuit text, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_changed bigint;
begin
  update public.giftcard_circuits
     set open_until = case when changed_at > p_now + interval '30 seconds'
                           then public.giftcard_shifted(open_until, changed_at, p_now) else p_now end,
         changed_at = least(changed_at, p_now)
   where circuit = p_circuit;
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, 1);
end $$;

-- Have a schedule planned anew from now on: an occurrence that has its job already gets no other.
create function public.giftcard_recover_schedule(p_id bigint, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_changed bigint;
begin
  update public.giftcard_schedules
     set next_at = case when is_recurring or last_at is null then null else next_at end, check_at = p_now,
         version = case when version < 2147483647 then version + 1 else 1 end,
         last_at = least(last_at, p_now), last_missed_at = least(last_missed_at, p_now),
         last_skipped_at = least(last_skipped_at, p_now), updated_at = least(updated_at, p_now)
   where id = p_id;
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, 1);
end $$;

-- Recover one row, of the kind job, circuit or schedule. One that refuses it is recorded, and ticks pass over it for
-- ten minutes.
create function public.giftcard_recover_row(p_kind text, p_id text, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  case p_kind
    when 'job' then perform public.giftcard_recover_job(p_id::bigint, p_now);
    when 'circuit' then perform public.giftcard_recover_circuit(p_id, p_now);
    when 'schedule' then perform public.giftcard_recover_schedule(p_id::bigint, p_now);
  end case;
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  perform public.giftcard_record_fault(
    p_kind, p_id, public.giftcard_error_text(sqlstate, sqlerrm), p_now, p_now + interval '10 minutes');
end $$;

-- Recover up to p_limit jobs of each status, that were changed in the future. Return how many were found.
create function public.giftcard_recover_jobs(p_limit integer, p_now timestamptz) returns integer
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set enable_sort = off
set jit = off as $$
declare
  v_ahead timestamptz := p_now + interval '30 seconds';
  -- The longest lease, and a margin: an hour's was given by hand, or by a clock that went wrong.
  v_lease timestamptz := p_now + interval '24 hours 1 minute';
  v_skipped bigint[] := public.giftcard_skipped('job', p_now);
  v_ids bigint[];
begin
  v_ids := array(
    select id from public.giftcard_jobs
     where status = 'running' and (locked_at > v_ahead or coalesce(lease_expires_at, '-infinity') > v_lease)
       and id <> all (v_skipped)
     order by id limit p_limit for update skip locked);
  v_ids := v_ids || array(
    select id from public.giftcard_jobs
     where status = 'queued' and updated_at > v_ahead and isfinite(updated_at) and id <> all (v_skipped)
     order by id limit p_limit for update skip locked);
  v_ids := v_ids || array(
    select id from public.giftcard_jobs
     where status = 'error' and finished_at > v_ahead and isfinite(finished_at) and id <> all (v_skipped)
     order by id limit p_limit for update skip locked);
  perform public.giftcard_recover_row('job', i::text, p_now) from unnest(v_ids) i;
  return cardinality(v_ids);
end $$;

-- Recover circuits and schedules with times in the future.
create function public.giftcard_recover_others(p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_ahead timestamptz := p_now + interval '30 seconds';
  v_skipped bigint[] := public.giftcard_skipped('schedule', p_now);
  v_circuits text[] := array(
    select circuit from public.giftcard_circuits
     where changed_at > v_ahead or open_until > p_now + interval '24 hours 1 minute'
     order by circuit limit 5000 for update skip locked);
  v_schedules bigint[] := array(
    select id from public.giftcard_schedules
     where paused_at is null and check_at is not null and id <> all (v_skipped)
       and (greatest(last_at, last_missed_at, last_skipped_at, updated_at) > v_ahead or check_at = 'infinity'
            or check_at > p_now + interval '2 hours' and check_at > next_at + interval '2 hours')
     order by id limit 5000 for update skip locked);
begin
  perform public.giftcard_recover_row('circuit', c, p_now) from unnest(v_circuits) c;
  perform public.giftcard_recover_row('schedule', i::text, p_now) from unnest(v_schedules) i;
end $$;

-- Shift the times of maintenance tasks, counters and ticks that lie in the future.
create function public.giftcard_recover_ticks(p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  update public.giftcard_maintenance_tasks set last_at = '-infinity' where last_at > p_now;
  update public.giftcard_counter_watermarks set until = p_now - interval '10 seconds' where until > p_now;
  update public.giftcard_ticks
     set live_until = public.giftcard_shifted(live_until, started_at, p_now), started_at = least(started_at, p_now),
         ended_at = least(ended_at, p_now), scanned_at = least(scanned_at, p_now)
   where id = any (array(select id from public.giftcard_ticks order by id desc limit 200))
     and greatest(started_at, ended_at, scanned_at) > p_now + interval '30 seconds';
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  perform public.giftcard_record_fault('tick', 'recovery', public.giftcard_error_text(sqlstate, sqlerrm), p_now);
end $$;

-- Recover, if anything shows that the clock went wrong, or that a time was set by hand that nothing can wait for: a
-- tick in the future, a lease, a circuit or a check that ends far away. Each tick's begin looks. Row by row: one row
-- that refuses it stops no other.
create function public.giftcard_recover(p_tick_id bigint, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
begin
  if exists (select from public.giftcard_jobs
              where status = 'running'
                and coalesce(lease_expires_at, '-infinity') > p_now + interval '24 hours 1 minute')
     or exists (select from public.giftcard_circuits
                 where (failures > 0 or state <> 'closed') and open_until > p_now + interval '24 hours 1 minute')
     or exists (select from public.giftcard_schedules where check_at = 'infinity' and paused_at is null)
     or exists (select from (select started_at, ended_at, scanned_at from public.giftcard_ticks where id < p_tick_id
                              order by id desc limit 20) t
                 where greatest(t.started_at, t.ended_at, t.scanned_at) > p_now + interval '30 seconds') then
    if public.giftcard_recover_jobs(5000, p_now) < 5000 then
      perform public.giftcard_recover_others(p_now);
      perform public.giftcard_recover_ticks(p_now);
    end if;
  end if;
end $$;
-- Batches: jobs that end together. Once the last of them has ended, a follow-up is enqueued in the same transaction.
--
-- A batch is open, then sealed, then ended. It cannot end while it is open, so that a first job that is quick does not
-- end it before the second is enqueued. Next jobs belong to the batch of their job, also when it is sealed: a batch
-- ends when whole flows have ended. A dead letter that will revive has not ended.

create table public.giftcard_batches (
  id bigint generated always as identity,
  tenant_id text collate "C" not null default 'default',
  name text collate "C",
  follow_up jsonb,
  fingerprint text not null default '',
  created_at timestamptz not null default now(),
  sealed_at timestamptz,
  ended_at timestamptz,
  ended_with jsonb,
  follow_up_job_id bigint,
  error text,
  constraint giftcard_batches_pkey primary key (id),
  constraint giftcard_batches_name_is_unique unique (tenant_id, name),
  constraint giftcard_batches_tenant_is_not_empty check (tenant_id <> ''),
  constraint giftcard_batches_name_is_short check (char_length(name) between 1 and 200),
  constraint giftcard_batches_follow_up_is_an_object check (jsonb_typeof(follow_up) = 'object'),
  constraint giftcard_batches_end_sealed check (ended_at is null or sealed_at is not null)
);
create index giftcard_batches_by_tenant on public.giftcard_batches (tenant_id, id);
create index giftcard_batches_running on public.giftcard_batches (id)
    where sealed_at is not null and ended_at is null;
create index giftcard_batches_open on public.giftcard_batches (id) where sealed_at is null;
create index giftcard_batches_ended on public.giftcard_batches (ended_at, id) where ended_at is not null;

comment on table public.giftcard_batches is
  'One row is a batch: jobs (giftcard_jobs.batch_id) and what follows their end. It is removed 30 days after that.';
comment on column public.giftcard_batches.name is 'Of two batches of a tenant with one name, the second is the first.';
comment on column public.giftcard_batches.follow_up is 'The job to enqueue at its end, as giftcard_enqueue takes it.';
comment on column public.giftcard_batches.fingerprint is 'Of the jobs that it was created with: a repeat has the same.';
comment on column public.giftcard_batches.sealed_at is 'No job joins it from then on, except next jobs of its own.';
comment on column public.giftcard_batches.ended_with is 'How many of its jobs there were at its end, by status.';
comment on column public.giftcard_batches.error is
  'Why its follow-up cannot be enqueued: it has not ended, and ticks try again.';

-- Both hold only jobs that have a batch. Those of a batch by status and id, for its counts, its list and operations.
create index giftcard_jobs_batch on public.giftcard_jobs (batch_id, status, id) where batch_id is not null;
-- Those that have not ended: read downwards, because the newest end last.
create index giftcard_jobs_batch_open on public.giftcard_jobs (batch_id, id)
    where batch_id is not null and (status in ('queued', 'running') or status = 'error' and revive_at is not null);

-- Return whether a batch has a job that has not ended.
create function public.giftcard_has_open_jobs(p_batch_id bigint) returns boolean
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  -- A scalar, not exists(): the order has to hold.
  return (select true from public.giftcard_jobs
           where batch_id is not null and batch_id = p_batch_id
             and (status in ('queued', 'running') or status = 'error' and revive_at is not null)
           order by batch_id desc, id desc limit 1) is not null;
end $$;

-- Wait for what ends the last jobs of a batch at this moment: it does not see the seal, so it does not end the batch.
-- An open job that is free is held until the seal has been committed: what ends that job sees the seal.
create function public.giftcard_meet_settles(p_batch_id bigint) returns void
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  perform from public.giftcard_jobs
   where batch_id is not null and batch_id = p_batch_id
     and (status in ('queued', 'running') or status = 'error' and revive_at is not null)
   order by batch_id desc, id desc limit 1 for share skip locked;
  if not found then
    perform from public.giftcard_jobs
     where batch_id is not null and batch_id = p_batch_id
       and (status in ('queued', 'running') or status = 'error' and revive_at is not null)
     order by id for share;
  end if;
end $$;

-- Count the jobs of a batch by status, each up to p_cap: {total, queued, running, completed, error, cancelled}.
-- Archived jobs are not among them: a job is archived only after the end of its batch.
create function public.giftcard_batch_counts(p_batch_id bigint, p_cap integer default null) returns jsonb
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  return (
    select jsonb_object_agg(s.status, n.jobs) || jsonb_build_object('total', sum(n.jobs))
      from unnest(array['queued', 'running', 'completed', 'error', 'cancelled']) s(status)
     cross join lateral (
       select count(*) as jobs from (
         select from public.giftcard_jobs j
          where j.batch_id is not null and j.batch_id = p_batch_id and j.status = s.status limit p_cap) c) n);
end $$;

-- Return the follow-up of a batch as it is enqueued, with the counts in its context; null: it has none.
create function public.giftcard_follow_up_of(b public.giftcard_batches, p_counts jsonb) returns jsonb
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return '{"dedup_key": ""}' || b.follow_up || jsonb_build_object(
    'tenant_id', b.tenant_id, 'trigger_type', 'flow',
    'correlation_id', coalesce(b.follow_up ->> 'correlation_id', 'batch-' || b.id),
    'context', coalesce(nullif(b.follow_up -> 'context', 'null'), '{}')
               || jsonb_build_object('batch', jsonb_build_object('id', b.id, 'name', b.name) || p_counts));
end $$;

-- End those of some batches that are sealed and whose jobs have all ended, and enqueue their follow-ups. The caller may
-- hold jobs, and no batch with a higher id. Return how many have ended.
create function public.giftcard_end_batches(p_ids bigint[], p_now timestamptz) returns integer
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_ended integer := 0;
  v_id bigint;
  b public.giftcard_batches;
begin
  for v_id in select distinct i from unnest(p_ids) i order by i loop
    -- Those that end its last jobs at the same time take turns here. The next statement sees what the one before has
    -- committed, so the last of them finds no open job, and no other does.
    select * into b from public.giftcard_batches
     where id = v_id and sealed_at is not null and ended_at is null for update;
    if found and not public.giftcard_has_open_jobs(v_id) then
      v_ended := v_ended + public.giftcard_end_batch(b, p_now)::integer;
    end if;
  end loop;
  return v_ended;
end $$;

-- End a batch whose row is locked and whose jobs have ended. Return whether it has: if the database refuses its
-- follow-up, that fails no settle; the reason is kept, and ticks try again.
create function public.giftcard_end_batch(b public.giftcard_batches, p_now timestamptz) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_counts jsonb := public.giftcard_batch_counts(b.id) - '{queued,running}'::text[];
  v_error text;
  v_job json;
begin
  if b.follow_up is not null then
    v_job := public.giftcard_enqueue(
      jsonb_build_array(public.giftcard_follow_up_of(b, v_counts)), p_commits => true, p_now => p_now) -> 0;
    perform public.giftcard_check_changed(((v_job ->> 'id') is not null)::integer, 1);
    if not (v_job ->> 'created')::boolean then
      perform public.giftcard_refuse('GC409', format('it exists already: it is job %s', v_job ->> 'id'));
    end if;
  end if;
  update public.giftcard_batches
     set ended_at = p_now, ended_with = v_counts, follow_up_job_id = (v_job ->> 'id')::bigint, error = null
   where id = b.id;
  return true;
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  v_error := public.giftcard_error_text(sqlstate, sqlerrm);
  update public.giftcard_batches set error = v_error where id = b.id;
  perform public.giftcard_record_fault('batch', b.id::text, 'its follow-up cannot be enqueued: ' || v_error, p_now);
  return false;
end $$;

-- End batches whose last job has ended in another way than by a settle or a cancel: by plain SQL, or put aside. Those
-- whose follow-up was refused come last: however many there are, they hide no other. The maintenance task `batches`.
-- Return how many have ended.
create function public.giftcard_end_quiet_batches(p_limit integer default 1000, p_now timestamptz default null)
returns integer
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return public.giftcard_end_batches(array(
    select b.id from public.giftcard_batches b
     where b.sealed_at is not null and b.ended_at is null and not public.giftcard_has_open_jobs(b.id)
     order by b.error is not null, b.id limit least(p_limit, 1000)), coalesce(p_now, clock_timestamp()));
end $$;

-- Refuse jobs that join a batch: GC404 if it is none of their tenant, GC409 if it is sealed. None is sealed before the
-- caller commits. Next jobs (trigger_type flow) are let in: the settle of a job of the batch enqueues them.
create function public.giftcard_check_batches(p_jobs jsonb) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  r record;
begin
  for r in
    select distinct (e.job ->> 'batch_id')::bigint as batch_id, coalesce(e.job ->> 'tenant_id', 'default') as tenant_id
      from jsonb_array_elements(p_jobs) e(job)
     where e.job ->> 'batch_id' is not null and e.job ->> 'trigger_type' is distinct from 'flow' order by 1, 2
  loop
    perform from public.giftcard_batches
     where id = r.batch_id and tenant_id = r.tenant_id and sealed_at is null for share;
    if not found and exists (
      select from public.giftcard_batches where id = r.batch_id and tenant_id = r.tenant_id) then
      perform public.giftcard_refuse(
        'GC409', format('batch %s is sealed: no job can join it any more', r.batch_id), 'batch_id');
    elsif not found then
      perform public.giftcard_refuse('GC404', format('batch %s does not exist', r.batch_id), 'batch_id');
    end if;
  end loop;
end $$;
-- Create, fill, seal and show batches. Their jobs are cancelled and requeued by an operation with the filter batch_id.

-- Return jobs as they join a batch: they are its tenant's.
create function public.giftcard_jobs_of_batch(p_jobs jsonb, b public.giftcard_batches) returns jsonb
language plpgsql immutable security invoker set search_path = '' as $$
begin
  if jsonb_typeof(p_jobs) is distinct from 'array' or p_jobs @? '$[*] ? (@.type() != "object")' then
    perform public.giftcard_refuse('GC400', 'p_jobs must be an array of jobs', 'jobs');
  end if;
  return (
    select coalesce(jsonb_agg(job || jsonb_build_object(
             'tenant_id', b.tenant_id, 'batch_id', b.id,
             'trigger_type', coalesce(nullif(job ->> 'trigger_type', 'flow'), 'sql')) order by n), '[]')
      from jsonb_array_elements(p_jobs) with ordinality e(job, n));
end $$;

-- Enqueue jobs into an open batch. Return their answers. GC409 for one that exists outside of the batch: it could end
-- before the batch does, or after.
create function public.giftcard_fill_batch(
  b public.giftcard_batches, p_jobs jsonb, p_now timestamptz) returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_answers json := public.giftcard_enqueue(public.giftcard_jobs_of_batch(p_jobs, b), p_now => p_now);
  v_other bigint;
begin
  select j.id into v_other from public.giftcard_jobs j
   where j.id = any (array(select (a ->> 'id')::bigint from json_array_elements(v_answers) a))
     and j.batch_id is distinct from b.id
   order by j.id limit 1;
  if found then
    perform public.giftcard_refuse('GC409', format(
      'job %s exists already and is not in the batch: nothing was enqueued', v_other), 'jobs');
  end if;
  return v_answers;
end $$;

-- Refuse a follow-up that could not be enqueued at the end: it is enqueued now, and taken back.
create function public.giftcard_try_follow_up_of(b public.giftcard_batches, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_job json;
begin
  if b.follow_up ? 'batch_id' then
    perform public.giftcard_refuse('GC400', 'a follow-up belongs to no batch', 'follow_up.batch_id');
  elsif coalesce(b.follow_up ->> 'stage', '') = '' then
    perform public.giftcard_refuse('GC400', 'a follow-up needs a stage', 'follow_up.stage');
  end if;
  begin
    v_job := public.giftcard_enqueue(jsonb_build_array(public.giftcard_follow_up_of(b, '{}')), p_now => p_now) -> 0;
    raise triggered_action_exception;  -- undoes the insert
  exception when triggered_action_exception then
    null;
  end;
  if not (v_job ->> 'created')::boolean then
    perform public.giftcard_refuse(
      'GC409', format('the follow-up exists already: it is job %s', v_job ->> 'id'), 'follow_up');
  end if;
end $$;

-- Return what a repeat has in common with the first call: the keys of the jobs, and the follow-up without its trace.
create function public.giftcard_batch_fingerprint(p_follow_up jsonb, p_jobs jsonb) returns text
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return md5(concat(p_follow_up - 'context', (
    select jsonb_agg(jsonb_build_array(e.job -> 'stage', e.job -> 'correlation_id', e.job -> 'dedup_key') order by e.n)
      from jsonb_array_elements(p_jobs) with ordinality e(job, n))));
end $$;

-- Create a batch with its jobs (as giftcard_enqueue takes them, up to 1,000; all or none). Unless p_open it is sealed:
-- no other job can join it. p_name: called again with it, the same batch is returned, with created false, and nothing
-- changes: the first reply was lost. p_follow_up: the job to enqueue once all have ended; its context has `batch`: id,
-- name and how many there were (total, completed, error, cancelled). Return the batch, with jobs: [{id, status,
-- created}]. GC409: a job exists already; GC422: the name was used for another batch.
create function public.giftcard_create_batch(
  p_name text default null, p_follow_up jsonb default null, p_jobs jsonb default '[]', p_open boolean default false,
  p_by text default null, p_tenant_id text default 'default', p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_follow_up jsonb := nullif(p_follow_up, 'null');
  v_jobs json := '[]'::json;
  b public.giftcard_batches;
begin
  if jsonb_typeof(p_jobs) is distinct from 'array' then
    perform public.giftcard_refuse('GC400', 'p_jobs must be an array of jobs', 'jobs');
  elsif char_length(p_name) not between 1 and 200 then
    perform public.giftcard_refuse('GC400', 'name must have 1 to 200 characters', 'name');
  elsif jsonb_typeof(v_follow_up) <> 'object' then
    perform public.giftcard_refuse('GC400', 'a follow-up must be an object', 'follow_up');
  elsif p_jobs = '[]' and not coalesce(p_open, false) then
    perform public.giftcard_refuse(
      'GC400', 'a batch without jobs must be open: add its jobs, then seal it', 'jobs');
  end if;
  insert into public.giftcard_batches as x (tenant_id, name, follow_up, created_at)
  values (coalesce(p_tenant_id, 'default'), p_name, v_follow_up, v_now)
  on conflict on constraint giftcard_batches_name_is_unique do nothing returning * into b;
  if not found then
    return public.giftcard_repeated_batch(p_name, v_follow_up, p_jobs, coalesce(p_tenant_id, 'default'));
  end if;
  if p_jobs <> '[]' then
    v_jobs := public.giftcard_fill_batch(b, p_jobs, v_now);
  end if;
  if v_follow_up is not null then
    perform public.giftcard_try_follow_up_of(b, v_now);  -- after the jobs: it is none of them
  end if;
  update public.giftcard_batches
     set sealed_at = case when not coalesce(p_open, false) then v_now end,
         fingerprint = public.giftcard_batch_fingerprint(v_follow_up, p_jobs)
   where id = b.id;
  perform public.giftcard_record_act(
    p_by, b.tenant_id, 'create_batch', 'batch ' || b.id, jsonb_build_object(
      'name', p_name, 'jobs', jsonb_array_length(p_jobs), 'follow_up', v_follow_up ->> 'stage',
      'open', nullif(p_open, false)), v_now);
  return public.giftcard_show_batch(b.id) || jsonb_build_object('created', true, 'jobs', v_jobs);
end $$;

-- Return a batch that was created with this name before. GC422 if it was another one.
create function public.giftcard_repeated_batch(p_name text, p_follow_up jsonb, p_jobs jsonb, p_tenant_id text)
returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  b public.giftcard_batches;
begin
  select * into b from public.giftcard_batches where tenant_id = p_tenant_id and name = p_name;
  if b.fingerprint is distinct from public.giftcard_batch_fingerprint(p_follow_up, p_jobs) then
    perform public.giftcard_refuse(
      'GC422', format('the name %s was used for another batch: it is batch %s', p_name, b.id), 'name');
  end if;
  return public.giftcard_show_batch(b.id) || jsonb_build_object(
    'created', false, 'jobs', coalesce((
      select jsonb_agg(jsonb_build_object('id', j.id, 'status', j.status, 'created', false) order by e.n)
        from jsonb_array_elements(p_jobs) with ordinality e(job, n)
        join public.giftcard_jobs j
          on j.tenant_id = p_tenant_id and j.correlation_id = e.job ->> 'correlation_id'
         and j.stage = e.job ->> 'stage' and j.dedup_key = coalesce(e.job ->> 'dedup_key', '')), '[]'));
end $$;

-- Enqueue up to 1,000 more jobs into an open batch, all or none. Return {jobs: [{id, status, created}]}. One that is in
-- the batch already stays as it is. GC404 for no batch, GC409 for a sealed one or a job outside of it.
create function public.giftcard_add_to_batch(
  p_id bigint, p_jobs jsonb, p_by text default null, p_tenant_id text default null, p_now timestamptz default null)
returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  b public.giftcard_batches := public.giftcard_find_batch(p_id, p_tenant_id);
  v_jobs json := public.giftcard_fill_batch(b, p_jobs, v_now);
begin
  perform public.giftcard_record_act(
    p_by, b.tenant_id, 'add_to_batch', 'batch ' || p_id,
    jsonb_build_object('jobs', jsonb_array_length(p_jobs)), v_now);
  return jsonb_build_object('jobs', v_jobs);
end $$;

-- Seal a batch: no other job can join it. One whose jobs have all ended, or that has none, ends at once. A sealed one
-- stays as it is. Return the batch. GC404 for none.
create function public.giftcard_seal_batch(
  p_id bigint, p_by text default null, p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  b public.giftcard_batches := public.giftcard_find_batch(p_id, p_tenant_id);
begin
  update public.giftcard_batches set sealed_at = v_now where id = p_id and sealed_at is null;
  if found then
    perform public.giftcard_record_act(p_by, b.tenant_id, 'seal_batch', 'batch ' || p_id, '{}', v_now);
    perform public.giftcard_meet_settles(p_id);
    perform public.giftcard_end_batches(array[p_id], v_now);
  end if;
  return public.giftcard_show_batch(p_id, p_tenant_id);
end $$;

-- Return the row of a batch. GC404 for none.
create function public.giftcard_find_batch(p_id bigint, p_tenant_id text) returns public.giftcard_batches
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  b public.giftcard_batches;
begin
  select * into b from public.giftcard_batches
   where id = p_id and (p_tenant_id is null or tenant_id = p_tenant_id);
  if not found then
    perform public.giftcard_refuse('GC404', format('batch %s does not exist', p_id), 'batch_id');
  end if;
  return b;
end $$;

-- Return a batch as the API shows it. Its counts are those of now, each up to p_cap (capped: there are more of one):
-- after its end a job that is requeued shows there, while ended_with stays as it was.
create function public.giftcard_batch_json(b public.giftcard_batches, p_cap integer) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_counts jsonb := public.giftcard_batch_counts(b.id, p_cap + 1);
begin
  return public.giftcard_readable_row(to_jsonb(b) - 'fingerprint' || jsonb_build_object(
    'state', case when b.ended_at is not null then 'ended' when b.sealed_at is not null then 'running' else 'open' end,
    'counts', (select jsonb_object_agg(key, least(value::bigint, p_cap)) from jsonb_each_text(v_counts - 'total'))
              || jsonb_build_object('total', least((v_counts ->> 'total')::bigint, 5 * p_cap)),
    'capped', (select bool_or(value::bigint > p_cap) from jsonb_each_text(v_counts - 'total')),
    'reviving', case when b.ended_at is null then public.giftcard_count_reviving(b.id, p_cap) else 0 end), 50000);
end $$;

-- Count the dead letters of a batch that will revive, up to p_cap: they have not ended.
create function public.giftcard_count_reviving(p_batch_id bigint, p_cap integer) returns bigint
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  return (select count(*) from (
    select from public.giftcard_jobs
     where batch_id is not null and batch_id = p_batch_id and status = 'error' and revive_at is not null
     limit p_cap) c);
end $$;

-- Return a batch, with its counts up to 100,000. GC404 for none.
create function public.giftcard_show_batch(p_id bigint, p_tenant_id text default null) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return public.giftcard_batch_json(public.giftcard_find_batch(p_id, p_tenant_id), 100000);
end $$;

-- Return a page of batches, the newest first: {batches, older}: the id to continue from, null at the end. Their counts
-- go up to 1,000. p_state: only those that are open, running or ended.
create function public.giftcard_list_batches(
  p_state text default null, p_older bigint default null, p_limit integer default 50, p_tenant_id text default null)
returns jsonb
language plpgsql stable security invoker
-- Planned for the values of each call: an absent condition folds away.
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  b public.giftcard_batches;
  v_row jsonb;
  v_bytes integer := 0;
  v_rows jsonb[] := array[]::jsonb[];
  v_more boolean := false;
begin
  for b in select * from public.giftcard_batches
            where (p_older is null or id < p_older) and (p_tenant_id is null or tenant_id = p_tenant_id)
              and (p_state is null or p_state <> 'open' or sealed_at is null)
              and (p_state is null or p_state <> 'running' or sealed_at is not null and ended_at is null)
              and (p_state is null or p_state <> 'ended' or ended_at is not null)
            order by id desc limit v_limit + 1 loop
    v_row := public.giftcard_batch_json(b, 1000);
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes);
    exit when v_more;
    v_rows := v_rows || v_row;
  end loop;
  return jsonb_build_object('batches', to_jsonb(v_rows),
                            'older', case when v_more then v_rows[cardinality(v_rows)] -> 'id' end);
end $$;
-- Settle calls: a stage's own rows commit with the settle of its job, Complete(then=Call("shop_mark_paid", {…})).
-- Locks: the job's row, what the function locks, the tick's row, then as in giftcard_settle.

create table public.giftcard_settle_functions (
  name text collate "C" not null,
  added_at timestamptz not null default now(),
  constraint giftcard_settle_functions_pkey primary key (name),
  constraint giftcard_settle_functions_name_is_a_name check (
    name ~ '^([a-z_][a-z0-9_]{0,62}[.])?[a-z_][a-z0-9_]{0,62}$' and name !~ '^((public[.])?giftcard_|pg_)')
);

comment on table public.giftcard_settle_functions is
  'The functions that a stage may call as its job is settled. The owner of the database fills it; the service role '
  'only reads it.';
comment on column public.giftcard_settle_functions.name is
  'As the stage names it: shop_mark_paid (of schema public) or shop.mark_paid. It takes one argument, a jsonb.';

-- Return the function of the list with this name, null if there is none in the database.
create function public.giftcard_settle_function(p_name text) returns oid
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_parts constant text[] := string_to_array(case when p_name like '%.%' then '' else 'public.' end || p_name, '.');
begin
  return (select p.oid from pg_catalog.pg_proc p
           where p.oid = to_regprocedure(format('%I.%I(jsonb)', v_parts[1], v_parts[2])) and p.prokind = 'f');
end $$;

-- Call a function of the list with its arguments; what it returns is dropped. It runs with the rights of the caller,
-- and leaves the transaction's role as it is: another one would settle the job.
create function public.giftcard_call_function(p_name text, p_arguments jsonb) returns void
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_role constant name := current_user;
  v_schema name;
  v_function name;
begin
  if not exists (select from public.giftcard_settle_functions where name = p_name) then
    perform public.giftcard_refuse('GC404', 'the table giftcard_settle_functions does not have it', 'then');
  end if;
  -- The catalog's own names: the text of a result is never part of a statement.
  select n.nspname, p.proname into v_schema, v_function
    from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
   where p.oid = public.giftcard_settle_function(p_name);
  if not found then
    perform public.giftcard_refuse('GC404', 'the database has no function of this name with one argument, a jsonb',
                                   'then');
  end if;
  execute format('select %I.%I($1)', v_schema, v_function) using p_arguments;
  set constraints all immediate;  -- an error at the commit would be no function's
  if current_user <> v_role then
    raise exception 'it leaves the role % set', current_user using errcode = 'GC409';  -- which may call nothing of ours
  end if;
end $$;

-- Lock a job's row, if it runs under this lease. Return the place of its version, which each change moves; null if
-- it does not.
create function public.giftcard_lock_lease(p_job_id bigint, p_lease_id uuid) returns tid
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_place tid;
begin
  select ctid into v_place from public.giftcard_jobs
   where id = p_job_id and status = 'running' and lease_id = p_lease_id for update;
  return v_place;
end $$;

-- Settle one result that is complete and has a call, {…, then: {function, arguments}}: the function is called once,
-- and only by the run that settles its job. Return what giftcard_settle returns. If the call fails, nothing was
-- changed, and settled is called_off: `kind` refused (the job's fault), timeout, or unavailable (the database's, or
-- another transaction's); with sqlstate and error.
create function public.giftcard_settle_with_call(
  p_tick_id bigint, p_result jsonb, p_cooldown_seconds double precision default 60, p_now timestamptz default null)
returns json
language plpgsql volatile security invoker
-- A time-out that is changed within a statement is not armed. PostgREST reads this one and sets it before the call;
-- on other wires the client does.
set search_path = '' set statement_timeout = '2s' set lock_timeout = '1s' as $$
declare
  v_results constant jsonb := jsonb_build_array(p_result - 'then');
  v_returned boolean := false;
  v_place tid;
  s record;
begin
  v_place := public.giftcard_lock_lease((p_result ->> 'id')::bigint, (p_result ->> 'lease_id')::uuid);
  if v_place is null then
    -- Settled by an earlier try, or the job is another run's.
    s := public.giftcard_settle(v_results, p_cooldown_seconds, p_now, true);
    return json_build_object('settled', s.settled, 'opened', s.opened, 'closed', s.closed);
  end if;
  perform public.giftcard_call_function(p_result -> 'then' ->> 'function', p_result -> 'then' -> 'arguments');
  -- Also what leaves it running: a settle of the function's own would leave out the next jobs.
  if public.giftcard_lock_lease((p_result ->> 'id')::bigint, (p_result ->> 'lease_id')::uuid)
     is distinct from v_place then
    perform public.giftcard_refuse('GC409', 'it changes the row of the job that calls it', 'then');
  end if;
  v_returned := true;
  -- Before the settle: giftcard_step holds the tick's row when it locks batches and circuits.
  perform public.giftcard_count_in_tick(p_tick_id, '{"completed": 1, "lease_lost": 0}');
  s := public.giftcard_settle(v_results, p_cooldown_seconds, p_now, true);
  if s.settled -> 0 ->> 'settled' is distinct from 'settled' then
    v_returned := false;
    perform public.giftcard_refuse('GC409', 'the row of its job does not change', 'then');
  end if;
  return json_build_object('settled', s.settled, 'opened', s.opened, 'closed', s.closed);
-- The first two are not among the others. A time-out that was caught is not armed again: this ends at once.
exception when query_canceled or assert_failure or others then
  if v_returned and sqlstate <> '57014' then
    raise;
  end if;
  return json_build_object('opened', '{}'::text[], 'closed', '{}'::text[], 'settled', json_build_array(
    json_build_object(
      'id', (p_result ->> 'id')::bigint, 'settled', 'called_off', 'status', 'running', 'next_run_at', null,
      'kind', case when sqlstate = '57014' then 'timeout'
                   when public.giftcard_is_unavailable(sqlstate) then 'unavailable' else 'refused' end,
      'sqlstate', sqlstate, 'error', public.giftcard_error_text(sqlstate, sqlerrm))));
end $$;

-- Return which functions of the list cannot be called by the role that asks: [{name, problem: missing | denied}]; null
-- for an empty list.
create function public.giftcard_unusable_settle_functions() returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return (
    select jsonb_path_query_array(
             jsonb_agg(jsonb_build_object('name', l.name, 'problem', l.problem) order by l.name),
             '$[*] ? (@.problem != null)')
      from (select f.name, case when p.oid is null then 'missing'
                                when not has_schema_privilege(p.pronamespace, 'usage')
                                     or not has_function_privilege(p.oid, 'execute') then 'denied' end as problem
              from (select name from public.giftcard_settle_functions order by name limit 200) f
              left join pg_catalog.pg_proc p on p.oid = public.giftcard_settle_function(f.name)) l);
end $$;
-- Waking: who wakes a tick. An enqueue does, and a tick that leaves work or knows when the next is due. A wake that
-- fails is counted and fails nothing else. A table that someone has locked is not waited for longer than 100 ms.

-- Count a wake that could not be sent.
create function public.giftcard_count_failed_wake(p_error text, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  update public.giftcard_wakes
     set sent_at = p_now, failed_at = p_now, failed = failed + 1, error = p_error, due_at = null
   where id = any (array(select w.id from public.giftcard_wakes w where w.id = 1 for update skip locked));
exception when others then
  null;  -- a role that may only insert jobs, a database that only reads: the clock calls within the minute
end $$;

-- Wake a tick by pg_net, if fewer than p_ticks wait for jobs. pg_net sends it after the commit, and never after a
-- rollback. Return whether a wake was queued.
create function public.giftcard_send_wake(
  p_ticks integer default 1, p_catches_up boolean default false, p_now timestamptz default null) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off
set lock_timeout = '100ms' as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  w public.giftcard_wakes;
  v_secret text;
begin
  select * into w from public.giftcard_wakes where id = 1;
  if w.url is null or not public.giftcard_take_wake(p_ticks, p_catches_up, v_now) then
    return false;
  end if;
  select s.decrypted_secret into v_secret from vault.decrypted_secrets s where s.name = w.secret_name;
  if v_secret is null then
    perform public.giftcard_refuse('GC404', format('Vault has no secret named %s', w.secret_name));
  end if;
  perform net.http_post(
    url := w.url, timeout_milliseconds := 5000,
    headers := jsonb_build_object('Authorization', 'Bearer ' || v_secret, 'X-Giftcard-Wake', '1'));
  return true;
exception when others then
  perform public.giftcard_count_failed_wake(public.giftcard_error_text(sqlstate, sqlerrm), v_now);
  return false;
end $$;

-- Send the wake that was planned, once it is due. pg_cron calls this each second.
create function public.giftcard_send_due_wake(p_now timestamptz default null) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  if not exists (select from public.giftcard_wakes where id = 1 and url is not null and due_at <= v_now) then
    return false;
  elsif public.giftcard_waiting_ticks(v_now) > 0 then
    -- That tick takes what is due, and plans anew when it ends.
    update public.giftcard_wakes set due_at = null
     where id = any (array(select w.id from public.giftcard_wakes w where w.id = 1 for update skip locked));
    return false;
  end if;
  return public.giftcard_send_wake(p_now => v_now);
end $$;

-- Wake a tick for jobs that a transaction has queued, at its commit.
create function public.giftcard_wake_at_commit() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  perform public.giftcard_send_wake();
  return null;
end $$;

-- Deferred, so that the row of wakes is locked for the moment of a commit only; and once a transaction, for the first
-- job that is due within a minute: the condition notes that in a setting. A tick names itself there, as it goes on
-- anyway. giftcard_start_waking enables both. A run's end is no reason: its tick plans the retry.
create constraint trigger giftcard_jobs_wake_after_insert after insert on public.giftcard_jobs
  deferrable initially deferred
  for each row when (case when new.status = 'queued' and new.scheduled_at <= now() + interval '1 minute'
                               and coalesce(current_setting('giftcard.wakes', true), '') = ''
                          then set_config('giftcard.wakes', 'transaction', true) <> '' else false end)
  execute function public.giftcard_wake_at_commit();
create constraint trigger giftcard_jobs_wake_after_update after update of scheduled_at on public.giftcard_jobs
  deferrable initially deferred
  for each row when (case when new.status = 'queued' and old.status <> 'running'
                               and new.scheduled_at <= now() + interval '1 minute'
                               and coalesce(current_setting('giftcard.wakes', true), '') = ''
                          then set_config('giftcard.wakes', 'transaction', true) <> '' else false end)
  execute function public.giftcard_wake_at_commit();
alter table public.giftcard_jobs disable trigger giftcard_jobs_wake_after_insert;
alter table public.giftcard_jobs disable trigger giftcard_jobs_wake_after_update;

-- Wake a tick for another one, in its way (p_wake: see giftcard_ticks.wake). Return whether the caller is to call its
-- own address; pg_net needs no caller.
create function public.giftcard_wake_next(
  p_wake jsonb, p_ticks integer, p_catches_up boolean, p_now timestamptz) returns boolean
language plpgsql volatile security invoker set search_path = '' set lock_timeout = '100ms' as $$
begin
  if p_wake ->> 'mode' = 'pg_net' then
    perform public.giftcard_send_wake(p_ticks, p_catches_up, p_now);
    return false;
  end if;
  return public.giftcard_take_wake(p_ticks, p_catches_up, p_now);
exception when others then
  perform public.giftcard_count_failed_wake(public.giftcard_error_text(sqlstate, sqlerrm), p_now);
  return false;
end $$;

-- Wake a helper for a tick that has found as many jobs as it could take: there may be more. Return 0 if the caller is
-- to call its own address, else null.
create function public.giftcard_wake_helper(
  p_wake jsonb, p_claimed integer, p_limit integer, p_now timestamptz) returns integer
language plpgsql volatile security invoker set search_path = '' as $$
begin
  if p_limit > 0 and p_claimed >= p_limit and (p_wake ->> 'ticks')::integer > 1 then
    return case when public.giftcard_wake_next(p_wake, (p_wake ->> 'ticks')::integer, true, p_now) then 0 end;
  end if;
  return null;
end $$;

-- Wake the next tick for one that has ended, or plan it. At once, if it has left due jobs at its limit or budget; what
-- a drained tick leaves is held by others. For what is due later, pg_net has the plan. Without it one tick is woken
-- now, if that one and one more can wait for so long. p_started: it has started jobs. One that has not keeps to the
-- limit of a minute: what it leaves may be held by others, too. Return 0 if the caller is to call its own address now,
-- 1 if it is to ask again (giftcard_take_wake) after a second, and null if neither.
create function public.giftcard_wake_after(
  p_wake jsonb, p_stopped_because text, p_started boolean, p_next_due_at timestamptz, p_now timestamptz)
returns integer
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_by_pg_net boolean := p_wake ->> 'mode' = 'pg_net';
  v_stops boolean := p_stopped_because in ('limit', 'budget', 'shutdown');
  v_ahead double precision := case when v_by_pg_net then 0 else least(60, 2 * (p_wake ->> 'seconds')::float8) end;
  v_leaves boolean := coalesce(v_stops and p_next_due_at <= p_now + make_interval(secs => v_ahead), false);
  v_ticks integer := case when p_next_due_at <= p_now then (p_wake ->> 'ticks')::integer else 1 end;
begin
  if v_leaves and public.giftcard_wake_next(p_wake, v_ticks, p_started, p_now) then
    return 0;
  elsif v_by_pg_net then
    if not v_leaves then
      perform public.giftcard_plan_wake(
        case when p_next_due_at > p_now and isfinite(p_next_due_at) then p_next_due_at end, p_now, true);
    end if;
    return null;
  end if;
  -- A job that comes less than a second after a wake cannot wake: a tick that ends so soon is to ask for it.
  return case when p_started and (v_leaves or p_stopped_because = 'limit' and public.giftcard_is_woken_just_now(p_now))
                   and public.giftcard_waiting_ticks(p_now) < v_ticks then 1 end;
end $$;

-- Enqueue jobs as giftcard_enqueue does, and decide in the same call whether the caller is to wake a tick. Return
-- {jobs, wake}. The decision fails no enqueue.
create function public.giftcard_enqueue_and_wake(
  p_jobs jsonb, p_replace boolean default false, p_by text default null, p_commits boolean default false,
  p_now timestamptz default null) returns json
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_jobs json := public.giftcard_enqueue(p_jobs, p_replace, p_by, p_commits, p_now);
begin
  return json_build_object('jobs', v_jobs, 'wake', exists (
    select from public.giftcard_jobs
     where id = any (array(select (j ->> 'id')::bigint from json_array_elements(v_jobs) j))
       and status = 'queued' and scheduled_at <= v_now + interval '1 minute')
    and public.giftcard_wake_next('{"mode": "url"}', 1, false, v_now));
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

-- Return runs whose lease has ended and jobs that have been due for p_due_for at least, each with the reason, the
-- longest first. more: rows follow the last one; p_after_since and p_after_id, its values, return them.
create function public.giftcard_stuck_jobs(
  p_due_for interval default '5 minutes', p_limit integer default 100, p_now timestamptz default null,
  p_after_since timestamptz default null, p_after_id bigint default null)
returns table (id bigint, stage text, status text, attempts integer, since timestamptz, lock_owner text, why text,
               last_error text, more boolean)
language sql stable security invoker
set search_path = '' set enable_seqscan = off set jit = off as $$
  select s.*, count(*) over () > least(p_limit, 1000) from (
    (select j.id, j.stage, j.status, j.attempts, j.lease_expires_at, j.lock_owner,
     'its function was killed: the next tick takes it over', j.last_error
       from public.giftcard_jobs j
      where j.status = 'running' and coalesce(j.lease_expires_at, '-infinity'::timestamptz) <= coalesce(p_now,
        clock_timestamp())
        and (p_after_id is null
             or (coalesce(j.lease_expires_at, '-infinity'::timestamptz), j.id)
                > (coalesce(p_after_since, '-infinity'::timestamptz), p_after_id))
      order by coalesce(j.lease_expires_at, '-infinity'::timestamptz), j.id limit least(p_limit, 1000) + 1)
    union all
    (select j.id, j.stage, j.status, j.attempts, j.scheduled_at, null,
            case when c.state <> 'closed' then 'circuit ' || j.circuit || ' is ' || c.state
                 when p.stage = '*' then concat('everything is paused by ', p.paused_by, ': ' || p.reason)
                 when p.stage is not null then concat('stage paused by ', p.paused_by, ': ' || p.reason)
                 else 'due, but no tick has taken it' end, j.last_error
       from public.giftcard_jobs j
       left join public.giftcard_circuits c on c.circuit = j.circuit
       left join lateral (
         select * from public.giftcard_stages g where g.stage in ('*', j.stage) and g.paused_at is not null
           order by g.stage limit 1) p on true
      where j.status = 'queued' and j.scheduled_at <= coalesce(p_now, clock_timestamp()) - p_due_for
        and (p_after_id is null
             or (j.scheduled_at, j.id) > (coalesce(p_after_since, '-infinity'::timestamptz), p_after_id))
      order by j.scheduled_at, j.id limit least(p_limit, 1000) + 1)) as s(id, stage, status, attempts, since,
                                                                          lock_owner, why, last_error)
   order by coalesce(s.since, '-infinity'::timestamptz), s.id limit least(p_limit, 1000)
$$;

-- Return jobs that need many attempts (two at least), those with the most first. more: rows follow the last one;
-- p_after_attempts and p_after_id, its values, return them.
create function public.giftcard_jobs_with_many_attempts(
  p_at_least integer default 3, p_limit integer default 100, p_after_attempts integer default null,
  p_after_id bigint default null)
returns table (id bigint, stage text, status text, attempts integer, max_attempts integer, run_no integer,
               revivals integer, scheduled_at timestamptz, last_error text, more boolean)
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select f.*, count(*) over () > least(p_limit, 1000) from (
    select j.id, j.stage, j.status, j.attempts, j.max_attempts, j.run_no, j.revivals, j.scheduled_at, j.last_error
      from public.giftcard_jobs j
     where j.status in ('queued', 'running', 'error') and j.attempts >= 2 and j.attempts >= p_at_least
       and (p_after_id is null or j.attempts <= p_after_attempts
                                  and (j.attempts < p_after_attempts or j.id > p_after_id))
     order by j.attempts desc, j.id limit least(p_limit, 1000) + 1) f
   order by f.attempts desc, f.id limit least(p_limit, 1000)
$$;

-- Return a page of the circuits that are not closed or have failures, by name: {circuits, older: the name to continue
-- from, null at the end}.
create function public.giftcard_list_circuits(
  p_older text default null, p_limit integer default 50, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  v_page jsonb;
begin
  -- One more than the page holds: its presence means that there are more.
  select coalesce(jsonb_agg(jsonb_build_object(
      'circuit', c.circuit, 'state', case when c.state = 'open' and c.open_until <= coalesce(p_now, clock_timestamp())
                                          then 'half_open' else c.state end,
      'failures', c.failures, 'changed_at', nullif(c.changed_at, '-infinity'), 'open_until', c.open_until)
    order by c.circuit), '[]') into v_page from (
      select * from public.giftcard_circuits
       where (failures > 0 or state <> 'closed') and (p_older is null or circuit > p_older)
       order by circuit limit v_limit + 1) c;
  if jsonb_array_length(v_page) <= v_limit then
    return jsonb_build_object('circuits', v_page, 'older', null);
  end if;
  v_page := v_page - v_limit;
  return jsonb_build_object('circuits', v_page, 'older', v_page -> -1 -> 'circuit');
end $$;

-- Return the whole picture in one call; truncated: the names of its lists that are cut. p_stages: as in
-- giftcard_begin_tick, what this code can run; null: unknown here, so that only a pause parks.
create function public.giftcard_status(p_stages jsonb default null, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_circuits jsonb := public.giftcard_list_circuits(p_limit => 200, p_now => v_now);
  v_limits jsonb := public.giftcard_list_limits(p_limit => 200, p_now => v_now);
  v_truncated text[] := case when v_circuits ->> 'older' is null then '{}' else array['circuits'] end
                        || case when v_limits ->> 'older' is null then '{}' else array['limits'] end;
  v_status jsonb;
  v_list text;
  v_most integer;
begin
  v_status := jsonb_build_object(
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
        from (select * from public.giftcard_queue_heads(p_stages, v_now) limit 201) h),
    'circuits', v_circuits -> 'circuits', 'limits', v_limits -> 'limits',
    'paused', (select coalesce(jsonb_agg(jsonb_build_object('stage', s.stage, 'by', left(s.paused_by, 500),
                                                            'reason', left(s.reason, 500), 'since', s.paused_at)
                                         order by s.stage), '[]')
        from (select * from public.giftcard_stages where paused_at is not null order by stage limit 201) s),
    'dead_letters', (select coalesce(jsonb_agg(jsonb_build_object(
          'id', d.id, 'stage', d.stage, 'attempts', d.attempts, 'revive_at', d.revive_at, 'finished_at', d.finished_at,
          'last_error', left(d.last_error, 500))), '[]')
        from (select * from public.giftcard_jobs where status = 'error' order by finished_at desc nulls last, id desc
              limit 21) d),
    'killed', (select coalesce(jsonb_agg(jsonb_build_object(
          'id', k.id, 'stage', k.stage, 'attempts', k.attempts,
          'waiting_for', public.giftcard_waiting_for_take_over(k, v_now))), '[]')
        from (select * from public.giftcard_jobs
               where status = 'running' and coalesce(lease_expires_at, '-infinity'::timestamptz) <= v_now
               order by coalesce(lease_expires_at, '-infinity'::timestamptz), id limit 21) k),
    'differences', (select coalesce(jsonb_agg(public.giftcard_readable_row(to_jsonb(r), 20000)), '[]')
                      from public.giftcard_reconcile(null, false, 21) r),
    'precision', public.giftcard_precision(3600, v_now),
    'waking', public.giftcard_waking(v_now),
    'ticks',
    (select coalesce(jsonb_agg(public.giftcard_readable_row(to_jsonb(t) - array[
        'key', 'stages', 'claim_key', 'claim_ids', 'claim_interrupted', 'served', 'limits', 'cursors', 'wake'],
        100000)), '[]')
        from (select * from public.giftcard_ticks order by id desc limit 10) t));
  -- Of these lists one more row was read than they hold.
  for v_list, v_most in values ('queues', 200), ('paused', 200), ('dead_letters', 20), ('killed', 20),
                               ('differences', 20) loop
    if jsonb_array_length(v_status -> v_list) > v_most then
      v_status := jsonb_set(v_status, array[v_list], (v_status -> v_list) - v_most);
      v_truncated := v_truncated || v_list;
    end if;
  end loop;
  return v_status || jsonb_build_object('truncated', v_truncated);
end $$;

-- Return the jobs of a flow, the newest first, also archived ones: those before the id p_older, at most p_limit.
create function public.giftcard_flow_jobs(
  p_tenant_id text, p_correlation_id text, p_older bigint, p_limit integer) returns jsonb[]
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return array(select f.job from (
    (select j.id, jsonb_build_object(
         'id', j.id, 'stage', j.stage, 'dedup_key', j.dedup_key, 'status', j.status, 'attempts', j.attempts,
         'last_error', left(j.last_error, 500), 'scheduled_at', j.scheduled_at, 'revive_at', j.revive_at,
         'finished_at', j.finished_at, 'archived_at', null) as job
       from public.giftcard_jobs j
      where j.tenant_id = p_tenant_id and j.correlation_id = p_correlation_id and (p_older is null or j.id < p_older)
      order by j.id desc limit p_limit)
    union all
    (select a.id, (select jsonb_object_agg(m.key, m.value)
                     from jsonb_each(public.giftcard_archived_job_json(a)) m
                    where m.key in ('id', 'stage', 'dedup_key', 'status', 'attempts', 'last_error', 'scheduled_at',
                                    'revive_at', 'finished_at', 'archived_at'))
       from public.giftcard_jobs_archive a
      where a.tenant_id = p_tenant_id and a.correlation_id = p_correlation_id and (p_older is null or a.id < p_older)
      order by a.id desc limit p_limit)) f(id, job)
   order by f.id desc limit p_limit);
end $$;

-- Return where a flow stands: its jobs in order, also archived ones, the order, the payment and the card (last four
-- digits). Of many jobs these are the newest; older: the id to continue from with p_older, null at the end. An order
-- outlives its jobs. GC404 for an unknown flow.
create function public.giftcard_flow(
  p_tenant_id text, p_correlation_id text, p_older bigint default null, p_limit integer default 100) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 100), 1), 200);
  v_row jsonb;
  v_jobs jsonb[] := array[]::jsonb[];
  v_bytes integer := 0;
  v_more boolean := false;
begin
  foreach v_row in array public.giftcard_flow_jobs(p_tenant_id, p_correlation_id, p_older, v_limit + 1) loop
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_jobs), v_limit, v_bytes);
    exit when v_more;
    v_jobs := v_row || v_jobs;
  end loop;
  if cardinality(v_jobs) = 0 and p_older is null and not exists (
      select from public.giftcard_orders where tenant_id = p_tenant_id and correlation_id = p_correlation_id) then
    perform public.giftcard_refuse('GC404', format(
      'no order has the correlation id %s (tenant %s)', p_correlation_id, p_tenant_id), 'correlation_id');
  end if;
  return jsonb_build_object('tenant_id', p_tenant_id, 'correlation_id', p_correlation_id,
                            'jobs', to_jsonb(v_jobs), 'older', case when v_more then v_jobs[1] -> 'id' end,
    'order', (select public.giftcard_readable_row(jsonb_build_object(
                'amount', amount, 'currency', currency, 'locale', locale, 'free_of_charge', free_of_charge,
                'cancelled_at', cancelled_at, 'created_at', created_at), 20000)
                from public.giftcard_orders where tenant_id = p_tenant_id and correlation_id = p_correlation_id),
    'payment', (select public.giftcard_readable_row(jsonb_build_object(
                  'reference', provider_ref, 'amount', amount, 'currency', currency, 'worth', worth,
                  'provider', provider, 'paid_at', created_at), 20000)
                  from public.giftcard_payments where tenant_id = p_tenant_id and correlation_id = p_correlation_id),
    'card', (select public.giftcard_readable_row(jsonb_build_object(
               'last4', last4, 'amount', amount, 'balance', balance, 'currency', currency,
               'unpaid', unpaid, 'state', state, 'issued_at', created_at), 20000)
               from public.giftcard_cards where tenant_id = p_tenant_id and correlation_id = p_correlation_id));
end $$;
-- Find jobs, and show one.

-- Refuse a filter with unknown names or invalid times. A filter is an object of {status, stage, circuit, tenant_id,
-- correlation_id, error (part of it, in any case), error_kind (the whole of it; that of a dead letter without a text is
-- 'no error text'), batch_id, created_after, created_before (times with a zone)}, each as text; what is absent or null
-- fits all jobs. The callers spell the conditions out for the planner.
create function public.giftcard_check_filter(p_filter jsonb) returns void
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_name text;
begin
  if jsonb_typeof(p_filter) is distinct from 'object' then
    perform public.giftcard_refuse('GC400', 'a filter must be an object', 'filter');
  end if;
  for v_name in select jsonb_object_keys(p_filter) loop
    if v_name not in ('status', 'stage', 'circuit', 'tenant_id', 'correlation_id', 'error', 'error_kind',
                      'batch_id', 'created_after', 'created_before') then
      perform public.giftcard_refuse('GC400', format('there is no filter %s', v_name), v_name);
    elsif jsonb_typeof(p_filter -> v_name) not in ('string', 'null') then
      perform public.giftcard_refuse('GC400', format('the filter %s must be text', v_name), v_name);
    elsif v_name = 'batch_id' and (p_filter ->> v_name !~ '^[0-9]{1,19}$'
                                   or lpad(p_filter ->> v_name, 19, '0') collate "C" > '9223372036854775807') then
      perform public.giftcard_refuse('GC400', 'batch_id must be the number of a batch', v_name);
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
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  v_status text := p_filter ->> 'status';
  v_stage text := p_filter ->> 'stage';
  v_circuit text := p_filter ->> 'circuit';
  v_tenant text := p_filter ->> 'tenant_id';
  v_flow text := p_filter ->> 'correlation_id';
  v_error text := lower(p_filter ->> 'error');
  v_kind text := p_filter ->> 'error_kind';
  v_batch bigint;
  v_from timestamptz;
  v_to timestamptz;
  v_ids bigint[];
begin
  perform public.giftcard_check_filter(p_filter);
  v_batch := (p_filter ->> 'batch_id')::bigint;
  v_from := (p_filter ->> 'created_after')::timestamptz;
  v_to := (p_filter ->> 'created_before')::timestamptz;
  if p_up then
    select array_agg(f.id order by f.id) into v_ids from (
      select j.id from public.giftcard_jobs j
       where (p_after is null or j.id > p_after) and (v_status is null or j.status = v_status)
         and (v_stage is null or j.stage = v_stage)
         and (v_circuit is null or j.circuit = v_circuit) and (v_tenant is null or j.tenant_id = v_tenant)
         and (v_flow is null or j.correlation_id = v_flow) and (v_batch is null or j.batch_id = v_batch)
         and (v_error is null or strpos(lower(j.last_error), v_error) > 0)
         and (v_kind is null or coalesce(j.error_kind, case j.status when 'error' then 'no error text' end) = v_kind)
         and (v_from is null or j.created_at >= v_from) and (v_to is null or j.created_at < v_to)
       order by j.id limit least(p_limit, 1000)) f;
  else
    select array_agg(f.id order by f.id desc) into v_ids from (
      select j.id from public.giftcard_jobs j
       where (p_after is null or j.id < p_after) and (v_status is null or j.status = v_status)
         and (v_stage is null or j.stage = v_stage)
         and (v_circuit is null or j.circuit = v_circuit) and (v_tenant is null or j.tenant_id = v_tenant)
         and (v_flow is null or j.correlation_id = v_flow) and (v_batch is null or j.batch_id = v_batch)
         and (v_error is null or strpos(lower(j.last_error), v_error) > 0)
         and (v_kind is null or coalesce(j.error_kind, case j.status when 'error' then 'no error text' end) = v_kind)
         and (v_from is null or j.created_at >= v_from) and (v_to is null or j.created_at < v_to)
       order by j.id desc limit least(p_limit, 1000)) f;
  end if;
  return coalesce(v_ids, '{}');
end $$;

-- Return when a job runs next: a queued one when it is due, a dead letter when it revives; null: never. A settle has
-- the same expression inline: a call for each of its jobs would cost 5 %.
create function public.giftcard_next_run_at(p_status text, p_scheduled_at timestamptz, p_revive_at timestamptz)
returns timestamptz
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return case p_status when 'queued' then p_scheduled_at when 'error' then p_revive_at end;
end $$;

-- Return a job as the API shows it, with next_run_at and waiting_for.
create function public.giftcard_job_json(
  j public.giftcard_jobs, p_stages jsonb, p_missing jsonb, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return public.giftcard_readable_row(to_jsonb(j) || jsonb_build_object(
    'next_run_at', public.giftcard_next_run_at(j.status, j.scheduled_at, j.revive_at),
    'waiting_for', public.giftcard_waiting_for(j, p_stages, p_missing, p_now)));
end $$;

-- Return a page of jobs, the newest first: {jobs, older, newer}: the ids to continue from, null at the end. A page ends
-- early where its jobs are large (see giftcard_page_ends).
create function public.giftcard_list_jobs(
  p_filter jsonb default '{}', p_before bigint default null, p_after bigint default null, p_limit integer default 50,
  p_stages jsonb default null, p_missing jsonb default '{}', p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  v_up boolean := p_after is not null;
  v_id bigint;
  v_row jsonb;
  v_bytes integer := 0;
  v_ids bigint[] := array[]::bigint[];
  v_rows jsonb[] := array[]::jsonb[];
  v_more boolean := false;
begin
  -- One more than the page holds: its presence means that there are more.
  foreach v_id in array public.giftcard_find_jobs(p_filter, case when v_up then p_after else p_before end, v_limit + 1,
                                                  v_up) loop
    select public.giftcard_job_json(j, p_stages, p_missing, v_now) into v_row
      from public.giftcard_jobs j where j.id = v_id;
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes);
    exit when v_more;
    v_ids := v_ids || v_id;
    v_rows := v_rows || v_row;
  end loop;
  return jsonb_build_object(
    'jobs', (select coalesce(jsonb_agg(r.job order by r.id desc), '[]') from unnest(v_ids, v_rows) r(id, job)),
    -- null for a page without jobs
    'older', case when v_up or v_more then (select min(i) from unnest(v_ids) i) end,
    'newer', case when v_more and v_up or not v_up and p_before is not null
                  then (select max(i) from unnest(v_ids) i) end);
end $$;

-- Return one job as it stands, with next_run_at, waiting_for, current_run (null: it is not running) and archived_at
-- (null: not in the archive). GC404 for none.
create function public.giftcard_show_job(
  p_job_id bigint, p_stages jsonb default null, p_missing jsonb default '{}', p_tenant_id text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  j public.giftcard_jobs;
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_archived jsonb;
begin
  select * into j from public.giftcard_jobs
   where id = p_job_id and (p_tenant_id is null or tenant_id = p_tenant_id);
  if not found then
    select public.giftcard_archived_job_json(a) into v_archived
      from public.giftcard_jobs_archive a
     where a.id = p_job_id and (p_tenant_id is null or a.tenant_id = p_tenant_id);
    if not found then
      perform public.giftcard_refuse('GC404', format('job %s does not exist', p_job_id), 'job_id');
    end if;
    return v_archived || jsonb_build_object('next_run_at', null, 'current_run', null, 'waiting_for', jsonb_build_object(
      'reason', 'archived', 'text', format(
        'it left for the archive at %s: restore it before anything is done with it',
        public.giftcard_time_text((v_archived ->> 'archived_at')::timestamptz))));
  end if;
  return public.giftcard_job_json(j, p_stages, p_missing, v_now)
         || jsonb_build_object('archived_at', null, 'current_run', public.giftcard_current_run(j, v_now));
end $$;
-- Why a job does not run.

-- Return in words what a limit of a job is of.
create function public.giftcard_limit_subject(j public.giftcard_jobs, p_kind text) returns text
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return case p_kind when 'stage' then 'stage ' || j.stage when 'circuit' then 'circuit ' || j.circuit
                     when 'tenant' then format('tenant %s in stage %s', j.tenant_id, j.stage)
                     else 'concurrency key ' || j.concurrency_key end;
end $$;

-- Return why a limit of runs holds a job back: {reason, text}; null: it does not. p_key: that of the limit.
create function public.giftcard_waiting_for_slot(
  j public.giftcard_jobs, p_kind text, p_key text, p_runs integer, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_what text := public.giftcard_limit_subject(j, p_kind);
begin
  if p_runs is null or p_runs > 0 and (case when p_kind = 'key' then (
       select count(*) from public.giftcard_jobs r
        where r.status = 'running' and r.concurrency_key is not null and r.tenant_id = j.tenant_id
          and r.concurrency_key = j.concurrency_key and r.lease_expires_at > p_now)
     else public.giftcard_running(p_key, null, p_now) end) < p_runs then
    return null;
  end if;
  return case p_kind when 'stage' then jsonb_build_object('reason', 'stage_full')
                     when 'circuit' then jsonb_build_object('reason', 'circuit_full')
                     when 'tenant' then jsonb_build_object('reason', 'tenant_full')
                     else jsonb_build_object('reason', 'key_busy') end || jsonb_build_object(
    'text', case when p_runs = 0 then format('%s starts nothing: its limit is 0 runs', v_what)
                 else format('%s has %s running, which is its limit', v_what, p_runs) end);
end $$;

-- Return why a limit holds a job back: {reason, until, by, text}; null: none does. until: of a rate, when the next may
-- start, else when the limit ends; by: who set it. p_defaults: the limits of the settings, as each tick records them.
create function public.giftcard_waiting_for_limit(j public.giftcard_jobs, p_defaults jsonb, p_now timestamptz)
returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limits jsonb := public.giftcard_effective_limits(coalesce(p_defaults, '{}'), p_now);
  v_why jsonb;
  v_until timestamptz;
  k record;
begin
  for k in
    select x.kind, y.key, y.its_limit
      from (values (1, 'stage', j.stage), (2, 'circuit', j.circuit), (3, 'tenant', j.stage),
                   (4, 'key', j.concurrency_key)) x(n, kind, name)
     cross join lateral (select public.giftcard_limit_key(x.kind, x.name, j.tenant_id) as key) l
     cross join lateral (select l.key, case x.kind
       when 'tenant' then public.giftcard_tenant_limit(v_limits, j.stage, j.tenant_id)
       when 'key' then '{"runs": 1}' || coalesce(v_limits -> l.key, '{}') else v_limits -> l.key end as its_limit) y
     where y.key is not null and y.its_limit is not null order by x.n
  loop
    v_why := public.giftcard_waiting_for_slot(j, k.kind, k.key, (k.its_limit ->> 'runs')::integer, p_now);
    if v_why is null and k.its_limit ? 'per_second' then
      v_until := (select public.giftcard_starts_at(k.its_limit, r, p_now) from public.giftcard_rates r
                   where r.key = k.key);
      if v_until > p_now then
        v_why := jsonb_build_object('reason', 'rate_limited', 'until', v_until, 'text', format(
          '%s may start %s a second: the next at %s', public.giftcard_limit_subject(j, k.kind),
          k.its_limit ->> 'per_second', public.giftcard_time_text(v_until)));
      end if;
    end if;
    exit when v_why is not null;
  end loop;
  return v_why || coalesce((
    select jsonb_strip_nulls(jsonb_build_object(
             'by', left(l.set_by, 400), 'until', case when not v_why ? 'until' then l.until end))
           || jsonb_build_object('text', left((v_why ->> 'text') || coalesce(' (' || nullif(concat_ws(
                '; ', 'set by ' || l.set_by || coalesce(': ' || l.reason, ''),
                'until ' || public.giftcard_time_text(l.until)), '') || ')', ''), 500))
      from public.giftcard_limits l
     where public.giftcard_limit_key(l.kind, l.name, l.tenant_id) in (k.key, 'tenant ' || j.stage || ' *')
       and l.kind = k.kind and (l.until is null or l.until > p_now)
     order by l.tenant_id desc limit 1), '{}');
end $$;

-- Return how many queued jobs of its circuit start before a job, at most 1,000: of higher priority, or older.
create function public.giftcard_ahead(j public.giftcard_jobs, p_now timestamptz) returns bigint
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  return (
    select count(*) from (
      select from public.giftcard_lanes(j.circuit) l(lane) cross join lateral (
        select from public.giftcard_jobs q
         where q.status = 'queued' and q.circuit = j.circuit and (-q.priority) = l.lane
           and (q.scheduled_at, q.id) < (case when l.lane < -j.priority then p_now else j.scheduled_at end, j.id)
         limit 1000) a
       where l.lane <= -j.priority limit 1000) c);
end $$;

-- Return why a due job of a stage that runs is not running: its circuit, the clock, a limit, or its turn.
create function public.giftcard_waiting_in_queue(j public.giftcard_jobs, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  c public.giftcard_circuits;
  v_ahead bigint;
  v_tick timestamptz;
  v_limits jsonb;
  v_limited jsonb;
begin
  select * into c from public.giftcard_circuits where circuit = j.circuit and state <> 'closed';
  if found and c.open_until > p_now then
    return jsonb_build_object('reason', 'circuit_open', 'until', c.open_until, 'text', format(
      'circuit %s is open until %s', j.circuit, public.giftcard_time_text(c.open_until)));
  elsif found then
    return jsonb_build_object('reason', 'circuit_half_open',
                              'text', format('circuit %s is half-open: one job at a time tries it', j.circuit));
  end if;
  select started_at, limits into v_tick, v_limits from public.giftcard_ticks order by id desc limit 1;
  if v_tick is null or v_tick < p_now - interval '3 minutes' then
    return jsonb_build_object(
      'reason', 'no_tick', 'until', null, 'since', v_tick, 'text', coalesce(
        'no tick since ' || public.giftcard_time_text(v_tick), 'no tick has ever run') || ': is the clock calling?');
  end if;
  v_limited := public.giftcard_waiting_for_limit(j, v_limits, p_now);
  if v_limited is not null then
    return v_limited;
  end if;
  v_ahead := public.giftcard_ahead(j, p_now);
  if v_ahead > 0 then
    return jsonb_build_object('reason', 'behind', 'ahead', v_ahead, 'text', format(
      'behind %s%s jobs of circuit %s that are older or of higher priority', v_ahead,
      case when v_ahead = 1000 then ' or more' end, j.circuit));
  end if;
  return jsonb_build_object('reason', 'next_tick', 'text', 'due: the next tick takes it');
end $$;

-- Return why a running job whose lease has ended is not settled, and when it is taken over: {reason, since, by, until,
-- text}; null for one whose lease holds. What parks its stage does not matter: it is settled as interrupted at once.
create function public.giftcard_waiting_for_take_over(j public.giftcard_jobs, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_paused_by text;
  v_skipped_until timestamptz;
  v_tick timestamptz;
  v_when text;
begin
  if j.lease_expires_at > p_now then
    return null;
  end if;
  select coalesce(left(paused_by, 400), '?') into v_paused_by from public.giftcard_stages
   where stage = '*' and paused_at is not null;
  select skip_until into v_skipped_until from public.giftcard_faulty_rows
   where kind = 'job' and row_id = j.id::text and skip_until > p_now and skip_until <= p_now + interval '1 hour';
  select started_at into v_tick from public.giftcard_ticks order by id desc limit 1;
  v_when := case
    when v_paused_by is not null then 'no tick takes it over while everything is paused by ' || v_paused_by
    when v_skipped_until is not null
      then format('ticks fail on it and pass over it until %s', public.giftcard_time_text(v_skipped_until))
    when v_tick is null then 'a tick takes it over once one comes: none has ever run'
    when v_tick < p_now - interval '3 minutes'
      then format('a tick takes it over once one comes: the last one was at %s', public.giftcard_time_text(v_tick))
    else 'the next tick takes it over, within a minute' end;
  return jsonb_build_object(
    'reason', 'killed', 'by', v_paused_by, 'until', v_skipped_until,
    'since', case when isfinite(j.lease_expires_at) then j.lease_expires_at end,
    'text', case when isfinite(j.lease_expires_at) then format(
      'its function was killed (lease ended %s); ', public.giftcard_time_text(j.lease_expires_at))
      else 'it runs without a lease; ' end || v_when);
end $$;

-- Return why a job is not running now, the first reason that holds: {reason, until, since, by, ahead, text}; null for
-- one that runs or has ended well. p_stages: what this code can run (null: unknown here); p_missing: {"email":
-- "SMTP_URL"}: stages that it knows and that lack a setting.
create function public.giftcard_waiting_for(
  j public.giftcard_jobs, p_stages jsonb, p_missing jsonb, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  s public.giftcard_stages;
begin
  if j.status = 'error' then
    if j.revive_at is not null then
      return jsonb_build_object('reason', 'reviving', 'until', j.revive_at,
                                'text', 'a dead letter: it revives at ' || public.giftcard_time_text(j.revive_at));
    end if;
    return jsonb_build_object('reason', 'dead', 'text', 'dead for good: it waits for a person to requeue it');
  elsif j.status = 'running' then
    return public.giftcard_waiting_for_take_over(j, p_now);
  elsif j.status <> 'queued' then
    return null;
  end if;
  select * into s from public.giftcard_stages where stage = '*' and paused_at is not null;
  if found then
    return jsonb_build_object('reason', 'all_paused', 'by', left(s.paused_by, 500),
                              'text', left(concat('everything is paused by ', s.paused_by, ': ' || s.reason), 500));
  end if;
  select * into s from public.giftcard_stages where stage = j.stage and paused_at is not null;
  if found then
    return jsonb_build_object('reason', 'stage_paused', 'by', left(s.paused_by, 500), 'text', left(format(
      'stage %s is paused by %s%s', j.stage, s.paused_by, ': ' || s.reason), 500));
  elsif p_missing ? j.stage then
    return jsonb_build_object('reason', 'stage_not_configured', 'text', left(format(
      case when p_missing ->> j.stage ~ '^[A-Z][A-Z0-9_]*$' then 'stage %s lacks the setting %s'
           else 'stage %s cannot run: %s' end, j.stage, p_missing ->> j.stage), 500));
  elsif not coalesce(p_stages ? j.stage, true) then
    return jsonb_build_object('reason', 'stage_unknown', 'text', 'this code knows no stage ' || j.stage);
  elsif j.scheduled_at > p_now then
    return jsonb_build_object('reason', 'due_at', 'until', j.scheduled_at,
                              'text', 'due at ' || public.giftcard_time_text(j.scheduled_at));
  end if;
  return public.giftcard_waiting_in_queue(j, p_now);
end $$;
-- Manage jobs and stages: the operators' actions.

-- Requeue a job, as giftcard_requeue does. Return its answer, and the names of the payload's fields that changed.
create function public.giftcard_requeue_job(
  p_job_id bigint, p_payload jsonb, p_force boolean, p_circuit text, p_source text, p_tenant_id text,
  p_now timestamptz, out answer jsonb, out changed jsonb)
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  j public.giftcard_jobs;
begin
  select * into j from public.giftcard_jobs
   where id = p_job_id and (p_tenant_id is null or tenant_id = p_tenant_id) for update;
  if not found then
    perform public.giftcard_refuse_absent(p_job_id, p_tenant_id);
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
  perform set_config('giftcard.writer', 'requeue', true);
  update public.giftcard_jobs
     set status = 'queued', scheduled_at = v_now, attempts = 0, revivals = 0, last_error = null,
         source = case when p_payload is distinct from payload and p_payload is not null then coalesce(p_source, 'sql')
                       else source end,
         payload = coalesce(p_payload, payload),
         circuit = coalesce(p_circuit, circuit),
         revive_at = null, finished_at = null, cancel_requested_at = null, lease_id = null, lease_expires_at = null,
         updated_at = v_now
   where id = p_job_id;
  perform set_config('giftcard.writer', '', true);
  answer := jsonb_build_object('id', p_job_id, 'status', 'queued', 'was', j.status);
  changed := public.giftcard_changed_fields(j.payload, coalesce(p_payload, j.payload));
end $$;

-- Requeue a job in error or cancelled (with p_force: completed): due now, with a whole new set of attempts. p_payload:
-- a corrected payload (p_circuit: its circuit, p_source: its source; null: sql), refused once the job has begun an
-- external effect, which is bound to the old one. p_reason: why, for the audit. History stays. Return {id, status,
-- was}. GC409 for any other state.
create function public.giftcard_requeue(
  p_job_id bigint, p_payload jsonb default null, p_force boolean default false, p_circuit text default null,
  p_source text default null, p_reason text default null, p_by text default null, p_tenant_id text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_details jsonb;
  r record := public.giftcard_requeue_job(p_job_id, p_payload, p_force, p_circuit, p_source, p_tenant_id, p_now);
begin
  v_details := jsonb_build_object('was', r.answer -> 'was', 'reason', p_reason);
  if r.changed = '[]' then
    perform public.giftcard_record_jobs(p_by, 'requeue', array[p_job_id], v_details, p_now);
  else
    perform public.giftcard_record_jobs(
      p_by, 'payload', array[p_job_id], v_details || jsonb_build_object('changed', r.changed), p_now);
  end if;
  return r.answer;
end $$;

-- Cancel jobs that are queued or in error, and record the request for running ones. Return how many this changes. The
-- caller holds their rows.
create function public.giftcard_cancel_locked(p_ids bigint[], p_now timestamptz) returns bigint
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_requested bigint;
  v_cancelled bigint;
  v_batches bigint[];
begin
  update public.giftcard_jobs set cancel_requested_at = p_now, updated_at = p_now
   where id = any (p_ids) and status = 'running' and cancel_requested_at is null;
  get diagnostics v_requested = row_count;
  with cancelled as (
    update public.giftcard_jobs set status = 'cancelled', revive_at = null, finished_at = p_now, updated_at = p_now
     where id = any (p_ids) and status in ('queued', 'error') returning batch_id)
  select count(*), array_agg(batch_id) filter (where batch_id is not null) into v_cancelled, v_batches from cancelled;
  if v_batches is not null then
    perform public.giftcard_end_batches(v_batches, p_now);
  end if;
  return v_requested + v_cancelled;
end $$;

-- Cancel a job that is queued or in error. For a running one the request is recorded: complete still wins, any other
-- outcome becomes cancelled. p_reason: why, for the audit. Return {id, was, status, cancel_requested}.
create function public.giftcard_cancel(
  p_job_id bigint, p_reason text default null, p_by text default null, p_tenant_id text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_status text;
begin
  select status into v_status from public.giftcard_jobs
   where id = p_job_id and (p_tenant_id is null or tenant_id = p_tenant_id) for update;
  if not found then
    perform public.giftcard_refuse_absent(p_job_id, p_tenant_id);
  elsif v_status = 'completed' then
    perform public.giftcard_refuse(
      'GC409', format('job %s is completed: there is nothing to cancel', p_job_id), 'status');
  elsif public.giftcard_cancel_locked(array[p_job_id], v_now) > 0 then
    perform public.giftcard_record_jobs(
      p_by, 'cancel', array[p_job_id], jsonb_build_object('was', v_status, 'reason', p_reason), v_now);
  end if;
  return jsonb_build_object('id', p_job_id, 'was', v_status,
                            'status', case v_status when 'running' then 'running' else 'cancelled' end,
                            'cancel_requested', v_status = 'running');
end $$;

-- Pause a stage, or everything ('*'): its jobs wait and lose no attempt. Runs that have begun end normally.
-- p_paused_by: the name that status shows; null: p_by. Paused once more with this name and reason, it stays as it is.
create function public.giftcard_pause(
  p_stage text, p_paused_by text default null, p_reason text default null, p_by text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_name text := coalesce(nullif(p_paused_by, ''), public.giftcard_actor(p_by));
  s public.giftcard_stages;
begin
  if coalesce(p_stage, '') = '' then
    perform public.giftcard_refuse('GC400', 'p_stage (''*'' for all) must be given', 'stage');
  end if;
  insert into public.giftcard_stages as x (stage, paused_at, paused_by, reason)
  values (p_stage, v_now, v_name, p_reason)
  on conflict (stage) do update set
    paused_at = excluded.paused_at, paused_by = excluded.paused_by, reason = excluded.reason, resumed_at = null,
    resumed_by = null
   where x.paused_at is null or (x.paused_by, x.reason) is distinct from (excluded.paused_by, excluded.reason)
  returning * into s;
  if found then
    perform public.giftcard_record_act(
      p_by, null, 'pause', 'stage ' || p_stage,
      jsonb_build_object('paused_by', nullif(v_name, public.giftcard_actor(p_by)), 'reason', p_reason), v_now);
  else
    select * into s from public.giftcard_stages where stage = p_stage;
  end if;
  return jsonb_build_object(
    'stage', p_stage, 'paused', true, 'paused_at', s.paused_at, 'paused_by', s.paused_by, 'reason', s.reason);
end $$;

-- End a pause. p_resumed_by: the name that is kept; null: p_by. p_reason: why, for the audit. GC404 for a stage that is
-- not paused.
create function public.giftcard_resume(
  p_stage text, p_resumed_by text default null, p_reason text default null, p_by text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_name text := coalesce(nullif(p_resumed_by, ''), public.giftcard_actor(p_by));
begin
  update public.giftcard_stages set paused_at = null, resumed_at = v_now, resumed_by = v_name
    where stage = p_stage and paused_at is not null;
  if not found then
    perform public.giftcard_refuse('GC404', format('stage %s is not paused', p_stage), 'stage');
  end if;
  perform public.giftcard_record_act(
    p_by, null, 'resume', 'stage ' || p_stage,
    jsonb_build_object('resumed_by', nullif(v_name, public.giftcard_actor(p_by)), 'reason', p_reason), v_now);
  return jsonb_build_object('stage', p_stage, 'paused', false, 'resumed_at', v_now, 'resumed_by', v_name);
end $$;
-- Manage limits: set and remove them, and delete those that have ended.

-- Refuse what names no limit, with the field.
create function public.giftcard_check_limit_key(p_kind text, p_name text, p_tenant_id text) returns void
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_unsafe text := '[\x01-\x1f\x7f-\x9f\u2028\u2029]';
begin
  if p_kind is null or p_kind not in ('stage', 'circuit', 'tenant', 'key') then
    perform public.giftcard_refuse('GC400', 'kind must be stage, circuit, tenant or key', 'kind');
  elsif coalesce(p_name, '') = '' or char_length(p_name) > 300 or p_name ~ v_unsafe then
    perform public.giftcard_refuse(
      'GC400', 'name must be given: 1 to 300 characters, none of them a control character', 'name');
  elsif char_length(p_tenant_id) > 200 or p_tenant_id ~ v_unsafe then
    perform public.giftcard_refuse(
      'GC400', 'tenant_id has at most 200 characters, none of them a control character', 'tenant_id');
  elsif p_kind in ('stage', 'circuit') and p_tenant_id <> '' then
    perform public.giftcard_refuse(
      'GC400', format('a limit of a %s is for all tenants together: leave out tenant_id', p_kind), 'tenant_id');
  elsif p_kind = 'tenant' and p_tenant_id = '' then
    perform public.giftcard_refuse('GC400', 'tenant_id must be a tenant, or * for each tenant', 'tenant_id');
  elsif p_kind = 'key' and p_tenant_id in ('', '*') then
    perform public.giftcard_refuse('GC400', 'tenant_id must be the tenant whose jobs have this key', 'tenant_id');
  end if;
end $$;

-- Refuse values that no limit has, with the field.
create function public.giftcard_check_limit(
  p_runs integer, p_per_second double precision, p_burst integer, p_until timestamptz, p_for_seconds double precision,
  p_now timestamptz) returns void
language plpgsql stable security invoker set search_path = '' as $$
begin
  if p_runs is null and p_per_second is null then
    perform public.giftcard_refuse(
      'GC400', 'a limit needs runs, per_second or both: to go back to the default, remove it', 'runs');
  elsif not p_runs between 0 and 10000 then
    perform public.giftcard_refuse('GC400', 'runs must be from 0 (none starts) to 10,000', 'runs');
  elsif not p_per_second between 0.0001 and 10000 then
    perform public.giftcard_refuse('GC400', 'per_second must be from 0.0001 to 10,000', 'per_second');
  elsif not p_burst between 1 and 100000 then
    perform public.giftcard_refuse('GC400', 'burst must be from 1 to 100,000', 'burst');
  elsif p_burst is not null and p_per_second is null then
    perform public.giftcard_refuse('GC400', 'a burst is that of a rate: give per_second, too', 'burst');
  elsif p_until is not null and p_for_seconds is not null then
    perform public.giftcard_refuse('GC400', 'until and for_seconds exclude each other', 'for_seconds');
  elsif not isfinite(p_until) or p_until <= p_now then
    perform public.giftcard_refuse('GC400', 'until must be a time in the future', 'until');
  elsif not p_for_seconds between 1 and 366 * 86400 then
    perform public.giftcard_refuse('GC400', 'for_seconds must be from 1 to a year', 'for_seconds');
  end if;
end $$;

-- Return a limit as acts return it.
create function public.giftcard_limit_row_json(l public.giftcard_limits) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return jsonb_build_object(
    'kind', l.kind, 'name', l.name, 'tenant_id', nullif(l.tenant_id, ''), 'runs', l.runs, 'per_second', l.per_second,
    'burst', l.burst, 'until', case when isfinite(l.until) then l.until end, 'set_by', left(l.set_by, 500),
    'reason', left(l.reason, 500), 'updated_at', case when isfinite(l.updated_at) then l.updated_at end);
end $$;

-- Record in the audit that a limit was set or removed. It is kept for good, so a concurrency key that is a mail address
-- or a long number is masked, as in errors.
create function public.giftcard_record_limit(
  p_by text, p_action text, l public.giftcard_limits, p_details jsonb, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  perform public.giftcard_record_act(
    p_by, nullif(nullif(l.tenant_id, '*'), ''), p_action,
    'limit ' || public.giftcard_limit_key(l.kind, case l.kind when 'key' then regexp_replace(regexp_replace(
      l.name, '[^\s"<>]+@[^\s"<>]+', '[email]', 'g'), '[0-9]{12,}', '[number]', 'g') else l.name end, l.tenant_id),
    p_details, p_now);
end $$;

-- Set a limit, in place of the one that has this kind, name and tenant; a value that is null is the default's.
-- p_tenant_id: of the kinds tenant and key. p_until, or p_for_seconds from now: when it ends by itself; null: never.
-- The same limit once more changes nothing. Return it.
create function public.giftcard_set_limit(
  p_kind text, p_name text, p_runs integer default null, p_per_second double precision default null,
  p_burst integer default null, p_tenant_id text default '', p_until timestamptz default null,
  p_for_seconds double precision default null, p_reason text default null, p_by text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_name text := btrim(p_name);
  v_tenant_id text := btrim(coalesce(p_tenant_id, ''));
  v_was public.giftcard_limits;
  l public.giftcard_limits;
begin
  perform public.giftcard_check_limit_key(p_kind, v_name, v_tenant_id);
  perform public.giftcard_check_limit(p_runs, p_per_second, p_burst, p_until, p_for_seconds, v_now);
  select * into v_was from public.giftcard_limits
   where kind = p_kind and name = v_name and tenant_id = v_tenant_id for update;
  insert into public.giftcard_limits as x
    (kind, name, tenant_id, runs, per_second, burst, set_by, reason, until, updated_at)
  values (p_kind, v_name, v_tenant_id, p_runs, p_per_second, p_burst, public.giftcard_actor(p_by), p_reason,
          coalesce(p_until, v_now + make_interval(secs => p_for_seconds)), v_now)
  on conflict (kind, name, tenant_id) do update set
    runs = excluded.runs, per_second = excluded.per_second, burst = excluded.burst, set_by = excluded.set_by,
    reason = excluded.reason, until = excluded.until, updated_at = excluded.updated_at
   where (x.runs, x.per_second, x.burst, x.set_by, x.reason, x.until)
         is distinct from (excluded.runs, excluded.per_second, excluded.burst, excluded.set_by, excluded.reason,
                           excluded.until)
  returning * into l;
  if not found then
    return public.giftcard_limit_row_json(v_was);
  end if;
  perform public.giftcard_record_limit(p_by, 'set_limit', l, jsonb_build_object(
    'runs', l.runs, 'per_second', l.per_second, 'burst', l.burst, 'until', l.until, 'reason', p_reason,
    'was', case when v_was.kind is not null then jsonb_strip_nulls(jsonb_build_object(
             'runs', v_was.runs, 'per_second', v_was.per_second, 'burst', v_was.burst, 'until', v_was.until)) end),
    v_now);
  return public.giftcard_limit_row_json(l);
end $$;

-- Remove a limit: the default is in force again. p_reason: why, for the audit. Return what it was. GC404 for none.
create function public.giftcard_remove_limit(
  p_kind text, p_name text, p_tenant_id text default '', p_reason text default null, p_by text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_name text := btrim(p_name);
  v_tenant_id text := btrim(coalesce(p_tenant_id, ''));
  l public.giftcard_limits;
begin
  perform public.giftcard_check_limit_key(p_kind, v_name, v_tenant_id);
  delete from public.giftcard_limits where kind = p_kind and name = v_name and tenant_id = v_tenant_id
  returning * into l;
  if not found then
    perform public.giftcard_refuse('GC404', format(
      'there is no limit %s: to change what the settings allow, set one',
      public.giftcard_limit_key(p_kind, v_name, v_tenant_id)), 'name');
  end if;
  perform public.giftcard_record_limit(p_by, 'remove_limit', l, jsonb_build_object(
    'runs', l.runs, 'per_second', l.per_second, 'burst', l.burst, 'until', l.until, 'reason', p_reason), p_now);
  return public.giftcard_limit_row_json(l);
end $$;

-- Delete up to p_limit rows of each kind that limits leave: limits that have ended; slots that are free, of circuits,
-- tenants and keys without a limit of their own; rates that have been whole for an hour. Rows that a claim holds are
-- left to the next call. Return whether that was all.
create function public.giftcard_prune_limits(p_limit integer, p_now timestamptz) returns boolean
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  v_limits bigint;
  v_keys text[];
  v_numbers integer[];
  v_rates bigint;
begin
  delete from public.giftcard_limits l using (
    select kind, name, tenant_id from public.giftcard_limits where until <= p_now
     order by kind, name, tenant_id limit p_limit for update skip locked) e
   where (l.kind, l.name, l.tenant_id) = (e.kind, e.name, e.tenant_id);
  get diagnostics v_limits = row_count;
  -- Locked first, and read again then: a statement sees only what claims had committed before it began.
  select array_agg(f.key), array_agg(f.n) into v_keys, v_numbers from (
    select s.key, s.n from public.giftcard_slots s
     where (s.key between 'circuit ' and 'circuit!' or s.key between 'key ' and 'key!'
            or s.key between 'tenant ' and 'tenant!')
       and not public.giftcard_is_taken(s, null, p_now)
       and s.key <> all (array(
         select public.giftcard_limit_key(kind, name, tenant_id) from public.giftcard_limits where kind <> 'stage'))
     order by s.key, s.n limit p_limit for update skip locked) f;
  delete from public.giftcard_slots s using unnest(v_keys, v_numbers) f(key, n)
   where s.key = f.key and s.n = f.n and not public.giftcard_is_taken(s, null, p_now);
  delete from public.giftcard_rates r using (
    select key from public.giftcard_rates
     where full_at <= p_now - interval '1 hour' and held_until <= p_now - interval '1 hour'
     order by key limit p_limit for update skip locked) e
   where r.key = e.key;
  get diagnostics v_rates = row_count;
  return greatest(v_limits, coalesce(cardinality(v_keys), 0), v_rates) < p_limit;
end $$;
-- Show limits: each with what is in force, what runs, and what its rate has left.

-- Return a number of a JSON object that a tick brought, within bounds; null if it is none.
create function public.giftcard_limit_number(p_value jsonb, p_name text, p_most numeric) returns numeric
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return case when jsonb_typeof(p_value -> p_name) = 'number'
              then least(greatest((p_value ->> p_name)::numeric, 0), p_most) end;
end $$;

-- Return the limits of the settings by stage, as the newest tick brought them: {"payment": {"runs": 2}}. A number
-- instead of the object is its runs.
create function public.giftcard_default_limits() returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limits jsonb := (select limits from public.giftcard_ticks order by id desc limit 1);
begin
  if jsonb_typeof(v_limits) is distinct from 'object' then
    return '{}'::jsonb;
  end if;
  return (
    select coalesce(jsonb_object_agg(d.key, jsonb_build_object(
             'runs', public.giftcard_limit_number(d.value, 'runs', 10000),
             'per_second', public.giftcard_limit_number(d.value, 'per_second', 10000),
             'burst', public.giftcard_limit_number(d.value, 'burst', 100000))), '{}')
      from (select key, case jsonb_typeof(value) when 'number' then jsonb_build_object('runs', value) else value end
              from jsonb_each(v_limits) where char_length(key) <= 300 order by key limit 200) d(key, value));
end $$;

-- Return what is in force where a limit has no value of its own: of a stage the settings, of a concurrency key one run
-- at a time.
create function public.giftcard_default_of_limit(p_kind text, p_name text, p_defaults jsonb) returns jsonb
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return jsonb_build_object('runs', null, 'per_second', null, 'burst', null) || coalesce(case p_kind
    when 'stage' then p_defaults -> p_name when 'key' then jsonb_build_object('runs', 1) end, '{}');
end $$;

-- Return a limit as the API shows it. l: its row, of nulls for a default; d: the default beneath.
create function public.giftcard_limit_json(
  p_kind text, p_name text, p_tenant_id text, l public.giftcard_limits, d jsonb, p_running bigint, p_now timestamptz)
returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_ended boolean := coalesce(l.until <= p_now, false);
  v_own jsonb := jsonb_build_object('runs', l.runs, 'per_second', l.per_second, 'burst', l.burst);
  v_force jsonb := d;
  v_tokens double precision;
  r public.giftcard_rates;
begin
  if not v_ended and l.runs is not null then
    v_force := v_force || jsonb_build_object('runs', l.runs);
  end if;
  if not v_ended and l.per_second is not null then
    v_force := v_force || (v_own - 'runs');
  end if;
  if v_force ->> 'per_second' is not null then
    v_force := v_force || jsonb_build_object('burst', public.giftcard_burst(v_force)::integer);
    select * into r from public.giftcard_rates where key = public.giftcard_limit_key(p_kind, p_name, p_tenant_id);
    v_tokens := case when r.full_at = 'infinity' then 0 else public.giftcard_tokens(v_force, r, p_now) end;
  end if;
  return public.giftcard_limit_row_json(l) || v_own || jsonb_build_object(
    'kind', p_kind, 'name', p_name, 'tenant_id', nullif(p_tenant_id, ''),
    'state', case when l.kind is null then 'default' when v_ended then 'ended' else 'active' end,
    'default', d, 'in_force', v_force, 'running', p_running,
    'tokens', case when p_kind <> 'tenant' or p_tenant_id <> '*' then round(v_tokens::numeric, 3) end,
    'held_until', case when isfinite(r.held_until) and r.held_until > p_now then r.held_until end);
end $$;

-- Return the place after which a page of limits begins: kind, name (of a key its md5: a cursor is part of a URL, and a
-- key may be of a customer), tenant. GC400 for what no page gave.
create function public.giftcard_limit_cursor(p_older text) returns text[]
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_cursor text[];
begin
  v_cursor := array(select jsonb_array_elements_text(p_older::jsonb));
  if cardinality(v_cursor) <> 3 or array_position(v_cursor, null) is not null then
    perform public.giftcard_refuse('GC400', 'older is not a cursor that an earlier page gave', 'older');
  end if;
  return v_cursor;
exception when data_exception then
  perform public.giftcard_refuse('GC400', 'older is not a cursor that an earlier page gave', 'older');
  return null;
end $$;

-- Return a page of limits, by kind, name (of a key its md5) and tenant, and the settings' limits of stages that have
-- none of their own: {limits: [{kind, name, tenant_id, runs, per_second, burst, default, in_force, state, running,
-- tokens, held_until, until, set_by, reason, updated_at}], older: the cursor to continue from, null at the end}.
-- running: up to 10,000 are counted; of each tenant (*) the most that one of them has.
create function public.giftcard_list_limits(
  p_kind text default null, p_older text default null, p_limit integer default 50, p_now timestamptz default null)
returns jsonb
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  v_after text[] := case when p_older is not null then public.giftcard_limit_cursor(p_older) end;
  v_defaults jsonb := public.giftcard_default_limits();
  v_page jsonb;
  v_last jsonb;
begin
  -- One more than the page holds: its presence means that there are more.
  with running as materialized (
    select j.stage, j.circuit, j.tenant_id, j.concurrency_key, count(*) as runs from (
      select * from public.giftcard_jobs
       where status = 'running' and coalesce(lease_expires_at, '-infinity'::timestamptz) > v_now limit 10000) j
     group by j.stage, j.circuit, j.tenant_id, j.concurrency_key), found as (
    (select l.kind, l.name, l.tenant_id, l, (case l.kind when 'key' then md5(l.name) else l.name end) as place
       from public.giftcard_limits l
      where (p_kind is null or l.kind = p_kind)
        and (v_after is null or (l.kind, (case l.kind when 'key' then md5(l.name) else l.name end), l.tenant_id)
                                > (v_after[1], v_after[2], v_after[3]))
      order by l.kind, (case l.kind when 'key' then md5(l.name) else l.name end), l.tenant_id limit v_limit + 1)
    union all
    select 'stage', d.name, '', null::public.giftcard_limits, d.name from jsonb_object_keys(v_defaults) d(name)
     where (p_kind is null or p_kind = 'stage')
       and (v_after is null or row('stage' collate "C", d.name collate "C", '' collate "C")
                               > row(v_after[1], v_after[2], v_after[3]))
       and not exists (select from public.giftcard_limits x where x.kind = 'stage' and x.name = d.name))
  select jsonb_agg(public.giftcard_limit_json(
      f.kind, f.name, f.tenant_id, f.l,
      public.giftcard_default_of_limit(f.kind, f.name, v_defaults),
      (select case when f.tenant_id = '*' then coalesce(max(t.runs), 0) else coalesce(sum(t.runs), 0) end from (
         select sum(r.runs)::bigint as runs from running r
          where case f.kind when 'stage' then r.stage = f.name when 'circuit' then r.circuit = f.name
                            when 'tenant' then r.stage = f.name and f.tenant_id in (r.tenant_id, '*')
                            else r.concurrency_key = f.name and r.tenant_id = f.tenant_id end
          group by r.tenant_id) t)::bigint, v_now) order by f.kind, f.place, f.tenant_id) into v_page
    from (select * from found n order by n.kind collate "C", n.place collate "C", n.tenant_id collate "C"
           limit v_limit + 1) f;
  v_page := coalesce(v_page, '[]');
  if jsonb_array_length(v_page) > v_limit then
    v_page := v_page - v_limit;
    v_last := v_page -> -1;
  end if;
  return jsonb_build_object('limits', v_page, 'older', case when v_last is not null then jsonb_build_array(
    v_last -> 'kind', case v_last ->> 'kind' when 'key' then md5(v_last ->> 'name') else v_last ->> 'name' end,
    coalesce(v_last ->> 'tenant_id', ''))::text end);
end $$;

-- Return the limits of runs that are in force, for metrics: [{kind, name, tenant, runs, running}], at most 200 of a
-- kind. Those of keys are as many as customers: none of them.
create function public.giftcard_limit_metrics(p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
        'kind', m.l -> 'kind', 'name', left(m.l ->> 'name', 300), 'tenant', coalesce(m.l ->> 'tenant_id', ''),
        'runs', m.l -> 'in_force' -> 'runs', 'running', m.l -> 'running')), '[]')
      from unnest(array['stage', 'circuit', 'tenant']) k(kind)
     cross join lateral jsonb_array_elements(
       public.giftcard_list_limits(p_kind => k.kind, p_limit => 200, p_now => p_now) -> 'limits') m(l)
     where m.l ->> 'state' <> 'ended' and m.l -> 'in_force' ->> 'runs' is not null);
end $$;

-- Return what the doctor judges, of up to 1,000 limits of a kind: {stopped: those that let nothing start and never end,
-- stages: {the stage of a limit: the limit}}.
create function public.giftcard_limits_to_judge(p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    with judged as materialized (
      select l.* from unnest(array['stage', 'circuit', 'tenant', 'key']) k(kind)
       cross join lateral (select * from public.giftcard_limits c
                            where c.kind = k.kind and coalesce(c.until > p_now, true)
                            order by c.kind, c.name, c.tenant_id limit 1000) l)
    select jsonb_build_object(
      'stopped', (select coalesce(jsonb_agg(s.row), '[]') from (
          select jsonb_build_object(
                   'kind', kind, 'name', left(name, 300), 'tenant_id', nullif(left(tenant_id, 200), ''),
                   'by', left(set_by, 200), 'reason', left(reason, 500),
                   'age', public.giftcard_milliseconds(updated_at, p_now) / 1000.0) as row
            from judged where runs = 0 and until is null limit 20) s),
      'stages', (select coalesce(jsonb_object_agg(g.stage, g.key), '{}') from (
          select public.giftcard_stage_of(left(name, 300)) as stage,
                 min(public.giftcard_limit_key(kind, left(name, 300), left(tenant_id, 200))) as key
            from judged where kind <> 'key' group by 1 order by 1 limit 200) g)));
end $$;
-- Many jobs at once, in bounded steps.

-- Queue jobs again, each with a whole new set of attempts: the k-th is due after p_first_in + (k - 1) ×
-- p_spread_seconds seconds. The caller holds their rows.
create function public.giftcard_requeue_locked(
  p_ids bigint[], p_first_in double precision, p_spread_seconds double precision, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  update public.giftcard_jobs
     set status = 'queued', attempts = 0, revivals = 0, last_error = null, revive_at = null, finished_at = null,
         cancel_requested_at = null, lease_id = null, lease_expires_at = null, updated_at = p_now,
         scheduled_at = p_now + make_interval(secs => p_first_in + p_spread_seconds * (array_position(p_ids, id) - 1))
   where id = any (p_ids);
end $$;

-- Return whether a job fits a filter, apart from its status: what giftcard_find_jobs asks, of a row that is locked.
create function public.giftcard_fits(j public.giftcard_jobs, p_filter jsonb) returns boolean
language plpgsql stable security invoker set search_path = '' as $$
begin
  return j.stage = coalesce(p_filter ->> 'stage', j.stage) and j.circuit = coalesce(p_filter ->> 'circuit', j.circuit)
     and j.tenant_id = coalesce(p_filter ->> 'tenant_id', j.tenant_id)
     and j.correlation_id = coalesce(p_filter ->> 'correlation_id', j.correlation_id)
     and (p_filter ->> 'error' is null or strpos(lower(j.last_error), lower(p_filter ->> 'error')) > 0)
     and (p_filter ->> 'error_kind' is null
          or coalesce(j.error_kind, case j.status when 'error' then 'no error text' end) = p_filter ->> 'error_kind')
     and (p_filter ->> 'batch_id' is null or j.batch_id = (p_filter ->> 'batch_id')::bigint)
     and j.created_at >= coalesce((p_filter ->> 'created_after')::timestamptz, '-infinity')
     and (p_filter ->> 'created_before' is null or j.created_at < (p_filter ->> 'created_before')::timestamptz);
end $$;

-- Requeue by filter, one step: the next p_limit jobs with an id above p_after that are in error or cancelled and fit.
-- Going up by id, each is met once, whatever else moves; rows are waited for, not skipped, and have to fit still once
-- they are locked. Unless p_dry_run is false nothing changes. p_spread_seconds, p_first_in: as in
-- giftcard_requeue_locked. p_reason: why, for the audit.
-- Return {matched, requeued, ids, last_id (continue after it), done, dry_run}.
create function public.giftcard_requeue_jobs(
  p_filter jsonb, p_after bigint default 0, p_limit integer default 500, p_dry_run boolean default true,
  p_spread_seconds double precision default 0, p_first_in double precision default 0, p_reason text default null,
  p_by text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 500), 1), 1000);
  v_status text := coalesce(p_filter ->> 'status', 'error');
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_found bigint[];
  v_ids bigint[] := '{}'::bigint[];
begin
  if v_status not in ('error', 'cancelled') then
    perform public.giftcard_refuse('GC400', 'only jobs in error or cancelled are requeued by filter', 'status');
  end if;
  v_found := public.giftcard_find_jobs(p_filter || jsonb_build_object('status', v_status), p_after, v_limit, true);
  if not coalesce(p_dry_run, true) then
    v_ids := array(
      select j.id from public.giftcard_jobs j
       where j.id = any (v_found) and j.status = v_status and public.giftcard_fits(j, p_filter)
       order by j.id for update);
    perform public.giftcard_requeue_locked(v_ids, p_first_in, p_spread_seconds, v_now);
    -- The text of the error may name a person.
    perform public.giftcard_record_jobs(p_by, 'requeue', v_ids, jsonb_build_object(
      'filter', p_filter - 'error', 'by_error', p_filter ->> 'error' is not null or null, 'reason', p_reason), v_now);
  end if;
  return jsonb_build_object(
    'matched', cardinality(v_found), 'requeued', cardinality(v_ids), 'ids', to_jsonb(v_ids),
    'last_id', v_found[cardinality(v_found)], 'done', cardinality(v_found) < v_limit,
    'dry_run', coalesce(p_dry_run, true));
end $$;

-- Requeue dead letters by stage, part of the error and age, the oldest first, due now, at most p_limit a call (repeat
-- it until matched is 0). Unless p_dry_run is false it only counts. p_reason: why, for the audit. Return {dry_run,
-- matched (up to p_limit), requeued}.
create function public.giftcard_requeue_dead_letters(
  p_stage text default null, p_error text default null, p_older_than interval default null,
  p_limit integer default 1000, p_dry_run boolean default true, p_reason text default null, p_by text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
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
    perform public.giftcard_record_jobs(p_by, 'requeue', v_ids, jsonb_build_object(
      'filter', jsonb_build_object('stage', p_stage, 'older_than', p_older_than),
      'by_error', p_error is not null or null, 'reason', p_reason), v_now);
  end if;
  return jsonb_build_object('dry_run', v_dry_run, 'matched', cardinality(v_ids),
                            'requeued', case when v_dry_run then 0 else cardinality(v_ids) end);
end $$;

-- Cancel what is left of a flow, and its order: queued and dead jobs at once; for running ones the request is recorded.
-- p_reason: why, for the audit. Return {tenant_id, correlation_id, cancelled, cancel_requested}: how many of each.
create function public.giftcard_cancel_flow(
  p_tenant_id text, p_correlation_id text, p_reason text default null, p_by text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_ids bigint[] := array(
    select id from public.giftcard_jobs where tenant_id = p_tenant_id and correlation_id = p_correlation_id
      order by id for update);
  v_cancelled bigint;
  v_requested bigint;
begin
  if v_ids = '{}' then
    perform public.giftcard_refuse(
      'GC404', format('no job has the correlation id %s', p_correlation_id), 'correlation_id');
  end if;
  select count(*) filter (where status in ('queued', 'error')), count(*) filter (where status = 'running')
    into v_cancelled, v_requested from public.giftcard_jobs where id = any (v_ids);
  update public.giftcard_orders set cancelled_at = v_now
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id and cancelled_at is null;
  if public.giftcard_cancel_locked(v_ids, v_now) > 0 or found then
    perform public.giftcard_record_act(
      p_by, p_tenant_id, 'cancel_flow', 'flow ' || p_correlation_id,
      jsonb_build_object('jobs', v_cancelled + v_requested, 'reason', p_reason), v_now);
  end if;
  return jsonb_build_object('tenant_id', p_tenant_id, 'correlation_id', p_correlation_id,
                            'cancelled', v_cancelled, 'cancel_requested', v_requested);
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

-- Mark an archived job that plain SQL has written: restored, it is one of plain SQL.
create function public.giftcard_mark_archived_by_hand() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  new.job := new.job || '{"source": "sql"}';
  return new;
end $$;

create trigger giftcard_jobs_archive_mark_inserted_by_hand before insert on public.giftcard_jobs_archive
  for each row when (jsonb_typeof(new.job) = 'object' and coalesce(current_setting('giftcard.writer', true), '') = '')
  execute function public.giftcard_mark_archived_by_hand();
create trigger giftcard_jobs_archive_mark_changed_by_hand before update of job on public.giftcard_jobs_archive
  for each row when (jsonb_typeof(new.job) = 'object' and coalesce(current_setting('giftcard.writer', true), '') = ''
    and (new.job -> 'source' is distinct from old.job -> 'source'
         or new.job -> 'payload' is distinct from old.job -> 'payload'))
  execute function public.giftcard_mark_archived_by_hand();

-- Return a job of the archive as it was, with archived_at. One whose JSON is not that of a job is in error, with the
-- reason.
create function public.giftcard_archived_job_json(a public.giftcard_jobs_archive) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_known jsonb := jsonb_build_object(
    'id', a.id, 'tenant_id', a.tenant_id, 'correlation_id', a.correlation_id, 'stage', a.stage,
    'dedup_key', a.dedup_key);
  v_usual jsonb := jsonb_build_object(
    'circuit', a.stage, 'trigger_type', 'sql', 'source', 'sql', 'status', 'error', 'payload', '{}'::jsonb,
    'context', '{}'::jsonb, 'attempts', 0, 'run_no', 0, 'revivals', 0, 'priority', 0, 'semantics', 'at_least_once',
    'scheduled_at', a.archived_at, 'created_at', a.archived_at, 'updated_at', a.archived_at);
  v_job jsonb;
begin
  v_job := to_jsonb(jsonb_populate_record(null::public.giftcard_jobs, v_usual || coalesce(
    (select jsonb_object_agg(m.key, m.value) from jsonb_each(a.job) m where m.value <> 'null'), '{}') || v_known));
  if v_job ->> 'status' not in ('completed', 'error', 'cancelled', 'queued', 'running') then
    v_job := v_job || '{"status": "error"}';
  end if;
  return public.giftcard_readable_row(v_job || jsonb_build_object(
    'error_kind', case when v_job ->> 'last_error' is not null
                       then public.giftcard_error_kind(v_job ->> 'last_error') end,
    'archived_at', a.archived_at));
exception when data_exception or integrity_constraint_violation then
  return to_jsonb(jsonb_populate_record(null::public.giftcard_jobs, v_usual || v_known || jsonb_build_object(
    'payload', jsonb_build_object('archived', public.giftcard_readable(a.job, 100000)),
    'last_error', left('the archived row is not that of a job: ' || sqlerrm, 500))))
    || jsonb_build_object('archived_at', a.archived_at);
end $$;

-- Move jobs to the archive. The caller holds their rows.
create function public.giftcard_archive_jobs(p_ids bigint[], p_now timestamptz) returns void
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  perform set_config('giftcard.writer', 'archive', true);
  with gone as (
    delete from public.giftcard_jobs where id = any (p_ids) returning *)
  insert into public.giftcard_jobs_archive (id, tenant_id, correlation_id, stage, dedup_key, archived_at, job)
  select g.id, g.tenant_id, g.correlation_id, g.stage, g.dedup_key, p_now,
         -- Without columns that are null and what last_error gives; a null inside a payload stays.
         jsonb_strip_nulls(to_jsonb(g) - '{payload,context,error_kind}'::text[])
             || jsonb_build_object('payload', g.payload, 'context', g.context)
    from gone g
  on conflict (id) do update set archived_at = excluded.archived_at, job = excluded.job;
  perform set_config('giftcard.writer', '', true);
end $$;

-- Move jobs to the archive; if that fails, one by one. One that cannot go, such as one that a foreign key of another
-- table refers to, stays and is recorded. Return how many went.
create function public.giftcard_try_archive_jobs(p_ids bigint[], p_now timestamptz) returns integer
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_moved integer := 0;
  v_id bigint;
begin
  perform public.giftcard_archive_jobs(p_ids, p_now);
  return cardinality(p_ids);
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  elsif cardinality(p_ids) = 1 then
    perform public.giftcard_record_fault(
      'prune', 'job ' || p_ids[1], 'it cannot be archived: ' || public.giftcard_error_text(sqlstate, sqlerrm), p_now);
    return 0;
  end if;
  foreach v_id in array p_ids loop
    v_moved := v_moved + public.giftcard_try_archive_jobs(array[v_id], p_now);
  end loop;
  return v_moved;
end $$;

-- Refuse a job that is not in giftcard_jobs: GC409 for one that can be restored, GC404 for any other. p_tenant_id, here
-- and in other functions: the only tenant that the caller may see, for whom those of others do not exist; null: all.
create function public.giftcard_refuse_absent(p_job_id bigint, p_tenant_id text) returns void
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  if exists (select from public.giftcard_jobs_archive
              where id = p_job_id and (p_tenant_id is null or tenant_id = p_tenant_id)) then
    perform public.giftcard_refuse('GC409', format('job %s is archived: restore it first', p_job_id), 'job_id');
  end if;
  perform public.giftcard_refuse('GC404', format('job %s does not exist', p_job_id), 'job_id');
end $$;

-- Insert a job as the archive has it, unless another has its id or its place in its flow. Return whether it is there.
create function public.giftcard_insert_archived(p_job jsonb) returns boolean
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_inserted boolean;
begin
  perform set_config('giftcard.writer', 'restore', true);
  insert into public.giftcard_jobs (
    id, tenant_id, correlation_id, stage, dedup_key, circuit, trigger_type, source, status, payload, context,
    attempts, max_attempts, run_no, semantics, ttr_seconds, retry_delays, priority, concurrency_key, batch_id,
    scheduled_at, locked_at, lock_owner, lease_id, lease_expires_at, cancel_requested_at, revive_at, revivals,
    last_error, created_at, updated_at, finished_at)
  select
    id, tenant_id, correlation_id, stage, dedup_key, circuit, trigger_type, source, status, payload, context,
    attempts, max_attempts, run_no, semantics, ttr_seconds, retry_delays, priority, concurrency_key, batch_id,
    scheduled_at, locked_at, lock_owner, lease_id, lease_expires_at, cancel_requested_at, revive_at, revivals,
    last_error, created_at, updated_at, finished_at
    -- A job that was archived before it had a priority has none.
    from jsonb_populate_record(null::public.giftcard_jobs, '{"priority": 0}' || p_job)
    on conflict do nothing;
  v_inserted := found;
  perform set_config('giftcard.writer', '', true);
  return v_inserted;
end $$;

-- Restore a job from the archive as it was, under its id. Its time until the next pruning begins again. p_reason: why,
-- for the audit. Return {id, status, restored}. GC404: it is not there; GC409: it is not archived, or another job has
-- its place in the flow by now.
create function public.giftcard_restore_job(
  p_job_id bigint, p_reason text default null, p_by text default null, p_tenant_id text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_job jsonb;
  v_other bigint;
begin
  delete from public.giftcard_jobs_archive
   where id = p_job_id and (p_tenant_id is null or tenant_id = p_tenant_id)
  -- Whatever an UPDATE has written into the JSON: it is the job of this tenant and id.
  returning job || jsonb_build_object(
    'id', id, 'tenant_id', tenant_id, 'correlation_id', correlation_id, 'stage', stage, 'dedup_key', dedup_key)
  into v_job;
  if not found then
    if exists (select from public.giftcard_jobs
                where id = p_job_id and (p_tenant_id is null or tenant_id = p_tenant_id)) then
      perform public.giftcard_refuse(
        'GC409', format('job %s is not archived: there is nothing to restore', p_job_id), 'job_id');
    end if;
    perform public.giftcard_refuse('GC404', format('job %s is not in the archive', p_job_id), 'job_id');
  end if;
  v_job := v_job || jsonb_build_object('updated_at', coalesce(p_now, clock_timestamp()));
  if not public.giftcard_insert_archived(v_job) then
    select id into v_other from public.giftcard_jobs
     where id = p_job_id or tenant_id = v_job ->> 'tenant_id' and correlation_id = v_job ->> 'correlation_id'
       and stage = v_job ->> 'stage' and dedup_key = v_job ->> 'dedup_key' limit 1;
    perform public.giftcard_refuse('GC409', format(
      'job %s cannot come back: it was enqueued again, and job %s has its place in the flow', p_job_id, v_other),
      'job_id');
  end if;
  perform public.giftcard_record_jobs(
    p_by, 'restore', array[p_job_id], jsonb_build_object('reason', p_reason), p_now);
  return jsonb_build_object('id', p_job_id, 'status', v_job ->> 'status', 'restored', true);
end $$;
-- The runs of a job.

-- Return the frames of a run as the API shows them, whatever was written by hand: [{file, line, function, own, raised,
-- omitted}].
create function public.giftcard_frames_json(p_frames jsonb) returns jsonb
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
        'file', left(f ->> 'file', 200), 'function', left(f ->> 'function', 200), 'raised', left(f ->> 'raised', 200),
        'line', case when f ->> 'line' ~ '^[0-9]{1,9}$' then (f ->> 'line')::integer else 0 end,
        'omitted', case when f ->> 'omitted' ~ '^[0-9]{1,9}$' then (f ->> 'omitted')::integer else 0 end,
        'own', coalesce(f -> 'own' = 'true', false))), '[]')
      from (select * from jsonb_path_query(p_frames, '$[*] ? (exists(@.file) && exists(@.function))') limit 50) x(f));
end $$;

-- Return a run as the API shows it: {job_id, run_no, attempt, retry_count (from 0), status, started_at, finished_at,
-- start_delay_ms, duration_ms, error, next_run_at, lock_owner, detail, frames}.
create function public.giftcard_run_json(h public.giftcard_job_history) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return public.giftcard_readable_row(jsonb_build_object(
    'job_id', h.job_id, 'run_no', h.run_no, 'attempt', h.attempt, 'retry_count', greatest(h.attempt, 1) - 1,
    'status', h.result, 'started_at', h.started_at, 'finished_at', h.finished_at,
    'start_delay_ms', case when isfinite(h.scheduled_at) and isfinite(h.started_at)
                           then greatest(0, public.giftcard_milliseconds(h.scheduled_at, h.started_at)) end,
    'duration_ms', public.giftcard_milliseconds(h.started_at, h.finished_at),
    'error', left(h.error, 500), 'next_run_at', h.next_run_at, 'lock_owner', left(h.lock_owner, 500),
    -- Written by hand it may be anything.
    'detail', case when jsonb_typeof(h.detail) = 'object' then h.detail
                   when h.detail is not null then jsonb_build_object('value', h.detail) end,
    'frames', public.giftcard_frames_json(h.frames)));
end $$;

-- Return the run of a job that is under way: {run_no, attempt, started_at, duration_ms, deadline_at: when its time to
-- run ends, lease_expires_at, heartbeat_at: the last change of its lease, null: none, lock_owner, tick_id: null: not
-- among the newest 200, cancel_requested_at}. null: the job is not running.
create function public.giftcard_current_run(j public.giftcard_jobs, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  if j.status <> 'running' then
    return null;
  end if;
  return public.giftcard_readable_row(jsonb_build_object(
    'run_no', j.run_no, 'attempt', j.attempts, 'started_at', j.locked_at,
    'duration_ms', greatest(0, public.giftcard_milliseconds(j.locked_at, p_now)),
    -- A lease is 10 s longer than the time to run.
    'deadline_at', case when isfinite(j.lease_expires_at) then j.lease_expires_at - interval '10 seconds' end,
    'lease_expires_at', j.lease_expires_at,
    -- A request to cancel changes the row, too, and not the lease.
    'heartbeat_at', case when j.updated_at > j.locked_at and j.updated_at is distinct from j.cancel_requested_at
                         then j.updated_at end,
    'lock_owner', left(j.lock_owner, 500),
    -- A tick keeps the key of its last claim only; its process is that of the run in any case.
    'tick_id', (select t.id from (select * from public.giftcard_ticks order by id desc limit 200) t
                 where t.claim_key = j.lease_id or t.owner = j.lock_owner and t.started_at <= j.locked_at
                 order by t.claim_key = j.lease_id desc nulls last, t.id desc limit 1),
    'cancel_requested_at', j.cancel_requested_at));
end $$;

-- Return a page of the runs of a job, the newest first: {runs: as giftcard_run_json, older: the run to continue from,
-- null at the end}. p_older: the run_no of an earlier page. GC404 for an unknown job.
create function public.giftcard_history(
  p_job_id bigint, p_limit integer default 10, p_older integer default null, p_tenant_id text default null)
returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 10), 1), 1000);
  h public.giftcard_job_history;
  v_row jsonb;
  v_bytes integer := 0;
  v_rows jsonb[] := array[]::jsonb[];
  v_more boolean := false;
begin
  if not exists (select from public.giftcard_jobs
                  where id = p_job_id and (p_tenant_id is null or tenant_id = p_tenant_id))
     and not exists (select from public.giftcard_jobs_archive
                      where id = p_job_id and (p_tenant_id is null or tenant_id = p_tenant_id))
     -- Runs name no tenant: those that outlive their job are for callers who may see all.
     and (p_tenant_id is not null
          or not exists (select from public.giftcard_job_history where job_id = p_job_id)) then
    perform public.giftcard_refuse('GC404', format('job %s does not exist', p_job_id), 'job_id');
  end if;
  for h in select * from public.giftcard_job_history
            where job_id = p_job_id and (p_older is null or run_no < p_older)
            order by run_no desc limit v_limit + 1 loop
    v_row := public.giftcard_run_json(h);
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes);
    exit when v_more;
    v_rows := v_rows || v_row;
  end loop;
  return jsonb_build_object('runs', to_jsonb(v_rows),
                            'older', case when v_more then v_rows[cardinality(v_rows)] -> 'run_no' end);
end $$;
-- Ids that a restore has left behind.

-- Let the ids of each table go on above its highest one. Rows that were copied without their sequences, as a restore of
-- data or a logical replication does it, leave a sequence behind its table: new rows get the ids of old ones, and are
-- refused. Return [{table, highest, next_id}] of those that are behind. p_dry_run: change nothing.
create function public.giftcard_raise_ids(p_dry_run boolean default true) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_behind jsonb := '[]'::jsonb;
  v_highest bigint;
  v_next bigint;
  v_sequence regclass;  -- its text is a quoted name
  t record;
begin
  for t in
    select c.relname as name,
           pg_get_serial_sequence(format('public.%I', c.relname), a.attname)::regclass as sequence
      from pg_class c
      join pg_attribute a on a.attrelid = c.oid and a.attname = 'id' and a.attidentity <> ''
     where c.relnamespace = 'public'::regnamespace and c.relname like 'giftcard\_%' order by c.relname
  loop
    execute format('select max(id) from public.%I', t.name) into v_highest;
    if t.name = 'giftcard_jobs' then
      -- What has left the table keeps its id.
      v_highest := greatest(v_highest, (select max(id) from public.giftcard_jobs_archive),
                            (select max(job_id) from public.giftcard_job_history));
    end if;
    v_sequence := t.sequence;
    execute format('select last_value + is_called::int from %s', v_sequence) into v_next;
    continue when v_highest is null or v_highest < v_next;
    v_behind := v_behind || jsonb_build_object('table', t.name, 'highest', v_highest, 'next_id', v_next);
    if not p_dry_run then
      perform setval(v_sequence, v_highest);
    end if;
  end loop;
  return v_behind;
end $$;
-- Errors, grouped: what fails, how often, since when.

-- Return dead letters, the newest p_scan of each stage, and jobs that are retried, among the first p_scan of each
-- queue. capped: its stage or queue has as many as are read, so that there may be more.
create function public.giftcard_failed_jobs(p_stage text, p_scan integer, p_now timestamptz)
returns table (
  kind text, stage text, tenant_id text, error text, error_kind text, at timestamptz, revive_at timestamptz,
  job_id bigint, capped boolean)
language sql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  with recursive stages as (
    (select j.stage from public.giftcard_jobs j
      where j.status = 'error' and (p_stage is null or j.stage = p_stage) order by j.stage limit 1)
    union all
    select n.stage from stages s cross join lateral (
      select j.stage from public.giftcard_jobs j
       where j.status = 'error' and j.stage > s.stage and p_stage is null order by j.stage limit 1) n)
  (select 'dead', d.stage, d.tenant_id, d.last_error, d.error_kind, d.finished_at, d.revive_at,
          d.id, count(*) over (partition by d.stage) >= p_scan
     from (select * from stages limit 200) s cross join lateral (
       select j.* from public.giftcard_jobs j where j.status = 'error' and j.stage = s.stage
        order by j.finished_at desc, j.id desc limit p_scan) d)
  union all
  (select 'retrying', r.stage, r.tenant_id, r.last_error, r.error_kind, r.updated_at, null::timestamptz, r.id,
          r.seen >= p_scan
     from (select * from public.giftcard_queue_heads('{}', p_now) q
            where p_stage is null or q.stage = p_stage limit 200) h cross join lateral (
       select f.*, count(*) over () as seen from (
         select o.* from public.giftcard_lanes(h.circuit) l(lane) cross join lateral (
           select j.* from public.giftcard_jobs j
            where j.status = 'queued' and j.circuit = h.circuit and (-j.priority) = l.lane
            order by j.scheduled_at, j.id limit p_scan) o
          order by o.scheduled_at, o.id limit p_scan) f) r
    where r.attempts > 0 and r.last_error is not null)
  union all
  (select 'retrying', r.stage, r.tenant_id, r.last_error, r.error_kind, r.updated_at, null::timestamptz, r.id, false
     from (select j.* from public.giftcard_jobs j where j.status = 'running'
            order by coalesce(j.lease_expires_at, '-infinity'::timestamptz), j.id limit p_scan) r
    where r.attempts > 1 and r.last_error is not null and (p_stage is null or r.stage = p_stage))
$$;

-- Return the runs that have failed since a time, the newest 10,000, as giftcard_failed_jobs does. A run belongs to the
-- tenant of its job; null: the job is gone. Their kinds are not kept.
create function public.giftcard_failed_runs(p_stage text, p_since timestamptz)
returns table (
  kind text, stage text, tenant_id text, error text, error_kind text, at timestamptz, revive_at timestamptz,
  job_id bigint, capped boolean)
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select 'run', h.stage, coalesce(
           (select j.tenant_id from public.giftcard_jobs j where j.id = h.job_id),
           (select a.tenant_id from public.giftcard_jobs_archive a where a.id = h.job_id)),
         h.error, null, h.finished_at, null::timestamptz, h.job_id, count(*) over () >= 10000
    from (select * from public.giftcard_job_history r
           where r.result in ('FAILED', 'INTERRUPTED') and r.finished_at >= p_since
           order by r.finished_at desc limit 10000) h
   where p_stage is null or h.stage = p_stage
$$;

-- Return errors by stage and kind, the most frequent first: {errors: [{stage, error, count: of
-- jobs, dead, retrying, runs, capped, first_at, last_at, next_revival_at: of its dead letters, job_id: the newest,
-- last_error: its own}], more}. p_since: only what has failed since, and the runs since then; null: runs are not
-- counted. capped: there may be more.
create function public.giftcard_errors(
  p_stage text default null, p_since timestamptz default null, p_limit integer default 50,
  p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  v_found jsonb;
begin
  with failures as (
    select * from public.giftcard_failed_jobs(p_stage, 1000, coalesce(p_now, clock_timestamp()))
    union all
    select * from public.giftcard_failed_runs(p_stage, p_since) where p_since is not null),
  -- By text first: the kind of each is made once.
  texts as (
    select f.kind, f.stage, f.error_kind, left(f.error, 500) as error, count(*) as n, min(f.at) as first_at,
           max(f.at) as last_at, min(f.revive_at) as revive_at, max(f.job_id) as job_id, bool_or(f.capped) as capped
      from failures f
     where (p_tenant_id is null or f.tenant_id = p_tenant_id) and (p_since is null or f.at >= p_since)
     group by f.kind, f.stage, f.error_kind, left(f.error, 500)),
  kinds as (
    select t.stage, coalesce(t.error_kind, public.giftcard_error_kind(t.error)) as error,
           coalesce(sum(t.n) filter (where t.kind <> 'run'), 0) as count,
           coalesce(sum(t.n) filter (where t.kind = 'dead'), 0) as dead,
           coalesce(sum(t.n) filter (where t.kind = 'retrying'), 0) as retrying,
           case when p_since is not null then coalesce(sum(t.n) filter (where t.kind = 'run'), 0) end as runs,
           bool_or(t.capped) as capped, min(t.first_at) as first_at, max(t.last_at) as last_at,
           min(t.revive_at) as next_revival_at,
           (array_agg(t.job_id order by t.kind = 'run', t.last_at desc))[1] as job_id,
           (array_agg(t.error order by t.kind = 'run', t.last_at desc))[1] as last_error
      from texts t group by t.stage, coalesce(t.error_kind, public.giftcard_error_kind(t.error)))
  select coalesce(jsonb_agg(to_jsonb(k) order by greatest(k.count, k.runs) desc, k.last_at desc, k.stage, k.error),
                  '[]') into v_found from (
      select * from kinds order by greatest(count, runs) desc, last_at desc, stage, error limit v_limit + 1) k;
  -- One more than the list holds: its presence means that there are more.
  return jsonb_build_object('errors', v_found - v_limit, 'more', jsonb_array_length(v_found) > v_limit);
end $$;
-- Operations: what operators do to many jobs. A row is one operation, with its progress. Ticks carry it out in steps:
-- 39_operation_steps.sql.

create table public.giftcard_operations (
  id bigint generated always as identity,
  idempotency_key text collate "C" not null default gen_random_uuid()::text,
  action text collate "C" not null,
  tenant_id text collate "C",
  filter jsonb not null default '{}',
  job_ids bigint[],
  reason text not null,
  created_by text collate "C" not null,
  per_minute double precision,
  state text collate "C" not null default 'running',
  total integer not null,
  capped boolean not null,
  matched bigint not null default 0,
  changed bigint not null default 0,
  after_id bigint not null default 0,
  until_id bigint not null,
  first_job_id bigint,
  next_at timestamptz,
  stopped_because text,
  error text,
  created_at timestamptz not null,
  last_at timestamptz,
  finished_at timestamptz,
  constraint giftcard_operations_pkey primary key (id),
  constraint giftcard_operations_action_is_known check (action in ('requeue', 'requeue_slowly', 'cancel')),
  constraint giftcard_operations_state_is_known check (state in ('running', 'stopped', 'completed', 'failed')),
  constraint giftcard_operations_filter_is_an_object check (jsonb_typeof(filter) = 'object'),
  constraint giftcard_operations_per_minute_is_positive check (
    case action when 'requeue_slowly' then per_minute > 0 and per_minute <= 60000 else per_minute is null end)
);
create unique index giftcard_operations_by_key on public.giftcard_operations
  (coalesce(tenant_id, ''), idempotency_key);
create index giftcard_operations_by_tenant on public.giftcard_operations (tenant_id, id);
create index giftcard_operations_running on public.giftcard_operations (last_at, id) where state = 'running';

comment on table public.giftcard_operations is
  'One row is one operation on many jobs, done by ticks in steps. It is removed 30 days after its end.';
comment on column public.giftcard_operations.tenant_id is 'The only tenant whose jobs it changes; null: all.';
comment on column public.giftcard_operations.job_ids is 'The selected jobs, instead of a filter.';
comment on column public.giftcard_operations.total is
  'How many jobs it would have changed when it was created; capped: there were more.';
comment on column public.giftcard_operations.matched is 'Jobs that it has met; changed: those that still fitted then.';
comment on column public.giftcard_operations.after_id is 'It goes up by id: all jobs up to this one are done.';
comment on column public.giftcard_operations.until_id is 'The last job that there was when it was created.';
comment on column public.giftcard_operations.first_job_id is 'Slowly: the job that runs first, alone.';
comment on column public.giftcard_operations.next_at is
  'Slowly: when the next job is due; null: the first has not ended.';

-- Refuse an operation that is none. Return its filter, with the tenant that the caller is limited to. An empty filter
-- fits all jobs.
create function public.giftcard_check_operation(
  p_action text, p_filter jsonb, p_job_ids bigint[], p_tenant_id text) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_filter jsonb := coalesce(p_filter, '{}');
begin
  if p_action is null or p_action not in ('requeue', 'requeue_slowly', 'cancel') then
    perform public.giftcard_refuse('GC400', 'action must be requeue, requeue_slowly or cancel', 'action');
  end if;
  perform public.giftcard_check_filter(v_filter);
  v_filter := jsonb_strip_nulls(v_filter);
  if p_tenant_id <> v_filter ->> 'tenant_id' then
    perform public.giftcard_refuse('GC400', 'the filter names another tenant than yours', 'filter.tenant_id');
  elsif p_action = 'cancel' and v_filter ->> 'status' not in ('queued', 'running', 'error') then
    perform public.giftcard_refuse(
      'GC400', 'only jobs that are queued, running or in error are cancelled', 'filter.status');
  elsif p_action <> 'cancel' and v_filter ->> 'status' not in ('error', 'cancelled') then
    perform public.giftcard_refuse('GC400', 'only jobs in error or cancelled are requeued by filter', 'filter.status');
  elsif p_job_ids is not null and v_filter - 'tenant_id' <> '{}' then
    perform public.giftcard_refuse('GC400', 'job_ids and filter exclude each other: give one of them', 'job_ids');
  elsif cardinality(p_job_ids) not between 1 and 1000 or array_position(p_job_ids, null) is not null then
    perform public.giftcard_refuse('GC400', 'job_ids must be 1 to 1000 ids', 'job_ids');
  end if;
  return v_filter || jsonb_strip_nulls(jsonb_build_object('tenant_id', p_tenant_id));
end $$;

-- Return up to p_limit ids above p_after of the jobs that an operation is about, upwards. The filter is a checked one.
create function public.giftcard_operation_jobs(
  p_action text, p_filter jsonb, p_job_ids bigint[], p_after bigint, p_limit integer) returns bigint[]
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_statuses text[] := case
    when p_filter ? 'status' then array[p_filter ->> 'status']
    when p_action = 'cancel' then array['queued', 'running', 'error']
    when p_job_ids is not null then array['error', 'cancelled']
    else array['error'] end;
  v_status text;
  v_page bigint[];
  v_found bigint[];
  v_all bigint[] := '{}'::bigint[];
begin
  if p_job_ids is not null then
    return array(
      select j.id from public.giftcard_jobs j
       where j.id = any (p_job_ids) and j.id > p_after and j.status = any (v_statuses)
         and public.giftcard_fits(j, p_filter)
       order by j.id limit p_limit);
  end if;
  foreach v_status in array v_statuses loop
    v_found := '{}'::bigint[];
    loop
      v_page := public.giftcard_find_jobs(
        p_filter || jsonb_build_object('status', v_status), coalesce(v_found[cardinality(v_found)], p_after),
        least(1000, p_limit - cardinality(v_found)), true);
      v_found := v_found || v_page;
      exit when cardinality(v_page) < 1000 or cardinality(v_found) >= p_limit;
    end loop;
    v_all := v_all || v_found;
  end loop;
  return array(select i from unnest(v_all) i order by i limit p_limit);
end $$;

-- Count what an operation would change: {count: up to 10,000, capped: there are more, by_stage: [{stage, count}], the
-- most first, at most 50}.
create function public.giftcard_preview_operation(
  p_action text, p_filter jsonb default '{}', p_job_ids bigint[] default null, p_tenant_id text default null)
returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_filter jsonb := public.giftcard_check_operation(p_action, p_filter, p_job_ids, p_tenant_id);
  v_ids bigint[] := public.giftcard_operation_jobs(p_action, v_filter, p_job_ids, 0, 10001);
begin
  return jsonb_build_object(
    'count', least(cardinality(v_ids), 10000), 'capped', cardinality(v_ids) > 10000,
    'by_stage', (
      select coalesce(jsonb_agg(jsonb_build_object('stage', s.stage, 'count', s.count) order by s.count desc, s.stage),
                      '[]')
        from (select j.stage, count(*) as count from public.giftcard_jobs j where j.id = any (v_ids[:10000])
               group by j.stage order by count(*) desc, j.stage limit 50) s));
end $$;

-- Return an operation as the API shows it; p_with_ids: with the ids of the jobs that were selected.
create function public.giftcard_operation_json(o public.giftcard_operations, p_with_ids boolean default false)
returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return public.giftcard_readable_row(
    to_jsonb(o) - '{idempotency_key,created_by,job_ids,until_id}'::text[] || jsonb_build_object(
      'by', o.created_by, 'selected', cardinality(o.job_ids),
      'job_ids', case when p_with_ids then to_jsonb(o.job_ids[:1000]) end), 50000);
end $$;

-- Return an operation. GC404 for none.
create function public.giftcard_show_operation(p_id bigint, p_tenant_id text default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  o public.giftcard_operations;
begin
  select * into o from public.giftcard_operations
   where id = p_id and (p_tenant_id is null or tenant_id = p_tenant_id);
  if not found then
    perform public.giftcard_refuse('GC404', format('operation %s does not exist', p_id), 'operation_id');
  end if;
  return public.giftcard_operation_json(o, true);
end $$;

-- Return a page of operations, the newest first: {operations, older}: the id to continue from, null at the end.
-- p_state: only those in it.
create function public.giftcard_list_operations(
  p_state text default null, p_older bigint default null, p_limit integer default 50, p_tenant_id text default null)
returns jsonb
language plpgsql stable security invoker
-- Planned for the values of each call: an absent condition folds away.
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  o public.giftcard_operations;
  v_row jsonb;
  v_bytes integer := 0;
  v_rows jsonb[] := array[]::jsonb[];
  v_more boolean := false;
begin
  -- One more than the page holds: its presence means that there are more.
  for o in select * from public.giftcard_operations
            where (p_older is null or id < p_older) and (p_state is null or state = p_state)
              and (p_tenant_id is null or tenant_id = p_tenant_id)
            order by id desc limit v_limit + 1 loop
    v_row := public.giftcard_operation_json(o);
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes);
    exit when v_more;
    v_rows := v_rows || v_row;
  end loop;
  return jsonb_build_object('operations', to_jsonb(v_rows),
                            'older', case when v_more then v_rows[cardinality(v_rows)] -> 'id' end);
end $$;
-- Operations begin, are carried out by ticks, and are stopped. Each step is one transaction that changes jobs and moves
-- the cursor: killed anywhere, an operation goes on where it was, and no job is changed twice.

-- Create an operation, which the next tick begins. p_job_ids: selected jobs, instead of a filter; p_per_minute: the
-- rate of requeue_slowly. It changes only jobs that there are now: ended ones that have not changed since, others with
-- an id up to the highest. Called again with the same key, it returns the same operation with created false: the first
-- reply was lost. GC422: the key was used for another operation.
create function public.giftcard_create_operation(
  p_action text, p_reason text, p_filter jsonb default '{}', p_job_ids bigint[] default null,
  p_per_minute double precision default 10, p_idempotency_key text default null, p_by text default null,
  p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_filter jsonb := public.giftcard_check_operation(p_action, p_filter, p_job_ids, p_tenant_id);
  v_rate double precision := case p_action when 'requeue_slowly' then coalesce(p_per_minute, 10) end;
  v_key text := coalesce(p_idempotency_key, gen_random_uuid()::text);
  v_preview jsonb := public.giftcard_preview_operation(p_action, v_filter, p_job_ids, p_tenant_id);
  o public.giftcard_operations;
begin
  if coalesce(btrim(p_reason), '') = '' or char_length(p_reason) > 1000 then
    perform public.giftcard_refuse('GC400', 'reason is required: why, in up to 1000 characters', 'reason');
  elsif not v_rate between 1e-3 and 60000 then
    perform public.giftcard_refuse('GC400', 'per_minute must be between 0.001 and 60000', 'per_minute');
  end if;
  insert into public.giftcard_operations
    (idempotency_key, action, tenant_id, filter, job_ids, reason, created_by, per_minute, total, capped, until_id,
     created_at)
  values (v_key, p_action, v_filter ->> 'tenant_id', v_filter, p_job_ids, p_reason, public.giftcard_actor(p_by), v_rate,
          (v_preview ->> 'count')::integer, (v_preview ->> 'capped')::boolean,
          coalesce((select max(id) from public.giftcard_jobs), 0), v_now)
  on conflict (coalesce(tenant_id, ''), idempotency_key) do nothing returning * into o;
  if found then
    -- The text of an error may name a person.
    perform public.giftcard_record_act(
      p_by, o.tenant_id, 'create_operation', 'operation ' || o.id, jsonb_build_object(
        'action', p_action, 'filter', v_filter - '{error,error_kind}'::text[], 'selected', cardinality(p_job_ids),
        'by_error', nullif(v_filter ?| '{error,error_kind}', false), 'total', o.total, 'capped', o.capped or null,
        'reason', p_reason), v_now);
    return public.giftcard_operation_json(o, true) || '{"created": true}';
  end if;
  select * into o from public.giftcard_operations
   where coalesce(tenant_id, '') = coalesce(v_filter ->> 'tenant_id', '') and idempotency_key = v_key;
  if (o.action, o.filter, o.job_ids, o.per_minute) is distinct from (p_action, v_filter, p_job_ids, v_rate) then
    perform public.giftcard_refuse('GC422', 'this Idempotency-Key was used for another operation', 'Idempotency-Key');
  end if;
  return public.giftcard_operation_json(o, true) || '{"created": false}';
end $$;

-- Stop an operation between two of its steps: what it has changed stays. One that is stopped already stays as it is.
-- GC404 for none, GC409 for one that has ended otherwise.
create function public.giftcard_stop_operation(
  p_id bigint, p_by text default null, p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  o public.giftcard_operations;
begin
  select * into o from public.giftcard_operations
   where id = p_id and (p_tenant_id is null or tenant_id = p_tenant_id) for update;
  if not found then
    perform public.giftcard_refuse('GC404', format('operation %s does not exist', p_id), 'operation_id');
  elsif o.state in ('completed', 'failed') then
    perform public.giftcard_refuse(
      'GC409', format('operation %s is %s: there is nothing to stop', p_id, o.state), 'state');
  elsif o.state = 'running' then
    update public.giftcard_operations
       set state = 'stopped', stopped_because = 'stopped by ' || public.giftcard_actor(p_by), finished_at = v_now
     where id = p_id returning * into o;
    perform public.giftcard_record_act(
      p_by, o.tenant_id, 'stop_operation', 'operation ' || p_id,
      jsonb_build_object('matched', o.matched, 'changed', o.changed), v_now);
  end if;
  return public.giftcard_operation_json(o, true);
end $$;

-- Return why a slow requeue does not go on after its first job: 'waits' while that has not run, a sentence if it has
-- failed; null: it has completed.
create function public.giftcard_first_job_stops(p_job_id bigint) returns text
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  j public.giftcard_jobs;
begin
  select * into j from public.giftcard_jobs where id = p_job_id;
  return case when not found then format('job %s, which was to run first, is gone', p_job_id)
              when j.status = 'running' or j.status = 'queued' and j.attempts = 0 then 'waits'
              when j.status <> 'completed'
              then format('job %s ran first and is %s, not completed', p_job_id, j.status) end;
end $$;

-- Requeue or cancel the jobs of one step that fit the operation still once they are locked. p_first_in: seconds until
-- the first is due. Return the ids of those that were changed.
create function public.giftcard_change_operation_jobs(
  o public.giftcard_operations, p_found bigint[], p_first_in double precision, p_now timestamptz) returns bigint[]
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_ids bigint[] := array(
    select j.id from public.giftcard_jobs j
     where j.id = any (p_found)
       and case when o.filter ? 'status' then j.status = o.filter ->> 'status'
                when o.action = 'cancel' then j.status in ('queued', 'error')
                     or j.status = 'running' and j.cancel_requested_at is null
                else j.status = 'error' or j.status = 'cancelled' and o.job_ids is not null end
       and (j.status in ('queued', 'running') or greatest(j.finished_at, j.updated_at) <= o.created_at)
       and public.giftcard_fits(j, o.filter)
     order by j.id for update);
begin
  if o.action = 'cancel' then
    perform public.giftcard_cancel_locked(v_ids, p_now);
  else
    perform public.giftcard_requeue_locked(v_ids, p_first_in, coalesce(60 / o.per_minute, 0), p_now);
  end if;
  perform public.giftcard_record_jobs(
    o.created_by, case o.action when 'cancel' then 'cancel' else 'requeue' end, v_ids,
    jsonb_build_object('operation', o.id), p_now);
  return v_ids;
end $$;

-- Carry out one step of an operation whose row is locked. Return whether the operation waits: for its first job, or,
-- at its rate, for time to pass. Slowly: only jobs that are due in the next two minutes are requeued, so that a stop
-- holds back the others.
create function public.giftcard_step(o public.giftcard_operations, p_limit integer, p_now timestamptz) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_first boolean := o.action = 'requeue_slowly' and o.first_job_id is null;
  v_slowly boolean := o.action = 'requeue_slowly' and not v_first;
  v_from timestamptz := greatest(o.next_at, p_now);
  v_limit integer := case when v_first then 1 else p_limit end;
  v_stops text;
  v_found bigint[];
  v_ids bigint[];
  v_done boolean;
begin
  if v_slowly then
    v_stops := case when o.next_at is null then public.giftcard_first_job_stops(o.first_job_id) end;
    v_limit := greatest(0, least(p_limit, floor(
      extract(epoch from p_now + interval '2 minutes' - v_from)::double precision * o.per_minute / 60) + 1))::integer;
    if v_stops = 'waits' or v_stops is null and v_limit < 1 then
      update public.giftcard_operations set last_at = p_now where id = o.id;
      return true;
    elsif v_stops is not null then
      update public.giftcard_operations
         set state = 'stopped', stopped_because = v_stops, last_at = p_now, finished_at = p_now where id = o.id;
      return false;
    end if;
  end if;
  v_found := public.giftcard_operation_jobs(o.action, o.filter, o.job_ids, o.after_id, v_limit);
  v_done := cardinality(v_found) < v_limit or v_found[cardinality(v_found)] >= o.until_id;
  v_found := array(select i from unnest(v_found) i where i <= o.until_id order by i);
  v_ids := public.giftcard_change_operation_jobs(o, v_found, extract(epoch from v_from - p_now), p_now);
  update public.giftcard_operations
     set matched = matched + cardinality(v_found), changed = changed + cardinality(v_ids), last_at = p_now,
         after_id = coalesce(v_found[cardinality(v_found)], after_id),
         first_job_id = case when v_first then v_ids[1] else first_job_id end,
         next_at = case when v_slowly then v_from + cardinality(v_ids) * make_interval(secs => 60 / per_minute) end,
         state = case when v_done then 'completed' else state end,
         finished_at = case when v_done then p_now end
   where id = o.id;
  return v_first and v_ids <> '{}' and not v_done;
end $$;

-- Carry out one step of the operation that has waited longest: up to p_limit jobs. p_skip: operations that wait. Return
-- {id, state, matched, changed: its sums, waits: nothing can be done now}; null: no operation is left. An operation
-- whose step fails has failed, with the error; its earlier steps stay.
create function public.giftcard_step_operation(
  p_limit integer default 500, p_skip bigint[] default '{}', p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_waits boolean := false;
  o public.giftcard_operations;
begin
  select * into o from public.giftcard_operations
   where state = 'running' and id <> all (coalesce(p_skip, '{}'))
   order by last_at nulls first, id limit 1 for update skip locked;
  if not found then
    return null;
  end if;
  begin
    v_waits := public.giftcard_step(o, least(greatest(coalesce(p_limit, 500), 1), 500), v_now);
  exception when others then
    if public.giftcard_is_unavailable(sqlstate) then
      raise;
    end if;
    update public.giftcard_operations
       set state = 'failed', error = public.giftcard_error_text(sqlstate, sqlerrm), last_at = v_now, finished_at = v_now
     where id = o.id;
  end;
  select * into o from public.giftcard_operations where id = o.id;
  return jsonb_build_object(
    'id', o.id, 'state', o.state, 'matched', o.matched, 'changed', o.changed, 'waits', v_waits);
end $$;
-- Orders and customers. Money is in minor units.

-- Return an amount as people read it: 25.00 USD, 2500 JPY, 2.500 KWD. lib/giftcards/money.py has the same currencies.
create function public.giftcard_format_money(p_amount bigint, p_currency text) returns text
language sql immutable security invoker set search_path = '' as $$
  select coalesce(round(p_amount / power(10::numeric, d.digits), d.digits)::text, '?') || ' '
         || coalesce(p_currency, '?')
    from (select case
            when p_currency = any (
              '{BIF,CLP,DJF,GNF,ISK,JPY,KMF,KRW,PYG,RWF,UGX,VND,VUV,XAF,XOF,XPF}'::text[]) then 0
            when p_currency = any ('{BHD,IQD,JOD,KWD,LYD,OMR,TND}'::text[]) then 3
            else 2 end as digits) d
$$;

create table public.giftcard_orders (
  tenant_id text collate "C" not null default 'default',
  correlation_id text collate "C" not null,
  idempotency_key text collate "C",
  body_hash text not null,
  amount bigint not null,
  currency text collate "C" not null,
  details jsonb not null default '{}',
  locale text collate "C" generated always as (details ->> 'locale') stored,
  customer_id bigint,
  free_of_charge boolean not null default false,
  cancelled_at timestamptz,
  created_at timestamptz not null,
  -- The digits of a UUID that are random: its first eight, and its last.
  page_id bigint not null
    default ('x' || left(gen_random_uuid()::text, 8) || right(gen_random_uuid()::text, 8))::bit(64)::bigint,
  constraint giftcard_orders_pkey primary key (tenant_id, correlation_id),
  constraint giftcard_orders_idempotency_key_key unique (tenant_id, idempotency_key),
  constraint giftcard_orders_page_id_key unique (page_id),
  -- What payments and cards refer to: an order's payment and card have its amount and currency, or do not exist.
  constraint giftcard_orders_terms_key unique (tenant_id, correlation_id, amount, currency, free_of_charge),
  constraint giftcard_orders_amount_is_positive check (amount between 1 and 1000000000000000),
  constraint giftcard_orders_details_are_an_object check (jsonb_typeof(details) = 'object')
);
create index giftcard_orders_by_customer on public.giftcard_orders (customer_id, created_at)
    where customer_id is not null;

comment on table public.giftcard_orders is
  'One row is an order as it was taken in. Stages read amount, currency, recipient and customer here, not in payloads.';
comment on column public.giftcard_orders.details is
  '{customer, message, deliver_at, locale}: the recipient and what they get. Empty once the customer is erased.';
comment on column public.giftcard_orders.locale is 'The language of the mail, from details. Null: the default.';
comment on column public.giftcard_orders.customer_id is
  'Known once customer_ingest has run: erasing a customer finds the order by it.';
comment on column public.giftcard_orders.page_id is
  'Random: names the order in the link to its page, which the application signs. The id alone opens nothing.';
comment on column public.giftcard_orders.free_of_charge is 'An operator has waived the payment; the audit has who.';

-- Refuse to change what an order was taken in with.
create function public.giftcard_fix_order() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  if (new.amount, new.currency) is distinct from (old.amount, old.currency)
     or old.customer_id is not null and new.customer_id is distinct from old.customer_id then
    raise exception 'amount, currency and customer of order % are fixed', old.correlation_id
      using errcode = '23514', constraint = 'giftcard_orders_facts_are_fixed', table = 'giftcard_orders',
            schema = 'public';
  end if;
  return new;
end $$;
create trigger giftcard_orders_facts_are_fixed before update of amount, currency, customer_id
    on public.giftcard_orders for each row execute function public.giftcard_fix_order();

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
create unique index giftcard_customers_email_key on public.giftcard_customers (tenant_id, lower(email) collate "C")
    where external_id is null;
-- Orders, customers, codes: one function each, each safe to repeat.

-- Accept an order and enqueue its first job, in one transaction. The same idempotency key (or correlation id) with the
-- same body returns the same order; with another body it is refused: GC422 for the key, GC409 for the correlation id.
-- Return {correlation_id, created, job_id, page_id}; with p_wake, of a new order also wake: the caller is to wake a
-- tick.
create function public.giftcard_submit_order(
  p_tenant_id text, p_correlation_id text, p_body_hash text, p_payload jsonb, p_idempotency_key text default null,
  p_trigger_type text default 'api', p_job jsonb default '{}', p_now timestamptz default null,
  p_wake boolean default false) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  o public.giftcard_orders;
  v_order jsonb;
  v_job json;
begin
  -- The hooks' payload, if they have changed it.
  v_order := coalesce(p_job -> 'payload', p_payload);
  insert into public.giftcard_orders (tenant_id, correlation_id, idempotency_key, body_hash, amount, currency, details,
                                      created_at)
  values (p_tenant_id, p_correlation_id, p_idempotency_key, p_body_hash, (v_order #>> '{amount,amount}')::bigint,
          v_order #>> '{amount,currency}', v_order - 'amount', v_now)
  on conflict do nothing
  returning * into o;
  if found then
    v_job := public.giftcard_enqueue(jsonb_build_array(jsonb_build_object(
      'tenant_id', p_tenant_id, 'correlation_id', p_correlation_id, 'stage', 'customer_ingest', 'payload', p_payload,
      'trigger_type', p_trigger_type, 'source', 'app') || p_job), p_now => p_now) -> 0;
    return jsonb_build_object('correlation_id', p_correlation_id, 'created', true, 'job_id', v_job -> 'id',
                              'page_id', o.page_id)
           || case when p_wake then jsonb_build_object('wake', public.giftcard_wake_next(
                     '{"mode": "url"}', 1, false, v_now))
                   else '{}' end;
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
  return jsonb_build_object('correlation_id', o.correlation_id, 'created', false, 'page_id', o.page_id,
                            'job_id', coalesce(
    (select id from public.giftcard_jobs
      where tenant_id = p_tenant_id and correlation_id = o.correlation_id and stage = 'customer_ingest'
        and dedup_key = ''),
    (select id from public.giftcard_jobs_archive
      where tenant_id = p_tenant_id and correlation_id = o.correlation_id and stage = 'customer_ingest'
        and dedup_key = ''
      order by id limit 1)));
end $$;

-- Return the books of an order: {order: {amount, currency, details, customer_id, free_of_charge, cancelled, page_id},
-- payment: {reference, amount, currency, worth, provider}, or null, card: {id, reference, number_encrypted,
-- number_hash, last4, state, unpaid, provider, personal_code}, or null}. null: there is no such order.
create function public.giftcard_books(p_tenant_id text, p_correlation_id text) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    select jsonb_build_object(
      'order', jsonb_build_object(
        'amount', o.amount, 'currency', o.currency, 'details', public.giftcard_readable(o.details, 100000),
        'customer_id', o.customer_id, 'free_of_charge', o.free_of_charge, 'cancelled', o.cancelled_at is not null,
        'page_id', o.page_id),
      'payment', (
        select jsonb_build_object('reference', p.provider_ref, 'amount', p.amount, 'currency', p.currency,
                                  'worth', p.worth, 'provider', p.provider)
          from public.giftcard_payments p
         where p.tenant_id = o.tenant_id and p.correlation_id = o.correlation_id),
      'card', (
        select jsonb_build_object('id', c.id, 'reference', c.provider_ref, 'number_encrypted', c.number_encrypted,
                                  'number_hash', c.number_hash, 'last4', c.last4, 'state', c.state,
                                  'unpaid', c.unpaid, 'provider', c.provider, 'personal_code', u.personal_code)
          from public.giftcard_cards c
          left join public.giftcard_customers u on u.id = c.customer_id
         where c.tenant_id = o.tenant_id and c.correlation_id = o.correlation_id))
      from public.giftcard_orders o where o.tenant_id = p_tenant_id and o.correlation_id = p_correlation_id);
end $$;

-- Take in the order of a flow that began without one (with a plain INSERT, or a message): the first job that needs it
-- fixes it. p_order: {customer, amount: {amount, currency}, message, deliver_at, locale}. An order that is there stays
-- as it is. Return its books, as giftcard_books does.
create function public.giftcard_take_order(
  p_tenant_id text, p_correlation_id text, p_order jsonb, p_body_hash text, p_now timestamptz default null)
returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  insert into public.giftcard_orders (tenant_id, correlation_id, body_hash, amount, currency, details, created_at)
  values (p_tenant_id, p_correlation_id, p_body_hash, (p_order #>> '{amount,amount}')::bigint,
          p_order #>> '{amount,currency}', p_order - 'amount', coalesce(p_now, clock_timestamp()))
  on conflict on constraint giftcard_orders_pkey do nothing;
  return public.giftcard_books(p_tenant_id, p_correlation_id);
end $$;

-- Create or update a customer: one per (tenant, external id), or without one per (tenant, lower-case e-mail).
-- p_correlation_id: the order that the customer comes from, if any. Return {id, personal_code}. GC409 if the order
-- belongs to another customer.
create function public.giftcard_save_customer(
  p_tenant_id text, p_external_id text, p_email text, p_given_name text, p_family_name text,
  p_correlation_id text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  c public.giftcard_customers;
  v_owner bigint;
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
  update public.giftcard_orders set customer_id = coalesce(customer_id, c.id)
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id and customer_id is distinct from c.id
   returning customer_id into v_owner;
  if v_owner <> c.id then
    perform public.giftcard_refuse(
      'GC409', format('order %s belongs to another customer', p_correlation_id), 'correlation_id');
  end if;
  return jsonb_build_object('id', c.id, 'personal_code', c.personal_code);
end $$;

-- Assign a customer the first free of some codes. A customer that has one keeps it. Return {code, assigned}; code null:
-- all are taken, or another transaction took it first: try others.
create function public.giftcard_assign_code(
  p_customer_id bigint, p_candidates text[], p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
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

-- Return whether the jobs of a stage only notify of what other jobs have done: they are sent as written, and are no
-- part of a flow's work. The engine asks here: it names no stage itself.
create function public.giftcard_is_webhook(p_stage text) returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return p_stage = 'webhook';
end $$;
-- Personal data: shown in clear only with a row in the audit, and erased on request.

-- Record that personal data was shown in clear, and why (null: unknown). p_tenant_id: the tenant whose data it is;
-- null: several.
create function public.giftcard_record_reveal(
  p_subject text, p_reason text default null, p_by text default null, p_tenant_id text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
begin
  perform public.giftcard_record_act(p_by, p_tenant_id, 'reveal', p_subject,
                                     jsonb_strip_nulls(jsonb_build_object('reason', p_reason)), p_now);
  return jsonb_build_object('noted', true);
end $$;

-- Return {id} of a customer: by external id, by one of their orders, or by the address of a customer without an
-- external id. GC404 for none.
create function public.giftcard_find_customer(
  p_tenant_id text, p_external_id text default null, p_email text default null,
  p_correlation_id text default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
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
     where tenant_id = p_tenant_id and lower(email) = lower(p_email) collate "C" and external_id is null;
  end if;
  if v_id is null then
    perform public.giftcard_refuse('GC404', 'there is no such customer', case
      when p_external_id is not null then 'external_id' when p_correlation_id is not null then 'correlation_id'
      else 'email' end);
  end if;
  return jsonb_build_object('id', v_id);
end $$;

-- Return the flows of a customer: those of their orders and cards, and those whose jobs or follow-ups name them. Until
-- its customer_ingest has run, an order is found by its payload alone.
create function public.giftcard_flows_of(p_customer_id bigint, p_tenant_id text, p_external_id text, p_email text)
returns text[]
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return array(
    select correlation_id from public.giftcard_orders where customer_id = p_customer_id
    union select o.correlation_id from public.giftcard_orders o
     where o.tenant_id = p_tenant_id
       and (o.details #>> '{customer,external_id}' = p_external_id
            or p_external_id is null and o.details #>> '{customer,external_id}' is null
               and lower(o.details #>> '{customer,email}') = lower(p_email))
    union select correlation_id from public.giftcard_cards where customer_id = p_customer_id
    union select j.correlation_id from public.giftcard_jobs j
     where j.tenant_id = p_tenant_id
       and (j.payload #>> '{customer,external_id}' = p_external_id
            or p_external_id is null and j.payload #>> '{customer,external_id}' is null
               and lower(j.payload #>> '{customer,email}') = lower(p_email))
    union select coalesce(b.follow_up ->> 'correlation_id', 'batch-' || b.id) from public.giftcard_batches b
     where b.tenant_id = p_tenant_id
       and (b.follow_up #>> '{payload,customer,external_id}' = p_external_id
            or p_external_id is null and b.follow_up #>> '{payload,customer,external_id}' is null
               and lower(b.follow_up #>> '{payload,customer,email}') = lower(p_email))
    union select a.correlation_id from public.giftcard_jobs_archive a
     where a.tenant_id = p_tenant_id
       and (a.job #>> '{payload,customer,external_id}' = p_external_id
            or p_external_id is null and a.job #>> '{payload,customer,external_id}' is null
               and lower(a.job #>> '{payload,customer,email}') = lower(p_email)));
end $$;

-- Erase payload, context, concurrency key and errors of some jobs (whose rows the caller holds) and of their flows'
-- archived jobs, of all their histories, the results of their mails, and the follow-ups of batches in these flows.
-- Return the ids of all these jobs.
create function public.giftcard_erase_jobs(p_ids bigint[], p_tenant_id text, p_flows text[], p_now timestamptz)
returns bigint[]
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_ids bigint[];
begin
  update public.giftcard_jobs
     set payload = jsonb_strip_nulls(jsonb_build_object('erased', true, 'amount', payload -> 'amount')), context = '{}',
         last_error = case when last_error is null then null else 'erased' end,
         status = case when status in ('queued', 'error') then 'cancelled' else status end,
         concurrency_key = null, revive_at = null, finished_at = coalesce(finished_at, p_now), updated_at = p_now
   where id = any (p_ids);
  with gone as (
    update public.giftcard_jobs_archive
       set job = job || jsonb_build_object(
             'payload', jsonb_strip_nulls(jsonb_build_object('erased', true, 'amount', job #> '{payload,amount}')),
             'context', '{}'::jsonb, 'concurrency_key', null,
             'last_error', case when job ->> 'last_error' is null then null else 'erased' end,
             'status', case when job ->> 'status' = 'error' then 'cancelled' else job ->> 'status' end)
     where tenant_id = p_tenant_id and correlation_id = any (p_flows)
    returning id)
  select p_ids || coalesce(array_agg(id), '{}') into v_ids from gone;
  update public.giftcard_job_history set error = case when error is not null then 'erased' end, detail = null
   where job_id = any (v_ids) and (error is not null or detail is not null);
  update public.giftcard_batches set follow_up = null, error = null
   where tenant_id = p_tenant_id and coalesce(follow_up ->> 'correlation_id', 'batch-' || id) = any (p_flows);
  update public.giftcard_effects
     set result = case when result is null then null else '{"erased": true}'::jsonb end, note = null
   where tenant_id = p_tenant_id and correlation_id = any (p_flows)
     -- Those of charges and cards stay, for the books. Any other stage may have stored personal data.
     and stage not in ('payment', 'issue_card', 'block_card');
  return v_ids;
end $$;

-- Erase a person: names, address, external id and code of the customer; payload, context and errors of the jobs and
-- histories of their flows, also of those in the archive. Queued jobs and dead letters are cancelled. Payments, cards
-- and amounts stay, so that totals do. Return {customer_id, flows, jobs, mails: the vendor keys of their mails (an
-- outbox of files is named by them)}. GC409 while one of their jobs runs.
create function public.giftcard_erase_customer(
  p_customer_id bigint, p_by text default null, p_tenant_id text default null, p_now timestamptz default null)
returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
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
    from public.giftcard_customers
   where id = p_customer_id and (p_tenant_id is null or tenant_id = p_tenant_id) for update;
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
  update public.giftcard_orders set details = '{}' where tenant_id = v_tenant and correlation_id = any (v_flows);
  update public.giftcard_customers
     set external_id = 'erased-' || id, email = 'erased-' || id || '@erased.invalid', given_name = '',
         family_name = null, personal_code = null, updated_at = v_now
   where id = p_customer_id;
  perform public.giftcard_record_act(
    p_by, v_tenant, 'erase_customer', 'customer ' || p_customer_id,
    jsonb_build_object('jobs', cardinality(v_ids), 'flows', cardinality(v_flows)), v_now);
  return jsonb_build_object(
    'customer_id', p_customer_id, 'flows', cardinality(v_flows), 'jobs', cardinality(v_ids), 'mails', v_mails);
end $$;
-- Payments: what each one is worth now, and the one that an order accepts.

create table public.giftcard_payments (
  id bigint generated always as identity,
  tenant_id text collate "C" not null,
  provider text collate "C" not null,
  provider_ref text collate "C" not null,
  correlation_id text collate "C",
  named_order text collate "C",
  idempotency_key text collate "C",
  amount bigint,
  currency text,
  free_of_charge boolean not null default false,
  worth bigint not null default 0,
  card_id bigint,
  created_at timestamptz not null,
  constraint giftcard_payments_pkey primary key (id),
  constraint giftcard_payments_reference_key unique (tenant_id, provider, provider_ref),
  constraint giftcard_payments_order_key unique (tenant_id, correlation_id),
  constraint giftcard_payments_idempotency_key_key unique (idempotency_key),
  constraint giftcard_payments_id_key unique (id, tenant_id, correlation_id),
  constraint giftcard_payments_terms_fkey foreign key (tenant_id, correlation_id, amount, currency, free_of_charge)
    references public.giftcard_orders (tenant_id, correlation_id, amount, currency, free_of_charge),
  constraint giftcard_payments_order_is_not_free check (not free_of_charge),
  constraint giftcard_payments_accepted_is_known check (correlation_id is null or (amount, currency) is not null),
  constraint giftcard_payments_amount_is_positive check (amount between 1 and 1000000000000000),
  constraint giftcard_payments_worth_is_bounded check (abs(worth::numeric) <= 9000000000000000)
);
create index giftcard_payments_without_card on public.giftcard_payments (created_at, id)
    where correlation_id is not null and card_id is null and worth > 0;
create index giftcard_payments_not_accepted on public.giftcard_payments (tenant_id, named_order)
    where correlation_id is null;
create index giftcard_payments_surplus on public.giftcard_payments (created_at, id)
    where worth > case when correlation_id is null then 0 else amount end;

create index giftcard_payments_refunded_only on public.giftcard_payments (created_at, id)
    where worth < 0 and amount is null and named_order is not null;

comment on table public.giftcard_payments is
  'One row is a payment at a provider. With the provider ledger this row is the payment itself.';
comment on column public.giftcard_payments.correlation_id is
  'The order that it pays: one payment per order, with the order''s amount and currency. null: it pays none (yet).';
comment on column public.giftcard_payments.named_order is
  'The order that it names. It is not accepted if it is the second one, has another amount, or there is no such order.';
comment on column public.giftcard_payments.amount is 'As captured. null: a refund or dispute of it arrived first.';
comment on column public.giftcard_payments.worth is
  'What it is worth now: the sum of its events, in minor units. Negative: a refund arrived before the payment.';

create table public.giftcard_payment_events (
  tenant_id text collate "C" not null,
  provider text collate "C" not null,
  event_id text collate "C" not null,
  payment_id bigint not null,
  kind text not null,
  amount bigint not null,
  is_total boolean not null default false,
  as_of timestamptz,
  recorded_at timestamptz not null,
  constraint giftcard_payment_events_pkey primary key (tenant_id, provider, event_id),
  constraint giftcard_payment_events_payment_fkey foreign key (payment_id) references public.giftcard_payments (id),
  constraint giftcard_payment_events_kind_is_known check (kind in ('captured', 'refunded', 'voided', 'disputed')),
  constraint giftcard_payment_events_amount_is_not_negative check (amount between 0 and 1000000000000000)
);
create index giftcard_payment_events_by_payment on public.giftcard_payment_events (payment_id);

comment on table public.giftcard_payment_events is
  'One row is one movement of a payment''s money: captured, refunded, voided or disputed, in the payment''s currency.';
comment on column public.giftcard_payment_events.is_total is
  'The amount is the total of this kind so far, not one more: it and the single ones are not added up.';
comment on column public.giftcard_payment_events.as_of is
  'The vendor''s time of this description. A newer one replaces it (a refund that failed is 0); an older one does not.';

-- Return what a payment is worth by its events: what was captured less what went back, in whatever order they arrived.
-- It stays within its bounds.
create function public.giftcard_worth(p_payment_id bigint) returns bigint
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select least(greatest(coalesce(sum(case when k.kind = 'captured' then k.amount else -k.amount end), 0),
                        -9000000000000000), 9000000000000000)::bigint
    from (select e.kind, greatest(sum(e.amount) filter (where not e.is_total), max(e.amount) filter (where e.is_total))
                   as amount
            from public.giftcard_payment_events e where e.payment_id = p_payment_id group by e.kind) k
$$;

-- Set a payment's worth, and have the card of its order blocked if it is not paid any more.
create function public.giftcard_value_payment(p_payment_id bigint, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  p public.giftcard_payments;
  v_unpaid bigint;
begin
  -- The sum is read after the lock: of two events that are written at once, the second sees the first.
  perform from public.giftcard_payments where id = p_payment_id for no key update;
  update public.giftcard_payments set worth = public.giftcard_worth(id) where id = p_payment_id returning * into p;
  -- A card that was recorded as blocked and never blocked at its provider is active once it is paid again.
  update public.giftcard_cards
     set unpaid = greatest(amount - p.worth, 0),
         state = case when p.worth >= amount and state = 'blocked' and state_as_of is null then 'active' else state end
   where id = p.card_id and unpaid <> greatest(amount - p.worth, 0) returning unpaid into v_unpaid;
  if v_unpaid > 0 then
    perform public.giftcard_enqueue_block(p.tenant_id, p.correlation_id, p_now);
  end if;
end $$;

-- Value the payment of each event that is written, also by plain SQL.
create function public.giftcard_value_payment_of_event() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  if tg_op <> 'INSERT' then
    perform public.giftcard_value_payment(
      old.payment_id, case when tg_op = 'UPDATE' then new.recorded_at else clock_timestamp() end);
  end if;
  if tg_op = 'INSERT' or tg_op = 'UPDATE' and new.payment_id <> old.payment_id then
    perform public.giftcard_value_payment(new.payment_id, new.recorded_at);
  end if;
  return null;
end $$;
create trigger giftcard_payment_events_value_the_payment after insert or update or delete
    on public.giftcard_payment_events for each row execute function public.giftcard_value_payment_of_event();

-- Return whether nothing queued or running will go on with a flow, webhooks apart.
create function public.giftcard_is_at_rest(p_tenant_id text, p_correlation_id text) returns boolean
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return not exists (
    select from public.giftcard_jobs j
     where j.tenant_id = p_tenant_id and j.correlation_id = p_correlation_id and j.status in ('queued', 'running')
       and not public.giftcard_is_webhook(j.stage));
end $$;
-- What providers report of payments, and the payment that an order accepts. Each function is safe to repeat.

-- Return a payment's row, locked, made if it is new. Its amount and the order that it names are the first known.
-- GC409 for another currency than the one that it has.
create function public.giftcard_lock_payment(
  p_tenant_id text, p_provider text, p_provider_ref text, p_named_order text, p_amount bigint, p_currency text,
  p_now timestamptz) returns public.giftcard_payments
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  p public.giftcard_payments;
begin
  insert into public.giftcard_payments as x (tenant_id, provider, provider_ref, named_order, amount, currency,
                                             created_at)
  values (p_tenant_id, p_provider, p_provider_ref, p_named_order, p_amount, p_currency, p_now)
  on conflict on constraint giftcard_payments_reference_key do update set
    named_order = coalesce(x.named_order, excluded.named_order), amount = coalesce(x.amount, excluded.amount),
    currency = coalesce(x.currency, excluded.currency)
  returning * into p;
  if p.currency <> p_currency then
    perform public.giftcard_refuse(
      'GC409', format('payment %s is in %s, not in %s', p_provider_ref, p.currency, p_currency), 'currency');
  end if;
  return p;
end $$;

-- Record a movement of a payment's money, once per event id, in any order. p_kind: captured, refunded, voided or
-- disputed; p_amount: in minor units. p_named_order: the order that the payment names, if the provider knows. p_as_of:
-- the provider's time of this description: a newer one replaces it, an older one changes nothing. Without it an event
-- is final: GC409 if it is recorded with other content. p_is_total: the amount is the total of its kind so far.
-- Return {payment_id, correlation_id (of the order that the payment pays, or null), worth, currency, changed}.
create function public.giftcard_record_payment_event(
  p_tenant_id text, p_provider text, p_provider_ref text, p_event_id text, p_kind text, p_amount bigint,
  p_currency text, p_named_order text default null, p_is_total boolean default false, p_as_of timestamptz default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_changed boolean;
  p public.giftcard_payments;
  e public.giftcard_payment_events;
begin
  p := public.giftcard_lock_payment(p_tenant_id, p_provider, p_provider_ref, p_named_order,
                                    case when p_kind = 'captured' then nullif(p_amount, 0) end, p_currency, v_now);
  insert into public.giftcard_payment_events as x (tenant_id, provider, event_id, payment_id, kind, amount, is_total,
                                                   as_of, recorded_at)
  values (p_tenant_id, p_provider, p_event_id, p.id, p_kind, p_amount, p_is_total, p_as_of, v_now)
  on conflict on constraint giftcard_payment_events_pkey do update set
    amount = excluded.amount, as_of = excluded.as_of,
    recorded_at = case when x.amount = excluded.amount then x.recorded_at else excluded.recorded_at end
   where (excluded.as_of, excluded.amount) > (x.as_of, x.amount)
     and (x.payment_id, x.kind, x.is_total) = (excluded.payment_id, excluded.kind, excluded.is_total)
  returning * into e;
  v_changed := found;
  if not v_changed then
    select * into strict e from public.giftcard_payment_events
     where tenant_id = p_tenant_id and provider = p_provider and event_id = p_event_id;
    if (e.payment_id, e.kind, e.is_total) <> (p.id, p_kind, p_is_total)
       or (p_as_of is null or e.as_of is null) and e.amount <> p_amount then
      perform public.giftcard_refuse(
        'GC409', format('event %s is recorded with other content: another movement needs another event id', p_event_id),
        'event_id');
    end if;
  end if;
  if v_changed and p.correlation_id is null and p.named_order is not null then
    perform public.giftcard_make_due(p_tenant_id, p.named_order, 'payment', p_now);
  end if;
  return (select jsonb_build_object('payment_id', x.id, 'correlation_id', x.correlation_id, 'worth', x.worth,
                                    'currency', x.currency, 'changed', v_changed)
            from public.giftcard_payments x where x.id = p.id);
end $$;

-- Refuse a payment (GC409) that an order cannot accept.
create function public.giftcard_check_acceptable(o public.giftcard_orders, p public.giftcard_payments) returns void
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_other text := (select x.provider_ref from public.giftcard_payments x
                    where x.tenant_id = o.tenant_id and x.correlation_id = o.correlation_id and x.id <> p.id);
  v_problem text := case
    when v_other is not null then format('order %s is paid already, by %s', o.correlation_id, v_other)
    when p.correlation_id <> o.correlation_id
      then format('payment %s pays order %s', p.provider_ref, p.correlation_id)
    when p.named_order <> o.correlation_id then format('payment %s names order %s', p.provider_ref, p.named_order)
    when (p.amount, p.currency) is distinct from (o.amount, o.currency)
      then format('order %s costs %s, the payment is over %s', o.correlation_id,
                  public.giftcard_format_money(o.amount, o.currency),
                  public.giftcard_format_money(p.amount, p.currency))
    when o.free_of_charge then format('order %s is free of charge', o.correlation_id)
    when o.cancelled_at is not null then format('order %s is cancelled', o.correlation_id) end;
begin
  if v_problem is not null and p.correlation_id is distinct from o.correlation_id then
    perform public.giftcard_refuse('GC409', v_problem, 'correlation_id');
  end if;
end $$;

-- Accept a payment as the payment of an order, and record it as captured if it is not yet: one per order, over the
-- order's amount and currency, nothing of it gone back. The effect under this key is done with it. Recorded again, the
-- payment is returned: {id, reference, amount, currency, provider, worth}. GC404 for an unknown order. GC409 for what
-- differs from what is recorded, or cannot be accepted; nothing is recorded then.
create function public.giftcard_record_payment(
  p_tenant_id text, p_correlation_id text, p_idempotency_key text, p_provider text, p_amount bigint, p_currency text,
  p_provider_ref text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_reference text := coalesce(p_provider_ref, 'ledger:' || p_idempotency_key);
  o public.giftcard_orders;
  p public.giftcard_payments;
begin
  select * into o from public.giftcard_orders
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id for no key update;
  if not found then
    perform public.giftcard_refuse(
      'GC404', format('there is no order %s: nothing can be paid', p_correlation_id), 'correlation_id');
  end if;
  p := public.giftcard_lock_payment(p_tenant_id, p_provider, v_reference, p_correlation_id, p_amount, p_currency,
                                    v_now);
  if p.amount <> p_amount then
    perform public.giftcard_refuse('GC409', format(
      'payment %s is recorded over %s, not over %s', v_reference, public.giftcard_format_money(p.amount, p.currency),
      public.giftcard_format_money(p_amount, p_currency)), 'amount');
  end if;
  perform public.giftcard_check_acceptable(o, p);
  if p.idempotency_key <> p_idempotency_key then
    perform public.giftcard_refuse(
      'GC409', format('payment %s is recorded under another idempotency key', v_reference), 'idempotency_key');
  end if;
  if p.correlation_id is null then
    insert into public.giftcard_payment_events (tenant_id, provider, event_id, payment_id, kind, amount, recorded_at)
    values (p_tenant_id, p_provider, 'captured:' || v_reference, p.id, 'captured', p_amount, v_now)
    on conflict on constraint giftcard_payment_events_pkey do nothing;
    update public.giftcard_payments set correlation_id = p_correlation_id, idempotency_key = p_idempotency_key
     where id = p.id and worth >= amount returning * into p;
    if not found then
      perform public.giftcard_refuse(
        'GC409', format('payment %s was refunded or disputed', v_reference), 'provider_ref');
    end if;
    update public.giftcard_effects
       set finished_at = v_now, result = jsonb_build_object('reference', v_reference, 'key', p_idempotency_key)
     where vendor_key = p_idempotency_key and result is null;
  end if;
  return jsonb_build_object('id', p.id, 'reference', p.provider_ref, 'amount', p.amount, 'currency', p.currency,
                            'provider', p.provider, 'worth', p.worth);
exception when unique_violation then
  perform public.giftcard_refuse(
    'GC409', 'this idempotency key belongs to the payment of another order', 'idempotency_key');
  return null;
end $$;

-- Return the payment made under an idempotency key; null: none.
create function public.giftcard_find_payment(p_idempotency_key text) returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select jsonb_build_object('id', id, 'reference', provider_ref, 'amount', amount, 'currency', currency,
                            'provider', provider, 'worth', worth)
    from public.giftcard_payments where idempotency_key = p_idempotency_key
$$;

-- Return the payment that an order can accept, of those at a provider that name it: {reference, instead}. reference:
-- over what the order costs, nothing of it gone back, accepted by no order; of several the first, null for none.
-- instead: what the newest of the others is worth, {amount, currency}, or null.
create function public.giftcard_find_offered_payment(p_tenant_id text, p_correlation_id text, p_provider text)
returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  with offered as (
    select p.id, p.provider_ref, p.worth, p.currency, p.created_at,
           (p.amount, p.currency) = (o.amount, o.currency) and p.worth >= p.amount as fits
      from public.giftcard_payments p
      join public.giftcard_orders o on o.tenant_id = p.tenant_id and o.correlation_id = p.named_order
     where p.tenant_id = p_tenant_id and p.named_order = p_correlation_id and p.provider = p_provider
       and p.correlation_id is null and p.worth > 0)
  select jsonb_build_object(
    'reference', (select f.provider_ref from offered f where f.fits order by f.created_at, f.id limit 1),
    'instead', (select jsonb_build_object('amount', f.worth, 'currency', f.currency)
                  from offered f where f.fits is not true order by f.created_at desc, f.id desc limit 1))
$$;

-- Record a movement of an order's money for those who know the order, not the payment's row: a payment service of your
-- own, or an operator after a refund by hand. p_provider_ref null: of the payment that the order accepted. Another
-- reference: of that payment, which is at p_provider if it is new. p_currency null: the order's. Return what
-- giftcard_record_payment_event does, and reference and provider. What it changes has a row in the audit. GC404 for an
-- unknown order, or one that accepted no payment. GC409 also for the payment of another order.
create function public.giftcard_record_order_event(
  p_tenant_id text, p_correlation_id text, p_event_id text, p_kind text, p_amount bigint,
  p_currency text default null, p_provider_ref text default null, p_provider text default null,
  p_is_total boolean default false, p_as_of timestamptz default null, p_by text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_order_currency text := (select currency from public.giftcard_orders
                             where tenant_id = p_tenant_id and correlation_id = p_correlation_id);
  v_recorded jsonb;
  p public.giftcard_payments;
begin
  select * into p from (
    select * from public.giftcard_payments
     where tenant_id = p_tenant_id and correlation_id = p_correlation_id
    union all
    select * from public.giftcard_payments
     where tenant_id = p_tenant_id and named_order = p_correlation_id and correlation_id is null) x
   where x.provider_ref = p_provider_ref or p_provider_ref is null and x.correlation_id is not null
   order by x.correlation_id, x.id limit 1;
  if v_order_currency is null then
    perform public.giftcard_refuse('GC404', format(
      'no order has the correlation id %s (tenant %s)', p_correlation_id, p_tenant_id), 'correlation_id');
  elsif p.id is null and (p_provider_ref is null or p_provider is null) then
    perform public.giftcard_refuse('GC404', format(
      'order %s has no payment yet: name the payment by its reference', p_correlation_id), 'reference');
  elsif p.id is null and exists (
      select from public.giftcard_payments x
       where x.tenant_id = p_tenant_id and x.provider = p_provider and x.provider_ref = p_provider_ref
         and coalesce(x.correlation_id, x.named_order) <> p_correlation_id) then
    perform public.giftcard_refuse(
      'GC409', format('payment %s is of another order', p_provider_ref), 'reference');
  end if;
  p.provider := coalesce(p.provider, p_provider);
  p.provider_ref := coalesce(p.provider_ref, p_provider_ref);
  v_recorded := public.giftcard_record_payment_event(
    p_tenant_id, p.provider, p.provider_ref, p_event_id, p_kind, p_amount,
    coalesce(p_currency, p.currency, v_order_currency), p_correlation_id, p_is_total, p_as_of, p_now);
  if (v_recorded ->> 'changed')::boolean then
    perform public.giftcard_record_act(
      p_by, p_tenant_id, 'payment_event', 'order ' || p_correlation_id,
      jsonb_build_object('reference', p.provider_ref, 'event_id', p_event_id, 'kind', p_kind, 'amount', p_amount,
                         'currency', v_recorded -> 'currency'), p_now);
  end if;
  return v_recorded || jsonb_build_object('reference', p.provider_ref, 'provider', p.provider);
end $$;
-- Cards: one per order, over the order's amount, and only if it is paid or free of charge.

create table public.giftcard_cards (
  id bigint generated always as identity,
  tenant_id text collate "C" not null,
  correlation_id text collate "C" not null,
  customer_id bigint,
  payment_id bigint,
  free_of_charge boolean not null default false,
  provider text collate "C" not null,
  provider_ref text collate "C" not null,
  number_encrypted text collate "C" not null,
  number_hash text collate "C" not null,
  last4 text collate "C" not null,
  amount bigint not null,
  balance bigint not null,
  currency text not null,
  unpaid bigint not null default 0,
  order_cancelled boolean not null default false,
  state text not null default 'active',
  created_at timestamptz not null,
  state_as_of timestamptz,
  balance_as_of timestamptz,
  constraint giftcard_cards_pkey primary key (id),
  constraint giftcard_cards_order_key unique (tenant_id, correlation_id),
  constraint giftcard_cards_number_key unique (number_hash),
  constraint giftcard_cards_reference_key unique (tenant_id, provider_ref, provider),
  constraint giftcard_cards_payment_key unique (payment_id),
  constraint giftcard_cards_customer_fkey foreign key (customer_id) references public.giftcard_customers (id),
  constraint giftcard_cards_terms_fkey foreign key (tenant_id, correlation_id, amount, currency, free_of_charge)
    references public.giftcard_orders (tenant_id, correlation_id, amount, currency, free_of_charge),
  constraint giftcard_cards_payment_fkey foreign key (payment_id, tenant_id, correlation_id)
    references public.giftcard_payments (id, tenant_id, correlation_id),
  constraint giftcard_cards_have_a_payment_or_are_free check ((payment_id is null) = free_of_charge),
  constraint giftcard_cards_state_is_known check (state in ('active', 'blocked', 'redeemed')),
  constraint giftcard_cards_balance_is_not_negative check (
    amount between 1 and 1000000000000000 and balance between 0 and 1000000000000000),
  constraint giftcard_cards_unpaid_is_bounded check (unpaid between 0 and 9000000000000000),
  constraint giftcard_cards_last4_is_four_digits check (last4 ~ '^[0-9]{4}$')
);

create index giftcard_cards_by_customer on public.giftcard_cards (customer_id);
create index giftcard_cards_not_paid on public.giftcard_cards (created_at, id)
    where unpaid > 0 and (state <> 'blocked' or balance < amount);
create index giftcard_cards_blocked_but_paid on public.giftcard_cards (created_at, id)
    where state = 'blocked' and payment_id is not null
      and (unpaid = 0 and balance > 0 or unpaid < amount and balance >= amount);

create index giftcard_cards_of_cancelled_orders on public.giftcard_cards (created_at, id)
    where order_cancelled and (state <> 'blocked' or balance < amount);

comment on table public.giftcard_cards is
  'One card per order. The number is encrypted for its flow; number_hash (keyed) finds it, last4 shows it.';
comment on column public.giftcard_cards.unpaid is
  'How much of the amount is not paid for: its payment was refunded or disputed. Such a card has to be blocked.';
comment on column public.giftcard_cards.state_as_of is
  'The time of the newest known state: an older event of the vendor does not change it.';
comment on column public.giftcard_cards.balance_as_of is
  'The vendor''s time of the newest known balance: an older event does not change it.';

-- Enqueue the job that blocks the card of an order, unless one waits. One that runs may have found the card paid; one
-- that waits is held until the caller's transaction ends, so that it finds what the caller has changed. One that
-- another transaction holds is left to it: the caller holds books, for which that one may wait.
create function public.giftcard_enqueue_block(p_tenant_id text, p_correlation_id text, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  perform from public.giftcard_jobs
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id and stage = 'block_card' and status = 'queued'
   order by id limit 1 for no key update skip locked;
  if not found then
    -- Not p_now, which may be that of an earlier job.
    perform public.giftcard_enqueue(jsonb_build_array(jsonb_build_object(
      'tenant_id', p_tenant_id, 'correlation_id', p_correlation_id, 'stage', 'block_card', 'trigger_type', 'books',
      'source', 'app', 'dedup_key', to_char(clock_timestamp() at time zone 'UTC', 'YYYYMMDD"T"HH24MISS.US'))),
      p_now => p_now);
  end if;
end $$;

-- Complete and check a new card: its payment must be worth the amount, unless the card is blocked.
create function public.giftcard_check_card() returns trigger
language plpgsql security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  new.order_cancelled := coalesce((
    select o.cancelled_at is not null from public.giftcard_orders o
     where o.tenant_id = new.tenant_id and o.correlation_id = new.correlation_id for no key update), false);
  if new.payment_id is not null then
    new.unpaid := (select greatest(new.amount - p.worth, 0)
                     from public.giftcard_payments p where p.id = new.payment_id for no key update);
    if new.unpaid > 0 and new.state <> 'blocked' then
      raise exception 'the payment of order % is not worth the card: it was refunded or disputed', new.correlation_id
        using errcode = '23514', constraint = 'giftcard_cards_is_paid', table = 'giftcard_cards', schema = 'public';
    end if;
  end if;
  return new;
end $$;
create trigger giftcard_cards_is_paid before insert on public.giftcard_cards
    for each row execute function public.giftcard_check_card();

-- Mark the card of an order that is cancelled or reopened.
create function public.giftcard_mark_card() returns trigger
language plpgsql security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  update public.giftcard_cards set order_cancelled = new.cancelled_at is not null
   where tenant_id = new.tenant_id and correlation_id = new.correlation_id;
  return null;
end $$;
create trigger giftcard_orders_mark_their_card after update of cancelled_at on public.giftcard_orders
    for each row when ((old.cancelled_at is null) <> (new.cancelled_at is null))
    execute function public.giftcard_mark_card();

-- Keep the card of a payment with the payment, also by plain SQL. A card that is recorded as blocked because it is not
-- paid any more is to be blocked at its provider, too.
create function public.giftcard_link_card() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  if tg_op = 'DELETE' then
    update public.giftcard_payments set card_id = null where id = old.payment_id and card_id = old.id;
    return null;
  end if;
  update public.giftcard_payments set card_id = new.id where id = new.payment_id;
  if new.unpaid > 0 then
    perform public.giftcard_enqueue_block(new.tenant_id, new.correlation_id, new.created_at);
  end if;
  return null;
end $$;
create trigger giftcard_cards_link_their_payment after insert or delete on public.giftcard_cards
    for each row execute function public.giftcard_link_card();

-- Record a card, one per order, with the order's customer. If its payment went back while the card was issued, it is
-- recorded as blocked, and a job blocks it at its provider. The effect issue is done with it. Recorded again, it is
-- returned: {id, reference, number_encrypted, number_hash, last4}. GC404 for an unknown order. GC409 for an order that
-- is not paid, or what differs from what is recorded. A number or reference that another card has is a unique violation
-- of giftcard_cards_number_key or giftcard_cards_reference_key.
create function public.giftcard_record_card(
  p_tenant_id text, p_correlation_id text, p_provider text, p_provider_ref text, p_number_encrypted text,
  p_number_hash text, p_last4 text, p_amount bigint, p_currency text, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  o public.giftcard_orders;
  p public.giftcard_payments;
  c public.giftcard_cards;
begin
  select * into o from public.giftcard_orders
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id for no key update;
  if not found then
    perform public.giftcard_refuse(
      'GC404', format('there is no order %s: no card can be issued', p_correlation_id), 'correlation_id');
  end if;
  select * into p from public.giftcard_payments
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id for no key update;
  select * into c from public.giftcard_cards where tenant_id = p_tenant_id and correlation_id = p_correlation_id;
  if c.id is not null then
    if (c.provider, c.provider_ref, c.number_hash, c.amount, c.currency)
       is distinct from (p_provider, p_provider_ref, p_number_hash, p_amount, p_currency) then
      perform public.giftcard_refuse('GC409', format(
        'order %s has another card already: %s', p_correlation_id, c.provider_ref), 'correlation_id');
    end if;
  elsif (p_amount, p_currency) is distinct from (o.amount, o.currency) then
    perform public.giftcard_refuse('GC409', format(
      'order %s is over %s, the card over %s', p_correlation_id, public.giftcard_format_money(o.amount, o.currency),
      public.giftcard_format_money(p_amount, p_currency)), 'amount');
  elsif p.id is null and not o.free_of_charge then
    perform public.giftcard_refuse(
      'GC409', format('order %s is neither paid nor free of charge', p_correlation_id), 'correlation_id');
  else
    insert into public.giftcard_cards
      (tenant_id, correlation_id, customer_id, payment_id, free_of_charge, provider, provider_ref, number_encrypted,
       number_hash, last4, amount, balance, currency, state, created_at)
    values (p_tenant_id, p_correlation_id, o.customer_id, p.id, o.free_of_charge, p_provider, p_provider_ref,
            p_number_encrypted, p_number_hash, p_last4, p_amount, p_amount, p_currency,
            case when p.worth < p.amount then 'blocked' else 'active' end, v_now)
    returning * into c;
    perform public.giftcard_apply_kept_events(c.tenant_id, c.provider_ref);
    update public.giftcard_effects
       set finished_at = v_now, result = jsonb_build_object(
             'reference', p_provider_ref, 'number_encrypted', p_number_encrypted, 'number_hash', p_number_hash,
             'last4', p_last4)
     where tenant_id = p_tenant_id and correlation_id = p_correlation_id and stage = 'issue_card' and dedup_key = ''
       and name = 'issue' and started_at is not null and result is null;
  end if;
  return jsonb_build_object('id', c.id, 'reference', c.provider_ref, 'number_encrypted', c.number_encrypted,
                            'number_hash', c.number_hash, 'last4', c.last4);
end $$;

-- Record that the card of an order is blocked at its provider. p_balance: what was left on it; null: unknown. Return
-- {state, balance, amount, currency}. GC404 for no card.
create function public.giftcard_block_card(
  p_tenant_id text, p_correlation_id text, p_balance bigint default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  c public.giftcard_cards;
begin
  update public.giftcard_cards
     set state = 'blocked', state_as_of = v_now, balance = coalesce(p_balance, balance),
         balance_as_of = case when p_balance is null then balance_as_of else v_now end
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id returning * into c;
  if not found then
    perform public.giftcard_refuse(
      'GC404', format('order %s has no card', p_correlation_id), 'correlation_id');
  end if;
  return jsonb_build_object('state', c.state, 'balance', c.balance, 'amount', c.amount, 'currency', c.currency);
end $$;

-- Let what is recorded of a vendor's card wait for each other: its events, and the card itself. Otherwise an event that
-- finds no card and the card that finds no event would miss each other.
create function public.giftcard_lock_reference(p_tenant_id text, p_reference text) returns void
language sql volatile security invoker set search_path = '' as $$
  select pg_advisory_xact_lock(hashtextextended(format('card %s of %s', p_reference, p_tenant_id), 0))
$$;

-- Update the balance and state of a gift card, found by the vendor's reference. p_card: {reference, balance, currency,
-- blocked (null: unchanged), at}. Events may arrive in any order: state and balance each keep the newest. Return what
-- the event became, {kind, facts}: card; ignored, {why}; or kept, p_card, until the card is recorded.
create function public.giftcard_update_card(p_tenant_id text, p_card jsonb) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_at timestamptz := (p_card ->> 'at')::timestamptz;
  v_balance bigint := (p_card ->> 'balance')::bigint;
  v_blocked boolean := (p_card ->> 'blocked')::boolean;
  v_newer_state boolean;
  v_newer_balance boolean;
  v_why text;
  c public.giftcard_cards;
begin
  perform public.giftcard_lock_reference(p_tenant_id, p_card ->> 'reference');
  select * into c from public.giftcard_cards
   where tenant_id = p_tenant_id and provider_ref = p_card ->> 'reference' order by id limit 1 for update;
  if not found then
    return jsonb_build_object('kind', 'kept', 'facts', p_card);
  end if;
  -- Of two events of one instant the blocked state and the lower balance count, whichever comes first.
  v_newer_state := v_blocked is not null and coalesce(
    (c.state_as_of, c.state = 'blocked') < (v_at, v_blocked), true);
  v_newer_balance := v_balance is not null and coalesce((c.balance_as_of, -c.balance) < (v_at, -v_balance), true);
  v_why := case when c.currency <> p_card ->> 'currency' then 'another currency'
                when not v_newer_state and not v_newer_balance then 'not the newest' end;
  if v_why is not null then
    return jsonb_build_object('kind', 'ignored', 'facts', jsonb_build_object('why', v_why));
  end if;
  c.balance := case when v_newer_balance then v_balance else c.balance end;
  update public.giftcard_cards
     set balance = c.balance, balance_as_of = case when v_newer_balance then v_at else balance_as_of end,
         state_as_of = case when v_newer_state then v_at else state_as_of end,
         state = case when case when v_newer_state then v_blocked else state = 'blocked' end then 'blocked'
                      when c.balance = 0 then 'redeemed' else 'active' end
   where id = c.id;
  return jsonb_build_object('kind', 'card', 'facts', jsonb_build_object());
end $$;
-- Sums and links of the books, computed again: what the constraints and triggers keep.

-- Return where a stored sum or link is not what it is computed from, and cards that no constraint would let in. It
-- reads all payments and cards.
create function public.giftcard_verify_books()
returns table (kind text, tenant_id text, correlation_id text, reference text, amount bigint, currency text,
               since timestamptz, detail text)
language sql stable security invoker set search_path = '' set jit = off as $$
  with sums as (
    select k.payment_id, least(greatest(sum(case when k.kind = 'captured' then k.amount else -k.amount end),
                                        -9000000000000000), 9000000000000000)::bigint as worth
      from (select e.payment_id, e.kind, greatest(sum(e.amount) filter (where not e.is_total),
                                                  max(e.amount) filter (where e.is_total)) as amount
              from public.giftcard_payment_events e group by e.payment_id, e.kind) k
     group by k.payment_id)
  (select 'books_differ', p.tenant_id, coalesce(p.correlation_id, p.named_order), p.provider_ref,
          p.worth - coalesce(s.worth, 0), p.currency, p.created_at,
          format('the payment is kept as worth %s, its events add up to %s',
                 public.giftcard_format_money(p.worth, p.currency),
                 public.giftcard_format_money(coalesce(s.worth, 0), p.currency))
     from public.giftcard_payments p left join sums s on s.payment_id = p.id
    where p.worth <> coalesce(s.worth, 0) order by p.id limit 1000)
  union all
  (select 'books_differ', p.tenant_id, p.correlation_id, p.provider_ref, p.worth, p.currency, p.created_at,
          'the payment has a card that does not exist'
     from public.giftcard_payments p
    where p.card_id is not null and not exists (select from public.giftcard_cards c where c.id = p.card_id)
    order by p.id limit 1000)
  union all
  (select case when p.id is null and not c.free_of_charge or o.tenant_id is null then 'card_without_payment'
               when (p.amount, p.currency) <> (c.amount, c.currency) or (o.amount, o.currency) <> (c.amount, c.currency)
               then 'card_other_than_payment' else 'books_differ' end,
          c.tenant_id, c.correlation_id, c.provider_ref, c.amount, c.currency, c.created_at,
          format('card over %s, %s unpaid; order over %s; payment %s over %s, worth %s',
                 public.giftcard_format_money(c.amount, c.currency), public.giftcard_format_money(c.unpaid, c.currency),
                 public.giftcard_format_money(o.amount, o.currency), p.provider_ref,
                 public.giftcard_format_money(p.amount, p.currency),
                 public.giftcard_format_money(p.worth, p.currency))
     from public.giftcard_cards c
     left join public.giftcard_orders o on o.tenant_id = c.tenant_id and o.correlation_id = c.correlation_id
     left join public.giftcard_payments p on p.tenant_id = c.tenant_id and p.correlation_id = c.correlation_id
    where o.tenant_id is null or (o.amount, o.currency, o.free_of_charge) <> (c.amount, c.currency, c.free_of_charge)
       or not c.free_of_charge and (p.id, p.card_id, p.amount, p.currency, greatest(c.amount - p.worth, 0))
                                   is distinct from (c.payment_id, c.id, c.amount, c.currency, c.unpaid)
    order by c.id limit 1000)
$$;
-- Differences: where money and cards do not match, kind by kind. Each reads a small index of what is open.

create table public.giftcard_accepted_differences (
  kind text collate "C" not null,
  tenant_id text collate "C" not null,
  item text collate "C" not null,
  amount bigint not null,
  by text not null,
  reason text not null,
  accepted_at timestamptz not null,
  constraint giftcard_accepted_differences_pkey primary key (kind, tenant_id, item)
);
comment on table public.giftcard_accepted_differences is
  'One row is a difference that an operator has accepted. It is shown again if its amount changes.';
comment on column public.giftcard_accepted_differences.item is
  'The reference of the payment or card, or the vendor key of the charge.';

create index giftcard_effects_unfinished on public.giftcard_effects (started_at)
    where started_at is not null and name in ('charge', 'issue') and (result is null or result ? 'decided_by');

-- Return whether an operator has accepted a difference over this amount, since it is there. p_item: its reference.
create function public.giftcard_is_accepted(
  p_kind text, p_tenant_id text, p_item text, p_amount bigint, p_since timestamptz) returns boolean
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return exists (select from public.giftcard_accepted_differences
                  where kind = p_kind and tenant_id = p_tenant_id and item = p_item and amount = p_amount
                    and accepted_at >= p_since);
end $$;

-- Return paid orders without a card of which nothing is queued or runs: the job that should issue the card is dead,
-- cancelled or missing. A dead letter counts although it may revive tomorrow: today the customer has paid for nothing.
create function public.giftcard_differences_without_card(p_tenant_id text)
returns table (kind text, tenant_id text, correlation_id text, reference text, amount bigint, currency text,
               since timestamptz, detail text)
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select case when o.cancelled_at is null then 'paid_without_card' else 'paid_but_cancelled' end, p.tenant_id,
         p.correlation_id, p.provider_ref, p.worth, p.currency, p.created_at, coalesce(
           (select format('job %s of %s is %s%s', j.id, j.stage, j.status, ': ' || left(j.last_error, 200))
              from public.giftcard_jobs j
             where j.tenant_id = p.tenant_id and j.correlation_id = p.correlation_id
               and j.status in ('error', 'cancelled') and not public.giftcard_is_webhook(j.stage)
             order by j.id desc limit 1), 'no job of its flow is left')
    from public.giftcard_payments p
    join public.giftcard_orders o on o.tenant_id = p.tenant_id and o.correlation_id = p.correlation_id
   where p.correlation_id is not null and p.card_id is null and p.worth > 0
     and (p_tenant_id is null or p.tenant_id = p_tenant_id)
     and public.giftcard_is_at_rest(p.tenant_id, p.correlation_id)
     and not public.giftcard_is_accepted(
       case when o.cancelled_at is null then 'paid_without_card' else 'paid_but_cancelled' end, p.tenant_id,
       p.provider_ref, p.worth, p.created_at)
   order by p.created_at, p.id limit 1000
$$;

-- Return money that no order accepts: of no order, a second payment, a wrong amount, for an order that is cancelled or
-- free; money beyond what an order costs; and refunds of a payment that was never captured. A payment that fits waits
-- for the order's payment job, while that lives.
create function public.giftcard_differences_of_money(p_tenant_id text)
returns table (kind text, tenant_id text, correlation_id text, reference text, amount bigint, currency text,
               since timestamptz, detail text)
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  (select d.kind, p.tenant_id, coalesce(p.correlation_id, p.named_order), p.provider_ref,
         p.worth - case when p.correlation_id is null then 0 else p.amount end, p.currency, p.created_at,
         case d.kind
           when 'money_without_order'
             then case when p.named_order is null then 'it names no order' else 'no order has this correlation id' end
           when 'paid_twice' then 'the order is paid by ' || a.provider_ref
           when 'wrong_amount' then format('the order costs %s, %s were paid, %s of it at first',
                                           public.giftcard_format_money(o.amount, o.currency),
                                           public.giftcard_format_money(p.worth, p.currency),
                                           public.giftcard_format_money(p.amount, p.currency))
           when 'paid_but_cancelled' then 'the order is cancelled'
           when 'paid_but_free' then 'the order is free of charge'
           else 'the order''s payment job does not run' end
    from public.giftcard_payments p
    left join public.giftcard_orders o
      on o.tenant_id = p.tenant_id and o.correlation_id = coalesce(p.correlation_id, p.named_order)
    left join public.giftcard_payments a
      on a.tenant_id = p.tenant_id and a.correlation_id = p.named_order and a.id <> p.id
   cross join lateral (select case
           when o.tenant_id is null then 'money_without_order'
           when a.id is not null then 'paid_twice'
           -- Captured in parts, it is not accepted either.
           when (p.worth, p.currency) is distinct from (o.amount, o.currency)
             or p.correlation_id is null and p.amount is distinct from o.amount then 'wrong_amount'
           when o.cancelled_at is not null then 'paid_but_cancelled'
           when o.free_of_charge then 'paid_but_free'
           when public.giftcard_is_at_rest(o.tenant_id, o.correlation_id) then 'paid_without_card' end) d(kind)
   where p.worth > case when p.correlation_id is null then 0 else p.amount end and d.kind is not null
     and (p_tenant_id is null or p.tenant_id = p_tenant_id)
     and not public.giftcard_is_accepted(d.kind, p.tenant_id, p.provider_ref, p.worth - case
           when p.correlation_id is null then 0 else p.amount end, p.created_at)
   order by p.created_at, p.id limit 1000)
  union all
  (select 'refund_without_payment', p.tenant_id, p.named_order, p.provider_ref, -p.worth, p.currency, p.created_at,
          'money of this payment went back, and it was never captured'
     from public.giftcard_payments p
    where p.worth < 0 and p.amount is null and p.named_order is not null
      and (p_tenant_id is null or p.tenant_id = p_tenant_id)
      and not public.giftcard_is_accepted('refund_without_payment', p.tenant_id, p.provider_ref, -p.worth, p.created_at)
    order by p.created_at, p.id limit 1000)
$$;

-- Return what there is of a card, and how much of it is spent.
create function public.giftcard_spent(c public.giftcard_cards) returns text
language sql stable security invoker set search_path = '' as $$
  select format('the card is %s; %s of %s are spent', c.state,
                public.giftcard_format_money(greatest(c.amount - c.balance, 0), c.currency),
                public.giftcard_format_money(c.amount, c.currency))
$$;

-- Return cards that are not paid for any more and not blocked, or were spent before they were; those of cancelled
-- orders; and the money of blocked cards whose customers have paid for more than they can spend, or have spent.
create function public.giftcard_differences_of_cards(p_tenant_id text)
returns table (kind text, tenant_id text, correlation_id text, reference text, amount bigint, currency text,
               since timestamptz, detail text)
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  (select d.kind, c.tenant_id, c.correlation_id, c.provider_ref, c.unpaid, c.currency, coalesce(e.since, c.created_at),
          public.giftcard_spent(c)
     from public.giftcard_cards c
    cross join lateral (
      select max(e.recorded_at) as since, coalesce(bool_or(e.kind = 'disputed' and e.amount > 0), false) as disputed
        from public.giftcard_payment_events e where e.payment_id = c.payment_id and e.kind <> 'captured') e
    cross join lateral (
      select case when e.disputed then 'disputed_after_issue' else 'refunded_after_issue' end) d(kind)
    where c.unpaid > 0 and (c.state <> 'blocked' or c.balance < c.amount)
      and (p_tenant_id is null or c.tenant_id = p_tenant_id)
      and not public.giftcard_is_accepted(d.kind, c.tenant_id, c.provider_ref, c.unpaid,
                                          coalesce(e.since, c.created_at))
    order by c.created_at, c.id limit 1000)
  union all
  (select 'card_of_cancelled_order', c.tenant_id, c.correlation_id, c.provider_ref, c.amount, c.currency,
          o.cancelled_at, public.giftcard_spent(c)
     from public.giftcard_cards c
     join public.giftcard_orders o on o.tenant_id = c.tenant_id and o.correlation_id = c.correlation_id
    where c.order_cancelled and (c.state <> 'blocked' or c.balance < c.amount)
      and (p_tenant_id is null or o.tenant_id = p_tenant_id)
      and not public.giftcard_is_accepted('card_of_cancelled_order', c.tenant_id, c.provider_ref, c.amount,
                                          o.cancelled_at)
    order by o.cancelled_at limit 1000)
  union all
  (select d.kind, c.tenant_id, c.correlation_id, p.provider_ref, d.amount, c.currency, c.created_at,
          format('its card is blocked; %s of %s are left on it, %s are not paid',
                 public.giftcard_format_money(c.balance, c.currency),
                 public.giftcard_format_money(c.amount, c.currency),
                 public.giftcard_format_money(c.unpaid, c.currency))
     from public.giftcard_cards c
     join public.giftcard_payments p on p.id = c.payment_id
     join public.giftcard_orders o on o.tenant_id = c.tenant_id and o.correlation_id = c.correlation_id
    cross join lateral (
      select case when o.cancelled_at is null then 'paid_without_card' else 'paid_but_cancelled' end,
             least(c.balance, c.amount) - c.unpaid) d(kind, amount)
    where c.state = 'blocked' and c.payment_id is not null
      and (c.unpaid = 0 and c.balance > 0 or c.unpaid < c.amount and c.balance >= c.amount)
      -- An operator's block of a card that is paid is a decision about its money, until money moves again.
      and (o.cancelled_at is not null or c.unpaid > 0 or not exists (
        select from public.giftcard_audit a
         where a.action = 'block_card' and a.subject = 'order ' || c.correlation_id and a.tenant_id = c.tenant_id
           and a.at >= (select max(e.recorded_at) from public.giftcard_payment_events e
                         where e.payment_id = c.payment_id)))
      and (p_tenant_id is null or c.tenant_id = p_tenant_id)
      and not public.giftcard_is_accepted(d.kind, c.tenant_id, p.provider_ref, d.amount, c.created_at)
    order by c.created_at, c.id limit 1000)
$$;

-- Return charges and issues that began, have no result, and are not being worked on: whether they happened is unknown.
create function public.giftcard_differences_of_effects(p_tenant_id text)
returns table (kind text, tenant_id text, correlation_id text, reference text, amount bigint, currency text,
               since timestamptz, detail text)
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select case e.name when 'charge' then 'charge_unknown' else 'issue_unknown' end, e.tenant_id, e.correlation_id,
         e.vendor_key, o.amount, o.currency, e.started_at,
         case when e.result is null then 'it was begun and has no result'
              else 'it happened by a decision, and is not recorded: requeue its job' end
    from public.giftcard_effects e
    join public.giftcard_orders o on o.tenant_id = e.tenant_id and o.correlation_id = e.correlation_id
   where e.started_at is not null and e.name in ('charge', 'issue') and (e.result is null or e.result ? 'decided_by')
     and not exists (select from public.giftcard_payments p
                      where e.result is not null and p.tenant_id = e.tenant_id and p.correlation_id = e.correlation_id
                        and (e.name = 'charge' or p.card_id is not null))
     and (p_tenant_id is null or e.tenant_id = p_tenant_id)
     and not public.giftcard_is_accepted(case e.name when 'charge' then 'charge_unknown' else 'issue_unknown' end,
                                         e.tenant_id, e.vendor_key, o.amount, e.started_at)
     and public.giftcard_is_at_rest(e.tenant_id, e.correlation_id)
     -- Recorded and not accepted: its money has a line of another kind. A refund alone is not its money.
     and not exists (select from public.giftcard_payments p
                      where p.tenant_id = e.tenant_id and p.named_order = e.correlation_id and p.correlation_id is null
                        and p.amount is not null and e.name = 'charge')
   order by e.started_at, e.vendor_key limit 1000
$$;

-- Return events of vendors about money that the books refused: they changed nothing.
create function public.giftcard_differences_of_events(p_tenant_id text)
returns table (kind text, tenant_id text, correlation_id text, reference text, amount bigint, currency text,
               since timestamptz, detail text)
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return query
  select 'event_refused', e.tenant_id, e.correlation_id, e.event_id, m.amount, left(e.facts ->> 'currency', 20),
         e.received_at, left(e.facts ->> 'why', 500)
    from public.giftcard_inbound_events e
   -- An amount that no column holds counts as 0.
   cross join lateral (select case when e.facts ->> 'movement' ~ '^[0-9]{1,18}$'
                                   then (e.facts ->> 'movement')::bigint else 0 end) m(amount)
   where e.kind = 'ignored' and e.facts ? 'movement' and (p_tenant_id is null or e.tenant_id = p_tenant_id)
     and not public.giftcard_is_accepted('event_refused', e.tenant_id, e.event_id, m.amount, e.received_at)
   order by e.received_at, e.event_id limit 1000;
end $$;
-- Reconciliation: all differences between money and cards. Status, doctor, alerts and metrics may ask at any time.

-- Return what to do about a difference.
create function public.giftcard_difference_action(p_kind text) returns text
language sql immutable security invoker set search_path = '' as $$
  select case p_kind
    when 'paid_without_card' then 'Requeue the job that failed, or refund what is left. A blocked card: unblock it.'
    when 'paid_but_cancelled' then 'Refund the payment, or requeue the order''s jobs: that reopens it.'
    when 'paid_but_free' then 'Refund the payment.'
    when 'money_without_order' then 'Find out what was paid for, then refund it or take in the order.'
    when 'paid_twice' then 'Refund this payment.'
    when 'wrong_amount' then 'Refund the payment and have the order paid anew, or refund what is too much.'
    when 'refunded_after_issue' then 'Block the card; if it was spent, collect the money or accept the loss.'
    when 'disputed_after_issue' then 'Block the card and contest the dispute; if it was spent, send the proof.'
    when 'card_of_cancelled_order' then 'Block the card, then refund the payment.'
    when 'charge_unknown' then 'Look the key up at the payment provider, then decide the effect.'
    when 'refund_without_payment' then 'Record the refund for the right payment, then accept this one.'
    when 'event_refused' then 'Compare the payment at its provider, record what is missing, then accept this.'
    when 'issue_unknown' then 'Look the key up at the card provider, then decide the effect.'
    else 'Compare the books with their providers; do not correct them by hand.' end
$$;

-- Return all differences between money and cards, the oldest first: what is at stake in minor units, since when, and
-- what to do. reference: the payment, card or vendor key. Each kind is read up to 1,000 rows. p_verify: check every sum
-- and link as well (giftcard_verify_books), which reads all orders.
create function public.giftcard_reconcile(
  p_tenant_id text default null, p_verify boolean default false, p_limit integer default 1000)
returns table (kind text, tenant_id text, correlation_id text, reference text, amount bigint, currency text,
               since timestamptz, detail text, action text)
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  with found as (
    select * from public.giftcard_differences_without_card(p_tenant_id)
    union all
    select * from public.giftcard_differences_of_money(p_tenant_id)
    union all
    select * from public.giftcard_differences_of_cards(p_tenant_id)
    union all
    select * from public.giftcard_differences_of_effects(p_tenant_id)
    union all
    select * from public.giftcard_differences_of_events(p_tenant_id)
    union all
    select * from public.giftcard_verify_books() where p_verify)
  select f.*, public.giftcard_difference_action(f.kind)
    from found f
   where p_tenant_id is null or f.tenant_id = p_tenant_id
   order by f.since, f.kind, f.tenant_id, f.correlation_id, f.reference limit least(p_limit, 1000)
$$;

-- Return {differences: the rows of giftcard_reconcile, truncated: whether there are more than p_limit, at most 999}.
create function public.giftcard_list_differences(
  p_tenant_id text default null, p_verify boolean default false, p_limit integer default 200) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 200), 1), 999);
  v_rows jsonb[] := array(
    select public.giftcard_readable_row(to_jsonb(r), 20000)
      from public.giftcard_reconcile(p_tenant_id, p_verify, v_limit + 1) r);
begin
  return jsonb_build_object('differences', to_jsonb(v_rows[:v_limit]), 'truncated', cardinality(v_rows) > v_limit);
end $$;
-- What operators decide about orders. Each decision has a row in the audit.

-- Refuse an order that is free of charge although no operator has decided so.
create function public.giftcard_require_decision() returns trigger
language plpgsql security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  if not exists (select from public.giftcard_audit
                  where action = 'free_of_charge' and subject = 'order ' || new.correlation_id
                    and tenant_id = new.tenant_id) then
    raise exception 'order % is free of charge only by giftcard_make_free_of_charge', new.correlation_id
      using errcode = '23514', constraint = 'giftcard_orders_free_of_charge_is_audited', table = 'giftcard_orders',
            schema = 'public';
  end if;
  return new;
end $$;
create trigger giftcard_orders_free_of_charge_is_audited before insert or update of free_of_charge
    on public.giftcard_orders for each row when (new.free_of_charge)
    execute function public.giftcard_require_decision();

-- Make an order free of charge: its card needs no payment. Return {correlation_id, free_of_charge}. GC404 for an
-- unknown order. GC409 for one that is cancelled, paid, or whose charge has begun.
create function public.giftcard_make_free_of_charge(
  p_tenant_id text, p_correlation_id text, p_reason text, p_by text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_problem text;
  o public.giftcard_orders;
begin
  select * into o from public.giftcard_orders
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id for update;
  if not found then
    perform public.giftcard_refuse('GC404', format(
      'no order has the correlation id %s (tenant %s)', p_correlation_id, p_tenant_id), 'correlation_id');
  end if;
  v_problem := case
    when o.cancelled_at is not null then 'is cancelled'
    when exists (select from public.giftcard_payments
                  where tenant_id = p_tenant_id and correlation_id = p_correlation_id) then 'is paid'
    when exists (select from public.giftcard_effects
                  where tenant_id = p_tenant_id and correlation_id = p_correlation_id and name = 'charge'
                    and started_at is not null) then 'is being charged' end;
  if v_problem is not null then
    perform public.giftcard_refuse('GC409', format('order %s %s', p_correlation_id, v_problem), 'correlation_id');
  elsif not o.free_of_charge then
    perform public.giftcard_record_act(
      p_by, p_tenant_id, 'free_of_charge', 'order ' || p_correlation_id,
      jsonb_build_object('reason', p_reason, 'amount', o.amount, 'currency', o.currency), p_now);
    update public.giftcard_orders set free_of_charge = true
     where tenant_id = p_tenant_id and correlation_id = p_correlation_id;
    perform public.giftcard_make_due(p_tenant_id, p_correlation_id, 'payment', p_now);
  end if;
  return jsonb_build_object('correlation_id', p_correlation_id, 'free_of_charge', true);
end $$;

-- Correct the recipient of an order: p_customer has the fields to change, of email, given_name and family_name. Jobs
-- that run after it read the new ones. Return {correlation_id, changed: the names of the fields that differ}. GC404 for
-- an unknown order, GC409 once the customer is erased, GC400 for another field.
create function public.giftcard_correct_recipient(
  p_tenant_id text, p_correlation_id text, p_customer jsonb, p_by text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_customer jsonb;
  v_changed text[];
  o public.giftcard_orders;
begin
  if jsonb_typeof(p_customer) is distinct from 'object'
     or p_customer - '{email,given_name,family_name}'::text[] <> '{}' then
    perform public.giftcard_refuse('GC400', 'only email, given_name and family_name can be corrected', 'customer');
  end if;
  select * into o from public.giftcard_orders
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id for update;
  if not found then
    perform public.giftcard_refuse('GC404', format(
      'no order has the correlation id %s (tenant %s)', p_correlation_id, p_tenant_id), 'correlation_id');
  elsif jsonb_typeof(o.details -> 'customer') is distinct from 'object' then
    perform public.giftcard_refuse(
      'GC409', format('the customer of order %s was erased', p_correlation_id), 'correlation_id');
  end if;
  v_customer := o.details -> 'customer';
  v_changed := array(select k from jsonb_object_keys(p_customer) k
                      where v_customer -> k is distinct from p_customer -> k order by k);
  if v_changed <> '{}' then
    update public.giftcard_orders
       set details = jsonb_set(details, '{customer}', v_customer || p_customer)
     where tenant_id = p_tenant_id and correlation_id = p_correlation_id;
    perform public.giftcard_record_act(
      p_by, p_tenant_id, 'correct_recipient', 'order ' || p_correlation_id,
      jsonb_build_object('changed', v_changed), p_now);
  end if;
  return jsonb_build_object('correlation_id', p_correlation_id, 'changed', to_jsonb(v_changed));
end $$;

-- Accept a difference that giftcard_reconcile returns: it is not shown again unless its amount changes. p_item: its
-- reference. Return {kind, tenant_id, item, amount}. GC404 for none.
create function public.giftcard_accept_difference(
  p_kind text, p_tenant_id text, p_item text, p_reason text, p_by text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_amount bigint := (select r.amount from public.giftcard_reconcile(p_tenant_id) r
                       where r.kind = p_kind and r.reference = p_item limit 1);
  v_accepted jsonb := jsonb_build_object('kind', p_kind, 'tenant_id', p_tenant_id, 'item', p_item, 'amount', v_amount);
begin
  if v_amount is null then
    perform public.giftcard_refuse('GC404', format('there is no difference %s of %s', p_kind, p_item), 'reference');
  end if;
  insert into public.giftcard_accepted_differences (kind, tenant_id, item, amount, by, reason, accepted_at)
  values (p_kind, p_tenant_id, p_item, v_amount, public.giftcard_actor(p_by), p_reason, v_now)
  on conflict on constraint giftcard_accepted_differences_pkey do update set
    amount = excluded.amount, by = excluded.by, reason = excluded.reason, accepted_at = excluded.accepted_at;
  perform public.giftcard_record_act(
    p_by, p_tenant_id, 'accept_difference', p_kind || ' ' || p_item,
    jsonb_build_object('amount', v_amount, 'reason', p_reason), v_now);
  return v_accepted;
end $$;

-- Enqueue the job that blocks the card of an order in any case, unless such a job waits or runs. Return
-- {correlation_id, job_id, created}. GC404 for no card.
create function public.giftcard_request_block(
  p_tenant_id text, p_correlation_id text, p_by text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_job_id bigint;
begin
  perform from public.giftcard_cards
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id for no key update;
  if not found then
    perform public.giftcard_refuse('GC404', format('order %s has no card', p_correlation_id), 'correlation_id');
  end if;
  select id into v_job_id from public.giftcard_jobs
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id and stage = 'block_card'
     and status in ('queued', 'running') and payload -> 'force' = 'true' order by id limit 1;
  if v_job_id is not null then
    return jsonb_build_object('correlation_id', p_correlation_id, 'job_id', v_job_id, 'created', false);
  end if;
  v_job_id := (public.giftcard_enqueue(jsonb_build_array(jsonb_build_object(
      'tenant_id', p_tenant_id, 'correlation_id', p_correlation_id, 'stage', 'block_card',
      'trigger_type', 'operator', 'source', 'app', 'payload', '{"force": true}'::jsonb,
      'dedup_key', 'operator:' || to_char(v_now at time zone 'UTC', 'YYYYMMDD"T"HH24MISS.US'))), p_now => p_now)
    -> 0 ->> 'id')::bigint;
  perform public.giftcard_record_act(
    p_by, p_tenant_id, 'block_card', 'order ' || p_correlation_id, jsonb_build_object('job_id', v_job_id), v_now);
  return jsonb_build_object('correlation_id', p_correlation_id, 'job_id', v_job_id, 'created', true);
end $$;

-- Reopen the order of a job that had ended and is queued again, by whatever means: its stages work on again.
create function public.giftcard_reopen_order() returns trigger
language plpgsql security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  update public.giftcard_orders set cancelled_at = null
   where tenant_id = new.tenant_id and correlation_id = new.correlation_id and cancelled_at is not null
     and not public.giftcard_is_webhook(new.stage);
  return null;
end $$;
create trigger giftcard_jobs_reopen_their_order after update of status on public.giftcard_jobs
    for each row when (old.status in ('cancelled', 'completed') and new.status = 'queued')
    execute function public.giftcard_reopen_order();
-- Send the mail of an order again.

-- Return whether a job of stage email sends a mail again: its first one has been sent by another job.
create function public.giftcard_is_resend(p_dedup_key text) returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return p_dedup_key like 'resend:%';
end $$;

-- Return the dedup key of the next mail that is sent again: resend:1, resend:2, … An effect outlives its job: a key
-- that was used once would send nothing.
create function public.giftcard_next_resend(p_tenant_id text, p_correlation_id text) returns text
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return 'resend:' || 1 + coalesce(max(substr(k.dedup_key, 8)::bigint), 0) from (
    select dedup_key from public.giftcard_jobs
     where tenant_id = p_tenant_id and correlation_id = p_correlation_id and stage = 'email'
    union all
    select dedup_key from public.giftcard_jobs_archive
     where tenant_id = p_tenant_id and correlation_id = p_correlation_id and stage = 'email'
    union all
    select dedup_key from public.giftcard_effects
     where tenant_id = p_tenant_id and correlation_id = p_correlation_id and stage = 'email') k
   where k.dedup_key ~ '^resend:[0-9]{1,9}$';
end $$;

-- Refuse (GC409) to send the mail of an order again that must not be sent, or has not been sent yet.
create function public.giftcard_check_resend(o public.giftcard_orders) returns void
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_state text := (select state from public.giftcard_cards
                    where tenant_id = o.tenant_id and correlation_id = o.correlation_id);
  v_problem text := case
    when jsonb_typeof(o.details -> 'customer') is distinct from 'object'
      then format('the customer of order %s was erased: there is no address', o.correlation_id)
    when o.cancelled_at is not null then format('order %s is cancelled: its card is not sent', o.correlation_id)
    when v_state is null then format('order %s has no card to send', o.correlation_id)
    when v_state = 'blocked' then format('the card of order %s is blocked: it is not sent', o.correlation_id)
    -- Its flow would send the first mail beside this one.
    when not public.giftcard_is_at_rest(o.tenant_id, o.correlation_id)
         and not exists (select from public.giftcard_effects
                          where tenant_id = o.tenant_id and correlation_id = o.correlation_id and stage = 'email')
         and not exists (select from public.giftcard_jobs
                          where tenant_id = o.tenant_id and correlation_id = o.correlation_id and stage = 'email')
      then format('order %s is still under way: its mail follows', o.correlation_id) end;
begin
  if v_problem is not null then
    perform public.giftcard_refuse('GC409', v_problem, 'correlation_id');
  end if;
end $$;

-- Return the job that sends the mail of an order again, and how: waiting (it is queued or runs), requeued (it has
-- failed or was cancelled, and sent nothing) or created, from p_job (as giftcard_enqueue takes it). p_changed: the
-- address is another one than that of a job that runs. The caller holds the order's jobs of stage email.
create function public.giftcard_resend_job(
  p_tenant_id text, p_correlation_id text, p_job jsonb, p_changed boolean, p_now timestamptz,
  out job_id bigint, out done text)
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  select j.id, case when j.status in ('queued', 'running') then 'waiting' else 'requeued' end into job_id, done
    from public.giftcard_jobs j
   where j.tenant_id = p_tenant_id and j.correlation_id = p_correlation_id and j.stage = 'email'
     and (j.status = 'queued' or j.status = 'running' and not p_changed or j.status in ('error', 'cancelled'))
     -- A mail that was sent under its key would not be sent by it once more.
     and not exists (select from public.giftcard_effects e
                      where e.tenant_id = j.tenant_id and e.correlation_id = j.correlation_id and e.stage = 'email'
                        and e.dedup_key = j.dedup_key and e.result is not null)
   order by array_position('{queued,running,error,cancelled}'::text[], j.status), j.id desc limit 1;
  if done = 'requeued' then
    perform public.giftcard_requeue_job(job_id, null, false, null, null, p_tenant_id, p_now);
  elsif done is null then
    done := 'created';
    job_id := (public.giftcard_enqueue(jsonb_build_array(p_job || jsonb_build_object(
        'tenant_id', p_tenant_id, 'correlation_id', p_correlation_id, 'stage', 'email',
        'dedup_key', public.giftcard_next_resend(p_tenant_id, p_correlation_id))), p_now => p_now)
      -> 0 ->> 'id')::bigint;
  end if;
end $$;

-- Send the mail of an order again, to its recipient or, from now on, to p_email. A job of it that waits or runs is
-- left to send it; one that has failed is requeued; otherwise a new one is enqueued, whose key no mail was sent with.
-- p_job: that job, as the application prepares it. Return {correlation_id, job_id, done: waiting, requeued or created,
-- scheduled_at, changed: the fields of the recipient that differ now}. GC404 for an unknown order. GC409 for one
-- without a card, with a blocked one, cancelled, of an erased customer, or still under way.
create function public.giftcard_resend_mail(
  p_tenant_id text, p_correlation_id text, p_reason text, p_email text default null, p_job jsonb default '{}',
  p_by text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_changed jsonb := '[]'::jsonb;
  v_sent record;
  o public.giftcard_orders;
begin
  perform from public.giftcard_jobs
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id and stage = 'email' order by id for update;
  select * into o from public.giftcard_orders
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id for update;
  if not found then
    perform public.giftcard_refuse('GC404', format(
      'no order has the correlation id %s (tenant %s)', p_correlation_id, p_tenant_id), 'correlation_id');
  end if;
  perform public.giftcard_check_resend(o);
  if p_email is not null then
    v_changed := public.giftcard_correct_recipient(
      p_tenant_id, p_correlation_id, jsonb_build_object('email', p_email), p_by, v_now) -> 'changed';
  end if;
  v_sent := public.giftcard_resend_job(
    p_tenant_id, p_correlation_id, p_job, v_changed <> '[]', v_now);
  if v_sent.done <> 'waiting' then
    perform public.giftcard_record_act(
      p_by, p_tenant_id, 'resend', 'order ' || p_correlation_id,
      jsonb_build_object('reason', p_reason, 'job_id', v_sent.job_id, 'done', v_sent.done), v_now);
  end if;
  return jsonb_build_object(
    'correlation_id', p_correlation_id, 'job_id', v_sent.job_id, 'done', v_sent.done, 'changed', v_changed,
    'scheduled_at', (select scheduled_at from public.giftcard_jobs where id = v_sent.job_id));
end $$;
-- The customer's page of an order: one call returns all that it shows.

-- Return what state the page of an order shows: the first of these that holds.
--   erased      the customer was erased
--   cancelled   the order is cancelled
--   blocked     the card is blocked, or is to be: its payment went back
--   spent       nothing is left on the card
--   ready       there is a card
--   refunded    the payment went back before there was a card
--   late        a job of the flow is a dead letter, none is open, or there is no card 15 minutes after the payment
--   paid        the card is being made
--   received    the payment is waited for
create function public.giftcard_page_state(
  o public.giftcard_orders, c public.giftcard_cards, p public.giftcard_payments, p_now timestamptz) returns text
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return case
    when o.details = '{}' then 'erased'
    when o.cancelled_at is not null then 'cancelled'
    when c.state = 'blocked' or c.unpaid > 0 then 'blocked'
    when c.state = 'redeemed' then 'spent'
    when c.id is not null then 'ready'
    when p.worth < o.amount then 'refunded'
    when p.created_at < p_now - interval '15 minutes'
      or exists (select from public.giftcard_jobs j
                  where j.tenant_id = o.tenant_id and j.correlation_id = o.correlation_id and j.status = 'error'
                    and not public.giftcard_is_webhook(j.stage))
      or not exists (select from public.giftcard_jobs j
                      where j.tenant_id = o.tenant_id and j.correlation_id = o.correlation_id
                        and j.status in ('queued', 'running') and not public.giftcard_is_webhook(j.stage)) then 'late'
    when p.id is not null or o.free_of_charge then 'paid'
    else 'received' end;
end $$;

-- Return what the page of an order shows: {tenant_id, correlation_id, state, locale,
-- order: {amount, currency, details}, card: {number_encrypted, number_hash, balance, personal_code}}. order and card
-- are null unless the state is ready. null: no order has this id.
create function public.giftcard_card_page(p_page_id bigint, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  o public.giftcard_orders;
  c public.giftcard_cards;
  p public.giftcard_payments;
  v_state text;
begin
  select * into o from public.giftcard_orders where page_id = p_page_id;
  if not found then
    return null;
  end if;
  select * into c from public.giftcard_cards
   where tenant_id = o.tenant_id and correlation_id = o.correlation_id;
  select * into p from public.giftcard_payments
   where tenant_id = o.tenant_id and correlation_id = o.correlation_id;
  v_state := public.giftcard_page_state(o, c, p, coalesce(p_now, clock_timestamp()));
  return jsonb_build_object(
    'tenant_id', o.tenant_id, 'correlation_id', o.correlation_id, 'state', v_state, 'locale', left(o.locale, 100),
    'order', case when v_state = 'ready' then jsonb_build_object(
      'amount', o.amount, 'currency', o.currency, 'details', public.giftcard_readable(o.details, 100000)) end,
    'card', case when v_state = 'ready' then jsonb_build_object(
      'number_encrypted', c.number_encrypted, 'number_hash', c.number_hash, 'balance', c.balance,
      'personal_code', (select u.personal_code from public.giftcard_customers u where u.id = c.customer_id)) end);
end $$;
-- Find orders by what a person knows of them. Each way reads an index, from the newest, and so many rows at most.

create index giftcard_orders_by_flow on public.giftcard_orders (correlation_id, tenant_id);
-- Addresses are cut: one that plain SQL wrote may be longer than an index entry. None once the customer is erased.
create index giftcard_orders_by_email on public.giftcard_orders
    ((left(lower(details #>> '{customer,email}'), 254)) collate "C", created_at)
    where details #>> '{customer,email}' is not null;
create index giftcard_customers_by_email on public.giftcard_customers ((left(lower(email), 254)) collate "C");
create index giftcard_customers_by_personal_code on public.giftcard_customers (personal_code)
    where personal_code is not null;
create index giftcard_payments_by_reference on public.giftcard_payments (provider_ref, id);
create index giftcard_cards_by_last4 on public.giftcard_cards (last4, id);

-- Return the orders of the customers with an address, in lower case, or a personal code, up to 1,000 by what they hold
-- themselves and 1,000 by their customer. An erased customer has neither.
create function public.giftcard_orders_of_customer(p_email text, p_code text, p_tenant_id text)
returns table (tenant_id text, correlation_id text, matched text)
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_custom_plan set jit = off as $$
begin
  return query
  (select o.tenant_id, o.correlation_id, 'email' from public.giftcard_orders o
    where left(lower(o.details #>> '{customer,email}'), 254) = p_email collate "C"
      and o.details #>> '{customer,email}' is not null and (p_tenant_id is null or o.tenant_id = p_tenant_id)
    order by o.created_at desc limit 1000)
  union all
  (select c.tenant_id, o.correlation_id, case when c.personal_code = p_code then 'personal_code' else 'email' end
     from (
       select * from public.giftcard_customers x
        where left(lower(x.email), 254) = p_email collate "C" and x.email <> 'erased-' || x.id || '@erased.invalid'
          and (p_tenant_id is null or x.tenant_id = p_tenant_id)
       union all
       select * from public.giftcard_customers x
        where x.personal_code = p_code and x.personal_code is not null
          and (p_tenant_id is null or x.tenant_id = p_tenant_id)) c
    -- For each customer by its index: a join might read all orders.
    cross join lateral (
      select * from public.giftcard_orders y
       where y.customer_id = c.id and y.tenant_id = c.tenant_id order by y.created_at desc limit 1000) o
    order by o.created_at desc limit 1000);
end $$;

-- Return the flows that fit a text, up to 1,000 of each way, each with the way: the correlation id or its beginning, an
-- address, a personal code, the last four digits of a card, or the reference of a payment.
create function public.giftcard_order_matches(p_text text, p_tenant_id text)
returns table (tenant_id text, correlation_id text, matched text)
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_custom_plan set jit = off as $$
begin
  return query
  (select o.tenant_id, o.correlation_id, 'correlation_id' from public.giftcard_orders o
    where o.correlation_id = p_text and (p_tenant_id is null or o.tenant_id = p_tenant_id) limit 1000)
  union all
  -- Ids that count go up: the highest are the newest.
  (select o.tenant_id, o.correlation_id, 'correlation_id' from public.giftcard_orders o
    where o.correlation_id > p_text and o.correlation_id < p_text || chr(1114111)
      and (p_tenant_id is null or o.tenant_id = p_tenant_id)
    order by o.correlation_id desc limit 1000)
  union all
  (select c.tenant_id, c.correlation_id, 'last4' from public.giftcard_cards c
    where c.last4 = p_text and (p_tenant_id is null or c.tenant_id = p_tenant_id) order by c.id desc limit 1000)
  union all
  (select p.tenant_id, coalesce(p.correlation_id, p.named_order), 'reference' from public.giftcard_payments p
    where p.provider_ref = p_text and (p_tenant_id is null or p.tenant_id = p_tenant_id) order by p.id desc limit 1000)
  union all
  select * from public.giftcard_orders_of_customer(
    case when strpos(p_text, '@') > 0 then left(lower(p_text), 254) end,
    case when p_text ~ '^[A-Za-z0-9]{5,14}$' then upper(p_text) end, p_tenant_id);
end $$;

-- Return how far an order has come: cancelled, failed (one of its jobs is a dead letter), delivered (the mail server
-- has accepted its mail), issued, paid or new.
create function public.giftcard_order_state(o public.giftcard_orders) returns text
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return case
    when o.cancelled_at is not null then 'cancelled'
    -- Not a condition of the query, for which it might read all dead letters.
    when 'error' = any (array(select j.status from public.giftcard_jobs j
                  where j.tenant_id = o.tenant_id and j.correlation_id = o.correlation_id
                    and not public.giftcard_is_webhook(j.stage))) then 'failed'
    when exists (select from public.giftcard_effects e
                  where e.tenant_id = o.tenant_id and e.correlation_id = o.correlation_id and e.stage = 'email'
                    and e.result is not null) then 'delivered'
    when exists (select from public.giftcard_cards c
                  where c.tenant_id = o.tenant_id and c.correlation_id = o.correlation_id) then 'issued'
    when exists (select from public.giftcard_payments p
                  where p.tenant_id = o.tenant_id and p.correlation_id = o.correlation_id) then 'paid'
    else 'new' end;
end $$;

-- Return the recipient of an order in clear: {email, given_name, family_name}; null: their customer is erased.
create function public.giftcard_order_recipient(p_details jsonb) returns jsonb
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return case when jsonb_typeof(p_details -> 'customer') = 'object' then jsonb_build_object(
    'email', left(p_details #>> '{customer,email}', 254),
    'given_name', left(p_details #>> '{customer,given_name}', 200),
    'family_name', left(p_details #>> '{customer,family_name}', 200)) end;
end $$;

-- Find orders by a text, the newest first, at most 50: {orders: [{tenant_id, correlation_id, created_at, amount,
-- currency, free_of_charge, cancelled_at, state, recipient, card: {last4, state} or null, matched: the ways}], more}.
create function public.giftcard_find_orders(
  p_text text, p_limit integer default 50, p_tenant_id text default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 50);
  v_found jsonb[];
begin
  if coalesce(p_text, '') = '' then
    perform public.giftcard_refuse('GC400', 'give what to search for', 'text');
  end if;
  v_found := array(
    select jsonb_build_object(
        'tenant_id', (n.o).tenant_id, 'correlation_id', (n.o).correlation_id, 'created_at', (n.o).created_at,
        'amount', (n.o).amount, 'currency', left((n.o).currency, 20), 'free_of_charge', (n.o).free_of_charge,
        'cancelled_at', (n.o).cancelled_at, 'state', public.giftcard_order_state(n.o),
        'recipient', public.giftcard_order_recipient((n.o).details),
        'card', (select jsonb_build_object('last4', c.last4, 'state', c.state) from public.giftcard_cards c
                  where c.tenant_id = (n.o).tenant_id and c.correlation_id = (n.o).correlation_id),
        'matched', n.matched)
      from (
        select o::public.giftcard_orders, m.matched
          from (select f.tenant_id, f.correlation_id, array_agg(distinct f.matched order by f.matched) as matched
                  from public.giftcard_order_matches(p_text, p_tenant_id) f
                 group by f.tenant_id, f.correlation_id) m
         -- By the key, one by one: a join might read all orders.
         cross join lateral (
           select * from public.giftcard_orders x
            where x.tenant_id = m.tenant_id and x.correlation_id = m.correlation_id limit 1) o
         order by o.created_at desc, o.tenant_id, o.correlation_id limit v_limit + 1) n
     order by (n.o).created_at desc, (n.o).tenant_id, (n.o).correlation_id);
  return jsonb_build_object('orders', to_jsonb(v_found[:v_limit]), 'more', cardinality(v_found) > v_limit);
end $$;
-- The story of an order: all that is known of it, from its intake to its mail, in one call. Each list is bounded.

-- Return the payments of an order and those that only name it, the newest 20, each with its newest 50 events:
-- [{provider, reference, amount, currency, worth, accepted, created_at, events: [{kind, amount, is_total, as_of,
-- recorded_at}]}].
create function public.giftcard_story_payments(p_tenant_id text, p_correlation_id text) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
        'provider', left(p.provider, 200), 'reference', left(p.provider_ref, 500), 'amount', p.amount,
        'currency', left(p.currency, 20), 'worth', p.worth, 'accepted', p.correlation_id is not null,
        'created_at', p.created_at,
        'events', (select coalesce(jsonb_agg(jsonb_build_object(
              'kind', e.kind, 'amount', e.amount, 'is_total', e.is_total, 'as_of', e.as_of,
              'recorded_at', e.recorded_at) order by e.recorded_at, e.event_id), '[]')
            from (select * from public.giftcard_payment_events x where x.payment_id = p.id
                  order by x.recorded_at desc, x.event_id limit 50) e)) order by p.created_at, p.id), '[]')
      from (
        select * from (
          (select * from public.giftcard_payments a
            where a.tenant_id = p_tenant_id and a.correlation_id = p_correlation_id)
          union all
          (select * from public.giftcard_payments b
            where b.tenant_id = p_tenant_id and b.named_order = p_correlation_id and b.correlation_id is null
            order by b.id desc limit 20)) u
         order by u.correlation_id is null, u.id desc limit 20) p);
end $$;

-- Return the newest jobs of a flow, also archived ones, as giftcard_flow_jobs does, with created_at, trigger_type,
-- locked_at (null: it does not run) and waiting_for (of the newest 20).
create function public.giftcard_story_jobs(
  p_tenant_id text, p_correlation_id text, p_limit integer, p_stages jsonb, p_missing jsonb, p_now timestamptz)
returns jsonb[]
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return array(
    select f.job || coalesce(
        (select jsonb_build_object(
             'created_at', j.created_at, 'trigger_type', left(j.trigger_type, 100),
             'locked_at', case when j.status = 'running' then j.locked_at end,
             'waiting_for', case when f.n <= 20 then public.giftcard_waiting_for(j, p_stages, p_missing, p_now) end)
           from public.giftcard_jobs j where j.id = (f.job ->> 'id')::bigint),
        (select jsonb_build_object('created_at', x.job -> 'created_at', 'trigger_type',
                                   left(x.job ->> 'trigger_type', 100), 'locked_at', null, 'waiting_for', null)
           from public.giftcard_jobs_archive a
          cross join lateral public.giftcard_archived_job_json(a) x(job)
          where a.id = (f.job ->> 'id')::bigint), '{}')
      from unnest(public.giftcard_flow_jobs(p_tenant_id, p_correlation_id, null, p_limit))
           with ordinality f(job, n)
     order by f.n);
end $$;

-- Return the runs of some jobs, the newest first: of each job the newest 20, of all 200. One row more: there are
-- more.
create function public.giftcard_story_runs(p_ids bigint[]) returns jsonb[]
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return array(
    select jsonb_build_object(
        'job_id', h.job_id, 'run_no', h.run_no, 'stage', left(h.stage, 100), 'attempt', h.attempt,
        'status', h.result, 'started_at', h.started_at, 'finished_at', h.finished_at,
        'duration_ms', public.giftcard_milliseconds(h.started_at, h.finished_at), 'error', left(h.error, 500),
        'next_run_at', h.next_run_at)
      from unnest(p_ids) i(id)
     cross join lateral (
       select * from public.giftcard_job_history r where r.job_id = i.id order by r.run_no desc limit 20) h
     order by h.finished_at desc, h.job_id desc, h.run_no desc limit 201);
end $$;

-- Return the acts of operators about some subjects of a tenant, the newest first, up to 51: [{at, by, action, subject,
-- details}].
create function public.giftcard_story_acts(p_tenant_id text, p_subjects text[]) returns jsonb[]
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return array(
    select public.giftcard_readable_row(jsonb_build_object(
        'at', a.at, 'by', a.by, 'action', a.action, 'subject', left(a.subject, 500), 'details', a.details), 20000)
      from unnest(p_subjects) s(subject)
     cross join lateral (
       select * from public.giftcard_audit x
        where x.subject = s.subject and x.tenant_id = p_tenant_id order by x.id desc limit 51) a
     order by a.id desc limit 51);
end $$;

-- Return where the books of an order do not match, as giftcard_reconcile does.
create function public.giftcard_story_differences(p_tenant_id text, p_correlation_id text) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    select coalesce(jsonb_agg(public.giftcard_readable_row(
             to_jsonb(d) || jsonb_build_object('action', public.giftcard_difference_action(d.kind)), 20000)), '[]')
      from (
        select * from (
          select * from public.giftcard_differences_without_card(p_tenant_id)
          union all
          select * from public.giftcard_differences_of_money(p_tenant_id)
          union all
          select * from public.giftcard_differences_of_cards(p_tenant_id)
          union all
          select * from public.giftcard_differences_of_effects(p_tenant_id)
          union all
          select * from public.giftcard_differences_of_events(p_tenant_id)) x
         where x.tenant_id = p_tenant_id and x.correlation_id = p_correlation_id
         order by x.since, x.kind, x.reference limit 20) d);
end $$;

-- Return the order of a story with its recipient in clear, its card (last four digits) and its effects: {order, card,
-- effects: [{stage, dedup_key, name, started_at, finished_at, message_id, note}]}.
create function public.giftcard_story_books(p_tenant_id text, p_correlation_id text) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return jsonb_build_object(
    'order', (select public.giftcard_readable_row(jsonb_build_object(
                'amount', o.amount, 'currency', o.currency, 'locale', o.locale, 'free_of_charge', o.free_of_charge,
                'cancelled_at', o.cancelled_at, 'created_at', o.created_at,
                'deliver_at', left(o.details ->> 'deliver_at', 100), 'customer_id', o.customer_id,
                'recipient', public.giftcard_order_recipient(o.details)), 20000)
                from public.giftcard_orders o
               where o.tenant_id = p_tenant_id and o.correlation_id = p_correlation_id),
    'card', (select public.giftcard_readable_row(jsonb_build_object(
               'last4', c.last4, 'amount', c.amount, 'balance', c.balance, 'currency', c.currency,
               'unpaid', c.unpaid, 'state', c.state, 'provider', c.provider, 'issued_at', c.created_at,
               'state_as_of', c.state_as_of), 20000)
               from public.giftcard_cards c
              where c.tenant_id = p_tenant_id and c.correlation_id = p_correlation_id),
    'effects', (select coalesce(jsonb_agg(jsonb_build_object(
                  'stage', left(e.stage, 100), 'dedup_key', left(e.dedup_key, 200), 'name', left(e.name, 100),
                  'started_at', e.started_at, 'finished_at', e.finished_at,
                  'message_id', left(e.result ->> 'message_id', 300), 'note', left(e.note, 200))), '[]')
                  from (select * from public.giftcard_effects x
                         where x.tenant_id = p_tenant_id and x.correlation_id = p_correlation_id
                         order by x.stage, x.dedup_key, x.name limit 100) e));
end $$;

-- Return the story of an order: {now, tenant_id, correlation_id, order, card, effects, payments, jobs, runs, acts,
-- differences, more: the names of the lists that are cut}. p_stages, p_missing: as in giftcard_waiting_for. A flow that
-- began without an order has one, too. GC404 for an unknown one.
create function public.giftcard_order_story(
  p_tenant_id text, p_correlation_id text, p_stages jsonb default null, p_missing jsonb default '{}',
  p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_books jsonb := public.giftcard_story_books(p_tenant_id, p_correlation_id);
  v_jobs jsonb[] := public.giftcard_story_jobs(p_tenant_id, p_correlation_id, 101, p_stages, p_missing, v_now);
  v_ids bigint[];
  v_runs jsonb[];
  v_acts jsonb[];
begin
  if v_jobs = '{}' and v_books -> 'order' = 'null' then
    perform public.giftcard_refuse('GC404', format(
      'no order has the correlation id %s (tenant %s)', p_correlation_id, p_tenant_id), 'correlation_id');
  end if;
  v_ids := array(select (j ->> 'id')::bigint from unnest(v_jobs[:100]) j);
  v_runs := public.giftcard_story_runs(v_ids);
  v_acts := public.giftcard_story_acts(p_tenant_id, array[
      'order ' || p_correlation_id, 'flow ' || p_correlation_id, 'customer ' || (v_books #>> '{order,customer_id}')]
    || array(select 'job ' || i from unnest(v_ids) i));
  return v_books || jsonb_build_object(
    'now', v_now, 'tenant_id', p_tenant_id, 'correlation_id', p_correlation_id,
    'payments', public.giftcard_story_payments(p_tenant_id, p_correlation_id),
    'jobs', to_jsonb(v_jobs[:100]), 'runs', to_jsonb(v_runs[:200]), 'acts', to_jsonb(v_acts[:50]),
    'differences', public.giftcard_story_differences(p_tenant_id, p_correlation_id),
    'more', array_remove(array[
      case when cardinality(v_jobs) > 100 then 'jobs' end,
      case when cardinality(v_runs) > 200 or exists (
             select from unnest(v_runs) r group by r -> 'job_id'
             having count(*) = 20 and min((r ->> 'run_no')::integer) > 1) then 'runs' end,
      case when cardinality(v_acts) > 50 then 'acts' end], null));
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
  source public.giftcard_source not null default 'sql',
  semantics public.giftcard_job_semantics not null default 'at_least_once',
  is_recurring boolean not null default true,
  max_attempts public.giftcard_max_attempts,
  ttr_seconds public.giftcard_ttr,
  retry_delays public.giftcard_delays,
  priority public.giftcard_priority not null default 0,
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
comment on column public.giftcard_schedules.source is 'As that of giftcard_jobs; its jobs have it too.';
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

-- As those of giftcard_jobs.
create trigger giftcard_schedules_payload_is_readable before insert on public.giftcard_schedules
  for each row when (octet_length(new.payload::text) >= 200 and (
    octet_length(new.payload::text) > 8000000 or new.payload @? '$.**{100}'
    or new.payload @? '$.**{0 to 100} ? (@.abs() >= 1e308)'))
  execute function public.giftcard_refuse_unreadable_payload();
create trigger giftcard_schedules_new_payload_is_readable after update of payload on public.giftcard_schedules
  for each row when (octet_length(new.payload::text) >= 200 and (
    octet_length(new.payload::text) > 8000000 or new.payload @? '$.**{100}'
    or new.payload @? '$.**{0 to 100} ? (@.abs() >= 1e308)')
    and new.payload is distinct from old.payload)
  execute function public.giftcard_refuse_unreadable_payload();
create trigger giftcard_schedules_mark_inserted_by_hand before insert on public.giftcard_schedules
  for each row when (new.source <> 'sql' and coalesce(current_setting('giftcard.writer', true), '') = '')
  execute function public.giftcard_mark_inserted_by_hand();
create trigger giftcard_schedules_mark_changed_by_hand after update of payload, source on public.giftcard_schedules
  for each row when (new.source <> 'sql' and coalesce(current_setting('giftcard.writer', true), '') = ''
    and (new.source <> old.source or new.payload is distinct from old.payload))
  execute function public.giftcard_mark_changed_by_hand();

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
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
declare
  v_id bigint;
  j record;
begin
  unfinished := '{}';
  failures := least(p_failures, 1000000);
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
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  o record := public.giftcard_schedule_outcomes(s.open_jobs, s.is_recurring, s.failures);
begin
  if not s.is_recurring and s.last_at is not null and s.next_at is null and o.unfinished = '{}' then
    return null;
  end if;
  return public.giftcard_readable_row(to_jsonb(s) - '{check_at,open_jobs}'::text[] || jsonb_build_object(
    'now', p_now, 'unfinished', cardinality(o.unfinished), 'failures', o.failures,
    'last_job', (select jsonb_build_object(
        'id', j.id, 'status', j.status, 'attempts', j.attempts, 'scheduled_at', j.scheduled_at,
        'finished_at', j.finished_at, 'last_error', left(j.last_error, 500))
      from public.giftcard_jobs j where j.id = s.last_job_id)));
end $$;

-- Return one schedule. GC404 for none.
create function public.giftcard_show_schedule(
  p_id bigint, p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_schedule jsonb := (select public.giftcard_schedule_json(s, coalesce(p_now, clock_timestamp()))
                     from public.giftcard_schedules s
                        where s.id = p_id and (p_tenant_id is null or s.tenant_id = p_tenant_id));
begin
  if v_schedule is null then
    perform public.giftcard_refuse('GC404', format('schedule %s does not exist', p_id), 'schedule_id');
  end if;
  return v_schedule;
end $$;

-- Return a page of schedules, the newest first: {schedules, older: the id to continue from, null at the end}. A page
-- ends early where its schedules are large (see giftcard_page_ends).
create function public.giftcard_list_schedules(
  p_tenant_id text default null, p_name text default null, p_paused boolean default null, p_before bigint default null,
  p_limit integer default 50, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  s public.giftcard_schedules;
  v_row jsonb;
  v_bytes integer := 0;
  v_rows jsonb[] := array[]::jsonb[];
  v_more boolean := false;
begin
  for s in select * from public.giftcard_schedules f
            where (p_before is null or f.id < p_before) and (p_tenant_id is null or f.tenant_id = p_tenant_id)
              and (p_name is null or f.name = p_name) and (p_paused is null or (f.paused_at is not null) = p_paused)
            order by f.id desc loop
    v_row := public.giftcard_schedule_json(s, coalesce(p_now, clock_timestamp()));
    continue when v_row is null;
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes);
    exit when v_more;
    v_rows := v_rows || v_row;
  end loop;
  return jsonb_build_object('schedules', to_jsonb(v_rows),
                            'older', case when v_more then v_rows[cardinality(v_rows)] -> 'id' end);
end $$;
-- Occurrences: a tick reads the schedules that are due, Python plans, and each plan is applied if its schedule is still
-- as it was read: of two ticks, two clocks or a clock that was set back, one makes the job.

-- Return a schedule with all that Python needs to plan it. now: the database's time. The payload is text: one that
-- Python cannot read stops its own schedule only.
create function public.giftcard_due_schedule(s public.giftcard_schedules, p_now timestamptz) returns json
language plpgsql stable security invoker set search_path = '' as $$
declare
  o record := public.giftcard_schedule_outcomes(s.open_jobs, s.is_recurring, s.failures);
begin
  return json_build_object(
    'id', s.id, 'version', s.version, 'now', p_now, 'tenant_id', s.tenant_id, 'schedule', s.schedule,
    'timezone', s.timezone,
    'stage', s.stage, 'payload_json', s.payload::text, 'semantics', s.semantics, 'is_recurring', s.is_recurring,
    'max_attempts', s.max_attempts,
    'ttr_seconds', s.ttr_seconds, 'retry_delays', s.retry_delays, 'priority', s.priority,
    'next_at', s.next_at, 'last_at', s.last_at,
    'created_at', s.created_at,
    'missed_policy', s.missed_policy, 'catch_up_seconds', s.catch_up_seconds, 'missed_cap', s.missed_cap,
    'overlap_policy', s.overlap_policy, 'pause_after_failures', s.pause_after_failures,
    'failures', o.failures, 'unfinished', cardinality(o.unfinished), 'busy_since', o.busy_since,
    'busy_until', o.busy_until);
end $$;

-- Return the schedules to plan now, the longest due first, as giftcard_due_schedule returns each.
create function public.giftcard_due_schedules(p_limit integer default 100, p_now timestamptz default null) returns json
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set enable_sort = off
set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_skipped bigint[] := public.giftcard_skipped('schedule', v_now);
begin
  return (
    select coalesce(json_agg(public.giftcard_due_schedule(s, v_now) order by s.check_at, s.id), '[]')
      from (select * from public.giftcard_schedules
             where check_at is not null and check_at <= v_now and id <> all (v_skipped)
             order by check_at, id limit least(p_limit, 1000)) s);
end $$;

-- Return when the next occurrence is due; null: none. What waits for the end of an earlier job is checked later. A
-- schedule that ticks pass over counts for nothing: what is due already may be one.
create function public.giftcard_next_schedule_at(p_now timestamptz default null) returns timestamptz
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set enable_sort = off
set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_at timestamptz := (
    select check_at from public.giftcard_schedules where check_at is not null and next_at is not null
     order by check_at limit 1);
  v_skipped bigint[];
begin
  if v_at <= v_now then
    v_skipped := public.giftcard_skipped('schedule', v_now);
    return (select check_at from public.giftcard_schedules
             where check_at is not null and next_at is not null and id <> all (v_skipped) order by check_at limit 1);
  end if;
  return v_at;
end $$;

-- Apply plans; giftcard_enqueue_occurrences has locked their schedules. Return the ids of the new jobs.
create function public.giftcard_apply_plans(p_plans jsonb, p_now timestamptz) returns bigint[]
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  v_jobs jsonb;
  v_owners bigint[];  -- the schedule of each job
  v_answers jsonb := '[]'::jsonb;
  v_changed bigint;
begin
  -- The payload as stored, unless a hook has changed it: JSON that went through Python may have lost digits.
  select jsonb_agg(jsonb_build_object('payload', s.payload) || j.job || jsonb_build_object('source', s.source)
                   order by p.n, j.n),
         array_agg(s.id order by p.n, j.n)
    into v_jobs, v_owners
    from jsonb_array_elements(p_plans) with ordinality p(plan, n)
    cross join lateral jsonb_array_elements(p.plan -> 'jobs') with ordinality j(job, n)
    join public.giftcard_schedules s on s.id = (p.plan ->> 'id')::bigint;
  if v_jobs is not null then
    v_answers := public.giftcard_enqueue(v_jobs, p_now => p_now)::jsonb;
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
     set version = case when s.version < 2147483647 then s.version + 1 else 1 end, failures = m.failures,
         open_jobs = m.open_jobs[greatest(1, cardinality(m.open_jobs) - 99):],
         next_at = case when not pauses then (plan ->> 'next_at')::timestamptz end,
         check_at = case when pauses then null
                        when plan ? 'check_in'
                            then p_now + make_interval(secs => (plan ->> 'check_in')::double precision)
                        else (plan ->> 'next_at')::timestamptz end,
         last_at = greatest(s.last_at, (plan ->> 'last_at')::timestamptz),
         last_job_id = coalesce(m.last_job_id, s.last_job_id),
         missed = least(s.missed, 1e15::bigint) + coalesce((plan ->> 'missed')::integer, 0),
         last_missed_at = coalesce((plan ->> 'missed_at')::timestamptz, s.last_missed_at),
         skipped = least(s.skipped, 1e15::bigint) + coalesce((plan ->> 'skipped')::integer, 0),
         last_skipped_at = coalesce((plan ->> 'skipped_at')::timestamptz, s.last_skipped_at),
         paused_at = case when pauses then p_now else s.paused_at end,
         paused_by = case when pauses then 'tick' else s.paused_by end,
         pause_reason = coalesce(plan ->> 'pause', s.pause_reason)
    from moved m
   where s.id = m.id;
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, jsonb_array_length(p_plans));
  return array(select (j ->> 'id')::bigint from jsonb_array_elements(v_answers) j where (j ->> 'created')::boolean);
end $$;

-- Pause a schedule that work fails on, with the reason. Return whether it is paused: if even that is refused, ticks
-- pass over it for ten minutes.
create function public.giftcard_put_schedule_aside(p_id bigint, p_reason text, p_now timestamptz) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_changed bigint;
begin
  update public.giftcard_schedules
     set paused_at = p_now, paused_by = 'tick', pause_reason = left(p_reason, 500), next_at = null, check_at = null,
         version = case when version < 2147483647 then version + 1 else 1 end
   where id = p_id;
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, 1);
  perform public.giftcard_record_fault('schedule', p_id::text, p_reason, p_now);
  return true;
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  perform public.giftcard_record_fault('schedule', p_id::text, p_reason, p_now, p_now + interval '10 minutes');
  return false;
end $$;

-- Pause the due schedules that cannot be read.
create function public.giftcard_pause_unreadable_schedules(p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  s public.giftcard_schedules;
begin
  for s in select * from public.giftcard_schedules where check_at is not null and check_at <= p_now
            order by check_at, id limit 1000 for update skip locked loop
    begin
      perform public.giftcard_due_schedule(s, p_now);
    exception when others then
      if public.giftcard_is_unavailable(sqlstate) then
        raise;
      end if;
      perform public.giftcard_put_schedule_aside(
        s.id, 'it cannot be read: ' || public.giftcard_error_text(sqlstate, sqlerrm), p_now);
    end;
  end loop;
end $$;

-- Apply one plan, or delete its schedule. One that cannot be applied pauses its schedule. Return the ids of the new
-- jobs; the reason of the pause; whether the schedule has moved on.
create function public.giftcard_apply_plan(
  p_plan jsonb, p_now timestamptz, out jobs bigint[], out reason text, out moved boolean)
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_changed bigint;
begin
  moved := true;
  if p_plan ? 'delete' then
    delete from public.giftcard_schedules where id = (p_plan ->> 'id')::bigint;
    get diagnostics v_changed = row_count;
    perform public.giftcard_check_changed(v_changed, 1);
  else
    jobs := public.giftcard_apply_plans(jsonb_build_array(p_plan), p_now);
  end if;
exception when lock_not_available then
  moved := false;  -- someone else holds a job of its own: later
when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  reason := 'its job cannot be stored: ' || public.giftcard_error_text(sqlstate, sqlerrm);
  moved := public.giftcard_put_schedule_aside((p_plan ->> 'id')::bigint, reason, p_now);
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
set lock_timeout = '2s'
set search_path = '' set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_ids bigint[] := array(
    select s.id from jsonb_array_elements(p_planned) p
      join public.giftcard_schedules s on s.id = (p ->> 'id')::bigint and s.version = (p ->> 'version')::integer
     order by s.id for update of s skip locked);
  v_plans jsonb := (
    select coalesce(jsonb_agg(p), '[]') from jsonb_array_elements(p_planned) p
      where (p ->> 'id')::bigint = any (v_ids));
  v_over bigint[] := array(select (p ->> 'id')::bigint from jsonb_array_elements(v_plans) p where p ? 'delete');
  v_paused jsonb := (
    select coalesce(jsonb_agg(jsonb_build_object('id', p -> 'id', 'reason', p -> 'pause')), '[]')
      from jsonb_array_elements(v_plans) p where p ? 'pause');
  v_jobs bigint[] := '{}'::bigint[];
  v_left integer := jsonb_array_length(p_planned) - cardinality(v_ids);
  v_changed bigint;
  v_plan jsonb;
  a record;
begin
  set constraints all immediate;  -- an error at the commit would be no schedule's
  begin
    delete from public.giftcard_schedules where id = any (v_over);
    get diagnostics v_changed = row_count;
    perform public.giftcard_check_changed(v_changed, cardinality(v_over));
    v_jobs := public.giftcard_apply_plans(
      (select coalesce(jsonb_agg(p), '[]') from jsonb_array_elements(v_plans) p where not p ? 'delete'), v_now);
  exception when others then
    if public.giftcard_is_unavailable(sqlstate) and sqlstate <> '55P03' then
      raise;
    end if;
    for v_plan in select value from jsonb_array_elements(v_plans) loop
      a := public.giftcard_apply_plan(v_plan, v_now);
      v_jobs := v_jobs || a.jobs;
      v_left := v_left + (not a.moved)::integer;
      if a.reason is not null then
        v_paused := v_paused || jsonb_build_object('id', v_plan -> 'id', 'reason', a.reason);
      end if;
    end loop;
  end;
  return jsonb_build_object('jobs', to_jsonb(v_jobs), 'paused', v_paused, 'deleted', cardinality(v_over),
                            'left', v_left);
end $$;
-- Manage schedules: the operators' actions.

-- Record an act on a schedule.
create function public.giftcard_record_schedule(
  s public.giftcard_schedules, p_by text, p_action text, p_details jsonb, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  perform public.giftcard_record_act(
    p_by, s.tenant_id, p_action, 'schedule ' || s.id, jsonb_build_object('name', s.name) || p_details, p_now);
end $$;

-- Record the update of a schedule, with the names of the fields that it changed. None changed: it is no act.
create function public.giftcard_record_schedule_update(
  p_old jsonb, s public.giftcard_schedules, p_by text, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_changed jsonb := public.giftcard_changed_fields(p_old, to_jsonb(s))
                     - '{version,updated_at,next_at,check_at}'::text[];
begin
  if v_changed <> '[]' then
    perform public.giftcard_record_schedule(
      s, p_by, 'update_schedule', jsonb_build_object('changed', v_changed), p_now);
  end if;
end $$;

-- Create a schedule, or update one (p_id) that is still at p_version. p_schedule holds all columns that a caller may
-- set; without a payload an update keeps the stored one. p_next_at is its next occurrence (null: none). GC409 for a
-- name that another has, and for another version.
create function public.giftcard_save_schedule(
  p_schedule jsonb, p_next_at timestamptz, p_id bigint default null, p_version integer default null,
  p_by text default null, p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  n public.giftcard_schedules := jsonb_populate_record(null::public.giftcard_schedules, p_schedule);
  s public.giftcard_schedules;
  v_old jsonb;
begin
  if n.payload @? '$.**{100}' then
    perform public.giftcard_refuse('GC400', 'the payload is nested too deeply: 100 levels are allowed', 'payload');
  end if;
  perform set_config('giftcard.writer', 'schedule', true);
  if p_id is null then
    insert into public.giftcard_schedules
      (tenant_id, name, schedule, timezone, stage, payload, source, semantics, is_recurring, max_attempts, ttr_seconds,
       retry_delays, priority, missed_policy,
       catch_up_seconds, missed_cap, overlap_policy, pause_after_failures, next_at, check_at, created_at, updated_at)
    values (n.tenant_id, n.name, n.schedule, n.timezone, n.stage, n.payload, 'app', n.semantics, n.is_recurring,
            n.max_attempts, n.ttr_seconds,
            n.retry_delays, coalesce(n.priority, 0), n.missed_policy, n.catch_up_seconds, n.missed_cap,
            n.overlap_policy, n.pause_after_failures, p_next_at, p_next_at,
            v_now, v_now)
    returning * into s;
    perform public.giftcard_record_schedule(s, p_by, 'create_schedule', '{}', v_now);
  else
    select to_jsonb(x) into v_old from public.giftcard_schedules x
     where id = p_id and version = p_version and (p_tenant_id is null or tenant_id = p_tenant_id) for update;
    if not found then
      perform public.giftcard_show_schedule(p_id, p_tenant_id);  -- GC404 for one that is gone
      perform public.giftcard_refuse(
        'GC409', format('schedule %s has changed meanwhile: read it and try again', p_id), 'schedule_id');
    end if;
    update public.giftcard_schedules
       set name = n.name, schedule = n.schedule, timezone = n.timezone, stage = n.stage,
           payload = coalesce(n.payload, payload), source = case when n.payload is null then source else 'app' end,
           semantics = n.semantics,
           is_recurring = n.is_recurring, max_attempts = n.max_attempts, ttr_seconds = n.ttr_seconds,
           retry_delays = n.retry_delays, priority = coalesce(n.priority, 0),
           missed_policy = n.missed_policy, catch_up_seconds = n.catch_up_seconds, missed_cap = n.missed_cap,
           overlap_policy = n.overlap_policy,
           pause_after_failures = n.pause_after_failures, next_at = p_next_at, check_at = coalesce(p_next_at, check_at),
           version = version + 1,
           updated_at = v_now
     where id = p_id returning * into s;
    perform public.giftcard_record_schedule_update(v_old, s, p_by, v_now);
  end if;
  perform set_config('giftcard.writer', '', true);
  return public.giftcard_schedule_json(s, v_now);
exception when unique_violation then
  raise exception 'tenant % has another schedule of the name %', n.tenant_id,
  n.name using errcode = 'GC409', detail = 'name';
end $$;

-- Delete a schedule. Its jobs go on. GC404 for none.
create function public.giftcard_delete_schedule(
  p_id bigint, p_by text default null, p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  s public.giftcard_schedules;
begin
  delete from public.giftcard_schedules
   where id = p_id and (p_tenant_id is null or tenant_id = p_tenant_id) returning * into s;
  if not found then
    perform public.giftcard_refuse('GC404', format('schedule %s does not exist', p_id), 'schedule_id');
  end if;
  perform public.giftcard_record_schedule(s, p_by, 'delete_schedule', '{}', p_now);
  return jsonb_build_object('id', p_id, 'deleted', true);
end $$;

-- Pause a schedule: no occurrences until it is resumed. Its jobs go on. p_paused_by: the name that is shown; null:
-- p_by. Paused once more with this name and reason, it stays as it is.
create function public.giftcard_pause_schedule(
  p_id bigint, p_paused_by text default null, p_reason text default null, p_by text default null,
  p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_name text := coalesce(nullif(p_paused_by, ''), public.giftcard_actor(p_by));
  s public.giftcard_schedules;
begin
  update public.giftcard_schedules
     set paused_at = coalesce(paused_at, v_now), paused_by = v_name, pause_reason = p_reason, next_at = null,
         version = version + 1,
         -- a schedule that runs once still waits for the end of its one job
         check_at = case when not is_recurring and last_at is not null then check_at end
   where id = p_id and (p_tenant_id is null or tenant_id = p_tenant_id)
     and (paused_at is null or (paused_by, pause_reason) is distinct from (v_name, p_reason))
  returning * into s;
  if found then
    perform public.giftcard_record_schedule(s, p_by, 'pause_schedule', jsonb_build_object(
      'paused_by', nullif(v_name, public.giftcard_actor(p_by)), 'reason', p_reason), v_now);
  end if;
  return public.giftcard_show_schedule(p_id, p_tenant_id, v_now);
end $$;

-- Resume a schedule from p_next_at on: occurrences of the pause are not made up for. GC409 for one that is not paused
-- or not at p_version.
create function public.giftcard_resume_schedule(
  p_id bigint, p_version integer, p_next_at timestamptz, p_by text default null, p_tenant_id text default null,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  s public.giftcard_schedules;
begin
  update public.giftcard_schedules
     set paused_at = null, paused_by = null, pause_reason = null, failures = 0,
         open_jobs = (public.giftcard_schedule_outcomes(open_jobs, is_recurring, failures)).unfinished,
         next_at = p_next_at, check_at = coalesce(p_next_at, check_at), version = version + 1
   where id = p_id and version = p_version and paused_at is not null
     and (p_tenant_id is null or tenant_id = p_tenant_id)
  returning * into s;
  if not found then
    perform public.giftcard_show_schedule(p_id, p_tenant_id);  -- GC404 for one that is gone
    perform public.giftcard_refuse(
      'GC409', format('schedule %s is not paused, or has changed meanwhile', p_id), 'schedule_id');
  end if;
  perform public.giftcard_record_schedule(s, p_by, 'resume_schedule', '{}', p_now);
  return public.giftcard_show_schedule(p_id, p_tenant_id, p_now);
end $$;

-- Enqueue occurrences of a schedule on request: p_plan is one of those that giftcard_enqueue_occurrences takes. Return
-- what that returns. GC404 for no schedule.
create function public.giftcard_run_schedule(
  p_plan jsonb, p_by text default null, p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_id bigint := (p_plan ->> 'id')::bigint;
  v_done jsonb;
  s public.giftcard_schedules;
begin
  select * into s from public.giftcard_schedules
   where id = v_id and (p_tenant_id is null or tenant_id = p_tenant_id);
  if not found then
    perform public.giftcard_refuse('GC404', format('schedule %s does not exist', v_id), 'schedule_id');
  end if;
  v_done := public.giftcard_enqueue_occurrences(jsonb_build_array(p_plan), p_now);
  if v_done -> 'jobs' <> '[]' then
    perform public.giftcard_record_schedule(
      s, p_by, 'run_schedule', jsonb_build_object('job_id', v_done -> 'jobs' -> 0), p_now);
  end if;
  return v_done;
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
               percentile_disc(array[0.5, 0.95, 1]) within group (
                 order by public.giftcard_milliseconds(h.scheduled_at, h.started_at)) as ms
          from (select * from public.giftcard_job_history
                where finished_at > v_now - make_interval(secs => p_window_seconds)
                 order by finished_at desc limit 10000) h
         where h.result <> 'RELEASED' and isfinite(h.scheduled_at) and isfinite(h.started_at)
           and h.started_at >= h.scheduled_at
         group by h.stage) d);
end $$;
-- The jobs of a schedule, and all their runs.

-- Return the jobs of a schedule, the newest occurrence first, with p_archived also those in the archive (job: null):
-- those at or before a correlation id and an id (null: all), at most p_limit.
create function public.giftcard_schedule_jobs(
  p_id bigint, p_tenant_id text, p_until text, p_until_id bigint, p_archived boolean, p_limit integer)
returns table (correlation_id text, id bigint, job jsonb)
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select t.correlation_id, t.id, t.job from (
    (select j.correlation_id, j.id, jsonb_build_object(
         'id', j.id, 'status', j.status, 'attempts', j.attempts, 'scheduled_at', j.scheduled_at,
         'created_at', j.created_at, 'finished_at', j.finished_at, 'last_error', left(j.last_error, 500)) as job
       from public.giftcard_jobs j
      where j.tenant_id = p_tenant_id and j.correlation_id >= 'schedule:' || p_id || ':'
        and j.correlation_id < 'schedule:' || p_id || ';' and starts_with(j.trigger_type, 'schedule')
        and (p_until is null or (j.correlation_id, j.id) <= (p_until, p_until_id))
      order by j.correlation_id desc, j.id desc limit p_limit)
    union all
    (select a.correlation_id, a.id, null
       from public.giftcard_jobs_archive a
      where p_archived and a.tenant_id = p_tenant_id and a.correlation_id >= 'schedule:' || p_id || ':'
        and a.correlation_id < 'schedule:' || p_id || ';' and starts_with(a.job ->> 'trigger_type', 'schedule')
        and (p_until is null or (a.correlation_id, a.id) <= (p_until, p_until_id))
      order by a.correlation_id desc, a.id desc limit p_limit)) t
   order by t.correlation_id desc, t.id desc limit p_limit
$$;

-- Return the parts of a cursor of a schedule's lists: {time of the occurrence, job id, run_no}; null without a cursor.
-- GC400 for what is none.
create function public.giftcard_schedule_cursor(p_older text) returns text[]
language plpgsql immutable security invoker set search_path = '' as $$
declare
  v_cursor text[] := regexp_match(p_older, '^(.*)/([0-9]{1,18})/([0-9]{1,9})$');
begin
  if p_older is not null and v_cursor is null then
    perform public.giftcard_refuse('GC400', 'older must be a cursor that an earlier page gave', 'older');
  end if;
  return v_cursor;
end $$;

-- Return a page of the jobs of a schedule, the newest occurrence first: {occurrences: [{id, time (of the occurrence),
-- status, …}], older: the cursor to continue from, null at the end}. Archived ones are left out.
create function public.giftcard_occurrences(
  p_id bigint, p_limit integer default 10, p_older text default null, p_tenant_id text default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 10), 1), 1000);
  v_tenant text := public.giftcard_show_schedule(p_id, p_tenant_id) ->> 'tenant_id';
  v_prefix text := 'schedule:' || p_id || ':';
  v_cursor text[] := public.giftcard_schedule_cursor(p_older);
  v_bytes integer := 0;
  v_rows jsonb[] := array[]::jsonb[];
  v_row jsonb;
  v_more boolean := false;
  j record;
begin
  for j in select * from public.giftcard_schedule_jobs(
                           p_id, v_tenant, v_prefix || v_cursor[1], v_cursor[2]::bigint - 1, false, v_limit + 1)
            order by correlation_id desc, id desc limit v_limit + 1 loop
    v_row := j.job || jsonb_build_object('time', substr(j.correlation_id, length(v_prefix) + 1));
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes);
    exit when v_more;
    v_rows := v_rows || v_row;
  end loop;
  v_row := v_rows[cardinality(v_rows)];
  return jsonb_build_object('occurrences', to_jsonb(v_rows),
                            'older', case when v_more then format('%s/%s/0', v_row ->> 'time', v_row ->> 'id') end);
end $$;

-- Return a page of all runs of all jobs of a schedule, also of archived ones: {runs: as giftcard_run_json, with the
-- time of the occurrence; older: the cursor to continue from, null at the end}. The newest occurrence comes first, of
-- each the newest run. A page passes over 1,000 jobs at most, and may be short if they have no runs.
create function public.giftcard_schedule_history(
  p_id bigint, p_limit integer default 10, p_older text default null, p_tenant_id text default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 10), 1), 1000);
  v_tenant text := public.giftcard_show_schedule(p_id, p_tenant_id) ->> 'tenant_id';
  v_prefix text := 'schedule:' || p_id || ':';
  v_cursor text[] := public.giftcard_schedule_cursor(p_older);
  v_bytes integer := 0;
  v_rows jsonb[] := array[]::jsonb[];
  v_row jsonb;
  v_time text;
  v_before integer;
  v_older text;
  v_seen integer := 0;
  j record;
begin
  for j in select * from public.giftcard_schedule_jobs(
                           p_id, v_tenant, v_prefix || v_cursor[1], v_cursor[2]::bigint, true, 1000)
            order by correlation_id desc, id desc limit 1000 loop
    v_seen := v_seen + 1;
    v_time := substr(j.correlation_id, length(v_prefix) + 1);
    v_before := case when v_seen = 1 and j.id = v_cursor[2]::bigint then v_cursor[3]::integer end;
    for v_row in select public.giftcard_run_json(h) || jsonb_build_object('time', v_time)
                   from public.giftcard_job_history h
                  where h.job_id = j.id and (v_before is null or h.run_no < v_before)
                  order by h.run_no desc limit v_limit + 1 loop
      v_bytes := v_bytes + octet_length(v_row::text);
      if public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes) then
        return jsonb_build_object('runs', to_jsonb(v_rows), 'older', v_older);
      end if;
      v_rows := v_rows || v_row;
      v_older := format('%s/%s/%s', v_time, j.id, v_row ->> 'run_no');
    end loop;
  end loop;
  return jsonb_build_object('runs', to_jsonb(v_rows),
                            'older', case when v_seen = 1000 then format('%s/%s/0', v_time, j.id) end);
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
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
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
         where correlation_id is not null and tenant_id = p_tenant_id and created_at >= p_from and created_at < p_to
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
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
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

-- Sum the differences between money and cards that are from before p_to, by kind and currency: see giftcard_reconcile.
create function public.giftcard_report_differences(p_tenant_id text, p_to timestamptz) returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select coalesce(jsonb_agg(to_jsonb(d) order by d.kind, d.currency), '[]') from (
    select r.kind, r.currency, count(*) as items, sum(r.amount) as amount
      from public.giftcard_reconcile(p_tenant_id) r where r.since < p_to group by r.kind, r.currency) d
$$;

-- Make the report of a tenant's day and store it; made again it replaces the former one. p_day null: yesterday, by the
-- database's clock. A day that is not over gives what there is so far, with complete: false. p_by: the operator whose
-- act it is; null: a job makes it, which the audit leaves out.
create function public.giftcard_make_report(
  p_tenant_id text, p_day date default null, p_by text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_today date := (v_now at time zone 'UTC')::date;
  v_day date := coalesce(p_day, v_today - 1);
  v_from timestamptz;
  v_to timestamptz;
  v_money jsonb;
  v_differences jsonb;
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
  v_differences := public.giftcard_report_differences(p_tenant_id, v_to);
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
        select jsonb_build_object('differences', coalesce(sum((d ->> 'items')::bigint), 0))
          from jsonb_array_elements(v_differences) d),
    'currencies', v_money, 'failures', f.rows, 'differences', v_differences, 'last_days', v_days);
  insert into public.giftcard_reports (tenant_id, day, made_at, report) values (p_tenant_id, v_day, v_now, v_report)
  on conflict on constraint giftcard_reports_pkey do update set made_at = excluded.made_at, report = excluded.report;
  if p_by is not null then
    perform public.giftcard_record_act(p_by, p_tenant_id, 'make_report', 'report ' || v_day, '{}', v_now);
  end if;
  return v_report;
end $$;

-- Return tenants with an order, a payment, a card or a failure on a day, the first p_limit by name, only those after
-- p_after: an array.
create function public.giftcard_report_tenants(
  p_day date, p_limit integer default 1000, p_after text default null) returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  with recursive span as (
    select p_day::timestamp at time zone 'UTC' as since, (p_day + 1)::timestamp at time zone 'UTC' as until), known as (
    -- From one name to the next, whatever the number of orders, until there are enough.
    select coalesce(p_after, '') collate "C" as tenant_id
    union all
    select least((select min(tenant_id) from public.giftcard_orders where tenant_id > k.tenant_id),
                 (select min(tenant_id) from public.giftcard_payments where tenant_id > k.tenant_id),
                 (select min(tenant_id) from public.giftcard_cards where tenant_id > k.tenant_id))
      from known k where k.tenant_id is not null)
  select coalesce(jsonb_agg(t.tenant_id order by t.tenant_id), '[]') from (
    (select k.tenant_id from known k cross join span s
      where k.tenant_id > coalesce(p_after, '')
        and (exists (select from public.giftcard_orders o
                      where o.tenant_id = k.tenant_id and o.created_at >= s.since and o.created_at < s.until)
             or exists (select from public.giftcard_payments p
                         where p.tenant_id = k.tenant_id and p.created_at >= s.since and p.created_at < s.until)
             or exists (select from public.giftcard_cards c
                         where c.tenant_id = k.tenant_id and c.created_at >= s.since and c.created_at < s.until))
      limit least(p_limit, 1000))
    union
    select j.tenant_id from span s
      join public.giftcard_job_history h on h.result in ('FAILED', 'INTERRUPTED') and h.finished_at >= s.since
          and h.finished_at < s.until
      join public.giftcard_jobs j on j.id = h.job_id and j.tenant_id > coalesce(p_after, '')
    union
    select j.tenant_id from span s
      join public.giftcard_jobs j on j.status = 'error' and j.run_no = 0 and j.finished_at >= s.since
          and j.finished_at < s.until and j.tenant_id > coalesce(p_after, '')
     order by 1 limit least(p_limit, 1000)) t
$$;
-- Show reports: one, and a page of them.

-- Return a stored report without its details: {tenant_id, day, made_at, complete, totals}. Figures that are no whole
-- numbers are left out.
create function public.giftcard_report_summary(r public.giftcard_reports) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return public.giftcard_readable_row(jsonb_build_object(
    'tenant_id', r.tenant_id, 'day', r.day, 'made_at', r.made_at,
    'complete', coalesce(r.report -> 'complete' = 'true', false),
    'totals', (select coalesce(jsonb_object_agg(t.key, t.value), '{}')
                 from jsonb_each(case when jsonb_typeof(r.report -> 'totals') = 'object' then r.report -> 'totals'
                                      else '{}' end) t
                where t.key in ('orders', 'payments', 'cards', 'failures', 'retries', 'dead_letters',
                                'differences')
                  and t.value::text ~ '^-?[0-9]{1,18}$')));
end $$;

-- Return the first entries of a list of a report, as far as they have these fields: texts and whole numbers. They are
-- more and longer than giftcard_make_report writes, and bounded.
create function public.giftcard_report_list(p_list jsonb, p_texts text[], p_numbers text[]) returns jsonb
language sql immutable security invoker set search_path = '' as $$
  select coalesce(jsonb_agg(e.entry order by e.n), '[]')
    from jsonb_array_elements(case when jsonb_typeof(p_list) = 'array' then p_list else '[]' end)
           with ordinality e(entry, n)
   where e.n <= 400 and octet_length(e.entry::text) <= 2000
     and not exists (select from unnest(p_texts) f(name)
                      where jsonb_typeof(e.entry -> f.name) is distinct from 'string')
     and not exists (select from unnest(p_numbers) f(name)
                      where coalesce((e.entry -> f.name)::text, '') !~ '^-?[0-9]{1,18}$')
$$;

-- Return the report of a tenant's day, as it was last made. What is not as giftcard_make_report makes it is left out.
-- GC404 for none.
create function public.giftcard_report(p_tenant_id text, p_day date) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  r public.giftcard_reports;
begin
  select * into r from public.giftcard_reports where tenant_id = p_tenant_id and day = p_day;
  if not found then
    perform public.giftcard_refuse(
      'GC404', format('tenant %s has no report of %s: make it first', p_tenant_id, p_day), 'day');
  end if;
  return public.giftcard_report_summary(r) || jsonb_build_object(
    'currencies', public.giftcard_report_list(r.report -> 'currencies', '{currency}', array[
      'orders', 'orders_amount', 'payments', 'payments_amount', 'cards', 'cards_amount']),
    'failures', public.giftcard_report_list(r.report -> 'failures', '{stage,reason}',
                                            '{failures,retries,dead_letters}'),
    'differences', public.giftcard_report_list(r.report -> 'differences', '{kind,currency}', '{items,amount}'),
    'last_days', public.giftcard_report_list(r.report -> 'last_days', '{day}', '{cards}'));
end $$;

-- Return a page of reports, the newest day first: {reports: [{tenant_id, day, made_at, complete, totals}], older}: the
-- cursor to continue from, null at the end.
create function public.giftcard_list_reports(
  p_tenant_id text default null, p_older text default null, p_limit integer default 50) returns jsonb
language plpgsql stable security invoker
-- Planned for the values of each call: an absent condition folds away.
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  v_cursor text[] := regexp_match(p_older, '^([0-9]{4,7}-[0-9]{2}-[0-9]{2}(?: BC)?|-?infinity)/(.+)$');
  r public.giftcard_reports;
  v_row jsonb;
  v_bytes integer := 0;
  v_rows jsonb[] := array[]::jsonb[];
  v_more boolean := false;
begin
  if p_older is not null and v_cursor is null then
    perform public.giftcard_refuse('GC400', 'older must be a cursor that an earlier page gave', 'older');
  end if;
  -- One more than the page holds: its presence means that there are more.
  for r in select * from public.giftcard_reports
            where (p_tenant_id is null or tenant_id = p_tenant_id)
              and (p_older is null or (day, tenant_id) < (v_cursor[1]::date, v_cursor[2]))
            order by day desc, tenant_id desc limit v_limit + 1 loop
    v_row := public.giftcard_report_summary(r);
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes);
    exit when v_more;
    v_rows := v_rows || v_row;
  end loop;
  v_row := v_rows[cardinality(v_rows)];
  return jsonb_build_object('reports', to_jsonb(v_rows),
                            'older', case when v_more then (v_row ->> 'day') || '/' || (v_row ->> 'tenant_id') end);
end $$;
-- What does not move, and why. Each function returns rows of giftcard_stuck_thing, at most 21 of each kind.

create type public.giftcard_stuck_thing as (
  kind text,
  subject text,          -- what it is, like "job 7" or "12 jobs of email"
  stage text,
  count bigint,
  capped boolean,        -- there are more than were counted
  since timestamptz,
  reason text,           -- a stable name, as that of giftcard_waiting_for where it waits for that
  why text,
  job_id bigint,         -- the job, or an example
  tenant_id text,
  name text              -- the id of what is no job: order, schedule, faulty row, circuit
);

-- Return running jobs whose lease has ended; and queues whose first job has been due for p_due_for, with the reason why
-- that one does not run: what holds for it holds for those behind it. p_stages, p_missing: as in giftcard_waiting_for.
create function public.giftcard_stuck_queues(
  p_due_for interval, p_stages jsonb, p_missing jsonb, p_now timestamptz)
returns setof public.giftcard_stuck_thing
language sql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  (select 'killed', 'job ' || k.id, k.stage, 1::bigint, false,
          case when isfinite(k.lease_expires_at) then k.lease_expires_at end,
          case when w.found ->> 'by' is not null then 'all_paused'
               when w.found ->> 'until' is not null then 'passed_over' else 'killed' end,
          w.found ->> 'text', k.id, k.tenant_id, null::text
     from (select j.* from public.giftcard_jobs j
            where j.status = 'running' and coalesce(j.lease_expires_at, '-infinity'::timestamptz) <= p_now
            order by coalesce(j.lease_expires_at, '-infinity'::timestamptz), j.id limit 21) k
    cross join lateral (select public.giftcard_waiting_for_take_over(k.*::public.giftcard_jobs, p_now) as found) w)
  union all
  (select 'due', 'queue ' || h.circuit, h.stage, d.n, d.n = 1000, h.head_at,
          w.found ->> 'reason', w.found ->> 'text', f.id, f.tenant_id, h.circuit
     from (select * from public.giftcard_queue_heads(p_stages, p_now) q
            where q.head_at <= p_now - p_due_for order by q.head_at, q.circuit limit 21) h
    cross join lateral (
      select count(*) as n from (
        select from public.giftcard_lanes(h.circuit) l(lane) cross join lateral (
          select from public.giftcard_jobs j
           where j.status = 'queued' and j.circuit = h.circuit and (-j.priority) = l.lane
             and j.scheduled_at <= p_now - p_due_for limit 1000) a
         limit 1000) c) d
    cross join lateral (
      select o.* from public.giftcard_lanes(h.circuit) l(lane) cross join lateral (
        select j.* from public.giftcard_jobs j
         where j.status = 'queued' and j.circuit = h.circuit and (-j.priority) = l.lane
         order by j.scheduled_at, j.id limit 1) o
       order by o.scheduled_at, o.id limit 1) f
    cross join lateral (
      select public.giftcard_waiting_for(f.*::public.giftcard_jobs, p_stages, p_missing, p_now) as found) w)
$$;

-- Return jobs that have snoozed for p_snoozed_for, among the next 200 of each queue: since the first of their runs that
-- is kept.
create function public.giftcard_stuck_snoozes(p_snoozed_for interval, p_now timestamptz)
returns setof public.giftcard_stuck_thing
language sql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  select 'snoozed', 'job ' || s.id, s.stage, 1::bigint, false, r.started_at, 'snoozed',
         coalesce(left(s.last_error, 500), 'its handler snoozes'), s.id, s.tenant_id, null::text
    from (select * from public.giftcard_queue_heads('{}', p_now) limit 200) h
   cross join lateral (
     select o.* from public.giftcard_lanes(h.circuit) l(lane) cross join lateral (
       select j.* from public.giftcard_jobs j
        where j.status = 'queued' and j.circuit = h.circuit and (-j.priority) = l.lane and j.scheduled_at > p_now
        order by j.scheduled_at, j.id limit 200) o
      order by o.scheduled_at, o.id limit 200) s
   cross join lateral (
     select f.started_at from public.giftcard_job_history f where f.job_id = s.id order by f.run_no limit 1) r
   where s.run_no > 0 and r.started_at <= p_now - p_snoozed_for
     and 'SNOOZED' = (select l.result from public.giftcard_job_history l
                       where l.job_id = s.id order by l.run_no desc limit 1)
   order by r.started_at, s.id limit 21
$$;

-- Return the dead letters that do not revive, by stage, among the oldest 1,000 of each; and rows that work fails on.
create function public.giftcard_stuck_rows(p_now timestamptz) returns setof public.giftcard_stuck_thing
language sql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  with recursive stages as (
    (select j.stage from public.giftcard_jobs j where j.status = 'error' order by j.stage limit 1)
    union all
    select n.stage from stages s cross join lateral (
      select j.stage from public.giftcard_jobs j where j.status = 'error' and j.stage > s.stage
       order by j.stage limit 1) n)
  (select 'dead', 'dead letters of ' || d.stage, d.stage, count(*), bool_or(d.seen = 1000), min(d.finished_at), 'dead',
          'they do not revive: they wait for a person to requeue or cancel them', max(d.id), null::text, null::text
     from (select * from stages limit 200) s cross join lateral (
       select f.*, count(*) over () as seen from (
         select j.* from public.giftcard_jobs j where j.status = 'error' and j.stage = s.stage
          order by j.finished_at, j.id limit 1000) f) d
    where d.revive_at is null group by d.stage order by min(d.finished_at), d.stage limit 21)
  union all
  (select 'faulty', f.kind || ' ' || left(f.row_id, 100), null, 1::bigint, false, f.first_at, 'faulty',
          f.error || case when f.skip_until > p_now
                          then '; ticks pass over it until ' || public.giftcard_time_text(f.skip_until) else '' end,
          case when f.kind = 'job' and f.row_id ~ '^[0-9]{1,18}$' then f.row_id::bigint end, null, f.row_id
     from public.giftcard_faulty_rows f
    where f.last_at > p_now - interval '24 hours' and public.giftcard_is_faulty(f, p_now)
    order by f.first_at, f.kind, f.row_id limit 21)
$$;

-- Return orders without a card, taken in before p_due_for, of which no job will run by itself, among the newest 1,000
-- of each tenant; and paused schedules, among the newest 10,000.
create function public.giftcard_stuck_orders(p_due_for interval, p_now timestamptz)
returns setof public.giftcard_stuck_thing
language sql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  with recursive tenants as (
    (select o.tenant_id from public.giftcard_orders o order by o.tenant_id limit 1)
    union all
    select n.tenant_id from tenants t cross join lateral (
      select o.tenant_id from public.giftcard_orders o where o.tenant_id > t.tenant_id
       order by o.tenant_id limit 1) n)
  (select 'order', 'order ' || o.correlation_id, l.stage, 1::bigint, false, o.created_at, 'no_job',
          'it has no card, and no job of it is queued or runs' || coalesce(
            format('; job %s of %s is %s', l.id, l.stage, l.status), '; no job of its flow is left'),
          l.id, o.tenant_id, o.correlation_id
     from (select * from tenants limit 200) t cross join lateral (
       select r.* from public.giftcard_orders r where r.tenant_id = t.tenant_id and r.created_at <= p_now - p_due_for
        order by r.created_at desc limit 1000) o
     left join lateral (
       select j.id, j.stage, j.status from public.giftcard_jobs j
        where j.tenant_id = o.tenant_id and j.correlation_id = o.correlation_id
          and j.status in ('error', 'cancelled') and not public.giftcard_is_webhook(j.stage)
        order by j.id desc limit 1) l on true
    where o.cancelled_at is null
      and not exists (select from public.giftcard_cards c
                       where c.tenant_id = o.tenant_id and c.correlation_id = o.correlation_id)
      and not exists (select from public.giftcard_jobs j
                       where j.tenant_id = o.tenant_id and j.correlation_id = o.correlation_id
                         and (j.status in ('queued', 'running') or j.status = 'error' and j.revive_at is not null)
                         and not public.giftcard_is_webhook(j.stage))
    order by o.created_at, o.correlation_id limit 21)
  union all
  (select 'schedule', 'schedule ' || s.id, s.stage, 1::bigint, false, s.paused_at, 'schedule_paused',
          left(concat('it is paused by ', s.paused_by, ': ' || s.pause_reason), 500), null, s.tenant_id, s.id::text
     from (select * from public.giftcard_schedules order by id desc limit 10000) s
    where s.paused_at is not null order by s.paused_at, s.id limit 21)
$$;

-- Return all that does not move, the worst first: {stuck: [giftcard_stuck_thing], truncated: the kinds of which only
-- the oldest 20 are listed, now}. p_due_seconds: how long a job may be due, or an order without a job;
-- p_snoozed_seconds: how long one may snooze. p_stages, p_missing: as in giftcard_waiting_for.
create function public.giftcard_stuck(
  p_due_seconds double precision default 300, p_snoozed_seconds double precision default 3600,
  p_stages jsonb default null, p_missing jsonb default '{}', p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_due_for interval := make_interval(secs => least(greatest(coalesce(p_due_seconds, 300), 0), 31536000));
  v_snoozed_for interval := make_interval(secs => least(greatest(coalesce(p_snoozed_seconds, 3600), 0), 31536000));
  v_worst constant text[] := array['killed', 'due', 'order', 'faulty', 'dead', 'snoozed', 'schedule'];
begin
  return (
    with things as (
      select * from public.giftcard_stuck_queues(v_due_for, p_stages, p_missing, v_now)
      union all
      select * from public.giftcard_stuck_orders(v_due_for, v_now)
      union all
      select * from public.giftcard_stuck_rows(v_now)
      union all
      select * from public.giftcard_stuck_snoozes(v_snoozed_for, v_now)),
    numbered as (
      select t.*, row_number() over (partition by t.kind order by t.since nulls first, t.subject) as number
        from things t)
    select jsonb_build_object(
      'now', v_now,
      'stuck', coalesce(
        jsonb_agg(public.giftcard_readable_row(to_jsonb(n) - 'number', 20000)
                  order by array_position(v_worst, n.kind), n.number) filter (where n.number <= 20), '[]'),
      'truncated', coalesce(jsonb_agg(n.kind order by n.kind) filter (where n.number = 21), '[]'))
      from numbered n);
end $$;
-- The story of a job: what the page shows of it, in one call.

-- Return the external effects of a job, also those that all jobs of its stage and flow share: [{name, generation,
-- vendor_key, started_at, finished_at, note}], the first 50. Without their results, which may hold a card's number.
create function public.giftcard_job_effects(p_tenant_id text, p_correlation_id text, p_stage text, p_dedup_key text)
returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    select coalesce(jsonb_agg(jsonb_build_object(
        'name', left(e.name, 200), 'generation', e.generation, 'vendor_key', left(e.vendor_key, 200),
        'started_at', e.started_at, 'finished_at', e.finished_at, 'note', left(e.note, 500))
      order by e.started_at, e.name), '[]')
      from (select * from public.giftcard_effects
             where tenant_id = p_tenant_id and correlation_id = p_correlation_id and stage = p_stage
               and dedup_key in (p_dedup_key, '')
             order by dedup_key, name limit 50) e);
end $$;

-- Return a job with its story: {job: as giftcard_show_job, runs and older: as giftcard_history, flow: the newest 50
-- jobs of its flow in order, more_of_flow: there are older ones, effects}. GC404 for none.
create function public.giftcard_job_story(
  p_job_id bigint, p_stages jsonb default null, p_missing jsonb default '{}', p_limit integer default 20,
  p_older integer default null, p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_job jsonb := public.giftcard_show_job(p_job_id, p_stages, p_missing, p_tenant_id, p_now);
  v_flow jsonb[] := public.giftcard_flow_jobs(v_job ->> 'tenant_id', v_job ->> 'correlation_id', null, 51);
begin
  return public.giftcard_history(p_job_id, p_limit, p_older, p_tenant_id) || jsonb_build_object(
    'job', v_job,
    'flow', (select coalesce(jsonb_agg(public.giftcard_readable_row(f.job, 20000) order by f.n desc), '[]')
               from unnest(v_flow[:50]) with ordinality f(job, n)),
    'more_of_flow', cardinality(v_flow) > 50,
    'effects', public.giftcard_job_effects(
      v_job ->> 'tenant_id', v_job ->> 'correlation_id', v_job ->> 'stage', v_job ->> 'dedup_key'));
end $$;
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
  oldest_secret_encrypted text,
  oldest_secret_until timestamptz,
  create_key text collate "C",
  create_hash text,
  rotate_key text collate "C",
  rotate_hash text,
  created_at timestamptz not null,
  updated_at timestamptz not null,
  constraint giftcard_webhook_endpoints_pkey primary key (id),
  constraint giftcard_webhook_endpoints_url_key unique (tenant_id, url),
  constraint giftcard_webhook_endpoints_create_key_key unique (tenant_id, create_key),
  constraint giftcard_webhook_endpoints_events_are_known check (cardinality(events) > 0 and events <@ array[
    'giftcard.issued', 'giftcard.delivered', 'giftcard.failed', 'job.completed', 'job.dead_lettered', 'report.ready']),
  constraint giftcard_webhook_endpoints_disabled_has_a_reason check (enabled = (disabled_reason is null))
);
-- Read by each settle: empty where no tenant receives events.
create index giftcard_webhook_endpoints_enabled on public.giftcard_webhook_endpoints (tenant_id, id) where enabled;

comment on table public.giftcard_webhook_endpoints is
  'An address that receives events of a tenant. Its secrets are encrypted for its id: only the application can '
  'read what signs the requests.';
comment on column public.giftcard_webhook_endpoints.previous_secret_encrypted is
  'Signs beside the new one until previous_secret_until, so that the receiver has time to change over.';
comment on column public.giftcard_webhook_endpoints.oldest_secret_encrypted is
  'The secret before a rotation within that time. It signs too, until oldest_secret_until: the receiver may have seen '
  'none of the later ones.';
comment on column public.giftcard_webhook_endpoints.create_key is
  'The Idempotency-Key of the request that created it, and the hash of that request; rotate_key, rotate_hash: of the '
  'latest rotation.';

-- Return the events of jobs that have just ended: {tenant_id, correlation_id, event, event_id, body, trace}, at most
-- 3,000. The same fact always has the same event id; a card is issued and delivered once, however many jobs do it and
-- however often they run.
-- Only ids, amounts and last four digits.
create function public.giftcard_events_for(p_ids bigint[], p_now timestamptz)
returns table (tenant_id text, correlation_id text, event text, event_id text, body text, trace jsonb)
language sql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  select coalesce(t.tenant_id, j.tenant_id), j.correlation_id, t.event,
         'msg_' || left(encode(sha256(convert_to(case
           when t.card_id is not null then jsonb_build_array(j.tenant_id, j.correlation_id, t.event, t.card_id)
           else jsonb_build_array(j.tenant_id, j.correlation_id, j.stage, j.dedup_key, j.created_at, t.event, t.run_no)
           end::text, 'UTF8')), 'hex'), 32),
         json_build_object('type', t.event,
                           'timestamp', to_char(p_now at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
                           'data', t.data)::text,
         j.context -> 'trace'
    from public.giftcard_jobs j
    cross join lateral (
      select case j.stage when 'issue_card' then 'giftcard.issued' else 'giftcard.delivered' end as event,
             null::integer as run_no, c.id as card_id,
             null::text as tenant_id, json_build_object(
               'tenant_id', j.tenant_id, 'correlation_id', j.correlation_id, 'card_id', c.id, 'last4', c.last4,
               'amount', c.amount,
               'currency', c.currency) as data
        from public.giftcard_cards c
       where j.stage in ('issue_card', 'email') and j.status = 'completed'
         and not public.giftcard_is_resend(j.dedup_key)
         and c.tenant_id = j.tenant_id and c.correlation_id = j.correlation_id
      union all
      select 'giftcard.failed', j.run_no, null, null, json_build_object(
               'tenant_id', j.tenant_id, 'correlation_id', j.correlation_id, 'job_id', j.id, 'stage', j.stage,
               'amount', o.amount, 'currency', o.currency, 'paid', exists (
                 select from public.giftcard_payments p
                   where p.tenant_id = j.tenant_id and p.correlation_id = j.correlation_id),
               'reason', public.giftcard_error_reason(j.last_error), 'revive_at', j.revive_at)
        from (select) one
        left join public.giftcard_orders o on o.tenant_id = j.tenant_id and o.correlation_id = j.correlation_id
       where (j.stage in ('customer_ingest', 'personal_code', 'payment', 'issue_card', 'email')
              -- A step that is not built in, ahead of the mail.
              or j.context @? '$.order_flow.before ? (@ != null)' and j.context #>> '{order_flow,step}' = j.stage)
         and j.status = 'error'
         and (j.payload -> 'without_order') is distinct from 'true'
      union all
      select case j.status when 'completed' then 'job.completed' else 'job.dead_lettered' end, j.run_no, null, null,
             json_build_object(
               'tenant_id', j.tenant_id, 'correlation_id', j.correlation_id, 'job_id', j.id, 'stage', j.stage,
               'run_no', j.run_no,
               'attempts', j.attempts, 'reason', case when j.status = 'error'
                                                      then public.giftcard_error_reason(j.last_error) end,
               'revive_at', j.revive_at)
      union all
      select 'report.ready', j.run_no, null, r.tenant_id, json_build_object(
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
-- its fact and no fact without its event. p_endpoint_id: only those to this endpoint; null: to all.
create function public.giftcard_enqueue_webhooks(
  p_ids bigint[], p_now timestamptz, p_endpoint_id bigint default null) returns void
language sql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
  select set_config('giftcard.writer', 'webhook', true);
  insert into public.giftcard_jobs
    (tenant_id, correlation_id, stage, dedup_key, circuit, trigger_type, source, payload, context, scheduled_at,
     created_at, updated_at)
  select e.tenant_id, m.correlation_id, 'webhook', m.event_id || ':' || e.id, 'webhook:' || e.id, 'event', 'app',
         jsonb_build_object('endpoint_id', e.id, 'event_id', m.event_id, 'body', m.body),
         case when m.trace is null then '{}' else jsonb_build_object('trace', m.trace) end, p_now, p_now, p_now
    from public.giftcard_events_for(p_ids, p_now) m
    join public.giftcard_webhook_endpoints e on e.tenant_id = m.tenant_id and e.enabled and m.event = any (e.events)
   where p_endpoint_id is null or e.id = p_endpoint_id
   order by m.correlation_id, m.event, e.id
  on conflict on constraint giftcard_jobs_flow_key do nothing;
  select set_config('giftcard.writer', '', true);
$$;

-- Refuse a webhook job that someone else enqueues: it would be signed as an event, whatever its body. A restored one
-- was enqueued here before.
create function public.giftcard_refuse_webhook() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  perform public.giftcard_refuse('GC400', 'webhooks are enqueued by the database, when a job ends', 'stage');
  return null;
end $$;

create trigger giftcard_jobs_refuse_webhook before insert on public.giftcard_jobs
  for each row when (new.stage = 'webhook'
    and coalesce(current_setting('giftcard.writer', true), '') not in ('webhook', 'restore'))
  execute function public.giftcard_refuse_webhook();
create trigger giftcard_jobs_refuse_new_webhook after update of stage on public.giftcard_jobs
  for each row when (new.stage = 'webhook' and old.stage <> 'webhook')
  execute function public.giftcard_refuse_webhook();

-- Return what a delivery needs: {url, secrets (encrypted; the newest first), at: the database's time in seconds}. null:
-- the endpoint is disabled or deleted; then a cancel of the job is recorded, which its run ends with. GC410 when the
-- lease is not the job's current one.
create function public.giftcard_webhook_target(
  p_job_id bigint, p_lease_id uuid, p_endpoint_id bigint, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
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
    e.secret_encrypted, case when e.previous_secret_until > v_now then e.previous_secret_encrypted end,
    case when e.oldest_secret_until > v_now then e.oldest_secret_encrypted end], null)));
end $$;

-- Disable an endpoint whose receiver refuses events for good, unless its address has changed meanwhile. Return {id,
-- disabled}.
create function public.giftcard_disable_webhook_endpoint(
  p_endpoint_id bigint, p_url text, p_reason text, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  update public.giftcard_webhook_endpoints set enabled = false, disabled_reason = p_reason,
    updated_at = coalesce(p_now, clock_timestamp())
   where id = p_endpoint_id and url = p_url and enabled;
  return jsonb_build_object('id', p_endpoint_id, 'disabled', found);
end $$;
-- Webhook endpoints as they are shown.

-- Return one endpoint. GC404 for none.
create function public.giftcard_webhook_endpoint(
  p_endpoint_id bigint, p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  e public.giftcard_webhook_endpoints;
begin
  select * into e from public.giftcard_webhook_endpoints
   where id = p_endpoint_id and (p_tenant_id is null or tenant_id = p_tenant_id);
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
set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  e public.giftcard_webhook_endpoints;
  v_row jsonb;
  v_bytes integer := 0;
  v_rows jsonb[] := array[]::jsonb[];
  v_more boolean := false;
begin
  -- One more than the page holds: its presence means that there are more.
  for e in select * from public.giftcard_webhook_endpoints
            where (p_tenant_id is null or tenant_id = p_tenant_id) and (p_older is null or id < p_older)
            order by id desc limit v_limit + 1 loop
    v_row := public.giftcard_webhook_endpoint_json(e, coalesce(p_now, clock_timestamp()));
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes);
    exit when v_more;
    v_rows := v_rows || v_row;
  end loop;
  return jsonb_build_object('endpoints', to_jsonb(v_rows),
                            'older', case when v_more then v_rows[cardinality(v_rows)] -> 'id' end);
end $$;
-- Manage webhook endpoints: the operators' actions.

-- Return an endpoint as the API shows it: never with its secrets.
create function public.giftcard_webhook_endpoint_json(
  e public.giftcard_webhook_endpoints, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return jsonb_build_object('id', e.id, 'tenant_id', e.tenant_id, 'url', e.url,
    -- The constraint lets an event twice and arrays of arrays pass.
    'events', (select jsonb_agg(d.event order by d.n) from (
        select u.event, min(u.n) as n from unnest(e.events) with ordinality u(event, n) group by u.event) d),
    'enabled', e.enabled, 'disabled_reason', left(e.disabled_reason, 500),
    'previous_secret_until', case when e.previous_secret_until > p_now then e.previous_secret_until end,
    'created_at', e.created_at, 'updated_at', e.updated_at);
end $$;

-- Return an endpoint with its secret, encrypted: for the responses to its creation and to a rotation.
create function public.giftcard_webhook_endpoint_with_secret(
  e public.giftcard_webhook_endpoints, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return public.giftcard_webhook_endpoint_json(e, p_now)
         || jsonb_build_object('secret_encrypted', e.secret_encrypted);
end $$;

-- Return whether a request repeats the one with the key p_known. GC422 if only the key is the same.
create function public.giftcard_is_repeated(p_key text, p_hash text, p_known text, p_known_hash text) returns boolean
language plpgsql stable security invoker set search_path = '' as $$
begin
  if p_key = p_known and p_hash is distinct from p_known_hash then
    perform public.giftcard_refuse('GC422', 'this Idempotency-Key was used for another request', 'Idempotency-Key');
  end if;
  return coalesce(p_key = p_known, false);
end $$;

-- Lock an endpoint and return it. GC404 for none.
create function public.giftcard_lock_webhook_endpoint(
  p_endpoint_id bigint, p_tenant_id text) returns public.giftcard_webhook_endpoints
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  e public.giftcard_webhook_endpoints;
begin
  select * into e from public.giftcard_webhook_endpoints
   where id = p_endpoint_id and (p_tenant_id is null or tenant_id = p_tenant_id) for update;
  if not found then
    perform public.giftcard_refuse('GC404', format('webhook endpoint %s does not exist', p_endpoint_id), 'endpoint_id');
  end if;
  return e;
end $$;

-- Record an act on an endpoint. Its address may hold a secret: the audit leaves it out.
create function public.giftcard_record_endpoint(
  e public.giftcard_webhook_endpoints, p_by text, p_action text, p_details jsonb, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  perform public.giftcard_record_act(p_by, e.tenant_id, p_action, 'webhook endpoint ' || e.id, p_details, p_now);
end $$;

-- Refuse an address that another endpoint of the tenant has: each event would arrive there twice.
create function public.giftcard_refuse_duplicate_endpoint(
  p_tenant_id text, p_url text, p_except bigint default null) returns void
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_id bigint := (select id from public.giftcard_webhook_endpoints
                  where tenant_id = p_tenant_id and url = p_url and id is distinct from p_except);
begin
  if v_id is not null then
    perform public.giftcard_refuse(
      'GC409', format('webhook endpoint %s of this tenant has this address already', v_id), 'url');
  end if;
end $$;

-- Return {id}, the id for a new endpoint: its secret is encrypted for this id before the endpoint is created.
create function public.giftcard_next_webhook_endpoint_id() returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
begin
  return jsonb_build_object(
    'id', nextval(pg_get_serial_sequence('public.giftcard_webhook_endpoints', 'id')));
end $$;

-- Create an endpoint and return it with its secret, encrypted. p_endpoint_id: from giftcard_next_webhook_endpoint_id;
-- null: the next. The same idempotency key with the same request returns the endpoint that it created, with its present
-- secret. A tenant has at most 20, because each event is a job for each of them; the lock makes two that create for one
-- tenant take turns.
create function public.giftcard_create_webhook_endpoint(
  p_tenant_id text, p_url text, p_events text[], p_enabled boolean, p_secret_encrypted text,
  p_idempotency_key text default null, p_body_hash text default null, p_endpoint_id bigint default null,
  p_by text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  e public.giftcard_webhook_endpoints;
begin
  perform pg_advisory_xact_lock(hashtextextended('webhook endpoints of ' || p_tenant_id, 0));
  select * into e from public.giftcard_webhook_endpoints
   where tenant_id = p_tenant_id and create_key = p_idempotency_key;
  if public.giftcard_is_repeated(p_idempotency_key, p_body_hash, e.create_key, e.create_hash) then
    return public.giftcard_webhook_endpoint_with_secret(e, v_now);
  end if;
  perform public.giftcard_refuse_duplicate_endpoint(p_tenant_id, p_url);
  if (select count(*) from public.giftcard_webhook_endpoints where tenant_id = p_tenant_id) >= 20 then
    perform public.giftcard_refuse('GC409', 'this tenant has 20 webhook endpoints, which is the most', 'tenant_id');
  end if;
  insert into public.giftcard_webhook_endpoints (id, tenant_id, url, events, enabled, disabled_reason,
                                                 secret_encrypted, create_key, create_hash, created_at, updated_at)
  overriding system value
  values (coalesce(p_endpoint_id, (public.giftcard_next_webhook_endpoint_id() ->> 'id')::bigint), p_tenant_id, p_url,
          p_events, p_enabled, case when not p_enabled then 'made off' end, p_secret_encrypted, p_idempotency_key,
          p_body_hash, v_now, v_now)
  returning * into e;
  perform public.giftcard_record_endpoint(e, p_by, 'create_endpoint', jsonb_build_object('events', e.events), v_now);
  return public.giftcard_webhook_endpoint_with_secret(e, v_now);
end $$;

-- Update what is given: another address, other events, enabled or not. Queued webhooks use the new values.
create function public.giftcard_update_webhook_endpoint(
  p_endpoint_id bigint, p_url text default null, p_events text[] default null, p_enabled boolean default null,
  p_by text default null, p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  e public.giftcard_webhook_endpoints := public.giftcard_lock_webhook_endpoint(p_endpoint_id, p_tenant_id);
  v_changed jsonb;
  u public.giftcard_webhook_endpoints;
begin
  perform public.giftcard_refuse_duplicate_endpoint(e.tenant_id, p_url, e.id);
  update public.giftcard_webhook_endpoints
     set url = coalesce(p_url, url), events = coalesce(p_events, events), enabled = coalesce(p_enabled, enabled),
         disabled_reason = case when coalesce(p_enabled, enabled) then null
                                else coalesce(disabled_reason, 'turned off by hand') end, updated_at = v_now
   where id = p_endpoint_id returning * into u;
  v_changed := jsonb_build_object('changed', public.giftcard_changed_fields(to_jsonb(e), to_jsonb(u)) - 'updated_at');
  if v_changed <> '{"changed": []}' then
    perform public.giftcard_record_endpoint(e, p_by, 'update_endpoint', v_changed, v_now);
  end if;
  return public.giftcard_webhook_endpoint_json(u, v_now);
end $$;

-- Delete an endpoint for good. Its queued webhooks are cancelled when they run.
create function public.giftcard_delete_webhook_endpoint(
  p_endpoint_id bigint, p_by text default null, p_tenant_id text default null, p_now timestamptz default null)
returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  e public.giftcard_webhook_endpoints := public.giftcard_lock_webhook_endpoint(p_endpoint_id, p_tenant_id);
begin
  delete from public.giftcard_webhook_endpoints where id = p_endpoint_id;
  perform public.giftcard_record_endpoint(e, p_by, 'delete_endpoint', '{}', p_now);
  return jsonb_build_object('id', p_endpoint_id, 'deleted', true);
end $$;

-- Replace an endpoint's secret and return the endpoint with the new one, encrypted. The previous one signs too for
-- p_former_seconds, so that the receiver can change over; 0: no former one signs any longer. Within that time of an
-- earlier rotation, the secret before it goes on signing until its time, too: of the later ones the receiver may not
-- know. The idempotency key of the latest rotation with the same request returns the same secret again.
create function public.giftcard_rotate_webhook_secret(
  p_endpoint_id bigint, p_secret_encrypted text, p_former_seconds double precision,
  p_idempotency_key text default null, p_body_hash text default null, p_by text default null,
  p_tenant_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  e public.giftcard_webhook_endpoints := public.giftcard_lock_webhook_endpoint(p_endpoint_id, p_tenant_id);
begin
  if public.giftcard_is_repeated(p_idempotency_key, p_body_hash, e.rotate_key, e.rotate_hash) then
    return public.giftcard_webhook_endpoint_with_secret(e, v_now);
  end if;
  if p_former_seconds > 0 then
    if e.previous_secret_until > v_now and coalesce(e.oldest_secret_until <= v_now, true) then
      e.oldest_secret_encrypted := e.previous_secret_encrypted;
      e.oldest_secret_until := e.previous_secret_until;
    end if;
    e.previous_secret_encrypted := e.secret_encrypted;
    e.previous_secret_until := v_now + make_interval(secs => p_former_seconds);
  else
    e.previous_secret_encrypted := null;
    e.previous_secret_until := null;
    e.oldest_secret_encrypted := null;
    e.oldest_secret_until := null;
  end if;
  update public.giftcard_webhook_endpoints
     set secret_encrypted = p_secret_encrypted, previous_secret_encrypted = e.previous_secret_encrypted,
         previous_secret_until = e.previous_secret_until, oldest_secret_encrypted = e.oldest_secret_encrypted,
         oldest_secret_until = e.oldest_secret_until, rotate_key = p_idempotency_key, rotate_hash = p_body_hash,
         updated_at = v_now
   where id = p_endpoint_id returning * into e;
  perform public.giftcard_record_endpoint(
    e, p_by, 'rotate_secret', jsonb_build_object('former_seconds', p_former_seconds), v_now);
  return public.giftcard_webhook_endpoint_with_secret(e, v_now);
end $$;

-- Send a test event, whatever events the endpoint receives; each call is a new event. Return {job_id, event_id}. GC409
-- for a disabled endpoint.
create function public.giftcard_test_webhook_endpoint(
  p_endpoint_id bigint, p_by text default null, p_tenant_id text default null, p_now timestamptz default null)
returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_event_id text := 'msg_' || replace(gen_random_uuid()::text, '-', '');
  e public.giftcard_webhook_endpoints := public.giftcard_lock_webhook_endpoint(p_endpoint_id, p_tenant_id);
  v_job_id bigint;
begin
  if not e.enabled then
    perform public.giftcard_refuse(
      'GC409', format('webhook endpoint %s is off (%s): turn it on first', p_endpoint_id, e.disabled_reason),
      'enabled');
  end if;
  perform set_config('giftcard.writer', 'webhook', true);
  insert into public.giftcard_jobs
    (tenant_id, correlation_id, stage, dedup_key, circuit, trigger_type, source, payload, scheduled_at, created_at,
     updated_at)
  values (e.tenant_id, 'webhook-endpoint:' || e.id, 'webhook', v_event_id || ':' || e.id, 'webhook:' || e.id, 'test',
          'app', jsonb_build_object('endpoint_id', e.id, 'event_id', v_event_id, 'body', json_build_object(
            'type', 'webhook.test', 'timestamp', to_char(v_now at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
            'data', json_build_object('tenant_id', e.tenant_id, 'endpoint_id', e.id))::text), v_now, v_now, v_now)
  returning id into v_job_id;
  perform set_config('giftcard.writer', '', true);
  perform public.giftcard_record_endpoint(
    e, p_by, 'test_endpoint', jsonb_build_object('job_id', v_job_id), v_now);
  return jsonb_build_object('job_id', v_job_id, 'event_id', v_event_id);
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
  constraint giftcard_inbound_events_became_is_known check (
    kind in ('job', 'payment', 'card', 'kept', 'ignored', 'unknown'))
);
create index giftcard_inbound_events_kept on public.giftcard_inbound_events
    (tenant_id, (facts ->> 'reference') collate "C")
    where kind = 'kept';

create index giftcard_inbound_events_refused on public.giftcard_inbound_events (received_at)
    where kind = 'ignored' and facts ? 'movement';

-- Events that nothing can be done with: `why` names the field at fault.
create index giftcard_inbound_events_unusable on public.giftcard_inbound_events (received_at)
    where kind = 'ignored' and starts_with(facts ->> 'why', 'not as expected');

comment on table public.giftcard_inbound_events is
  'One row is an event of a vendor, never removed: sent again, even years later, it does nothing. It holds no '
  'personal data.';
comment on column public.giftcard_inbound_events.kind is
  'job: it was enqueued. payment: the books have its movements. card: a card of ours has changed. kept: facts hold '
  'what to apply once the card is ours. ignored: facts hold the reason. unknown: no type that is handled here.';
comment on column public.giftcard_inbound_events.correlation_id is
  'Of a payment: the order that it names, if the event has that, whether or not there is one yet.';

-- Make the jobs of a stage in a flow due at once: queued ones, and running ones in case their run ends in a snooze.
-- Return whether there was one.
create function public.giftcard_make_due(
  p_tenant_id text, p_correlation_id text, p_stage text, p_now timestamptz default null) returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  update public.giftcard_jobs set scheduled_at = v_now, updated_at = v_now
   where id = any (array(
     select id from public.giftcard_jobs
      where tenant_id = p_tenant_id and correlation_id = p_correlation_id and stage = p_stage
        and (status = 'running' or status = 'queued' and scheduled_at > v_now) order by id for update));
  return found;
end $$;

-- Return how many events of the last 24 hours could not be used, by source, and the last of them: {source: {events (up
-- to 1,000), type, why}}.
create function public.giftcard_unusable_events(p_now timestamptz) returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select coalesce(jsonb_object_agg(s.source, s.found), '{}') from (
    select u.source, jsonb_build_object(
             'events', count(*), 'type', left((array_agg(u.type order by u.received_at desc))[1], 100),
             'why', left((array_agg(u.facts ->> 'why' order by u.received_at desc))[1], 200)) as found
      from (select * from public.giftcard_inbound_events
             where kind = 'ignored' and starts_with(facts ->> 'why', 'not as expected')
               and received_at > p_now - interval '24 hours'
             order by received_at desc limit 1000) u
     group by u.source) s
$$;

-- Set what an event became: {kind, facts}.
create function public.giftcard_set_kind(p_source text, p_event_id text, p_became jsonb) returns void
language sql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  update public.giftcard_inbound_events set kind = p_became ->> 'kind', facts = p_became -> 'facts'
   where source = p_source and event_id = p_event_id
$$;

-- Record movements of payments' money, each an object of the arguments of giftcard_record_payment_event.
create function public.giftcard_record_movements(
  p_tenant_id text, p_provider text, p_movements jsonb, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  m record;
begin
  for m in
    select * from jsonb_to_recordset(p_movements) as x(
      provider_ref text, event_id text, kind text, amount bigint, currency text, named_order text, is_total boolean,
      as_of timestamptz)
  loop
    perform public.giftcard_record_payment_event(
      p_tenant_id, p_provider, m.provider_ref, m.event_id, m.kind, m.amount, m.currency, m.named_order,
      coalesce(m.is_total, false), m.as_of, p_now);
  end loop;
end $$;

-- Apply what an event means. What the books refuse is ignored: a vendor would send it again for ever. Return what the
-- event became: {kind, facts, refused: why, or null}.
create function public.giftcard_apply_action(
  p_source text, p_tenant_id text, p_action jsonb, p_now timestamptz) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_facts jsonb := jsonb_build_object();
  v_kind text := 'unknown';
begin
  if p_action ? 'job' then
    v_kind := 'job';
    perform public.giftcard_enqueue(jsonb_build_array(p_action -> 'job' || '{"source": "app"}'), p_now => p_now);
  elsif p_action ? 'movements' then
    v_kind := 'payment';
    perform public.giftcard_record_movements(p_tenant_id, p_source, p_action -> 'movements', p_now);
  elsif p_action ? 'card' then
    return public.giftcard_update_card(p_tenant_id, p_action -> 'card');
  elsif p_action ? 'ignored' then
    v_kind := 'ignored';
    v_facts := jsonb_build_object('why', p_action -> 'ignored');
  end if;
  return jsonb_build_object('kind', v_kind, 'facts', v_facts);
exception when others then
  -- Refused for what it contains (lib/store/sqlstate.py); anything else may pass.
  if sqlstate !~ '^(GC4|22|23)' then
    raise;
  end if;
  return jsonb_build_object(
    'kind', 'ignored', 'refused', sqlerrm, 'facts', jsonb_build_object('why', left(sqlerrm, 500)) || case
      when p_action ? 'movements'
      then jsonb_build_object('movement', p_action #> '{movements,0,amount}',
                              'currency', p_action #> '{movements,0,currency}')
      else '{}' end);
end $$;

-- Apply the events of a card that arrived before it was ours: it has just been recorded.
create function public.giftcard_apply_kept_events(p_tenant_id text, p_reference text) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  e record;
begin
  perform public.giftcard_lock_reference(p_tenant_id, p_reference);
  for e in
    select source, event_id, facts from public.giftcard_inbound_events
     where kind = 'kept' and tenant_id = p_tenant_id and facts ->> 'reference' = p_reference collate "C"
     order by (facts ->> 'at')::timestamptz, event_id
  loop
    perform public.giftcard_set_kind(
      e.source, e.event_id,
      public.giftcard_apply_action(e.source, p_tenant_id, jsonb_build_object('card', e.facts), null));
  end loop;
end $$;

-- Receive an event, once: sent again, at the same time or years later, it changes nothing. p_action: what it means
-- here, one of job (to enqueue), movements (as giftcard_record_movements takes them, at the provider p_source), card
-- (as giftcard_update_card takes it), ignored (the reason); none of them: an unknown type. Return {kind, repeated,
-- refused: why the books do not take it, so that it is ignored, or null}.
create function public.giftcard_receive_event(
  p_source text, p_event_id text, p_type text, p_tenant_id text, p_action jsonb,
  p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_became jsonb;
begin
  -- Of two deliveries at once, the second waits here and finds the first.
  insert into public.giftcard_inbound_events (source, event_id, type, kind, tenant_id, correlation_id, received_at)
  values (p_source, p_event_id, p_type, 'unknown', p_tenant_id, p_action #>> '{movements,0,named_order}',
          coalesce(p_now, clock_timestamp()))
  on conflict on constraint giftcard_inbound_events_pkey do nothing;
  if not found then
    return (select jsonb_build_object('kind', kind, 'repeated', true, 'refused', null)
              from public.giftcard_inbound_events where source = p_source and event_id = p_event_id);
  end if;
  v_became := public.giftcard_apply_action(p_source, p_tenant_id, p_action, p_now);
  perform public.giftcard_set_kind(p_source, p_event_id, v_became);
  if starts_with(v_became #>> '{facts,why}', 'not as expected') then
    perform public.giftcard_increment_counters(jsonb_build_array(jsonb_build_object(
      'name', 'unusable_events', 'label', p_source, 'value', 1)));
  end if;
  return jsonb_build_object('kind', v_became ->> 'kind', 'repeated', false, 'refused', v_became ->> 'refused');
end $$;
-- Ciphertexts: where they are stored, and how another key takes over. The database has no key: it finds, counts and
-- replaces them.

-- Return the id of the key that a text is encrypted under; '': it is of the former form, which names none.
create function public.giftcard_key_id(p_encrypted text) returns text
language plpgsql immutable parallel safe security invoker set search_path = '' as $$
begin
  return case when p_encrypted ~ '^v2\.[0-9a-f]{12}\.' then substr(p_encrypted, 4, 12) else '' end;
end $$;
-- For the doctor: the keys in use, however many cards there are.
create index giftcard_cards_by_key on public.giftcard_cards (public.giftcard_key_id(number_encrypted), id);

-- Return some rows that may hold ciphertexts, by id. Texts are bound to (tenant_id, place). number_hash: null for an
-- endpoint. texts: none for an effect that keeps no card number. GC400 for an unknown kind.
create function public.giftcard_ciphertexts(p_kind text, p_after text, p_limit integer)
returns table (id text, tenant_id text, place text, number_hash text, texts text[])
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  if p_kind = 'effect' then
    return query
      select e.vendor_key, e.tenant_id, e.correlation_id, e.result ->> 'number_hash',
             array_remove(array[left(e.result ->> 'number_encrypted', 1000)], null)
        from public.giftcard_effects e where e.vendor_key > coalesce(p_after, '') order by e.vendor_key limit p_limit;
    return;
  elsif p_kind = 'card' then
    return query
      select c.id::text, c.tenant_id, c.correlation_id, c.number_hash, array[left(c.number_encrypted, 1000)]
        from public.giftcard_cards c where c.id > coalesce(p_after, '0')::bigint order by c.id limit p_limit;
    return;
  elsif p_kind is distinct from 'endpoint' then
    perform public.giftcard_refuse('GC400', 'kind is one of effect, card, endpoint', 'kind');
  end if;
  return query
    select w.id::text, w.tenant_id, w.id::text, null::text,
           array_remove(array[left(w.secret_encrypted, 1000), left(w.previous_secret_encrypted, 1000),
                              left(w.oldest_secret_encrypted, 1000)], null)
      from public.giftcard_webhook_endpoints w where w.id > coalesce(p_after, '0')::bigint order by w.id limit p_limit;
end $$;

-- Read at most p_limit rows of a kind. Return {counts: {key id: texts}, rows: [{id, tenant_id, place, number_hash,
-- texts}] with the texts that are not under p_key_id (null: none), after: the id to continue from, null at the end}.
create function public.giftcard_list_ciphertexts(
  p_kind text, p_key_id text default null, p_after text default null, p_limit integer default 200) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 200), 1), 1000);
begin
  return (
    with found as materialized (
      select * from public.giftcard_ciphertexts(p_kind, p_after, v_limit) with ordinality
        f(id, tenant_id, place, number_hash, texts, n)), listed as (
      select f.n, f.id, f.tenant_id, f.place, f.number_hash, array(
               select t from unnest(f.texts) t where public.giftcard_key_id(t) <> p_key_id) as texts
        from found f where p_key_id is not null), counted as (
      select public.giftcard_key_id(t) as key_id, count(*) as texts from found f, unnest(f.texts) t group by 1)
    select jsonb_build_object(
      'counts', (select coalesce(jsonb_object_agg(c.key_id, c.texts), '{}') from counted c),
      'rows', (select coalesce(jsonb_agg(to_jsonb(l) - 'n' order by l.n), '[]') from listed l where l.texts <> '{}'),
      'after', (select f.id from found f where f.n = v_limit)));
end $$;

-- Replace ciphertexts. p_rows: [{id, texts: {old: new}}]. A text that has changed meanwhile stays, and so does a row
-- that another transaction holds: this one never waits. Return {replaced: rows}.
create function public.giftcard_replace_ciphertexts(p_kind text, p_rows jsonb) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_ids text[] := array(select r ->> 'id' from jsonb_array_elements(p_rows) r);
  v_replaced integer;
begin
  case p_kind
  when 'effect' then
    v_ids := array(select e.vendor_key from public.giftcard_effects e
                    where e.vendor_key = any (v_ids) for no key update skip locked);
    update public.giftcard_effects e
       set result = e.result || jsonb_build_object('number_encrypted', r.texts -> (e.result ->> 'number_encrypted'))
      from jsonb_to_recordset(p_rows) r(id text, texts jsonb)
     where e.vendor_key = r.id and r.id = any (v_ids) and r.texts ? (e.result ->> 'number_encrypted');
  when 'card' then
    v_ids := array(select c.id from public.giftcard_cards c
                    where c.id = any (v_ids::bigint[]) for no key update skip locked);
    update public.giftcard_cards c set number_encrypted = r.texts ->> c.number_encrypted
      from jsonb_to_recordset(p_rows) r(id bigint, texts jsonb)
     where c.id = r.id and r.id::text = any (v_ids) and r.texts ? c.number_encrypted;
  when 'endpoint' then
    v_ids := array(select w.id from public.giftcard_webhook_endpoints w
                    where w.id = any (v_ids::bigint[]) for no key update skip locked);
    update public.giftcard_webhook_endpoints w
       set secret_encrypted = coalesce(r.texts ->> w.secret_encrypted, w.secret_encrypted),
           previous_secret_encrypted = coalesce(
             r.texts ->> w.previous_secret_encrypted, w.previous_secret_encrypted),
           oldest_secret_encrypted = coalesce(r.texts ->> w.oldest_secret_encrypted, w.oldest_secret_encrypted)
      from jsonb_to_recordset(p_rows) r(id bigint, texts jsonb)
     where w.id = r.id and r.id::text = any (v_ids)
       and r.texts ?| array[w.secret_encrypted, w.previous_secret_encrypted, w.oldest_secret_encrypted];
  else
    perform public.giftcard_refuse('GC400', 'kind is one of effect, card, endpoint', 'kind');
  end case;
  get diagnostics v_replaced = row_count;
  return jsonb_build_object('replaced', v_replaced);
end $$;

-- Record that an operator makes one key take over from the others. p_texts: how many are to be encrypted again.
create function public.giftcard_record_key_rotation(
  p_key_id text, p_texts bigint, p_by text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
begin
  perform public.giftcard_record_act(
    p_by, null, 'rotate_keys', 'key ' || p_key_id, jsonb_build_object('texts', p_texts), p_now);
  return jsonb_build_object('noted', true);
end $$;

-- Return the keys that card numbers are under, at most 20, each with its newest and its oldest card: from an index.
create function public.giftcard_keys_of_cards() returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    with recursive known as (
      (select public.giftcard_key_id(number_encrypted) as id, 1 as n from public.giftcard_cards
        order by public.giftcard_key_id(number_encrypted), giftcard_cards.id limit 1)
      union all
      (select (select public.giftcard_key_id(c.number_encrypted) from public.giftcard_cards c
                where public.giftcard_key_id(c.number_encrypted) > k.id
                order by public.giftcard_key_id(c.number_encrypted), c.id limit 1), k.n + 1
         from known k where k.id is not null and k.n < 20)), ends as (
      select k.id as key_id, unnest(array[
               (select max(c.id) from public.giftcard_cards c where public.giftcard_key_id(c.number_encrypted) = k.id),
               (select min(c.id) from public.giftcard_cards c where public.giftcard_key_id(c.number_encrypted) = k.id)
             ]) as card_id
        from known k where k.id is not null)
    select coalesce(jsonb_agg(distinct jsonb_build_object(
             'id', c.id, 'key_id', e.key_id, 'tenant_id', c.tenant_id, 'correlation_id', c.correlation_id,
             'encrypted', left(c.number_encrypted, 1000), 'hash', c.number_hash)), '[]')
      from ends e join public.giftcard_cards c on c.id = e.card_id);
end $$;
-- Tokens: who may call the API, as rows. The tokens of the environment are no rows: they work without the database.

-- hash: SHA-256 of the token, in hex. A token has 256 random bits, so it cannot be guessed from its hash: a slow or
-- salted hash, as passwords need, would only make each request slower.
create table public.giftcard_tokens (
  id bigint generated always as identity,
  name text collate "C" not null,
  hash text collate "C" not null,
  prefix text not null,
  tenant_id text collate "C",
  scopes text[] not null,
  created_at timestamptz not null,
  created_by text not null,
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz,
  constraint giftcard_tokens_pkey primary key (id),
  constraint giftcard_tokens_name_key unique (name),
  constraint giftcard_tokens_hash_key unique (hash),
  constraint giftcard_tokens_scopes_are_known check (cardinality(scopes) > 0
    and array_ndims(scopes) = 1 and scopes <@ array[
    'orders:write', 'orders:read', 'jobs:read', 'jobs:write', 'admin', 'metrics'])
);

comment on table public.giftcard_tokens is
  'A token of the API: its hash, what it allows, and for which tenant. The token itself is not stored.';
comment on column public.giftcard_tokens.prefix is 'The first characters of the token, to recognize it in a leak.';
comment on column public.giftcard_tokens.tenant_id is 'The only tenant that it sees and changes. null: all.';
comment on column public.giftcard_tokens.last_used_at is 'Written once a minute at most.';

-- Return a token as the API shows it, never with its hash.
create function public.giftcard_token_json(t public.giftcard_tokens, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return jsonb_build_object(
    'id', t.id, 'name', left(t.name, 200), 'prefix', left(t.prefix, 20), 'tenant_id', left(t.tenant_id, 500),
    'scopes', to_jsonb(t.scopes),
    'state', case when t.revoked_at is not null then 'revoked' when t.expires_at <= p_now then 'expired'
                  else 'active' end,
    'created_at', t.created_at, 'created_by', left(t.created_by, 200), 'expires_at', t.expires_at,
    'revoked_at', t.revoked_at, 'last_used_at', t.last_used_at);
end $$;

-- Record in the audit that a token was created or revoked.
create function public.giftcard_record_token(
  p_by text, p_action text, t public.giftcard_tokens, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  perform public.giftcard_record_act(
    p_by, t.tenant_id, p_action, 'token ' || t.name,
    jsonb_build_object('scopes', to_jsonb(t.scopes), 'expires_at', t.expires_at), p_now);
end $$;

-- Create a token, of which only the hash is given. p_tenant_id null: of all tenants; p_expires_seconds null: it never
-- expires. Called again with the same hash it returns the same token: the first reply was lost. GC409: its name is
-- taken, also by a revoked token, so that a name in the audit is always the same token.
create function public.giftcard_create_token(
  p_name text, p_hash text, p_prefix text, p_scopes text[], p_tenant_id text default null,
  p_expires_seconds double precision default null, p_by text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  t public.giftcard_tokens;
begin
  if p_tenant_id is not null and 'metrics' = any (p_scopes) then
    perform public.giftcard_refuse(
      'GC400', 'metrics are those of all tenants: a token of one tenant cannot have this scope', 'scopes');
  end if;
  insert into public.giftcard_tokens (name, hash, prefix, tenant_id, scopes, created_at, created_by, expires_at)
  values (p_name, p_hash, p_prefix, p_tenant_id, p_scopes, v_now, public.giftcard_actor(p_by),
          v_now + make_interval(secs => p_expires_seconds))
  on conflict (name) do nothing returning * into t;
  if found then
    perform public.giftcard_record_token(p_by, 'create_token', t, v_now);
    return public.giftcard_token_json(t, v_now);
  end if;
  select * into t from public.giftcard_tokens where name = p_name;
  if t.hash is distinct from p_hash then
    perform public.giftcard_refuse('GC409', format('token %s exists already: choose another name', p_name), 'name');
  end if;
  return public.giftcard_token_json(t, v_now);
end $$;

-- Revoke a token for good, and return it. One that is revoked already stays as it is. GC404 for none.
create function public.giftcard_revoke_token(
  p_name text, p_by text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  t public.giftcard_tokens;
begin
  select * into t from public.giftcard_tokens where name = p_name for update;
  if not found then
    perform public.giftcard_refuse('GC404', format('token %s does not exist', p_name), 'name');
  end if;
  if t.revoked_at is null then
    update public.giftcard_tokens set revoked_at = v_now where id = t.id returning * into t;
    perform public.giftcard_record_token(p_by, 'revoke_token', t, v_now);
  end if;
  return public.giftcard_token_json(t, v_now);
end $$;

-- Return a page of tokens, the newest first: {tokens, older}: the id to continue from, null at the end.
create function public.giftcard_list_tokens(
  p_older bigint default null, p_limit integer default 50, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off
set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  t public.giftcard_tokens;
  v_row jsonb;
  v_bytes integer := 0;
  v_rows jsonb[] := array[]::jsonb[];
  v_more boolean := false;
begin
  -- One more than the page holds: its presence means that there are more.
  for t in select * from public.giftcard_tokens where p_older is null or id < p_older
            order by id desc limit v_limit + 1 loop
    v_row := public.giftcard_token_json(t, coalesce(p_now, clock_timestamp()));
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes);
    exit when v_more;
    v_rows := v_rows || v_row;
  end loop;
  return jsonb_build_object('tokens', to_jsonb(v_rows),
                            'older', case when v_more then v_rows[cardinality(v_rows)] -> 'id' end);
end $$;
-- Denied requests: wrong tokens and signatures are counted by address, and beyond a limit refused for a while. What is
-- right is never counted: a caller behind the same address as an attacker is not locked out.

-- A fixed number of rows: addresses share them by hash, so that no number of addresses makes the table grow, and no
-- address is stored.
create table public.giftcard_denied_requests (
  bucket integer not null,
  window_at timestamptz not null,
  requests integer not null,
  former_requests integer not null default 0,
  constraint giftcard_denied_requests_pkey primary key (bucket),
  constraint giftcard_denied_requests_bucket_is_known check (bucket between 0 and 4095)
);

comment on table public.giftcard_denied_requests is
  'Requests with a wrong token or signature, by a hash of their address, in the current window of five minutes.';
comment on column public.giftcard_denied_requests.former_requests is
  'Those of the window before, if this one followed within five minutes.';

-- Count a request with a wrong token or signature. p_bucket: a hash of its address, 0 to 4095; p_reason: unknown,
-- expired, revoked, signature. Return {reason, retry_after: seconds; null: up to 20 in five minutes}. A database that
-- accepts no changes counts nothing.
create function public.giftcard_count_denied(p_bucket integer, p_reason text, p_now timestamptz default null)
returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_from timestamptz := v_now - interval '5 minutes';
  d public.giftcard_denied_requests;
begin
  if current_setting('transaction_read_only') = 'on' then
    return jsonb_build_object('reason', p_reason, 'retry_after', null);
  end if;
  -- A window in the future: the clock was wrong.
  insert into public.giftcard_denied_requests as r (bucket, window_at, requests) values (p_bucket, v_now, 1)
  on conflict (bucket) do update set
    former_requests = case when r.window_at > v_from and r.window_at <= v_now then r.former_requests
                           when r.window_at > v_from - interval '5 minutes' and r.window_at <= v_now then r.requests
                           else 0 end,
    requests = case when r.window_at > v_from and r.window_at <= v_now then least(r.requests + 1, 1000000) else 1 end,
    window_at = case when r.window_at > v_from and r.window_at <= v_now then r.window_at else v_now end
  returning * into d;
  perform public.giftcard_increment_counters(jsonb_build_array(jsonb_build_object(
    'name', 'denied_requests', 'label', p_reason, 'value', 1)));
  return jsonb_build_object('reason', p_reason, 'retry_after', case when d.requests > 20 then
    ceil(extract(epoch from d.window_at - v_from)) end);
end $$;

-- Return what a token that is none of the environment's allows: {name, tenant_id, scopes}. One that is unknown, expired
-- or revoked is counted: {reason, retry_after}, as giftcard_count_denied returns it.
create function public.giftcard_check_token(p_hash text, p_bucket integer, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  t public.giftcard_tokens;
begin
  select * into t from public.giftcard_tokens where hash = p_hash;
  if not found or t.revoked_at is not null or t.expires_at <= v_now then
    return public.giftcard_count_denied(p_bucket, case when t.id is null then 'unknown'
      when t.revoked_at is not null then 'revoked' else 'expired' end, v_now);
  end if;
  if (t.last_used_at > v_now - interval '1 minute' and t.last_used_at <= v_now) is not true
     and current_setting('transaction_read_only') = 'off' then
    -- Of requests at once one writes it: the others do not wait.
    perform from public.giftcard_tokens where id = t.id for no key update skip locked;
    if found then
      update public.giftcard_tokens set last_used_at = v_now where id = t.id;
    end if;
  end if;
  return jsonb_build_object('name', t.name, 'tenant_id', t.tenant_id, 'scopes', to_jsonb(t.scopes));
end $$;
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

-- Count the runs that ended after p_from and until p_to. A name that is too long for an index is cut.
create function public.giftcard_count_runs(p_from timestamptz, p_to timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  perform public.giftcard_increment_counters(jsonb_agg(to_jsonb(s))) from (
    with h as (
      -- giftcard_milliseconds, inline
      select left(stage, 200) as stage, result,
             case when isfinite(started_at)
                  then round((date_part('epoch', finished_at) - date_part('epoch', started_at)) * 1000)
                       / 1000 end as seconds,
             case when result <> 'RELEASED' and isfinite(scheduled_at) and isfinite(started_at)
                       and started_at >= scheduled_at
                  then round((date_part('epoch', started_at) - date_part('epoch', scheduled_at)) * 1000)
                       / 1000 end as delay
        from public.giftcard_job_history where finished_at > p_from and finished_at <= p_to)
    select 'runs' as name, stage, result as label, count(*) as value from h group by stage, result
    union all
    select 'run_seconds', stage, result, coalesce(sum(seconds), 0) from h group by stage, result
    union all
    select 'start_delays', stage, b.le, count(*) from h
     cross join (values ('1', 1.0), ('2', 2), ('5', 5), ('15', 15), ('60', 60), ('120', 120), ('300', 300),
                 ('1800', 1800), ('+Inf', 'infinity'::double precision)) as b(le, most)
     where delay <= b.most::double precision group by stage, b.le
    union all
    select 'start_delay_seconds', stage, '', sum(delay) from h where delay is not null group by stage) s;
end $$;

-- Count the ticks that ended after p_from and until p_to.
create function public.giftcard_count_ticks(p_from timestamptz, p_to timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  perform public.giftcard_increment_counters(jsonb_agg(to_jsonb(s))) from (
    with t as (select * from public.giftcard_ticks
               where ended_at is not null and ended_at > p_from and ended_at <= p_to)
    select 'ticks' as name, '' as stage, stopped_because as label, count(*) as value from t group by stopped_because
    union all
    select 'tick_seconds', '', '', coalesce(sum(public.giftcard_milliseconds(started_at, ended_at) / 1000.0), 0)
      from t
     having count(*) > 0
    union all
    select 'leases_lost', '', '', sum(lease_lost) from t having count(*) > 0
    union all
    select 'interrupted', '', '', sum(interrupted) from t having count(*) > 0) s;
end $$;

-- Count what has ended since the last call, except for the last ten seconds, so that no transaction about to commit is
-- skipped; fold recent runs (73_recent_runs.sql). At most p_limit rows of each kind a call; the rest is counted by the
-- next. Of two calls at once, one counts. Return how many runs were found, p_limit at
-- most.
create function public.giftcard_update_counters(
  p_limit integer default 20000, p_now timestamptz default null) returns bigint
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_settled timestamptz := v_now - interval '10 seconds';
  v_runs bigint;
  v_from timestamptz;
  v_to timestamptz;
begin
  select until into v_from from public.giftcard_counter_watermarks where source = 'history' for update skip locked;
  if not found then
    return 0::bigint;
  end if;
  -- All rows of the last instant are counted: the next call begins after it.
  select max(finished_at), count(*) into v_to, v_runs from (
    select finished_at from public.giftcard_job_history where finished_at > v_from and finished_at <= v_settled
      order by finished_at limit p_limit) h;
  if v_to is not null then
    perform public.giftcard_count_runs(v_from, v_to);
    perform public.giftcard_fold_runs(v_from, v_to, v_now);
    update public.giftcard_counter_watermarks set until = v_to where source = 'history';
  end if;
  select until into v_from from public.giftcard_counter_watermarks where source = 'ticks' for update;
  select max(ended_at) into v_to from (
    select ended_at from public.giftcard_ticks
      where ended_at is not null and ended_at > v_from and ended_at <= v_settled order by ended_at limit p_limit) t;
  if v_to is not null then
    perform public.giftcard_count_ticks(v_from, v_to);
    update public.giftcard_counter_watermarks set until = v_to where source = 'ticks';
  end if;
  return v_runs;
end $$;

-- Return whether giftcard_update_counters would find runs to count: one probe of an index.
create function public.giftcard_has_uncounted_runs(p_now timestamptz) returns boolean
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
begin
  return exists (
    select from public.giftcard_job_history
     where finished_at > (select until from public.giftcard_counter_watermarks where source = 'history')
       and finished_at <= p_now - interval '10 seconds');
end $$;

-- Return all that a scrape shows: {counters: [{name, stage, label, value}], jobs: [{stage, status, jobs}] of those that
-- have not ended well (each counted up to 100,000), due: {stage: seconds its oldest due job waits}, dead: {stage:
-- seconds since its oldest died}, circuits: [{stage, state, circuits}], differences: {kind: items} between money and
-- cards, limits: as giftcard_limit_metrics, tick: {age, seconds, gap} of the newest ticks that ended well}.
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
                select public.giftcard_milliseconds(j.finished_at, v_now) / 1000.0 from public.giftcard_jobs j
                 where j.status = 'error' and j.stage = c.stage and j.finished_at is not null
                   order by j.finished_at, j.id limit 1) as seconds
                from public.giftcard_dead_stages() c) d where d.seconds is not null),
    'circuits', (select coalesce(jsonb_agg(to_jsonb(k)), '[]') from (
              select public.giftcard_stage_of(circuit) as stage, state, count(*) as circuits
                from (select circuit, state from public.giftcard_circuits where failures > 0 or state <> 'closed'
                      order by circuit limit 10000) t
               where state <> 'closed' group by 1, 2 order by 1, 2) k),
    'differences', (select coalesce(jsonb_object_agg(d.kind, d.items), '{}') from (
              select r.kind, count(*) as items from public.giftcard_reconcile() r group by r.kind order by r.kind) d),
    'limits', public.giftcard_limit_metrics(v_now),
    'waking', public.giftcard_waking(v_now),
    'tick', public.giftcard_tick_metrics(v_now));
end $$;

-- Return the metrics of the newest 200 ticks: {age: seconds since the last of them that ended well has ended, or since
-- the first began; gap: the longest pause between the last 20 that ended well; seconds: how long the last took}.
create function public.giftcard_tick_metrics(p_now timestamptz) returns jsonb
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  with seen as (
    select t.* from (select * from public.giftcard_ticks order by id desc limit 200) t
     where t.started_at between '2000-01-01' and p_now),
  good as (
    select s.* from seen s
     where public.giftcard_ended_well(s.ended_at, s.stopped_because) and s.ended_at between s.started_at and p_now
     order by s.id desc limit 20),
  gaps as (select g.ended_at - lag(g.ended_at) over (order by g.ended_at) as gap from good g)
  select jsonb_build_object(
    'age', public.giftcard_milliseconds(
      coalesce((select max(g.ended_at) from good g), (select min(s.started_at) from seen s)), p_now) / 1000.0,
    'gap', (select extract(epoch from max(p.gap)) from gaps p),
    'seconds', (select public.giftcard_milliseconds(g.started_at, g.ended_at) / 1000.0
                  from good g order by g.id desc limit 1))
$$;

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
-- Alerts: the conditions that operators are notified of (71_notifications.sql).

create table public.giftcard_alerts (
  condition text collate "C" not null,
  since timestamptz not null,
  detail jsonb not null default '{}',
  newest timestamptz,
  resolved_at timestamptz,
  constraint giftcard_alerts_pkey primary key (condition)
);

comment on table public.giftcard_alerts is
  'One row is one condition that was found. It is deleted once its end, and an hour since the last alert, have passed.';
comment on column public.giftcard_alerts.condition is
  'dead_letters, circuit:<name>, no_tick, late:<stage>, books:<kind>, limit, denied_requests; more:<kind>: a list was '
  'cut; check_failed:<kind>: the conditions of that kind are unknown.';
comment on column public.giftcard_alerts.newest is 'dead_letters, books: when the newest of them came.';
comment on column public.giftcard_alerts.resolved_at is 'When it was over. null: it holds.';

-- Return the condition that there are dead letters older than five minutes. Occurrences of recurring schedules are not
-- counted: the next one comes anyway.
create function public.giftcard_dead_letters_condition(p_now timestamptz)
returns table (condition text, since timestamptz, detail jsonb)
language sql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
  select 'dead_letters', min(d.oldest),
         jsonb_build_object('jobs', sum(d.jobs), 'at_least', bool_or(d.jobs >= 1000), 'stages', jsonb_agg(d.stage),
                            'newest', max(d.newest))
    from (select c.stage, count(*) as jobs, min(e.finished_at) as oldest, max(e.finished_at) as newest
            from public.giftcard_dead_stages() c cross join lateral (
              select j.finished_at from public.giftcard_jobs j
               where j.status = 'error' and j.stage = c.stage and j.trigger_type <> 'schedule'
                 and j.finished_at <= p_now - interval '5 minutes'
               order by j.finished_at desc limit 1000) e
           group by c.stage) d having count(*) > 0 order by 1 limit 1
$$;

-- Return a condition for each circuit that is not closed, up to 10,000.
create function public.giftcard_circuit_conditions()
returns table (condition text, since timestamptz, detail jsonb)
language sql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
  select 'circuit:' || c.circuit, c.changed_at,
         jsonb_build_object('circuit', c.circuit, 'open_until', c.open_until, 'cause', (
           select h.cause from public.giftcard_circuit_changes h where h.circuit = c.circuit
            order by h.id desc limit 1))
    from public.giftcard_circuits c where (c.failures > 0 or c.state <> 'closed') and c.state <> 'closed'
   order by c.circuit limit 10000
$$;

-- Return the condition that no tick came for minutes.
create function public.giftcard_no_tick_condition(p_now timestamptz)
returns table (condition text, since timestamptz, detail jsonb)
language sql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
  -- Found by the tick that follows, and by a status request while there is none.
  select 'no_tick', g.began, jsonb_build_object(
           'seconds', round(extract(epoch from g.ended - g.began)), 'error', coalesce(g.error, ''))
    from public.giftcard_newest_silence(p_now) g
   where g.silent and g.ended > p_now - interval '5 minutes' order by g.began limit 1
$$;

-- Return a condition for each stage with a due job that has waited for longer than p_late. p_stages: as in
-- giftcard_status.
create function public.giftcard_late_conditions(p_stages jsonb, p_late interval, p_now timestamptz)
returns table (condition text, since timestamptz, detail jsonb)
language sql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
  select 'late:' || h.stage, min(h.head_at),
         jsonb_build_object('stage', h.stage, 'seconds', round(extract(epoch from p_now - min(h.head_at))))
    from public.giftcard_queue_heads(p_stages, p_now) h
   where h.availability <> 'parked' and isfinite(h.head_at) and h.head_at <= p_now - p_late
   group by h.stage order by h.stage limit 10000
$$;

-- Return a condition for each kind of difference between money and cards that is older than five minutes. spent: how
-- many of them are cards that were spent, at least in part: that money is gone.
create function public.giftcard_books_conditions(p_now timestamptz)
returns table (condition text, since timestamptz, detail jsonb)
language sql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
  select 'books:' || r.kind, min(r.since),
         jsonb_build_object('kind', r.kind, 'items', count(*), 'at_least', sum(count(*)) over () >= 1000,
                            'first', (array_agg(r.correlation_id order by r.since))[1], 'newest', max(r.since),
                            'spent', count(*) filter (where c.balance < c.amount))
    from public.giftcard_reconcile() r
    left join public.giftcard_cards c
      on r.kind in ('refunded_after_issue', 'disputed_after_issue', 'card_of_cancelled_order')
     and c.tenant_id = r.tenant_id and c.correlation_id = r.correlation_id
   where r.since <= p_now - interval '5 minutes' group by r.kind order by r.kind limit 100
$$;

-- Return the condition that the last ten ticks of the clock all stopped at a limit, with due jobs left.
create function public.giftcard_limit_condition(p_stages jsonb, p_now timestamptz)
returns table (condition text, since timestamptz, detail jsonb)
language sql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
  select 'limit', min(k.started_at), jsonb_build_object('ticks', count(*), 'stopped_because', max(k.stopped_because))
    from (select x.started_at, x.stopped_because from public.giftcard_ticks x
           where x.source = 'cron' and x.ended_at is not null order by x.id desc limit 10) k
  having count(*) = 10 and bool_and(k.stopped_because in ('limit', 'budget')) and exists (
    select from public.giftcard_queue_heads(p_stages, p_now) h where h.availability = 'ready' and h.head_at <= p_now)
   order by 1 limit 1
$$;

-- Return the condition that at least 100 wrong tokens and signatures came within the last ten minutes.
create function public.giftcard_denied_condition(p_now timestamptz)
returns table (condition text, since timestamptz, detail jsonb)
language sql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
  select 'denied_requests', min(d.window_at), jsonb_build_object('requests', sum(d.requests + d.former_requests))
    from public.giftcard_denied_requests d
   where d.window_at > p_now - interval '5 minutes' and d.window_at <= p_now
  having sum(d.requests + d.former_requests) >= 100 order by 1 limit 1
$$;

-- Return the conditions of one kind that hold now, as rows of giftcard_alerts: the first 100; how many more is a
-- condition of its own, more:<kind>. A check that fails is the condition check_failed:<kind>: it stops no other kind.
create function public.giftcard_conditions_of(p_kind text, p_stages jsonb, p_late interval, p_now timestamptz)
returns public.giftcard_alerts[]
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
begin
  return (
    with found as (
      select * from public.giftcard_dead_letters_condition(p_now) where p_kind = 'dead_letters'
      union all
      select * from public.giftcard_circuit_conditions() where p_kind = 'circuit'
      union all
      select * from public.giftcard_no_tick_condition(p_now) where p_kind = 'no_tick'
      union all
      select * from public.giftcard_late_conditions(p_stages, p_late, p_now) where p_kind = 'late'
      union all
      select * from public.giftcard_books_conditions(p_now) where p_kind = 'books'
      union all
      select * from public.giftcard_limit_condition(p_stages, p_now) where p_kind = 'limit'
      union all
      select * from public.giftcard_denied_condition(p_now) where p_kind = 'denied_requests'
    ), numbered as (
      select f.*, row_number() over (order by f.condition) as n from found f
    ), listed as (
      -- A name that is too long for an index is cut.
      select case when length(condition) <= 300 then condition
                  else left(condition, 260) || '…' || md5(condition) end as condition,
             since, detail, (detail ->> 'newest')::timestamptz as newest
        from numbered where n <= 100
      union all
      select 'more:' || p_kind, min(since), jsonb_build_object('more', count(*)), null
        from numbered where n > 100 having count(*) > 0)
    select array_agg(row(condition, since, detail, newest, null)::public.giftcard_alerts) from listed);
exception when others then
  return array[row('check_failed:' || p_kind, p_now,
                   jsonb_build_object('sqlstate', sqlstate, 'error', left(sqlerrm, 200)), null, null
                  )::public.giftcard_alerts];
end $$;

-- Return the conditions that hold now: (condition, since, detail, newest). p_stages: as in giftcard_status; p_late: how
-- long a due job may wait.
create function public.giftcard_active_conditions(p_stages jsonb, p_late interval, p_now timestamptz)
returns table (condition text, since timestamptz, detail jsonb, newest timestamptz)
language sql stable security invoker set search_path = '' set jit = off as $$
  select c.condition, c.since, c.detail, c.newest
    from unnest(array['dead_letters', 'circuit', 'no_tick', 'late', 'books', 'limit', 'denied_requests']) k(kind)
   cross join lateral unnest(public.giftcard_conditions_of(k.kind, p_stages, p_late, p_now)) c
   order by c.condition limit 1000
$$;

-- Return the kind of a condition: circuit of circuit:<name> and of more:circuit.
create function public.giftcard_condition_kind(p_condition text) returns text
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return split_part(regexp_replace(p_condition, '^more:', ''), ':', 1);
end $$;

-- Return a detail for a notification: an empty object if it is none.
create function public.giftcard_alert_detail(p_detail jsonb) returns jsonb
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return case when jsonb_typeof(p_detail) = 'object' then public.giftcard_readable(p_detail, 10000)
              else '{}'::jsonb end;
end $$;
-- Notifications: operators are notified of a condition once when it begins and once when it is over, on each channel.
-- What was sent is stored, because ticks have no memory.

create table public.giftcard_alert_notifications (
  condition text collate "C" not null,
  channel text collate "C" not null,
  notified_at timestamptz,
  notified_through timestamptz,
  end_notified_at timestamptz,
  failed_at timestamptz,
  sending_until timestamptz,
  sending_through timestamptz,
  constraint giftcard_alert_notifications_pkey primary key (condition, channel),
  constraint giftcard_alert_notifications_condition_fkey foreign key (condition)
    references public.giftcard_alerts (condition) on delete cascade
);

comment on table public.giftcard_alert_notifications is
  'One row is one condition on one channel: what was sent there, and what is still to be sent.';
comment on column public.giftcard_alert_notifications.channel is
  'Its kind and a keyed digest of its address, which is not stored: mail:<digest>, url:<digest>; or sentry.';
comment on column public.giftcard_alert_notifications.notified_at is
  'When the channel last accepted that the condition holds. null, or in the future (the clock went back): it has not.';
comment on column public.giftcard_alert_notifications.notified_through is
  'dead_letters, books: when the newest of those notified came.';
comment on column public.giftcard_alert_notifications.end_notified_at is
  'When the channel accepted that it is over, as its last notification.';
comment on column public.giftcard_alert_notifications.failed_at is
  'When the channel last failed to accept a notification; null once it has accepted it.';
comment on column public.giftcard_alert_notifications.sending_until is
  'A tick is sending a notification. After this time another one tries.';

-- Return the notifications that each of p_channels is to be sent now: (condition, channel, kind). raised: not notified
-- of it yet, and not within the last hour if the condition comes and goes; repeated: after p_repeat, and for new dead
-- letters or differences once an hour; resolved: over, after a notification. What another tick is sending is left out.
-- Times that only a clock that went back explains do not count.
create function public.giftcard_due_notifications(p_channels text[], p_repeat interval, p_now timestamptz)
returns table (condition text, channel text, kind text)
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select d.condition, d.channel, d.kind from (
    select a.condition, c.channel, n.sending_until, case
        when a.resolved_at is not null
          then case when n.notified_at is not null and n.end_notified_at is null then 'resolved' end
        when n.notified_at is null or n.notified_at > p_now then 'raised'
        when n.end_notified_at is not null
          then case when n.notified_at <= p_now - interval '1 hour' then 'raised' end
        when n.notified_at <= p_now - p_repeat
             and (a.condition <> 'dead_letters' or n.notified_at <= p_now - interval '1 hour') then 'repeated'
        when a.newest > case when n.notified_through <= p_now then n.notified_through else '-infinity' end
             and n.notified_at <= p_now - interval '1 hour' then 'repeated' end as kind
      from public.giftcard_alerts a cross join (select distinct u.channel from unnest(p_channels) u(channel)) c
      left join public.giftcard_alert_notifications n on n.condition = a.condition and n.channel = c.channel) d
   where d.kind is not null
     and not exists (select from public.giftcard_faulty_rows f
                      where f.kind = 'alert' and f.row_id = left(d.channel || ' ' || d.condition, 200)
                        and f.skip_until > p_now and f.skip_until <= p_now + interval '2 hours')
     and (d.sending_until > p_now and d.sending_until <= p_now + interval '1 minute') is not true
   order by d.condition, d.channel limit 10000
$$;

-- Record that work has failed on the row of a notification. It is not sent for an hour: each minute would be a flood.
create function public.giftcard_record_alert_fault(
  p_condition text, p_channel text, p_sqlstate text, p_message text, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  if public.giftcard_is_unavailable(p_sqlstate) then
    raise exception '%', p_message using errcode = p_sqlstate;
  end if;
  perform public.giftcard_record_fault(
    'alert', p_channel || ' ' || p_condition, public.giftcard_error_text(p_sqlstate, p_message), p_now,
    p_now + interval '1 hour');
end $$;

-- Claim a notification for a minute. Return whether it is to be sent: one whose row is refused is recorded.
create function public.giftcard_claim_notification(p_condition text, p_channel text, p_now timestamptz)
returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_changed bigint;
begin
  insert into public.giftcard_alert_notifications (condition, channel, sending_until, sending_through)
  select a.condition, p_channel, p_now + interval '1 minute', a.newest
    from public.giftcard_alerts a where a.condition = p_condition
  on conflict (condition, channel) do update
    set sending_until = excluded.sending_until, sending_through = excluded.sending_through;
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, 1);
  return true;
exception when others then
  perform public.giftcard_record_alert_fault(p_condition, p_channel, sqlstate, sqlerrm, p_now);
  return false;
end $$;

-- Claim the notifications that are due, for a minute. Arguments as in giftcard_due_notifications, return as in
-- giftcard_check_alerts.
create function public.giftcard_claim_notifications(p_channels text[], p_repeat interval, p_now timestamptz)
returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_due jsonb;
begin
  select coalesce(jsonb_agg(to_jsonb(d)), '[]') into v_due
    from public.giftcard_due_notifications(p_channels, p_repeat, p_now) d;
  v_due := (
    select coalesce(jsonb_agg(d), '[]') from jsonb_array_elements(v_due) d
     where public.giftcard_claim_notification(d ->> 'condition', d ->> 'channel', p_now));
  return (
    select coalesce(jsonb_agg(jsonb_build_object('channel', c.channel, 'alerts', c.alerts)
                              order by c.failed_at nulls first, c.channel), '[]')
      from (select d.channel,
                   jsonb_agg(jsonb_build_object(
                     'condition', a.condition, 'kind', d.kind, 'since', a.since,
                     'detail', public.giftcard_alert_detail(a.detail)) order by a.condition) as alerts,
                   (select max(n.failed_at) from public.giftcard_alert_notifications n
                     where n.channel = d.channel) as failed_at
              from jsonb_to_recordset(v_due) d(condition text, channel text, kind text)
              join public.giftcard_alerts a using (condition) group by d.channel) c);
end $$;

-- Keep a condition that holds. One whose row is refused is recorded, and stops no other.
create function public.giftcard_keep_condition(
  p_condition text, p_since timestamptz, p_detail jsonb, p_newest timestamptz, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  insert into public.giftcard_alerts as a (condition, since, detail, newest)
  values (p_condition, p_since, p_detail, p_newest)
  on conflict (condition) do update set
    since = case when a.resolved_at is null then a.since else excluded.since end, detail = excluded.detail,
    newest = excluded.newest, resolved_at = null;
exception when others then
  perform public.giftcard_record_alert_fault(p_condition, '', sqlstate, sqlerrm, p_now);
end $$;

-- Compare the active conditions with those notified, and return the notifications to send now, by channel: [{channel,
-- alerts: [{condition, kind: 'raised' | 'repeated' | 'resolved', since, detail}]}], first the channels that have not
-- failed, then those whose failure is longest ago. Of two ticks at once one gets them, for a minute: unless
-- giftcard_record_notifications confirms them, the next check returns them again.
create function public.giftcard_check_alerts(
  p_stages jsonb, p_late_seconds double precision default 900, p_repeat_hours double precision default 24,
  p_channels text[] default '{}', p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz;
  v_found text[];
  v_unknown text[];
  t record;
begin
  perform pg_advisory_xact_lock(hashtextextended('giftcard alerts', 0));
  -- Read after the lock: what another tick has recorded is in the past.
  v_now := coalesce(p_now, clock_timestamp());
  v_found := '{}';
  for t in select * from public.giftcard_active_conditions(
             p_stages, make_interval(secs => p_late_seconds), v_now) order by condition limit 1000 loop
    v_found := v_found || t.condition;
    perform public.giftcard_keep_condition(t.condition, t.since, t.detail, t.newest, v_now);
  end loop;
  v_unknown := array(select split_part(c, ':', 2) from unnest(v_found) c where starts_with(c, 'check_failed:'));
  update public.giftcard_alerts set resolved_at = v_now
   where condition <> all (v_found) and public.giftcard_condition_kind(condition) <> all (v_unknown)
     and (resolved_at is null or resolved_at > v_now);
  -- Kept are ends to notify of, for a day, and those whose alert is less than an hour ago: they may come back.
  delete from public.giftcard_alerts a
   where a.resolved_at is not null and (a.resolved_at <= v_now - interval '24 hours' or not exists (
     select from public.giftcard_alert_notifications n
      where n.condition = a.condition
        and (n.notified_at is not null and n.end_notified_at is null
             or n.notified_at > v_now - interval '1 hour' and n.notified_at <= v_now
             or n.sending_until > v_now and n.sending_until <= v_now + interval '1 minute')));
  return public.giftcard_claim_notifications(p_channels, make_interval(secs => p_repeat_hours * 3600), v_now);
end $$;

-- Record what became of one notification, as giftcard_record_notifications takes it. One whose row is refused is
-- recorded as a fault.
create function public.giftcard_record_notification(
  p_condition text, p_channel text, p_kind text, p_sent boolean, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_changed bigint;
begin
  update public.giftcard_alert_notifications n
     set notified_at = case when p_sent and p_kind <> 'resolved' then p_now else n.notified_at end,
         notified_through = case when p_sent and p_kind <> 'resolved' then n.sending_through
                                 else n.notified_through end,
         end_notified_at = case when p_sent then case when p_kind = 'resolved' then p_now end
                                else n.end_notified_at end,
         failed_at = case when p_sent then null when not p_sent then p_now else n.failed_at end,
         sending_until = null
   where n.condition = p_condition and n.channel = p_channel;
  get diagnostics v_changed = row_count;
  if exists (select from public.giftcard_alert_notifications
              where condition = p_condition and channel = p_channel) then
    perform public.giftcard_check_changed(v_changed, 1);
  end if;
exception when others then
  perform public.giftcard_record_alert_fault(p_condition, p_channel, sqlstate, sqlerrm, p_now);
end $$;

-- Record what became of the notifications that giftcard_check_alerts returned: [{condition, channel, kind, sent}].
-- sent: true if the channel accepted it, false if it failed, null if it was not tried. All but the first are due again.
create function public.giftcard_record_notifications(p_notified jsonb, p_now timestamptz default null) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz;
  t record;
begin
  perform pg_advisory_xact_lock(hashtextextended('giftcard alerts', 0));
  v_now := coalesce(p_now, clock_timestamp());
  for t in select * from jsonb_to_recordset(p_notified) x(condition text, channel text, kind text, sent boolean) loop
    perform public.giftcard_record_notification(t.condition, t.channel, t.kind, t.sent, v_now);
  end loop;
end $$;

-- Return the conditions that hold: [{condition, since, notified_at, detail}], the first 200 by since; how many more is
-- a condition of its own, more:alerts. notified_at: when any channel was last notified of it.
create function public.giftcard_active_alerts() returns jsonb
language sql stable security invoker set search_path = '' as $$
  with active as (
    select a.condition, a.since, public.giftcard_alert_detail(a.detail) as detail,
           (select max(n.notified_at) from public.giftcard_alert_notifications n
             where n.condition = a.condition) as notified_at,
           row_number() over (order by a.since, a.condition) as n
      from public.giftcard_alerts a where a.resolved_at is null)
  select coalesce(jsonb_agg(jsonb_build_object('condition', c.condition, 'since', c.since,
                                               'notified_at', c.notified_at, 'detail', c.detail)
                            order by c.n), '[]')
    from (select * from active where n <= 200
          union all
          select 'more:alerts', min(since), jsonb_build_object('more', count(*)), null, 201
            from active where n > 200 having count(*) > 0) c
$$;
-- Doctor: facts about the database, which lib's doctor judges. Each is bounded, so that a status may ask at any time.

-- Return whether the disk has no room for 100 kB. An INSERT into a full disk succeeds while its page has room, and a
-- trial row would stay as a dead one: so this writes a temporary file, which 64 kB of memory cannot hold.
create function public.giftcard_disk_is_full() returns boolean
language plpgsql volatile security invoker set search_path = '' set work_mem = '64kB' as $$
begin
  perform count(*) from generate_series(1, 8000);
  return false;
exception
  when disk_full then
    return true;
  when configuration_limit_exceeded then
    return false;  -- temp_file_limit allows no such file: what room there is, is not known
end $$;

-- Refuse if this call could not write: 25006 read-only, 57P03 in recovery, 53100 its disk is full. An error and not a
-- value, so that no connection of that time is used again. Volatile: PostgREST runs it in a transaction that may write.
create function public.giftcard_health() returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  if pg_is_in_recovery() then
    perform public.giftcard_refuse('57P03', 'the database is in recovery and only reads');
  elsif current_setting('transaction_read_only')::boolean then
    perform public.giftcard_refuse('25006', 'the database is read-only');
  elsif public.giftcard_disk_is_full() then
    perform public.giftcard_refuse('53100', 'the disk of the database is full');
  end if;
end $$;

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
-- that lib/store/exchange.py has made in this session.
create function public.giftcard_doctor(p_stages jsonb default null, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  return jsonb_build_object(
    'clock', extract(epoch from clock_timestamp()),
    'schema', public.giftcard_schema_version(),
    -- Whether new transactions of this session can only read; this one does in any case.
    'read_only', current_setting('default_transaction_read_only')::boolean,
    'in_recovery', pg_is_in_recovery(), 'disk_full', public.giftcard_disk_is_full(),
    'hides_rows', row_security_active('public.giftcard_jobs'),
    'excess_privileges', (select coalesce(jsonb_agg(to_jsonb(d)), '[]') from public.giftcard_excess_privileges() d),
    -- Ticks of the clock, the newest first.
    'ticks', (select coalesce(jsonb_agg(jsonb_build_object(
          'age', public.giftcard_milliseconds(t.started_at, v_now) / 1000.0,
          'ended_age', public.giftcard_milliseconds(t.ended_at, v_now) / 1000.0,
          'killed', t.ended_at is null and t.live_until <= v_now, 'stopped_because', t.stopped_because,
          'error', t.error)
              order by t.id desc), '[]')
        from (select * from (select * from public.giftcard_ticks order by id desc limit 200) n
               where n.source = 'cron' and isfinite(n.started_at) order by n.id desc limit 20) t),
    'waking', public.giftcard_waking(v_now),
    -- Since when none has ended well, in seconds.
    'silence', (select case when s.silent then public.giftcard_milliseconds(s.began, s.ended) / 1000.0 end
                  from public.giftcard_newest_silence(v_now) s where s.ended > v_now - interval '1 second'),
    'faulty_rows', (select coalesce(jsonb_agg(jsonb_build_object(
          'kind', f.kind, 'row_id', f.row_id, 'error', f.error, 'skipped', f.skip_until > v_now)
              order by f.last_at desc, f.kind, f.row_id), '[]')
        from (select * from public.giftcard_faulty_rows r
               where r.last_at > v_now - interval '24 hours' and public.giftcard_is_faulty(r, v_now)
               order by r.last_at desc, r.kind, r.row_id limit 20) f),
    'differences', (select coalesce(jsonb_object_agg(d.kind, d.items), '{}') from (
          select r.kind, count(*) as items from public.giftcard_reconcile() r group by r.kind order by r.kind) d),
    -- Stages with queued jobs; due: a tick that began now could start one.
    'queued', (select coalesce(jsonb_object_agg(q.stage, q.due), '{}') from (
          select h.stage, bool_or(h.availability in ('ready', 'probing') and h.head_at <= v_now) as due
            from public.giftcard_queue_heads(p_stages, v_now) h group by h.stage order by h.stage limit 200) q),
    'paused', (select coalesce(jsonb_agg(s.stage order by s.stage), '[]')
        from (select stage from public.giftcard_stages where paused_at is not null order by stage limit 200) s),
    'limits', public.giftcard_limits_to_judge(v_now),
    'unusable_settle_functions', public.giftcard_unusable_settle_functions(),
    'unusable_events', public.giftcard_unusable_events(v_now),
    'cards', public.giftcard_keys_of_cards(),
    -- Of the newest endpoints.
    'keys_of_endpoints', (select coalesce(jsonb_agg(distinct c.key_id), '[]') from (
          select public.giftcard_key_id(t) as key_id
            from (select * from public.giftcard_webhook_endpoints order by id desc limit 200) w,
                 unnest(array[w.secret_encrypted, w.previous_secret_encrypted, w.oldest_secret_encrypted]) t
           where t is not null limit 600) c),
    'sees_all', pg_has_role('pg_read_all_stats', 'usage'),
    'oldest_transaction', (select jsonb_build_object('age', extract(epoch from v_now - o.began), 'pid', o.pid,
                                                     'application', o.application)
        from (select a.xact_start as began, a.pid, a.application_name as application from pg_stat_activity a
               where a.datname = current_database() and a.backend_type = 'client backend' and a.pid <> pg_backend_pid()
                 and a.xact_start is not null
               order by a.xact_start limit 1) o),
    'dead_rows', pg_stat_get_dead_tuples('public.giftcard_jobs'::regclass),
    'prepared_statements', (select count(*) from pg_prepared_statements where name like 'giftcard\_%'));
end $$;
-- Recent runs: how many ended in each minute and hour, how long they took and how late they began. Folded from the
-- history with the counters (70_metrics.sql); what is not folded yet is read from the history itself.

create table public.giftcard_run_minutes (
  minute timestamptz not null,
  stage text collate "C" not null,
  result text collate "C" not null,
  bucket smallint not null,
  runs integer not null,
  longest_ms bigint,
  constraint giftcard_run_minutes_pkey primary key (minute, stage, result, bucket)
);

comment on table public.giftcard_run_minutes is
  'Runs of a stage that ended in a minute with a result and took about as long. Kept for two hours.';
comment on column public.giftcard_run_minutes.bucket is
  'Of the duration: giftcard_measured_runs. -1: the handler did not end.';

create table public.giftcard_start_minutes (
  minute timestamptz not null,
  bucket smallint not null,
  runs integer not null,
  longest_ms bigint not null,
  constraint giftcard_start_minutes_pkey primary key (minute, bucket)
);

comment on table public.giftcard_start_minutes is
  'Runs that began in a minute, about as long after their time. Kept for two hours.';

create table public.giftcard_run_hours (
  hour timestamptz not null,
  result text collate "C" not null,
  runs integer not null,
  constraint giftcard_run_hours_pkey primary key (hour, result)
);

comment on table public.giftcard_run_hours is 'Runs that ended in an hour with a result. Kept for eight days.';

-- A run, as recent runs count it: the minutes in which it began and ended; ms: its duration, if its handler ended;
-- delay_ms: how long after its time it began, as in giftcard_precision. Both also in buckets, ten to each power of ten:
-- times of one bucket differ by a quarter at most.
create type public.giftcard_measured_run as (
  ended timestamptz, began timestamptz, stage text, result text, bucket smallint, ms bigint, delay_bucket smallint,
  delay_ms bigint);

-- Return the newest p_limit runs (null: all) that ended after p_from and until p_to.
create function public.giftcard_measured_runs(p_from timestamptz, p_to timestamptz, p_limit integer)
returns setof public.giftcard_measured_run
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return query
    select date_bin('1 minute', h.finished_at, '2000-01-01Z'), date_bin('1 minute', h.started_at, '2000-01-01Z'),
           left(h.stage, 200), h.result::text,
           case when d.ms < 1 then 0 when d.ms is not null then 1 + ceil(10 * log(d.ms)) else -1 end::smallint,
           d.ms::bigint,
           case when w.ms < 1 then 0 when w.ms is not null then 1 + ceil(10 * log(w.ms)) end::smallint, w.ms::bigint
      from (select * from public.giftcard_job_history r
             where r.finished_at > p_from and r.finished_at <= p_to order by r.finished_at desc limit p_limit) h
     cross join lateral (select date_part('epoch', h.started_at) as began) s
     cross join lateral (
        select case when h.result in ('SUCCESS', 'FAILED') and isfinite(h.started_at)
                    then greatest(0, round((date_part('epoch', h.finished_at) - s.began) * 1000)) end as ms) d
     cross join lateral (
        select case when h.result <> 'RELEASED' and isfinite(h.scheduled_at) and isfinite(h.started_at)
                         and h.started_at >= h.scheduled_at
                    then round((s.began - date_part('epoch', h.scheduled_at)) * 1000) end as ms) w;
end $$;

-- Fold the runs that ended after p_from and until p_to, and forget what is too old to be shown, or from the future: a
-- clock went wrong. giftcard_update_counters calls it, once for each run.
create function public.giftcard_fold_runs(p_from timestamptz, p_to timestamptz, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_minutes timestamptz := p_now - interval '2 hours';
  v_hours timestamptz := p_now - interval '192 hours';
begin
  delete from public.giftcard_run_minutes where minute < v_minutes or minute > p_now;
  delete from public.giftcard_start_minutes where minute < v_minutes or minute > p_now;
  delete from public.giftcard_run_hours where hour < v_hours or hour > p_now;
  with h as materialized (
    select * from public.giftcard_measured_runs(greatest(p_from, v_hours), p_to, null)),
  ended as (
    insert into public.giftcard_run_minutes as m (minute, stage, result, bucket, runs, longest_ms)
    select h.ended, h.stage, h.result, h.bucket, count(*), max(h.ms) from h where h.ended >= v_minutes
     group by 1, 2, 3, 4 order by 1, 2, 3, 4
    on conflict (minute, stage, result, bucket) do update
      set runs = m.runs + excluded.runs, longest_ms = greatest(m.longest_ms, excluded.longest_ms)),
  began as (
    insert into public.giftcard_start_minutes as m (minute, bucket, runs, longest_ms)
    select h.began, h.delay_bucket, count(*), max(h.delay_ms) from h
     where h.delay_ms is not null and h.began between v_minutes and p_now group by 1, 2 order by 1, 2
    on conflict (minute, bucket) do update
      set runs = m.runs + excluded.runs, longest_ms = greatest(m.longest_ms, excluded.longest_ms))
  insert into public.giftcard_run_hours as m (hour, result, runs)
  select date_bin('1 hour', h.ended, '2000-01-01Z'), h.result, count(*) from h group by 1, 2 order by 1, 2
  on conflict (hour, result) do update set runs = m.runs + excluded.runs;
end $$;

-- Return how many runs ended in each of 60 minutes from p_from on: those that are folded, and p_tail.
create function public.giftcard_runs_by_minute(p_from timestamptz, p_tail public.giftcard_measured_run[]) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    with runs as (
      (select m.minute, m.result, m.runs from public.giftcard_run_minutes m
        where m.minute >= p_from and m.minute < p_from + interval '1 hour' order by m.minute limit 50000)
      union all
      select t.ended, t.result, 1 from unnest(p_tail) t),
    sums as (
      select r.minute, sum(r.runs) filter (where r.result = 'SUCCESS') as succeeded,
             sum(r.runs) filter (where r.result = 'FAILED') as failed,
             sum(r.runs) filter (where r.result = 'INTERRUPTED') as interrupted,
             sum(r.runs) filter (where r.result = 'SNOOZED') as snoozed
        from runs r group by r.minute)
    select jsonb_agg(jsonb_build_object(
        'at', n.at, 'succeeded', coalesce(s.succeeded, 0), 'failed', coalesce(s.failed, 0),
        'interrupted', coalesce(s.interrupted, 0), 'snoozed', coalesce(s.snoozed, 0)) order by n.at)
      from (select p_from + interval '1 minute' * i as at from generate_series(0, 59) i) n
      left join sums s on s.minute = n.at);
end $$;

-- Return how many runs ended in each of 168 hours from p_from on: those that are folded, and p_tail.
create function public.giftcard_runs_by_hour(p_from timestamptz, p_tail public.giftcard_measured_run[]) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    with runs as (
      select h.hour, h.result, h.runs from public.giftcard_run_hours h
       where h.hour >= p_from and h.hour < p_from + interval '168 hours'
      union all
      select date_bin('1 hour', t.ended, '2000-01-01Z'), t.result, 1 from unnest(p_tail) t),
    sums as (
      select r.hour, sum(r.runs) filter (where r.result = 'SUCCESS') as succeeded,
             sum(r.runs) filter (where r.result = 'FAILED') as failed,
             sum(r.runs) filter (where r.result = 'INTERRUPTED') as interrupted,
             sum(r.runs) filter (where r.result = 'SNOOZED') as snoozed
        from runs r group by r.hour)
    select jsonb_agg(jsonb_build_object(
        'at', n.at, 'succeeded', coalesce(s.succeeded, 0), 'failed', coalesce(s.failed, 0),
        'interrupted', coalesce(s.interrupted, 0), 'snoozed', coalesce(s.snoozed, 0)) order by n.at)
      from (select p_from + interval '1 hour' * i as at from generate_series(0, 167) i) n
      left join sums s on s.hour = n.at);
end $$;

-- Return for each of 60 minutes from p_from on how long after their time its runs began. A percentile is the longest
-- delay of the bucket that it falls into.
create function public.giftcard_starts_by_minute(p_from timestamptz, p_tail public.giftcard_measured_run[])
returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    with runs as (
      select m.minute, m.bucket, m.runs, m.longest_ms as ms from public.giftcard_start_minutes m
       where m.minute >= p_from and m.minute < p_from + interval '1 hour'
      union all
      select t.began, t.delay_bucket, 1, t.delay_ms from unnest(p_tail) t where t.delay_ms is not null),
    buckets as (
      select r.minute, max(r.ms) as ms,
             sum(sum(r.runs)::integer) over (partition by r.minute order by r.bucket) as upto,
             sum(sum(r.runs)::integer) over (partition by r.minute) as runs
        from runs r group by r.minute, r.bucket),
    minutes as (
      select b.minute, max(b.runs) as runs, min(b.ms) filter (where 2 * b.upto >= b.runs) as p50,
             min(b.ms) filter (where 20 * b.upto >= 19 * b.runs) as p95, max(b.ms) as longest
        from buckets b group by b.minute)
    select jsonb_agg(jsonb_build_object('at', n.at, 'runs', coalesce(m.runs, 0), 'p50_ms', m.p50, 'p95_ms', m.p95,
                                        'max_ms', m.longest) order by n.at)
      from (select p_from + interval '1 minute' * i as at from generate_series(0, 59) i) n
      left join minutes m on m.minute = n.at);
end $$;

-- Return {stage: {runs, succeeded, p50_ms, p95_ms}} of the runs that ended within 60 minutes from p_from on. A run that
-- was snoozed or released does not count; the durations are of those whose handler ended.
create function public.giftcard_runs_by_stage(p_from timestamptz, p_tail public.giftcard_measured_run[]) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    with runs as (
      (select m.stage, m.result, m.bucket, m.runs, m.longest_ms as ms from public.giftcard_run_minutes m
        where m.minute >= p_from and m.minute < p_from + interval '1 hour' order by m.minute limit 50000)
      union all
      select t.stage, t.result, t.bucket, 1, t.ms from unnest(p_tail) t where t.ended >= p_from),
    buckets as materialized (
      select r.stage, r.bucket, sum(r.runs)::integer as runs, max(r.ms) as ms,
             coalesce(sum(r.runs) filter (where r.result = 'SUCCESS'), 0)::integer as succeeded
        from runs r where r.result in ('SUCCESS', 'FAILED', 'INTERRUPTED') group by r.stage, r.bucket),
    times as (
      select t.stage, min(t.ms) filter (where 2 * t.upto >= t.runs) as p50,
             min(t.ms) filter (where 20 * t.upto >= 19 * t.runs) as p95
        from (select b.stage, b.ms, sum(b.runs) over (partition by b.stage order by b.bucket) as upto,
                     sum(b.runs) over (partition by b.stage) as runs from buckets b where b.bucket >= 0) t
       group by t.stage)
    select coalesce(jsonb_object_agg(s.stage, jsonb_build_object(
        'runs', s.runs, 'succeeded', s.succeeded, 'p50_ms', t.p50, 'p95_ms', t.p95)), '{}')
      from (select b.stage, sum(b.runs) as runs, sum(b.succeeded) as succeeded from buckets b
             group by b.stage order by b.stage limit 1000) s
      left join times t on t.stage = s.stage);
end $$;

-- Return {minutes, hours, starts, stages} of the overview: of the last 60 minutes and 168 hours, the present ones
-- included. What is not folded yet is read live, the newest 10,000 runs of it.
create function public.giftcard_overview_runs(p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_minute timestamptz := date_bin('1 minute', p_now, '2000-01-01Z') - interval '59 minutes';
  v_hour timestamptz := date_bin('1 hour', p_now, '2000-01-01Z') - interval '167 hours';
  v_from timestamptz := (select greatest(until, v_hour - interval '1 microsecond')
                           from public.giftcard_counter_watermarks where source = 'history');
  v_tail public.giftcard_measured_run[] := array(select public.giftcard_measured_runs(v_from, p_now, 10000));
begin
  return jsonb_build_object(
    'minutes', public.giftcard_runs_by_minute(v_minute, v_tail),
    'hours', public.giftcard_runs_by_hour(v_hour, v_tail),
    'starts', public.giftcard_starts_by_minute(v_minute, v_tail),
    'stages', public.giftcard_runs_by_stage(v_minute, v_tail));
end $$;
-- The overview's ticks: the last that ended well, the newest, and the last 60 minutes of the clock.

-- Return a tick as the overview shows it.
create function public.giftcard_overview_tick(t public.giftcard_ticks) returns jsonb
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return jsonb_build_object(
    'id', t.id, 'source', left(t.source, 200), 'started_at', t.started_at,
    'ended_at', public.giftcard_finite(t.ended_at),
    'duration_ms', case when isfinite(t.ended_at)
                        then greatest(0, public.giftcard_milliseconds(t.started_at, t.ended_at)) end,
    'started', t.started,
    'completed', t.completed, 'retried', t.retried, 'errored', t.errored, 'snoozed', t.snoozed,
    'interrupted', t.interrupted, 'stopped_because', t.stopped_because);
end $$;

-- Return the ticks of the last 60 minutes, minute by minute, of the newest 2,000. A tick belongs to the minute in which
-- it began. failed: it failed, or its function was killed. overlapping: it began while an earlier one was under way,
-- which does no harm. missing: no tick began in that minute, nor was one under way throughout it, although there were
-- ticks before; the present minute is never missing.
create function public.giftcard_overview_minutes(p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_last timestamptz := date_trunc('minute', p_now, 'UTC');
begin
  return (
    with seen as materialized (
      select t.*, case when t.ended_at is not null then t.ended_at when t.live_until > p_now then p_now end as until
        from (select id, started_at, ended_at, live_until, source, stopped_because::text as why, started
                from public.giftcard_ticks order by id desc limit 2000) t
       where t.started_at between '2000-01-01' and p_now),
    placed as (
      select s.*, date_trunc('minute', s.started_at, 'UTC') as minute,
             s.why is distinct from 'duplicate' and s.started_at < max(s.until) over (
               order by s.started_at, s.id rows between unbounded preceding and 1 preceding) as overlaps
        from seen s where s.started_at >= v_last - interval '2 hours'),
    minutes as (
      select p.minute, count(*) as ticks, sum(p.started) as started,
             count(*) filter (where p.why = 'failed' or p.ended_at is null and p.live_until <= p_now) as failed,
             count(*) filter (where p.why = 'duplicate') as doubled, count(*) filter (where p.overlaps) as overlapping,
             count(*) filter (where p.why in ('limit', 'budget')) as "limit",
             min(p.started_at) filter (where p.source = 'cron') as first_at
        from placed p group by p.minute)
    select jsonb_agg(jsonb_build_object(
        'at', n.at, 'ticks', coalesce(m.ticks, 0), 'started', coalesce(m.started, 0), 'failed', coalesce(m.failed, 0),
        'doubled', coalesce(m.doubled, 0), 'overlapping', coalesce(m.overlapping, 0),
        'late_s', floor(extract(epoch from m.first_at - n.at)), 'limit', coalesce(m."limit", 0),
        'missing', m.ticks is null and n.at < v_last and coalesce(n.at > f.at, false) and not exists (
          select from seen s where s.started_at <= n.at and s.until >= n.at + interval '1 minute')) order by n.at)
      from (select v_last - interval '1 minute' * i as at from generate_series(0, 59) i) n
     cross join (select min(s.started_at) as at from seen s) f
      left join minutes m on m.minute = n.at);
end $$;

-- Return {last_good, newest, silent, silence_began, minutes} of the overview. A tick in the future was written while a
-- clock went wrong: it is passed over.
create function public.giftcard_overview_ticks(p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_good public.giftcard_ticks;
  v_newest public.giftcard_ticks;
  s record;
begin
  select t.* into v_newest from (select * from public.giftcard_ticks order by id desc limit 2000) t
   where t.started_at between '2000-01-01' and p_now order by t.id desc limit 1;
  select t.* into v_good from (select * from public.giftcard_ticks order by id desc limit 2000) t
   where t.started_at between '2000-01-01' and p_now and t.ended_at between t.started_at and p_now
     and public.giftcard_ended_well(t.ended_at, t.stopped_because) order by t.id desc limit 1;
  select * into s from public.giftcard_newest_silence(p_now);
  -- A silence that a tick has ended is over.
  s.silent := coalesce(s.silent and s.ended > p_now - interval '1 second', false);
  return jsonb_build_object(
    'last_good', case when v_good.id is not null then public.giftcard_overview_tick(v_good) end,
    'newest', case when v_newest.id is not null
                   then public.giftcard_overview_tick(v_newest)
                        || jsonb_build_object('error', left(v_newest.error, 500)) end,
    'silent', s.silent, 'silence_began', case when s.silent then s.began end,
    'minutes', public.giftcard_overview_minutes(p_now));
end $$;
-- The overview's queues: stages, open circuits, the oldest due job, dead letters.

-- Holds only jobs that wait for another attempt.
create index giftcard_jobs_retrying on public.giftcard_jobs (stage, id) where status = 'queued' and attempts > 0;
-- Holds one row for each outage: when a circuit opened that was closed before.
create index giftcard_circuit_openings on public.giftcard_circuit_changes (circuit, id) where from_state = 'closed';

-- Count the jobs of each stage that have not ended well: queued, 2,000 at most; of these those that are scheduled for
-- later, and the time of the oldest that is due; running; dead, 1,000 at most.
create function public.giftcard_open_by_stage(p_now timestamptz)
returns table (stage text, queued bigint, later bigint, oldest_due_at timestamptz, running bigint, dead bigint)
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  return query
    with heads as materialized (select * from public.giftcard_queue_heads(null, p_now) limit 1000),
    counts as (
      select s.stage, q.jobs as queued, l.jobs as later, s.due_at, 0::bigint as running, 0::bigint as dead
        from (select h.stage, min(h.head_at) filter (where h.head_at <= p_now and isfinite(h.head_at)) as due_at
                from heads h group by h.stage) s
       cross join lateral (select count(*) as jobs from (
         select from heads h cross join lateral (
           select from public.giftcard_jobs j where j.status = 'queued' and j.circuit = h.circuit limit 2000) c
          where h.stage = s.stage limit 2000) c) q
       cross join lateral (select count(*) as jobs from (
         select from heads h cross join lateral public.giftcard_lanes(h.circuit) n(lane) cross join lateral (
           select from public.giftcard_jobs j
            where j.status = 'queued' and j.circuit = h.circuit and (-j.priority) = n.lane and j.scheduled_at > p_now
            limit 1000) c
          where h.stage = s.stage limit 1000) c) l
      union all
      select r.stage, 0, 0, null, count(*), 0
        from (select j.stage from public.giftcard_jobs j where j.status = 'running' limit 10000) r group by r.stage
      union all
      select d.stage, 0, 0, null, 0, n.jobs
        from public.giftcard_dead_stages() d cross join lateral (select count(*) as jobs from (
          select from public.giftcard_jobs j where j.status = 'error' and j.stage = d.stage limit 1000) c) n)
    select c.stage, sum(c.queued)::bigint, sum(c.later)::bigint, min(c.due_at), sum(c.running)::bigint,
           sum(c.dead)::bigint
      from counts c group by c.stage order by c.stage limit 1000;
end $$;

-- Return a time; null if it is not finite: it was written by hand, and no client reads it.
create function public.giftcard_finite(p_time timestamptz) returns timestamptz
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return case when isfinite(p_time) then p_time end;
end $$;

-- Return the worst availability of the circuits of each stage that are not closed: blocked or probing, as in
-- giftcard_queue_heads.
create function public.giftcard_availabilities(p_now timestamptz) returns table (stage text, availability text)
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  return query
    select c.stage, case when bool_or(c.probe_at > p_now) then 'blocked' else 'probing' end
      from (select public.giftcard_stage_of(k.circuit) as stage,
                   public.giftcard_probe_at(k.circuit, k.open_until, p_now) as probe_at
              from (select * from public.giftcard_circuits where failures > 0 or state <> 'closed'
                     order by circuit limit 10000) k
             where k.state <> 'closed' order by k.circuit limit 1000) c
     group by c.stage order by c.stage limit 1000;
end $$;

-- Return a pause as the overview shows it; null for a stage that is not paused.
create function public.giftcard_pause_of(p_stage text) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (select jsonb_build_object('by', left(s.paused_by, 500), 'reason', left(s.reason, 500), 'since',
                                    public.giftcard_finite(s.paused_at))
            from public.giftcard_stages s where s.stage = p_stage and s.paused_at is not null);
end $$;

-- Return the stages of the overview, by name: those of p_stages and p_missing, and all that have open jobs, a pause or
-- runs (p_runs, of giftcard_overview_runs). A count of 1,000 means that there may be more; with 1,000 retrying jobs,
-- waiting is that of 2,000 queued ones.
create function public.giftcard_overview_stages(p_stages jsonb, p_missing jsonb, p_runs jsonb, p_now timestamptz)
returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    with open as materialized (select * from public.giftcard_open_by_stage(p_now)),
    names as (
      select jsonb_object_keys(p_stages) as stage union select jsonb_object_keys(p_missing) union
      select jsonb_object_keys(p_runs) union select o.stage from open o union
      (select s.stage from public.giftcard_stages s where s.paused_at is not null and s.stage <> '*'
        order by s.stage limit 200))
    select coalesce(jsonb_agg(jsonb_build_object(
        'stage', left(n.stage, 200), 'waiting', least(1000, greatest(0, coalesce(o.queued, 0) - r.jobs)),
        'retrying', r.jobs, 'later', least(1000, coalesce(o.later, 0)),
        'running', least(1000, coalesce(o.running, 0)), 'dead', coalesce(o.dead, 0), 'cap', 1000,
        'oldest_due_at', o.oldest_due_at,
        'availability', case when p.paused is not null or not coalesce(p_stages ? n.stage, true) then 'parked'
                             else coalesce(a.availability, 'ready') end,
        'paused', p.paused, 'runs', coalesce((p_runs -> n.stage ->> 'runs')::bigint, 0),
        'succeeded', coalesce((p_runs -> n.stage ->> 'succeeded')::bigint, 0),
        'p50_ms', p_runs -> n.stage -> 'p50_ms', 'p95_ms', p_runs -> n.stage -> 'p95_ms') order by n.stage), '[]')
      from (select m.stage collate "C" as stage from names m order by 1 limit 200) n
      left join open o on o.stage = n.stage
      left join public.giftcard_availabilities(p_now) a on a.stage = n.stage
     cross join lateral (select public.giftcard_pause_of(n.stage) as paused) p
     cross join lateral (select count(*) as jobs from (
       select from public.giftcard_jobs j
        where j.status = 'queued' and j.attempts > 0 and j.stage = n.stage limit 1000) c) r);
end $$;

-- Return an open circuit as the overview shows it. since: when it opened after it was closed; failures: those that
-- opened it, and the probes that have failed since then.
create function public.giftcard_overview_circuit(p_circuit text, p_waiting bigint, p_now timestamptz) returns jsonb
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  c public.giftcard_circuits;
  o public.giftcard_circuit_changes;
  v_cause text;
  v_probes bigint;
begin
  select * into c from public.giftcard_circuits where circuit = p_circuit;
  select * into o from public.giftcard_circuit_changes g
   where g.circuit = p_circuit and g.from_state = 'closed' order by g.id desc limit 1;
  select g.cause into v_cause from public.giftcard_circuit_changes g
   where g.circuit = p_circuit and g.to_state = 'open' order by g.id desc limit 1;
  select count(*) into v_probes from (
    select g.to_state from public.giftcard_circuit_changes g
     where g.circuit = p_circuit and g.id > o.id order by g.id limit 500) g where g.to_state = 'open';
  return jsonb_build_object(
    'circuit', left(p_circuit, 300), 'stage', left(public.giftcard_stage_of(p_circuit), 200),
    'state', case when c.state = 'open' and c.open_until > p_now then 'open' else 'half_open' end,
    'failures', coalesce(substring(o.cause from '^(\d{1,9}) failures in a row')::bigint, 0) + v_probes,
    'since', public.giftcard_finite(coalesce(o.changed_at, c.changed_at)),
    'open_until', public.giftcard_finite(c.open_until),
    'waiting', p_waiting, 'last_error', left(regexp_replace(
      v_cause, '^(\d+ failures in a row, the last|probe failed): ', ''), 500));
end $$;

-- Return {circuits, circuits_more} of the overview: 20 at most that are not closed, those that most due jobs wait
-- behind first. Of many, 200 are looked at, those that have the name of their stage first.
create function public.giftcard_overview_circuits(p_now timestamptz) returns jsonb
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
begin
  return (
    with found as materialized (
      select k.circuit, w.waiting
        from (select r.circuit from (select * from public.giftcard_circuits where failures > 0 or state <> 'closed'
                                order by circuit limit 10000) r
               where r.state <> 'closed' order by strpos(r.circuit, ':') > 0, r.circuit limit 200) k
       cross join lateral (select count(*) as waiting from (
          select from public.giftcard_lanes(k.circuit) l(lane) cross join lateral (
            select from public.giftcard_jobs j
             where j.status = 'queued' and j.circuit = k.circuit and (-j.priority) = l.lane and j.scheduled_at <= p_now
             limit 1000) a
           limit 1000) q) w)
    select jsonb_build_object(
        'circuits', coalesce(jsonb_agg(public.giftcard_overview_circuit(f.circuit, f.waiting, p_now)
                                       order by f.waiting desc, f.circuit), '[]'),
        'circuits_more', (select count(*) > 20 from found))
      from (select * from found order by waiting desc, circuit limit 20) f);
end $$;

-- Return the job that has been due for longest, and why it waits, as giftcard_waiting_for has it; null: none is due.
create function public.giftcard_overview_oldest(p_stages jsonb, p_missing jsonb, p_now timestamptz) returns jsonb
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  v_circuit text := (select h.circuit from public.giftcard_queue_heads(p_stages, p_now) h
                      where h.head_at <= p_now order by h.head_at, h.circuit limit 1);
  j public.giftcard_jobs;
  v_why jsonb;
begin
  select o.* into j from public.giftcard_lanes(v_circuit) l(lane) cross join lateral (
    select q.* from public.giftcard_jobs q
     where q.status = 'queued' and q.circuit = v_circuit and (-q.priority) = l.lane
     order by q.scheduled_at, q.id limit 1) o
   order by o.scheduled_at, o.id limit 1;
  if not found then
    return null;
  end if;
  v_why := public.giftcard_waiting_for(j, p_stages, p_missing, p_now);
  return jsonb_build_object(
    'job_id', j.id, 'stage', left(j.stage, 200), 'tenant_id', left(j.tenant_id, 200),
    'since', public.giftcard_finite(j.scheduled_at),
    'reason', v_why -> 'reason', 'text', v_why -> 'text');
end $$;

-- Return {dead, dead_more} of the overview: dead letters by stage and kind of error, ten at most, the most first. Of a
-- stage the newest 1,000 are read; capped: it has as many, so that there may be more of each of its kinds.
create function public.giftcard_overview_dead() returns jsonb
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  v_found jsonb;
begin
  with dead as (
    select d.*, count(*) over (partition by d.stage) >= 1000 as capped
      from (select * from public.giftcard_dead_stages() limit 200) s cross join lateral (
        select j.id, j.stage, public.giftcard_finite(j.finished_at) as at, public.giftcard_finite(j.revive_at)
                 as revive_at, coalesce(j.error_kind, public.giftcard_error_kind(null)) as kind
          from public.giftcard_jobs j
         where j.status = 'error' and j.stage = s.stage order by j.finished_at desc, j.id desc limit 1000) d),
  kinds as (
    select d.stage, d.kind, count(*) as count, bool_or(d.capped) as capped, min(d.at) as since, max(d.at) as last_at,
           (array_agg(d.id order by d.at desc nulls last, d.id desc))[1] as job_id, min(d.revive_at) as revive_at
      from dead d group by d.stage, d.kind
     order by count desc, last_at desc nulls last, d.stage, d.kind limit 11)
  select coalesce(jsonb_agg(to_jsonb(k) || jsonb_build_object('stage', left(k.stage, 200))
                            order by k.count desc, k.last_at desc nulls last, k.stage, k.kind), '[]')
    into v_found from kinds k;
  return jsonb_build_object('dead', v_found - 10, 'dead_more', jsonb_array_length(v_found) > 10);
end $$;
-- The overview's things that stopped: killed runs that no tick has taken over, webhook endpoints that are off.

-- Return {killed, endpoints_off} of the overview, each null if there is none. killed: running jobs whose lease has
-- ended, {count, capped, since, job_id, stage, until}: the oldest, and until when ticks pass over it because they fail
-- on it. endpoints_off: endpoints that refused events for good, {count, capped, id, tenant_id, since, reason}: the
-- newest; without those that were turned off by hand. A count of 1,000 is capped.
create function public.giftcard_overview_stopped(p_now timestamptz) returns jsonb
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off
set plan_cache_mode = force_generic_plan as $$
declare
  v_killed jsonb;
  v_off jsonb;
begin
  with killed as (
    select j.id, j.stage, coalesce(j.lease_expires_at, '-infinity'::timestamptz) as ended_at
      from public.giftcard_jobs j
     where j.status = 'running' and coalesce(j.lease_expires_at, '-infinity'::timestamptz) <= p_now
     order by coalesce(j.lease_expires_at, '-infinity'::timestamptz), j.id limit 1000),
  oldest as (select * from killed order by ended_at, id limit 1)
  select jsonb_build_object(
      'count', (select count(*) from killed), 'capped', (select count(*) >= 1000 from killed),
      'since', case when isfinite(o.ended_at) then o.ended_at end, 'job_id', o.id, 'stage', left(o.stage, 200),
      'until', (select f.skip_until from public.giftcard_faulty_rows f
                 where f.kind = 'job' and f.row_id = o.id::text and f.skip_until > p_now
                   and f.skip_until <= p_now + interval '1 hour'))
    into v_killed from oldest o;
  with off as (
    select e.id, e.tenant_id, e.updated_at, e.disabled_reason
      from (select * from public.giftcard_webhook_endpoints order by id desc limit 1000) e
     where not e.enabled and e.disabled_reason not in ('turned off by hand', 'made off')),
  newest as (select * from off order by updated_at desc, id desc limit 1)
  select jsonb_build_object(
      'count', (select count(*) from off), 'capped', (select count(*) >= 1000 from off), 'id', n.id,
      'tenant_id', left(n.tenant_id, 200), 'since', case when isfinite(n.updated_at) then n.updated_at end,
      'reason', left(n.disabled_reason, 500))
    into v_off from newest n;
  return jsonb_build_object('killed', v_killed, 'endpoints_off', v_off);
end $$;
-- The overview: the first screen of the operators' page, in one call. All times are absolute: an answer changes only
-- when something happens.

create index giftcard_orders_by_time on public.giftcard_orders (created_at) include (currency, amount);
create index giftcard_payments_by_time on public.giftcard_payments (created_at) include (currency, amount)
    where correlation_id is not null;
create index giftcard_cards_by_time on public.giftcard_cards (created_at) include (currency, amount);

-- Return what happened since a time (null: the beginning of the day, in UTC): {since, orders, cards, mails, capped,
-- sums: [{currency, ordered, paid, issued}]}, in minor units, that of the most orders first. Of each kind the
-- newest 10,000 are read; capped: there may be more.
create function public.giftcard_overview_today(p_since timestamptz, p_now timestamptz) returns jsonb
language plpgsql stable security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  v_since timestamptz := coalesce(p_since, date_trunc('day', p_now, 'UTC'));
begin
  return (
    with moved as (
      (select 'order' as what, o.currency, o.amount from public.giftcard_orders o
        where o.created_at >= v_since and o.created_at <= p_now order by o.created_at desc limit 10000)
      union all
      (select 'payment', p.currency, p.amount from public.giftcard_payments p
        where p.correlation_id is not null and p.created_at >= v_since and p.created_at <= p_now
        order by p.created_at desc limit 10000)
      union all
      (select 'card', c.currency, c.amount from public.giftcard_cards c
        where c.created_at >= v_since and c.created_at <= p_now order by c.created_at desc limit 10000)),
    sums as materialized (
      select left(m.currency, 20) as currency, count(*) filter (where m.what = 'order') as orders,
             count(*) filter (where m.what = 'payment') as payments, count(*) filter (where m.what = 'card') as cards,
             coalesce(sum(m.amount) filter (where m.what = 'order'), 0) as ordered,
             coalesce(sum(m.amount) filter (where m.what = 'payment'), 0) as paid,
             coalesce(sum(m.amount) filter (where m.what = 'card'), 0) as issued
        from moved m group by 1),
    mails as (
      select count(*) as jobs from (
        select from public.giftcard_jobs j
         where j.status = 'completed' and j.stage = 'email' and j.finished_at >= v_since and j.finished_at <= p_now
         limit 10000) e)
    select jsonb_build_object(
        'since', v_since, 'orders', coalesce(sum(s.orders), 0), 'cards', coalesce(sum(s.cards), 0),
        'mails', (select m.jobs from mails m),
        'capped', greatest(sum(s.orders), sum(s.payments), sum(s.cards), (select m.jobs from mails m)) >= 10000,
        'sums', coalesce(jsonb_agg(jsonb_build_object(
            'currency', s.currency, 'ordered', s.ordered, 'paid', s.paid, 'issued', s.issued)
            order by s.orders desc, s.currency)
          filter (where s.currency is not null), '[]'))
      from (select * from sums order by orders desc, currency limit 200) s);
end $$;

-- Return the differences of the overview: how many (capped: 1,000 or more), and the five oldest.
create function public.giftcard_overview_differences() returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    with found as materialized (select r.*, row_number() over () as n from public.giftcard_reconcile() r)
    select jsonb_build_object(
        'count', count(*), 'capped', count(*) >= 1000,
        'lines', coalesce(jsonb_agg(public.giftcard_readable_row(to_jsonb(f) - 'n', 20000) order by f.n)
                          filter (where f.n <= 5), '[]'))
      from found f);
end $$;

-- Return the overview. p_stages, p_missing: as in giftcard_waiting_for; p_since: when today began. Return {now, schema,
-- ticks: {last_good, newest, silent, silence_began, minutes}, stages, circuits, circuits_more, oldest_due, dead,
-- dead_more, killed, endpoints_off, differences: {count, capped, lines}, all_paused, today, runs: {minutes, hours},
-- starts, doctor: as giftcard_doctor returns it}.
create function public.giftcard_overview(
  p_stages jsonb default null, p_missing jsonb default null, p_since timestamptz default null,
  p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off
set plan_cache_mode = force_generic_plan as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_runs jsonb := public.giftcard_overview_runs(v_now);
begin
  return jsonb_build_object(
      'now', v_now, 'schema', public.giftcard_schema_version() -> 'version',
      'ticks', public.giftcard_overview_ticks(v_now),
      'stages', public.giftcard_overview_stages(p_stages, p_missing, v_runs -> 'stages', v_now),
      'oldest_due', public.giftcard_overview_oldest(p_stages, p_missing, v_now),
      'differences', public.giftcard_overview_differences(), 'all_paused', public.giftcard_pause_of('*'),
      'today', public.giftcard_overview_today(p_since, v_now),
      'runs', jsonb_build_object('minutes', v_runs -> 'minutes', 'hours', v_runs -> 'hours'),
      'starts', v_runs -> 'starts', 'doctor', public.giftcard_doctor(p_stages, v_now))
    || public.giftcard_overview_circuits(v_now) || public.giftcard_overview_dead()
    || public.giftcard_overview_stopped(v_now);
end $$;
-- pgmq import, reading: messages of pgmq queues (Supabase Queues) become jobs. A tick reads messages, prepares a job of
-- each as it prepares every job, and imports them (82_pgmq_import.sql). A message that was read and not imported is
-- visible again after a minute.

-- Return the text under a key of a message if it can name something: 1 to 200 characters, no control characters, no
-- surrounding spaces; else null.
create function public.giftcard_message_field(p_message jsonb, p_key text) returns text
language sql immutable security invoker set search_path = '' as $$
  select case when jsonb_typeof(p_message -> p_key) = 'string' and p_message ->> p_key ~ '^[^[:cntrl:]]{1,200}$'
                   and p_message ->> p_key = btrim(p_message ->> p_key) then p_message ->> p_key end
$$;

-- Return why a message cannot be a job at all, by the limits of the API's requests; null: it can. p_text: the message
-- as text.
create function public.giftcard_message_error(p_message jsonb, p_text text) returns text
language sql immutable security invoker set search_path = '' as $$
  select case when jsonb_typeof(p_message) is distinct from 'object' then 'the message is not a JSON object'
              when octet_length(p_text) > 262144 then 'the message is too large: 256 KiB are allowed'
              when p_message @? '$.**{100}' then 'the message is nested too deeply: 100 levels are allowed' end
$$;

-- Return the correlation id of the jobs of a message with this one; null for none.
create function public.giftcard_message_flow(p_queue text, p_correlation_id text) returns text
language sql immutable security invoker set search_path = '' as $$
  select 'pgmq:' || p_queue || ':flow:' || p_correlation_id
$$;

-- Return the job of a message: {tenant_id, correlation_id, dedup_key, payload_json}, with `error` if it cannot be one:
-- payload_json is then the first 10,000 characters of its text.
-- tenant_id and dedup_key are those of the message; everything else is the payload. Its flow is named by its queue and
-- its correlation id: a message can join no flow, and use no effect, that another source has begun or will begin. A
-- message without a correlation id is a flow of its own, named by its queue, its number and the time it was sent,
-- because numbers start again when a queue is created again. The payload is text: Python may not read every number that
-- Postgres stores.
create function public.giftcard_message_job(p_queue text, p_msg_id bigint, p_sent_at timestamptz, p_message jsonb)
returns jsonb language plpgsql stable security invoker set search_path = '' as $$
declare
  v_tenant_id text := public.giftcard_message_field(p_message, 'tenant_id');
  v_flow text := public.giftcard_message_field(p_message, 'correlation_id');
  v_dedup_key text := public.giftcard_message_field(p_message, 'dedup_key');
  v_text text := p_message::text;
  v_name text := public.giftcard_message_flow(p_queue, v_flow);
  v_error text := coalesce(
    public.giftcard_message_error(p_message, v_text),
    case when char_length(v_name) > 200
         then format('correlation_id is too long: in this queue, %s characters are allowed',
                     200 - char_length(public.giftcard_message_flow(p_queue, ''))) end);
  v_job jsonb := jsonb_build_object(
    'tenant_id', v_tenant_id, 'correlation_id', coalesce(v_name, format('pgmq:%s:%s', p_queue, p_msg_id)),
    'dedup_key', coalesce(v_dedup_key, case when v_flow is null then extract(epoch from p_sent_at)::text end));
begin
  if v_error is not null then
    return v_job || jsonb_build_object('error', v_error, 'payload_json', left(v_text, 10000));
  elsif v_tenant_id is not null or v_flow is not null or v_dedup_key is not null then
    v_text := (p_message - array_remove(array[case when v_tenant_id is not null then 'tenant_id' end,
                                              case when v_flow is not null then 'correlation_id' end,
                                              case when v_dedup_key is not null then 'dedup_key' end], null))::text;
  end if;
  return v_job || jsonb_build_object('payload_json', v_text);
end $$;

-- Return which of Supabase's web roles, and whether every role (public), may write messages into a queue: by a grant on
-- its table that no row level security takes back. The functions of pgmq_public run with the rights of their caller.
create function public.giftcard_pgmq_writers(p_queue text) returns text[]
language sql stable security invoker set search_path = '' as $$
  select coalesce(array_agg(r.name order by r.name), '{}')
    from (select 'public' as name union all
          select rolname::text from pg_roles where rolname in ('anon', 'authenticated')) r
    join pg_class c on c.oid = to_regclass(format('pgmq.%I', lower('q_' || p_queue)))
   where has_schema_privilege(r.name, c.relnamespace, 'usage') and has_table_privilege(r.name, c.oid, 'insert')
     and (not c.relrowsecurity or exists (
       select from pg_policy p left join pg_roles o on o.oid = any (p.polroles)
        where p.polrelid = c.oid and p.polcmd in ('a', '*') and (0::oid = any (p.polroles) or o.rolname = r.name)))
$$;

-- Check that messages of a queue can be read and archived. Return {refused, conflicts}: its messages that are dead
-- letters now (up to 1,000 by stage); {unimportable}: those among its first 1,000 that ten reads did not import; and
-- {writers}, as giftcard_pgmq_writers does.
create function public.giftcard_check_pgmq_queue(p_queue text) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_unimportable integer;
begin
  perform pgmq.read(p_queue, 60, 0), pgmq.archive(p_queue, '{}'::bigint[]);
  execute format('select count(*) from (select read_ct from pgmq.%I order by msg_id limit 1000) m where read_ct >= 10',
                 lower('q_' || p_queue)) into v_unimportable;
  return (
    select jsonb_build_object(
        'unimportable', v_unimportable, 'writers', to_jsonb(public.giftcard_pgmq_writers(p_queue)),
        'refused', count(*) filter (where d.pgmq ->> 'outcome' = 'refused'),
        'conflicts', count(*) filter (where d.pgmq ->> 'outcome' = 'conflicts'))
      from public.giftcard_dead_stages() s cross join lateral (
        select j.context -> 'pgmq' as pgmq, j.trigger_type from public.giftcard_jobs j
         where j.status = 'error' and j.stage = s.stage order by j.finished_at desc limit 1000) d
     where d.trigger_type = 'pgmq' and d.pgmq ->> 'queue' = p_queue);
end $$;

-- Read up to p_limit messages of a queue, which no one else reads for a minute: in steps of 1, 2, 4 … 64, until they
-- come to 2 MB. `more`: there may be more. With a p_limit of 0, only check the queue: giftcard_check_pgmq_queue.
create function public.giftcard_read_pgmq_queue(p_queue text, p_limit integer) returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_messages jsonb[] := '{}'::jsonb[];
  v_bytes bigint := 0::bigint;
  v_step integer := 1;
  v_count bigint := 0::bigint;
  v_wanted bigint;
  r record;
begin
  if to_regclass('pgmq.meta') is null then
    perform public.giftcard_refuse('GC404',
      'there is no pgmq in this database: create extension pgmq, or remove the queue from GIFTCARD_PGMQ_QUEUES');
  elsif not exists (select from pgmq.meta where queue_name = p_queue) then
    perform public.giftcard_refuse('GC404',
      format('pgmq has no queue %s: create it with select pgmq.create(%L)', p_queue, p_queue));
  elsif p_limit <= 0 then
    return jsonb_build_object('messages', '[]'::jsonb, 'more', false) || public.giftcard_check_pgmq_queue(p_queue);
  end if;
  while v_count < p_limit and v_bytes < 2000000 loop
    v_wanted := least(v_step, p_limit - v_count);
    select count(*) as messages, array_agg(j.item order by j.msg_id) as items,
           coalesce(sum(octet_length(j.item #>> '{job,payload_json}')), 0) as bytes into r
      from (select m.msg_id, jsonb_build_object(
                     'msg_id', m.msg_id, 'sent_at', extract(epoch from m.enqueued_at)::text, 'read_ct', m.read_ct,
                     'job', public.giftcard_message_job(p_queue, m.msg_id, m.enqueued_at, m.message)) as item
              from pgmq.read(p_queue, 60, v_wanted::integer) m) j;
    v_messages := v_messages || r.items;
    v_bytes := v_bytes + r.bytes;
    v_count := v_count + r.messages;
    exit when r.messages < v_wanted;
    v_step := least(2 * v_step, 64);
  end loop;
  return jsonb_build_object('messages', to_jsonb(v_messages), 'more', v_count < p_limit and v_bytes >= 2000000);
end $$;

-- Read up to p_limit messages of each queue, at most 1,000 (0: only check). Return, by queue, {messages: [{msg_id,
-- sent_at, read_ct, job}], more}, or {problem} for a queue that cannot be read; the others are read all the same.
-- Nothing is read, and {} returned, while everything is paused, and for an execution id whose tick is live or has ended
-- well: a second delivery.
create function public.giftcard_read_pgmq(
  p_queues text[], p_limit integer, p_execution_id text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_read jsonb := '{}'::jsonb;
  v_queue text;
begin
  if p_limit > 0 and (
       exists (select from public.giftcard_stages where stage = '*' and paused_at is not null)
       or p_execution_id is not null
          and public.giftcard_is_duplicate(p_execution_id, coalesce(p_now, clock_timestamp()))) then
    return v_read;
  end if;
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
-- Supabase Cron as the clock, for platforms without cron by the minute: pg_cron runs each minute, pg_net calls the cron
-- endpoint, Vault keeps the secret. None of the three is needed before these functions are called.

-- Check what a call by pg_net needs, and enable the extensions that are missing: an address and nothing else, and the
-- name of a secret in Vault. Return the address without a slash at its end.
create function public.giftcard_check_call(p_url text, p_secret_name text) returns text
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_url text := rtrim(p_url, '/');
  v_extension text;
  v_schema text;
  v_secret text;
begin
  if v_url is null
      or v_url !~ '^(https://[A-Za-z0-9.-]+|http://(localhost|127\.0\.0\.1|host\.docker\.internal))(:[0-9]{1,5})?$' then
    perform public.giftcard_refuse('GC400',
      'p_url must be the address of the deployment and nothing else, like https://your-project.vercel.app',
      'p_url');
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
  select s.decrypted_secret into v_secret from vault.decrypted_secrets s where s.name = p_secret_name;
  if v_secret is null then
    perform public.giftcard_refuse('GC404', format(
      'Vault has no secret named %s: create it there with the value of CRON_SECRET', coalesce(p_secret_name, 'null')),
      'p_secret_name');
  elsif v_secret !~ '^[!-~]+$' then
    perform public.giftcard_refuse('GC400', format(
      'the secret %s in Vault must be the deployment''s CRON_SECRET, without blanks inside', p_secret_name),
      'p_secret_name');
  end if;
  return v_url;
end $$;

-- Start the clock, or change what it calls: the deployment's address, and the name of the secret in Vault that is its
-- CRON_SECRET. Each call reads it there: the secret itself stands in no statement, which Postgres may log, and not in
-- cron.job. A second job deletes pg_cron's records of both; pg_net deletes its responses by itself (after 6 hours).
-- pg_net makes one batch of calls after the other, so it must not wait for a long tick: it gives up after 5 s, and the
-- tick goes on without it.
create function public.giftcard_start_clock(p_url text, p_secret_name text default 'giftcard_cron_secret')
returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_url text := public.giftcard_check_call(p_url, p_secret_name);
begin
  perform cron.schedule('giftcard-jobs', '* * * * *', format(
    'select net.http_post(url := %L, timeout_milliseconds := 5000, headers := '
    'jsonb_build_object(''Authorization'', ''Bearer '' || '
    '(select decrypted_secret from vault.decrypted_secrets where name = %L)))',
    v_url || '/api/cron/giftcard-jobs', p_secret_name));
  perform cron.schedule('giftcard-jobs-prune', '7 3 * * *',
    'delete from cron.job_run_details where start_time < now() - interval ''2 days'' and jobid in '
    '(select jobid from cron.job where jobname in (''giftcard-jobs'', ''giftcard-jobs-prune''))');
  return jsonb_build_object(
    'clock', 'giftcard-jobs', 'schedule', '* * * * *', 'calls', v_url || '/api/cron/giftcard-jobs');
end $$;

-- Remove what giftcard_start_clock has set up, and only that: the extensions may have other users, and the secret in
-- Vault is yours. With p_dry_run only count it.
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
  return jsonb_build_object('dry_run', p_dry_run, 'jobs', cardinality(v_jobs));
end $$;
-- pgmq import, storing: each message that was read becomes a job, finds the job that it had become before, or is kept
-- as a dead letter. In one transaction it is archived (pgmq.a_<queue>, with its read count) and stored, or neither.

-- Return whether an error is the fault of the one message that caused it, also in triggers and indexes of the
-- database's owner: its content (classes 21, 22, 23, 54), or a refusal (raise: class P0, GC400). A database that is out
-- of space or lacks a privilege refuses no message for good.
create function public.giftcard_is_message_fault(p_sqlstate text) returns boolean
language sql immutable security invoker set search_path = '' as $$
  select left(p_sqlstate, 2) in ('21', '22', '23', '54', 'P0') or p_sqlstate = 'GC400'
$$;

-- Return where a job comes from, which its context keeps under `pgmq`: {queue, msg_id, sent_at, read_ct, content}.
-- `content`: the SHA-256 of the message's payload, by which the same message is recognized.
create function public.giftcard_message_source(p_queue text, p_item jsonb) returns jsonb
language sql stable security invoker set search_path = '' as $$
  select jsonb_build_object(
    'queue', p_queue, 'msg_id', p_item -> 'msg_id', 'read_ct', p_item -> 'read_ct',
    'sent_at', to_timestamp((p_item ->> 'sent_at')::double precision),
    'content', encode(sha256(convert_to(coalesce(p_item #>> '{job,payload_json}', ''), 'UTF8')), 'hex'))
$$;

-- Return whether a job has the content of the message that would have become it (p_job): it came from the same content,
-- has the same payload, or its payload was erased.
create function public.giftcard_is_same_message(p_job_id bigint, p_job jsonb) returns boolean
language sql stable security invoker set search_path = '' as $$
  select coalesce((
    select j.trigger_type = 'pgmq' and j.context #>> '{pgmq,content}' = p_job #>> '{context,pgmq,content}'
           or j.payload = p_job -> 'payload' or j.payload @> '{"erased": true}'
      from public.giftcard_jobs j where j.id = p_job_id), false)
$$;

-- Keep a message as a dead letter, with up to 10,000 characters of its text and the reason. p_outcome: refused or
-- conflicts. Its flow is its own: the one that the message names stays free. Kept once, however often it is delivered.
-- The reason may repeat a value of the message: mail addresses and control characters are left out of it.
create function public.giftcard_keep_message(
  p_queue text, p_item jsonb, p_outcome text, p_reason text, p_now timestamptz) returns text
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_source jsonb := public.giftcard_message_source(p_queue, p_item);
  v_reason text := left(regexp_replace(regexp_replace(left(p_reason, 2000), '[[:cntrl:]]+', ' ', 'g'),
                                       '[^[:space:]"''<>]+@[^[:space:]"''<>]+', '[email]', 'g'), 500);
begin
  perform set_config('giftcard.writer', 'pgmq', true);
  insert into public.giftcard_jobs
    (tenant_id, correlation_id, stage, dedup_key, trigger_type, source, status, payload, context, last_error,
     scheduled_at, created_at, updated_at, finished_at)
  values (coalesce(p_item #>> '{job,tenant_id}', 'default'), format('pgmq:%s:%s', p_queue, p_item ->> 'msg_id'),
          p_item #>> '{job,stage}', format('%s:%s', p_item ->> 'sent_at', left(v_source ->> 'content', 16)), 'pgmq',
          'pgmq', 'error', jsonb_build_object('message', left(p_item #>> '{job,payload_json}', 10000)),
          jsonb_build_object('pgmq', v_source || jsonb_strip_nulls(jsonb_build_object(
            'outcome', p_outcome, 'correlation_id', p_item #> '{job,correlation_id}',
            'dedup_key', p_item #> '{job,dedup_key}'))),
          v_reason, v_now, v_now, v_now, v_now)
  on conflict on constraint giftcard_jobs_flow_key do nothing;
  perform set_config('giftcard.writer', '', true);
  return p_outcome;
end $$;

-- Match a message that asks for the payment of an order ({reference, amount: {amount, currency}}) with that order. The
-- order's own flow charges, once; the message never does. Return repeated, or conflicts if it asks for another amount.
-- GC400 for an order that is unknown here.
create function public.giftcard_match_payment_message(p_queue text, p_item jsonb, p_now timestamptz) returns text
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_tenant_id text := coalesce(p_item #>> '{job,tenant_id}', 'default');
  v_reference text := p_item #>> '{job,order,reference}';
  v_asked jsonb := p_item #> '{job,order,amount}';
  v_flow text;
  v_ordered jsonb;
begin
  -- A flow of the same queue comes first.
  foreach v_flow in array array[public.giftcard_message_flow(p_queue, v_reference), v_reference] loop
    select jsonb_build_object('amount', amount, 'currency', currency) into v_ordered
      from public.giftcard_orders where tenant_id = v_tenant_id and correlation_id = v_flow;
    if not found then
      -- A flow that began with a plain INSERT or with a message has no order: its payment job has the amount.
      select payload -> 'amount' into v_ordered from public.giftcard_jobs
       where tenant_id = v_tenant_id and correlation_id = v_flow and stage = p_item #>> '{job,stage}'
         and dedup_key = '';
    end if;
    exit when v_ordered is not null;
  end loop;
  if v_ordered is null then
    perform public.giftcard_refuse(
      'GC400', format('no order has the correlation id %s: nothing was charged', v_reference), 'reference');
  elsif v_ordered = v_asked then
    return 'repeated';
  end if;
  return public.giftcard_keep_message(p_queue, p_item, 'conflicts', format(
    'Conflict: the order %s is over %s %s, the message asks for %s %s: nothing was charged for it', v_reference,
    v_ordered ->> 'amount', v_ordered ->> 'currency', v_asked ->> 'amount', v_asked ->> 'currency'), p_now);
end $$;

-- Enqueue the job of one message. A message that cannot be a job becomes a dead letter. Return moved, repeated (its job
-- was there already), conflicts (that job has other content: the message is a dead letter) or refused.
-- p_item: {msg_id, sent_at, read_ct, job}; job as giftcard_enqueue takes it, its payload as an object or, as it was
-- read, in payload_json; with `order` for a payment, and with `error` for what cannot be a job.
create function public.giftcard_import_message(p_queue text, p_item jsonb, p_now timestamptz) returns text
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_job jsonb := (p_item -> 'job') - '{payload_json,error,order}'::text[] 
                 || '{"trigger_type": "pgmq", "source": "pgmq"}';
  v_enqueued json;
begin
  if p_item -> 'job' ? 'error' then
    perform public.giftcard_refuse('GC400', p_item #>> '{job,error}');
  elsif p_item -> 'job' ? 'order' then
    return public.giftcard_match_payment_message(p_queue, p_item, p_now);
  elsif not v_job ? 'payload' then
    v_job := v_job || jsonb_build_object('payload', (p_item #>> '{job,payload_json}')::jsonb);
  end if;
  v_job := v_job || jsonb_build_object('context', coalesce(v_job -> 'context', '{}') || jsonb_build_object(
    'pgmq', public.giftcard_message_source(p_queue, p_item)));
  v_enqueued := public.giftcard_enqueue(jsonb_build_array(v_job), p_commits => true, p_now => p_now) -> 0;
  if (v_enqueued ->> 'created')::boolean then
    return 'moved';
  elsif public.giftcard_is_same_message((v_enqueued ->> 'id')::bigint, v_job) then
    return 'repeated';
  end if;
  return public.giftcard_keep_message(p_queue, p_item, 'conflicts', format(
    'Conflict: job %s has this tenant, correlation id, stage and dedup key, but another content',
    v_enqueued ->> 'id'), p_now);
exception when others then
  if not public.giftcard_is_message_fault(sqlstate) then
    raise;
  end if;
  return public.giftcard_keep_message(p_queue, p_item, 'refused', 'PermanentError: ' || sqlerrm, p_now);
end $$;

-- Return how many messages had each outcome: {moved, repeated, conflicts, refused}.
create function public.giftcard_count_imported(p_outcomes text[]) returns jsonb
language sql immutable security invoker set search_path = '' as $$
  select jsonb_build_object(
      'moved', count(*) filter (where o = 'moved'), 'repeated', count(*) filter (where o = 'repeated'),
      'conflicts', count(*) filter (where o = 'conflicts'), 'refused', count(*) filter (where o = 'refused'))
    from unnest(p_outcomes) o
$$;

-- Import messages one by one, because one of them can neither be archived nor stored as a dead letter: that one stays
-- in its queue and is named in `problem`. After ten reads it is hidden for an hour at a time, so that many of them do
-- not keep those behind them out of each read for ever.
create function public.giftcard_import_messages_singly(p_queue text, p_items jsonb, p_now timestamptz) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_outcomes text[] := '{}'::text[];
  v_problems text[] := '{}'::text[];
  v_id bigint;
  v_item jsonb;
begin
  for v_item in select i from jsonb_array_elements(p_items) with ordinality x(i, n) order by n loop
    v_id := (v_item ->> 'msg_id')::bigint;
    begin
      if pgmq.archive(p_queue, v_id) then
        v_outcomes := v_outcomes || public.giftcard_import_message(p_queue, v_item, p_now);
      end if;
    exception when others then
      if public.giftcard_is_unavailable(sqlstate) then
        raise;
      end if;
      v_problems := v_problems || format('message %s stays in the queue: %s', v_id, sqlerrm);
      if (v_item ->> 'read_ct')::integer >= 10 then
        perform pgmq.set_vt(p_queue, v_id, 3600);
      end if;
    end;
  end loop;
  return public.giftcard_count_imported(v_outcomes) || case when v_problems = '{}' then '{}'::jsonb else
    jsonb_build_object('problem', array_to_string(v_problems[:3], '; ') || case
      when cardinality(v_problems) > 3 then format('; and %s more', cardinality(v_problems) - 3) else '' end) end;
end $$;

-- Import what was read of a queue: in this transaction the messages are archived and their jobs enqueued, or neither.
-- In the order of the messages, not of keys: one may need the order that an earlier one begins.
-- A message that someone else has archived meanwhile is passed over.
create function public.giftcard_import_pgmq_queue(p_queue text, p_items jsonb, p_now timestamptz) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_outcomes text[] := '{}'::text[];
  v_archived bigint[];
  v_item jsonb;
begin
  v_archived := array(select pgmq.archive(p_queue, array(
    select (i ->> 'msg_id')::bigint from jsonb_array_elements(p_items) i)));
  for v_item in
    select i from jsonb_array_elements(p_items) with ordinality x(i, n)
     where (i ->> 'msg_id')::bigint = any (v_archived) order by n
  loop
    v_outcomes := v_outcomes || public.giftcard_import_message(p_queue, v_item, p_now);
  end loop;
  return public.giftcard_count_imported(v_outcomes);
exception when others then
  if public.giftcard_is_unavailable(sqlstate) then
    raise;
  end if;
  return public.giftcard_import_messages_singly(p_queue, p_items, p_now);
end $$;

-- Import messages that giftcard_read_pgmq returned: {queue: [{msg_id, sent_at, read_ct, job}]}. Return, by queue,
-- {moved, repeated, conflicts, refused}, with `problem` for what stays in its queue. The other queues are imported.
create function public.giftcard_import_pgmq(p_batches jsonb, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_imported jsonb := '{}'::jsonb;
  b record;
begin
  if jsonb_typeof(p_batches) is distinct from 'object' then
    perform public.giftcard_refuse('GC400', 'p_batches must be an object of queues and their messages', 'p_batches');
  end if;
  set constraints all immediate;  -- an error at the commit would be no message's
  for b in select e.key as queue, e.value as items from jsonb_each(p_batches) e order by e.key limit 100 loop
    begin
      v_imported := v_imported || jsonb_build_object(b.queue,
        public.giftcard_import_pgmq_queue(b.queue, b.items, p_now));
    exception when others then
      v_imported := v_imported || jsonb_build_object(b.queue,
        public.giftcard_count_imported('{}') || jsonb_build_object('problem', sqlerrm));
    end;
  end loop;
  return v_imported;
end $$;
-- Waking by pg_net, on Supabase: who queues a job that is due queues a call of the cron endpoint, too. What is due
-- later has a job of pg_cron. GIFTCARD_WAKE=pg_net lets ticks plan it. Other platforms wake by their own address.

-- Start waking, or change what is called: see giftcard_start_clock. Each second pg_cron sends the wake that is due
-- (before pg_cron 1.5, which knows no seconds, each minute).
create function public.giftcard_start_waking(
  p_url text, p_secret_name text default 'giftcard_cron_secret', p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_url text := public.giftcard_check_call(p_url, p_secret_name) || '/api/cron/giftcard-jobs';
  v_schedule text := '1 seconds';
begin
  begin
    perform cron.schedule('giftcard-wake', v_schedule, 'select public.giftcard_send_due_wake()');
  exception when others then
    v_schedule := '* * * * *';
    perform cron.schedule('giftcard-wake', v_schedule, 'select public.giftcard_send_due_wake()');
  end;
  -- By the second, even two days would be many.
  perform cron.schedule('giftcard-wake-prune', '17 * * * *',
    'delete from cron.job_run_details where start_time < now() - interval ''1 hour'' and jobid in '
    '(select jobid from cron.job where jobname in (''giftcard-wake'', ''giftcard-wake-prune''))');
  update public.giftcard_wakes
     set url = v_url, secret_name = p_secret_name, started_at = coalesce(p_now, clock_timestamp()), due_at = null
   where id = 1;
  alter table public.giftcard_jobs enable trigger giftcard_jobs_wake_after_insert;
  alter table public.giftcard_jobs enable trigger giftcard_jobs_wake_after_update;
  return jsonb_build_object('waking', 'giftcard-wake', 'schedule', v_schedule, 'calls', v_url);
end $$;

-- Stop waking. The clock goes on. With p_dry_run only count its jobs of pg_cron.
create function public.giftcard_stop_waking(p_dry_run boolean default false) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_jobs bigint[] := '{}'::bigint[];
begin
  if to_regnamespace('cron') is not null then
    v_jobs := array(select j.jobid from cron.job j where j.jobname in ('giftcard-wake', 'giftcard-wake-prune'));
  end if;
  if not p_dry_run then
    alter table public.giftcard_jobs disable trigger giftcard_jobs_wake_after_insert;
    alter table public.giftcard_jobs disable trigger giftcard_jobs_wake_after_update;
    update public.giftcard_wakes set url = null, secret_name = null, started_at = null, due_at = null where id = 1;
    perform cron.unschedule(j) from unnest(v_jobs) j;
    if cardinality(v_jobs) > 0 then
      delete from cron.job_run_details where jobid = any (v_jobs);
    end if;
  end if;
  return jsonb_build_object('dry_run', p_dry_run, 'jobs', cardinality(v_jobs));
end $$;

-- Return what the doctor and the status show of waking. Ages are seconds before p_now. pg_net: giftcard_start_waking
-- has been called; followed: a tick has followed the last wake; lost counts the last one, too.
create function public.giftcard_waking(p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  return (
    select jsonb_build_object(
      'pg_net', w.url is not null, 'due_at', w.due_at,
      'age', public.giftcard_milliseconds(w.sent_at, v_now) / 1000.0,
      'followed', not public.giftcard_is_wake_lost(w.sent_at, v_now),
      'in_minute', case when w.minute = date_trunc('minute', v_now) then w.in_minute else 0 end,
      'sent', w.sent, 'lost', w.lost + public.giftcard_is_wake_lost(w.sent_at, v_now)::integer,
      'held_back', w.held_back, 'failed', w.failed,
      'error', case when w.failed_at >= w.sent_at then w.error end)
      from public.giftcard_wakes w where w.id = 1);
end $$;
-- Grants: all to the service role, none to any other. Of the audit it may only read rows and add them, with the role
-- that the database sets; the functions that a settle may call it only reads. Supabase grants new tables and functions
-- to its roles by default, so each is revoked by name. A later migration repeats this for what it adds; a test reads
-- the catalog.

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
        execute format('revoke all on table %s from service_role', v_object.name);
        execute format('grant %s on table %s to service_role', case
          when v_object.name = 'public.giftcard_audit'::regclass
          then 'select, insert (at, by, tenant_id, action, subject, details)'
          when v_object.name = 'public.giftcard_settle_functions'::regclass then 'select'
          else 'select, insert, update, delete' end, v_object.name);
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

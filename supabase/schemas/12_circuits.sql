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

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
  constraint giftcard_limits_rate_is_positive check (per_second > 0 and per_second <= 10000),
  constraint giftcard_limits_burst_is_positive check (burst between 1 and 100000 and per_second is not null),
  constraint giftcard_limits_limit_something check (runs is not null or per_second is not null)
);

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

-- The rates: GCRA with one row a key. full_at: when its burst is whole again if nothing starts meanwhile.
create table public.giftcard_rates (
  key text collate "C" not null,
  full_at timestamptz not null default '-infinity',
  held_until timestamptz not null default '-infinity',
  constraint giftcard_rates_pkey primary key (key)
) with (fillfactor = 50);

comment on column public.giftcard_rates.held_until is
  'Nothing starts before: the other side asked for it (Retry-After).';

-- Return how many runs of a stage have a lease that has not ended.
create function public.giftcard_running(p_stage text, p_now timestamptz) returns integer
language sql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
  select count(*)::integer from public.giftcard_jobs
   where status = 'running' and coalesce(lease_expires_at, '-infinity'::timestamptz) > p_now and stage = p_stage
$$;

-- Return how many runs of a stage p_limits allows at once: {"email": {"runs": 3}}, or {"email": 3}, as older code
-- brings it; null: any number.
create function public.giftcard_runs_allowed(p_limits jsonb, p_stage text) returns numeric
language sql immutable security invoker set search_path = '' as $$
  select case when jsonb_typeof(l) = 'number' then l end::numeric
    from coalesce(p_limits -> p_stage -> 'runs', p_limits -> p_stage) l
$$;

-- Return how many more runs each limited stage may begin: {"email": 2}, for the stages of p_circuits. p_limits:
-- as in giftcard_runs_allowed, in the whole fleet. Lock first, then count in a new statement, which sees what earlier
-- holders of the lock have committed. Nothing is stored that could go wrong: runs of killed functions stop counting
-- when their leases end.
create function public.giftcard_remaining_capacity(p_limits jsonb, p_circuits text[], p_now timestamptz) returns jsonb
language plpgsql volatile security invoker
set search_path = '' set enable_seqscan = off set enable_bitmapscan = off set enable_sort = off set jit = off as $$
declare
  v_stage text;
  v_stages text[] := array(
    select distinct s from (select public.giftcard_stage_of(c) as s from unnest(p_circuits) c) x
      where public.giftcard_runs_allowed(p_limits, s) is not null
      order by s);
begin
  foreach v_stage in array v_stages loop
    perform pg_advisory_xact_lock(hashtextextended('limit of stage ' || v_stage, 0));
  end loop;
  return (
    select coalesce(jsonb_object_agg(s, greatest(0, public.giftcard_runs_allowed(p_limits, s)
                                                    - public.giftcard_running(s, p_now))), '{}')
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


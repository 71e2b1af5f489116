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

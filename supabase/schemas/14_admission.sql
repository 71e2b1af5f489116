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

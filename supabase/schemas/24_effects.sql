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

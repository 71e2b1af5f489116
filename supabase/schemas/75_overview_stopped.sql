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

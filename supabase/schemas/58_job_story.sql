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

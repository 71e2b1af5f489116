-- Limits of whole stages, and longer leases.

-- Return how many runs of a stage have a lease that has not ended.
create function public.giftcard_running(p_stage text, p_now timestamptz) returns integer
language sql stable security invoker set search_path = '' set enable_seqscan = off set enable_bitmapscan = off
set jit = off as $$
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

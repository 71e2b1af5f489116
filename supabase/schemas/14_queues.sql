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

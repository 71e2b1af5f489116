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

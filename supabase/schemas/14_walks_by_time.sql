-- Where a walk has passed over many circuits with nothing due, the time of their jobs shows which have something.

-- Queued jobs of circuits that are not their stage, by time. A job whose circuit is its stage has no entry.
create index giftcard_jobs_queued_by_time on public.giftcard_jobs (scheduled_at, id)
    where status = 'queued' and circuit <> stage;

-- Look at the jobs of circuits that are not their stage by time: the 51 that have been due for longest and the 51
-- that are due next; p_newest: those that have just come due, too. complete: these are enough to know all that is due,
-- and what is next.
create function public.giftcard_walk_by_time(
  t public.giftcard_ticks, p_newest boolean, p_now timestamptz, out ready public.giftcard_cursor[],
  out half_open text[], out next_due_at timestamptz, out complete boolean)
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_due bigint;
  v_later bigint;
  v_last timestamptz;
begin
  with jobs as materialized (
    (select j.circuit, j.stage, j.scheduled_at from public.giftcard_jobs j
      where j.status = 'queued' and j.circuit <> j.stage and j.scheduled_at <= p_now
      order by j.scheduled_at, j.id limit 51)
    union all
    (select j.circuit, j.stage, j.scheduled_at from public.giftcard_jobs j
      where p_newest and j.status = 'queued' and j.circuit <> j.stage and j.scheduled_at <= p_now
      order by j.scheduled_at desc, j.id desc limit 51)
    union all
    (select j.circuit, j.stage, j.scheduled_at from public.giftcard_jobs j
      where j.status = 'queued' and j.circuit <> j.stage and j.scheduled_at > p_now
      order by j.scheduled_at, j.id limit 51)),
  queues as (
    select q.circuit, q.head_at, q.head_at <= p_now as due, o.opens_at
      from (select j.circuit, min(j.stage) as stage, min(j.scheduled_at) as head_at from jobs j group by j.circuit) q
      left join public.giftcard_circuits c on c.circuit = q.circuit and c.state <> 'closed'
      left join public.giftcard_stages s on s.stage = q.stage and s.paused_at is not null
     cross join lateral (
       select case when c.circuit is null then null
                   when (select exists (select from public.giftcard_faulty_rows where kind = 'circuit'))
                   then public.giftcard_probe_at(c.circuit, c.open_until, p_now) else c.open_until end as opens_at) o
     where s.stage is null and t.stages ? q.stage and (t.only_stage is null or q.stage = t.only_stage))
  select coalesce(array_agg(row(q.circuit, null, null, q.head_at, null)::public.giftcard_cursor
                            order by q.head_at, q.circuit) filter (where q.due and q.opens_at is null), '{}'),
         coalesce(array_agg(q.circuit order by q.head_at, q.circuit)
                    filter (where q.due and q.opens_at <= p_now), '{}'),
         min(case when q.opens_at is null then q.head_at
                  when q.opens_at > p_now then greatest(q.head_at, q.opens_at)
                  else greatest(q.head_at, p_now + interval '1 second') end)
           filter (where not q.due or q.opens_at > p_now),
         (select count(*) filter (where j.scheduled_at <= p_now) from jobs j),
         (select count(*) filter (where j.scheduled_at > p_now) from jobs j), (select max(j.scheduled_at) from jobs j)
    into ready, half_open, next_due_at, v_due, v_later, v_last from queues q;
  complete := v_due <= 50 and (v_later <= 50 or coalesce(next_due_at <= v_last, false));
end $$;

-- Walks: how a tick scans where many circuits have queued jobs. It walks through them in a circle, by name, from where
-- the last scan stopped, and stops once it has found as many as it wants: a claim costs about the same for a thousand
-- circuits as for ten thousand, and each has its turn once in a circle. Circuits with nothing due are passed over by an
-- index of time; only a scan that finds nothing else goes all round. The planner's settings are those of
-- giftcard_claim_for.

-- A walk under way.
create type public.giftcard_walk as (
  name text,                          -- its row in giftcard_turns
  began text,                         -- the circuit after which it began, as kept in that row; empty: at the first
  at text,                            -- the last circuit that it has read
  circles integer,                    -- how many circles the walks of this name have completed
  again boolean,                      -- whether it has gone on from the first circuit
  complete boolean,                   -- whether all that is due is known
  ready public.giftcard_cursor[],     -- circuits whose jobs may start now; scheduled_at: the head's time
  half_open text[],                   -- and those that wait for a probe
  next_due_at timestamptz,            -- when another one that it has read may start
  was_far text,                       -- a circuit that a walk of this name found only far round
  far text                            -- and one that this walk did
);

-- Read circuits by name, after p_after (with p_at: from it on) and up to p_until (null: to the end), until p_enough
-- have something to start, or p_most lanes are read. walked_to: the last circuit that is read as a whole; null: there
-- are no more. Circuits of a stage that is parked for this tick are passed over in one step; p_plain: so are all that
-- are not their stage.
create function public.giftcard_walk_circuits(
  t public.giftcard_ticks, p_after text, p_until text, p_enough integer, p_most integer, p_plain boolean, p_at boolean,
  p_now timestamptz, out ready public.giftcard_cursor[], out half_open text[], out next_due_at timestamptz,
  out walked_to text)
language plpgsql stable security invoker set search_path = '' as $$
begin
  with recursive walk as (
    -- The next one read comes after (key, lane).
    select p_after collate "C" as key, (case when p_at then -32768 else 32767 end)::smallint as lane,
           p_after collate "C" as circuit, null::timestamptz as head_at, null::timestamptz as starts_at,
           '' as availability, false as due, 0 as seen, 0 as found
    union all
    select case when a.jumps then n.stage || ';' else n.circuit end,
           case when a.jumps then (-32768)::smallint
                when b.due or a.availability = 'parked' or a.availability = 'blocked' and o.opens_at >= n.scheduled_at
                then 32767::smallint else n.lane end,
           n.circuit, n.scheduled_at, b.starts_at, a.availability, b.due, w.seen + 1, w.found + b.due::integer
      from walk w cross join lateral (
        select j.circuit, (-j.priority)::smallint as lane, j.stage, j.scheduled_at from public.giftcard_jobs j
         where j.status = 'queued' and (j.circuit, (-j.priority)) > (w.key, w.lane)
         order by j.circuit, (-j.priority), j.scheduled_at, j.id limit 1) n
      left join public.giftcard_circuits c on c.circuit = n.circuit and c.state <> 'closed'
      left join public.giftcard_stages s on s.stage = n.stage and s.paused_at is not null
     cross join lateral (
       select case when c.circuit is null then null
                   when (select exists (select from public.giftcard_faulty_rows where kind = 'circuit'))
                   then public.giftcard_probe_at(c.circuit, c.open_until, p_now) else c.open_until end as opens_at) o
     cross join lateral (
       select p.parked, case when p.parked then 'parked' when o.opens_at is null then 'ready'
                             when o.opens_at <= p_now then 'probing' else 'blocked' end as availability,
              -- All between 'stage:…' and 'stage;' belongs to that stage.
              n.circuit <> n.stage and (p.parked or p_plain) and strpos(n.stage, ':') = 0 as jumps
         from (select s.stage is not null or not t.stages ? n.stage or n.stage <> t.only_stage is true as parked) p) a
     cross join lateral (
       select not a.jumps and a.availability in ('ready', 'probing') and n.scheduled_at <= p_now as due,
              case a.availability when 'blocked' then greatest(n.scheduled_at, o.opens_at)
                                  when 'probing' then greatest(n.scheduled_at, p_now + interval '1 second')
                                  else n.scheduled_at end as starts_at) b
     where w.seen < p_most and w.found < p_enough and (p_until is null or n.circuit <= p_until)),
  last as materialized (select w.* from walk w order by w.seen desc limit 1)
  select coalesce(array_agg(row(w.circuit, null, null, w.head_at, null)::public.giftcard_cursor order by w.seen)
                    filter (where w.due and w.availability = 'ready'), '{}'),
         coalesce(array_agg(w.circuit order by w.seen) filter (where w.due and w.availability = 'probing'), '{}'),
         min(w.starts_at) filter (where not w.due and w.availability <> 'parked' and w.lane <> -32768),
         max(case when l.seen >= p_most or l.found >= p_enough then w.key end)
           filter (where w.lane in (32767, -32768) or w.circuit < l.circuit)
    into ready, half_open, next_due_at, walked_to
    from walk w cross join last l;
end $$;

-- Return queues with their lanes that have due jobs, in their order.
create function public.giftcard_with_lanes(p_queues public.giftcard_cursor[], p_now timestamptz)
returns public.giftcard_cursor[]
language plpgsql stable security invoker set search_path = '' as $$
begin
  return array(
    select row(q.circuit, d.lanes, null, null, null)::public.giftcard_cursor
      from unnest(p_queues) with ordinality q(circuit, lanes, plain, scheduled_at, id, n) cross join lateral (
        with recursive heads as (
          (select (-j.priority)::smallint as lane, j.scheduled_at from public.giftcard_jobs j
            where j.status = 'queued' and j.circuit = q.circuit
            order by j.circuit, (-j.priority), j.scheduled_at, j.id limit 1)
          union all
          select x.lane, x.scheduled_at from heads h cross join lateral (
            select (-j.priority)::smallint as lane, j.scheduled_at from public.giftcard_jobs j
             where j.status = 'queued' and j.circuit = q.circuit and (-j.priority) > h.lane
             order by j.circuit, (-j.priority), j.scheduled_at, j.id limit 1) x)
        select array_agg(h.lane order by h.lane) as lanes from heads h where h.scheduled_at <= p_now) d
     where d.lanes <> '{}' order by q.n);
end $$;

-- Walk on in the circle, until p_enough circuits have something to start, p_most lanes are read or all are.
create function public.giftcard_walk_on(
  w public.giftcard_walk, t public.giftcard_ticks, p_enough integer, p_most integer, p_now timestamptz)
returns public.giftcard_walk
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_found integer := 0;
  c record;
begin
  w.ready := '{}'::public.giftcard_cursor[];
  w.half_open := '{}'::text[];
  loop
    c := public.giftcard_walk_circuits(t, w.at, case when w.again then w.began end, p_enough - v_found, p_most, false,
                                       false, p_now);
    w.ready := w.ready || c.ready;
    w.half_open := w.half_open || c.half_open;
    w.next_due_at := least(w.next_due_at, c.next_due_at);
    v_found := v_found + cardinality(c.ready) + cardinality(c.half_open);
    if c.walked_to is not null then
      w.at := c.walked_to;
    elsif w.again or w.began = '' then
      w.complete := true;
    else
      w.at := '';
      w.again := true;
      w.circles := w.circles % 1000000 + 1;
    end if;
    exit when w.complete or c.walked_to is not null or v_found >= p_enough;
  end loop;
  return w;
end $$;

-- Begin a walk where the last one of such a tick stopped.
create function public.giftcard_begin_walk(t public.giftcard_ticks) returns public.giftcard_walk
language plpgsql stable security invoker set search_path = '' as $$
declare
  w public.giftcard_walk;
begin
  w.name := '*' || md5(t.stages::text || ' ' || coalesce(t.only_stage, ''));
  select k.tenant_id, k.taken into w.began, w.circles from public.giftcard_turns k where k.circuit = w.name;
  w.began := coalesce(w.began, '');
  w.at := w.began;
  w.circles := coalesce(w.circles, 0);
  w.again := false;
  w.complete := false;
  return w;
end $$;

-- Keep where a walk stopped, for the next one, unless another has moved on from p_was meanwhile. The row is a hint: a
-- claim that holds it is not waited for.
create function public.giftcard_keep_place(p_name text, p_was text, p_at text, p_circles integer) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  update public.giftcard_turns set tenant_id = p_at, taken = p_circles
   where circuit = (select k.circuit from public.giftcard_turns k
                     where k.circuit = p_name and k.tenant_id = p_was for update skip locked);
  if not found and not exists (select from public.giftcard_turns where circuit = p_name)
     and pg_try_advisory_xact_lock(hashtextextended('turns of ' || p_name, 0)) then
    insert into public.giftcard_turns (circuit, tenant_id, taken) values (p_name, p_at, p_circles)
    on conflict do nothing;
  end if;
end $$;

-- Find up to p_enough circuits that have something to start, or more where all are known at once. The circle comes
-- first, so that each circuit has its turn. Where it passes over many, time shows which have something due. Where that
-- finds nothing either, it looks again where the last walk found something far round, and then goes all round.
create function public.giftcard_find_ready(
  w public.giftcard_walk, t public.giftcard_ticks, p_enough integer, p_now timestamptz) returns public.giftcard_walk
language plpgsql stable security invoker set search_path = '' as $$
declare
  c record;  -- circuits that are their stage
  b record;  -- the others
begin
  w := public.giftcard_walk_on(w, t, p_enough, p_enough + 25, p_now);
  if w.complete or cardinality(w.ready) + cardinality(w.half_open) >= p_enough then
    return w;
  end if;
  c := public.giftcard_walk_circuits(t, '', null, 500, 500, true, false, p_now);
  b := public.giftcard_walk_by_time(t, false, p_now);
  if not b.complete and w.ready = '{}' and c.ready = '{}' and b.ready = '{}' then
    b := public.giftcard_walk_by_time(t, true, p_now);
  end if;
  if b.complete and c.walked_to is null then
    w.complete := true;
    w.ready := '{}';
    w.half_open := '{}';
    w.next_due_at := least(c.next_due_at, b.next_due_at);
  end if;
  w.ready := w.ready || array(
    select row(q.circuit, null, null, q.scheduled_at, null)::public.giftcard_cursor from unnest(c.ready || b.ready) q
     where q.circuit not in (select k.circuit from unnest(w.ready) k) order by q.scheduled_at, q.circuit);
  w.half_open := w.half_open || array(
    select q from unnest(c.half_open || b.half_open) q where q <> all (w.half_open));
  if not w.complete and w.ready = '{}' and w.half_open = '{}' then
    select k.tenant_id into w.was_far from public.giftcard_turns k where k.circuit = w.name || ' far';
    c := public.giftcard_walk_circuits(t, w.was_far, w.was_far, 1, 50, false, true, p_now);
    w.ready := c.ready;
  end if;
  while not w.complete and w.ready = '{}' and w.half_open = '{}' loop
    w := public.giftcard_walk_on(w, t, p_enough, 1000, p_now);
    w.far := w.ready[1].circuit;
  end loop;
  return w;
end $$;

-- A claim that walks: where many circuits have queued jobs.

-- What such a claim has picked. half_open: the circuits that wait for a probe; next_due_at: as giftcard_scan_queues
-- returns it, in a moment if there are more to look at.
create type public.giftcard_walk_picks as (
  s public.giftcard_claim_state, half_open text[], next_due_at timestamptz);

-- Pick jobs of circuits, for a claim that walks through them until it has something. They have their turns by the
-- circle: the tick keeps neither cursors of them (unless all are known) nor how many jobs of each it has started, and
-- their jobs are numbered by circles.
create function public.giftcard_pick_on_walk(
  s public.giftcard_claim_state, t public.giftcard_ticks, p_limit integer, p_one_by_one boolean, p_now timestamptz)
returns public.giftcard_walk_picks
language plpgsql volatile security invoker set search_path = '' as $$
declare
  w public.giftcard_walk := public.giftcard_begin_walk(t);
  p public.giftcard_walk_picks;
  v_wanted integer := greatest(s.remaining, 1);
begin
  p.half_open := '{}'::text[];
  s.served := '{}'::jsonb;
  w := public.giftcard_find_ready(w, t, v_wanted, p_now);
  loop
    s.tick_id := case when w.complete then t.id + t.started else w.circles end;
    if w.half_open <> '{}' then
      p.half_open := p.half_open || w.half_open;
      s := public.giftcard_pick_probes(s, w.half_open, null, p_one_by_one, p_now);
    end if;
    if s.remaining > 0 then
      s.queues := public.giftcard_with_lanes(w.ready, p_now);
      s := public.giftcard_pick_jobs(s, null, p_now);
    end if;
    exit when w.complete or s.remaining <= 0 or s.ids <> '{}';
    w := public.giftcard_walk_on(w, t, v_wanted, 1000, p_now);
  end loop;
  p.next_due_at := case when p_limit > 0 then w.next_due_at else least(
    w.next_due_at, (select min(q.scheduled_at) from unnest(w.ready) q),
    case when w.half_open <> '{}' then p_now + interval '1 second' end) end;
  if w.far is not null and p_limit > 0 then
    perform public.giftcard_keep_place(w.name || ' far', w.was_far, w.far, 0);
  end if;
  if not w.complete then
    p.next_due_at := least(p.next_due_at, p_now + interval '100 milliseconds');
    s.queues := '{}'::public.giftcard_cursor[];
    if p_limit > 0 then
      perform public.giftcard_keep_place(w.name, w.began, w.at, w.circles);  -- all that it has found had a turn
    end if;
  end if;
  p.s := s;
  return p;
end $$;

-- The overview's ticks: the last that ended well, the newest, and the last 60 minutes of the clock.

-- Return a tick as the overview shows it.
create function public.giftcard_overview_tick(t public.giftcard_ticks) returns jsonb
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return jsonb_build_object(
    'id', t.id, 'source', left(t.source, 200), 'started_at', t.started_at,
    'ended_at', public.giftcard_finite(t.ended_at),
    'duration_ms', case when isfinite(t.ended_at)
                        then greatest(0, public.giftcard_milliseconds(t.started_at, t.ended_at)) end,
    'started', t.started,
    'completed', t.completed, 'retried', t.retried, 'errored', t.errored, 'snoozed', t.snoozed,
    'interrupted', t.interrupted, 'stopped_because', t.stopped_because);
end $$;

-- Return the ticks of the last 60 minutes, minute by minute, of the newest 2,000. A tick belongs to the minute in which
-- it began. failed: it failed, or its function was killed. overlapping: it began while an earlier one was under way,
-- which does no harm. missing: no tick began in that minute, nor was one under way throughout it, although there were
-- ticks before; the present minute is never missing.
create function public.giftcard_overview_minutes(p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_last timestamptz := date_trunc('minute', p_now, 'UTC');
begin
  return (
    with seen as materialized (
      select t.*, case when t.ended_at is not null then t.ended_at when t.live_until > p_now then p_now end as until
        from (select id, started_at, ended_at, live_until, source, stopped_because::text as why, started
                from public.giftcard_ticks order by id desc limit 2000) t
       where t.started_at between '2000-01-01' and p_now),
    placed as (
      select s.*, date_trunc('minute', s.started_at, 'UTC') as minute,
             s.why is distinct from 'duplicate' and s.started_at < max(s.until) over (
               order by s.started_at, s.id rows between unbounded preceding and 1 preceding) as overlaps
        from seen s where s.started_at >= v_last - interval '2 hours'),
    minutes as (
      select p.minute, count(*) as ticks, sum(p.started) as started,
             count(*) filter (where p.why = 'failed' or p.ended_at is null and p.live_until <= p_now) as failed,
             count(*) filter (where p.why = 'duplicate') as doubled, count(*) filter (where p.overlaps) as overlapping,
             count(*) filter (where p.why in ('limit', 'budget')) as "limit",
             min(p.started_at) filter (where p.source = 'cron') as first_at
        from placed p group by p.minute)
    select jsonb_agg(jsonb_build_object(
        'at', n.at, 'ticks', coalesce(m.ticks, 0), 'started', coalesce(m.started, 0), 'failed', coalesce(m.failed, 0),
        'doubled', coalesce(m.doubled, 0), 'overlapping', coalesce(m.overlapping, 0),
        'late_s', floor(extract(epoch from m.first_at - n.at)), 'limit', coalesce(m."limit", 0),
        'missing', m.ticks is null and n.at < v_last and coalesce(n.at > f.at, false) and not exists (
          select from seen s where s.started_at <= n.at and s.until >= n.at + interval '1 minute')) order by n.at)
      from (select v_last - interval '1 minute' * i as at from generate_series(0, 59) i) n
     cross join (select min(s.started_at) as at from seen s) f
      left join minutes m on m.minute = n.at);
end $$;

-- Return {last_good, newest, silent, silence_began, minutes} of the overview. A tick in the future was written while a
-- clock went wrong: it is passed over.
create function public.giftcard_overview_ticks(p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_good public.giftcard_ticks;
  v_newest public.giftcard_ticks;
  s record;
begin
  select t.* into v_newest from (select * from public.giftcard_ticks order by id desc limit 2000) t
   where t.started_at between '2000-01-01' and p_now order by t.id desc limit 1;
  select t.* into v_good from (select * from public.giftcard_ticks order by id desc limit 2000) t
   where t.started_at between '2000-01-01' and p_now and t.ended_at between t.started_at and p_now
     and public.giftcard_ended_well(t.ended_at, t.stopped_because) order by t.id desc limit 1;
  select * into s from public.giftcard_newest_silence(p_now);
  -- A silence that a tick has ended is over.
  s.silent := coalesce(s.silent and s.ended > p_now - interval '1 second', false);
  return jsonb_build_object(
    'last_good', case when v_good.id is not null then public.giftcard_overview_tick(v_good) end,
    'newest', case when v_newest.id is not null
                   then public.giftcard_overview_tick(v_newest)
                        || jsonb_build_object('error', left(v_newest.error, 500)) end,
    'silent', s.silent, 'silence_began', case when s.silent then s.began end,
    'minutes', public.giftcard_overview_minutes(p_now));
end $$;

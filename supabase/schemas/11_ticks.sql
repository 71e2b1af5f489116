-- Pauses and ticks.

create table public.giftcard_stages (
  stage text collate "C" not null,
  paused_at timestamptz,
  paused_by text,
  reason text,
  resumed_at timestamptz,
  resumed_by text,
  constraint giftcard_stages_pkey primary key (stage)
);

comment on table public.giftcard_stages is
  'A stage that is paused (paused_at not null) or was. The row ''*'' pauses everything.';

create domain public.giftcard_tick_end as text constraint giftcard_ticks_stopped_because_is_known
  check (value in ('limit', 'drained', 'budget', 'shutdown', 'paused', 'duplicate', 'failed'));

-- Where a tick stands in the queue of a circuit: after this job, the last one it took. null: at the head. lanes: minus
-- the priorities of the due jobs, the highest priority first. plain: only the time of its jobs matters, neither
-- priorities nor tenants, keys or limits; null: not known yet.
create type public.giftcard_cursor as (
  circuit text, lanes smallint[], plain boolean, scheduled_at timestamptz, id bigint);

create table public.giftcard_ticks (
  id bigint generated always as identity,
  key uuid not null,
  source text not null,
  execution_id text collate "C",
  owner text not null,
  started_at timestamptz not null,
  live_until timestamptz not null,
  ended_at timestamptz,
  stopped_because public.giftcard_tick_end,
  error text,
  -- what it may claim
  stages jsonb not null,
  only_stage text,
  only_job_id bigint,
  -- what it last claimed: a claim repeated with its key, which is their lease, returns the same
  claim_key uuid,
  claim_ids bigint[],
  claim_interrupted bigint[],
  served jsonb not null default '{}',
  -- what became of it
  started integer not null default 0,
  completed integer not null default 0,
  retried integer not null default 0,
  errored integer not null default 0,
  snoozed integer not null default 0,
  released integer not null default 0,
  interrupted integer not null default 0,
  lease_lost integer not null default 0,
  revived integer not null default 0,
  limits jsonb not null default '{}',
  tenant_weights jsonb not null default '{}',
  revives boolean not null default true,
  code_version integer not null default 1,
  -- what it knows of the queues
  scanned_at timestamptz,
  cursors public.giftcard_cursor[] not null default '{}',
  constraint giftcard_ticks_pkey primary key (id),
  constraint giftcard_ticks_key_key unique (key)
) with (fillfactor = 50);
create index giftcard_ticks_by_execution on public.giftcard_ticks (execution_id) where execution_id is not null;

comment on table public.giftcard_ticks is
  'One bounded pass over due work. ended_at null past live_until: the function was killed.';
comment on column public.giftcard_ticks.error is 'Why it failed; stopped_because is failed then.';
comment on column public.giftcard_ticks.key is 'Made by the caller: a repeated begin finds its tick by it.';
comment on column public.giftcard_ticks.stages is
  'Stages that this code can run, with the time to run of each in seconds: {"email": 60}.';
comment on column public.giftcard_ticks.limits is
  'What the settings allow each stage in the whole fleet: {"payment": {"runs": 2, "per_second": 10, "burst": 20}}.';
comment on column public.giftcard_ticks.tenant_weights is
  'How many jobs a tenant gets where another gets one, while tenants take turns: {"acme": 3}.';
comment on column public.giftcard_ticks.revives is 'Whether it revives dead letters: a setting may forbid it.';
comment on column public.giftcard_ticks.scanned_at is
  'When it last scanned all queues; for a second it continues from its cursors.';
comment on column public.giftcard_ticks.cursors is
  'Circuits whose queues had more at the last claim, in their turn, and where the tick stands in each.';
comment on column public.giftcard_ticks.served is
  'Jobs started so far by circuit: the circuit with the fewest is served first.';

-- Return whether a tick ended well: it is over, did not fail, and was not a second delivery, which does no work.
create function public.giftcard_ended_well(p_ended_at timestamptz, p_stopped_because text) returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return p_ended_at is not null and p_stopped_because not in ('failed', 'duplicate');
end $$;

-- Return the newest pause between ticks that ended well, of the newest 200: from the end of one (or the start of the
-- first tick of all) to the end of the next, or p_now; null without a tick. silent: it is longer than three minutes,
-- and than a tick may live here. error: that of the newest tick, if it failed. A time ahead of p_now counts for
-- nothing: it was written while a clock went wrong.
create function public.giftcard_newest_silence(
  p_now timestamptz, out began timestamptz, out ended timestamptz, out silent boolean, out error text)
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  with seen as (
    select t.* from (select * from public.giftcard_ticks order by id desc limit 200) t
     where t.started_at between '2000-01-01' and p_now and coalesce(t.ended_at, p_now) between t.started_at and p_now),
  moments as (
    select min(s.started_at) as at from seen s
    union all
    select s.ended_at from seen s where public.giftcard_ended_well(s.ended_at, s.stopped_because)),
  gaps as (
    select m.at as began, coalesce(lead(m.at) over (order by m.at), p_now) as ended from moments m
     where m.at is not null),
  newest as (select s.* from seen s order by s.id desc limit 1)
  select g.began, g.ended, n.error, g.ended - g.began > greatest(interval '3 minutes', interval '1 minute' + least(
           case when isfinite(n.live_until) then n.live_until - n.started_at end, interval '1 hour'))
    into began, ended, error, silent
    from gaps g left join newest n on true
   order by g.ended - g.began > interval '3 minutes' and g.ended > p_now - interval '5 minutes' desc, g.began desc
   limit 1;
end $$;

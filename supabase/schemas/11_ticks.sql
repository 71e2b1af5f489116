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
  check (value in ('limit', 'drained', 'budget', 'shutdown', 'paused', 'duplicate'));

-- Where a tick stands in the queue of a circuit: after this job, the last one it took. null: at the head.
create type public.giftcard_cursor as (circuit text, scheduled_at timestamptz, id bigint);

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
comment on column public.giftcard_ticks.key is 'Made by the caller: a repeated begin finds its tick by it.';
comment on column public.giftcard_ticks.stages is
  'Stages that this code can run, with the time to run of each in seconds: {"email": 60}.';
comment on column public.giftcard_ticks.limits is
  'The most runs of a stage at once in the whole fleet: {"payment": 2}.';
comment on column public.giftcard_ticks.scanned_at is
  'When it last scanned all queues; for a second it continues from its cursors.';
comment on column public.giftcard_ticks.cursors is
  'Circuits whose queues had more at the last claim, in their turn, and where the tick stands in each.';
comment on column public.giftcard_ticks.served is
  'Jobs started so far by circuit: the circuit with the fewest is served first.';

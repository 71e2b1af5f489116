-- Chores: what a tick sees to now and then, after its jobs. Each has an interval; the first tick after it does the chore.

create table public.giftcard_chores (
  chore text collate "C" not null,
  every interval not null,
  last_at timestamptz not null default '-infinity',
  constraint giftcard_chores_pkey primary key (chore),
  constraint giftcard_chores_every_is_positive check (every > interval '0')
);

comment on table public.giftcard_chores is 'What ticks see to after their jobs, each at its interval. A chore that failed waits for its next turn.';

insert into public.giftcard_chores (chore, every) values ('alerts', '50 seconds'), ('prune', '10 minutes');

-- The chores whose time has come: read by each tick's begin.
create function public.giftcard_due_chores(p_now timestamptz) returns json
language sql stable security invoker set search_path = '' as $$
  select coalesce(json_agg(chore order by chore), '[]') from public.giftcard_chores where last_at + every <= p_now
$$;

-- Takes a chore: true for one of the ticks that see it due at the same time.
create function public.giftcard_begin_chore(p_chore text, p_now timestamptz default null) returns boolean
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  update public.giftcard_chores set last_at = v_now where chore = p_chore and last_at + every <= v_now;
  return found;
end $$;

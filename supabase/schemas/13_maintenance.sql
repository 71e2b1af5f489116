-- Chores: what a tick sees to now and then, after its jobs. Each has an interval; the first tick after it does the
-- chore.

create table public.giftcard_maintenance_tasks (
  task text collate "C" not null,
  every interval not null,
  last_at timestamptz not null default '-infinity',
  constraint giftcard_maintenance_tasks_pkey primary key (task),
  constraint giftcard_maintenance_tasks_every_is_positive check (every > interval '0')
);

comment on table public.giftcard_maintenance_tasks is
  'What ticks see to after their jobs, each at its interval. A chore that failed waits for its next turn.';

insert into public.giftcard_maintenance_tasks (task, every) values ('alerts', '50 seconds'), ('prune', '10 minutes');

-- The chores whose time has come: read by each tick's begin.
create function public.giftcard_due_maintenance(p_now timestamptz) returns json
language plpgsql stable security invoker set search_path = '' as $$
begin
  return (select coalesce(json_agg(task order by task), '[]') from public.giftcard_maintenance_tasks
           where last_at + every <= p_now);
end $$;

-- Takes a chore: true for one of the ticks that see it due at the same time.
create function public.giftcard_begin_maintenance(p_task text, p_now timestamptz default null) returns boolean
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  update public.giftcard_maintenance_tasks set last_at = v_now where task = p_task and last_at + every <= v_now;
  return found;
end $$;

-- Maintenance tasks: what a tick does at an interval, after its jobs. The first tick after the interval does the task.

create table public.giftcard_maintenance_tasks (
  task text collate "C" not null,
  every interval not null,
  last_at timestamptz not null default '-infinity',
  constraint giftcard_maintenance_tasks_pkey primary key (task),
  constraint giftcard_maintenance_tasks_every_is_positive check (every > interval '0')
);

comment on table public.giftcard_maintenance_tasks is
  'What ticks do after their jobs, each at its interval. A task that failed waits for the next interval.';

insert into public.giftcard_maintenance_tasks (task, every) values ('alerts', '50 seconds'), ('prune', '10 minutes');

-- Return the tasks that are due, as a JSON array. Each tick's begin reads it.
create function public.giftcard_due_maintenance(p_now timestamptz) returns json
language plpgsql stable security invoker set search_path = '' as $$
begin
  return (select coalesce(json_agg(task order by task), '[]') from public.giftcard_maintenance_tasks
           where last_at + every <= p_now);
end $$;

-- Begin a task: true for one of the ticks that find it due at the same time.
create function public.giftcard_begin_maintenance(p_task text, p_now timestamptz default null) returns boolean
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  update public.giftcard_maintenance_tasks set last_at = v_now where task = p_task and last_at + every <= v_now;
  return found;
end $$;

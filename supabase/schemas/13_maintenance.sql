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

insert into public.giftcard_maintenance_tasks (task, every) values
  ('alerts', '50 seconds'), ('counters', '50 seconds'), ('prune', '10 minutes'),
  ('operations', '1 millisecond'), ('batches', '5 minutes');

-- Return whether a task is due. One is at least once a day, and if it was last done in the future: the clock was wrong.
-- Not for any later time: another tick may have begun it since p_now was read.
create function public.giftcard_is_due(p_last_at timestamptz, p_every interval, p_now timestamptz) returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return p_last_at <= p_now - least(p_every, interval '24 hours') or p_last_at > p_now + interval '1 minute';
end $$;

-- Make a task due again at once: it has more to do.
create function public.giftcard_continue_maintenance(p_task text) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  update public.giftcard_maintenance_tasks set last_at = '-infinity' where task = p_task;
end $$;

-- Return the tasks that are due, as a JSON array. Each tick's begin reads it. Counters are due only if there is
-- something to count, operations and batches while one runs: a tick with nothing to do is one call.
create function public.giftcard_due_maintenance(p_now timestamptz) returns json
language plpgsql stable security invoker set search_path = '' as $$
begin
  return (select coalesce(json_agg(task order by task), '[]') from public.giftcard_maintenance_tasks
           where public.giftcard_is_due(last_at, every, p_now)
             and (task <> 'counters' or public.giftcard_has_uncounted_runs(p_now))
             and (task <> 'operations'
                  or exists (select from public.giftcard_operations where state = 'running'))
             and (task <> 'batches' or exists (
                    select from public.giftcard_batches where sealed_at is not null and ended_at is null)));
end $$;

-- Begin a task: true for one of the ticks that find it due at the same time.
create function public.giftcard_begin_maintenance(p_task text, p_now timestamptz default null) returns boolean
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  update public.giftcard_maintenance_tasks set last_at = v_now
   where task = p_task and public.giftcard_is_due(last_at, every, v_now);
  return found;
end $$;

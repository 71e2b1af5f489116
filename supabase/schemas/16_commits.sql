-- Commits: lateness counts from scheduled_at, and no job can be claimed before the transaction commits that queues it.

-- Set the time of a job that came due in a transaction of more than a second to that of the commit: the same for all of
-- the transaction, whose jobs start by their ids. Not if it inserts more than 10,000 jobs (by their ids): they would
-- leave as many dead entries at the head of their queue. Nor for a role that may not update jobs.
create function public.giftcard_schedule_at_commit() returns trigger
language plpgsql security invoker set search_path = '' as $$
declare
  v_now timestamptz := clock_timestamp();
begin
  if v_now < now() + interval '1 second' or new.scheduled_at < now() or new.scheduled_at > v_now
     or not has_table_privilege('public.giftcard_jobs', 'select')
     or not has_table_privilege('public.giftcard_jobs', 'update') then
    return null;
  end if;
  if coalesce(current_setting('giftcard.commits_at', true), '') = '' then
    perform set_config('giftcard.commits_at', case
      when tg_op = 'INSERT' and (select max(id) from public.giftcard_jobs) - new.id > 10000 then '-infinity'
      else v_now::text end, true);
  end if;
  v_now := current_setting('giftcard.commits_at')::timestamptz;
  update public.giftcard_jobs set scheduled_at = v_now, updated_at = v_now
   where id = new.id and status = 'queued' and scheduled_at = new.scheduled_at and scheduled_at < v_now;
  return null;
end $$;

-- Deferred: they run at the commit. The first for each row of a plain INSERT and of a call of giftcard_enqueue in a
-- transaction that goes on (its writer is `transaction`): what programs enqueue is committed at once, and would pay
-- several percent for it. The second for what an UPDATE or a requeue makes due at once. Both conditions are short, as
-- Postgres reads them anew in every statement.
create constraint trigger giftcard_jobs_inserted_until_commit after insert on public.giftcard_jobs
  deferrable initially deferred
  for each row when (coalesce(current_setting('giftcard.writer', true), '') in ('', 'transaction'))
  execute function public.giftcard_schedule_at_commit();
create constraint trigger giftcard_jobs_made_due_until_commit after update of scheduled_at on public.giftcard_jobs
  deferrable initially deferred
  for each row when (new.scheduled_at between now() and clock_timestamp())
  execute function public.giftcard_schedule_at_commit();

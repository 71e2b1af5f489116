-- The older bulk form stays valid and finds nothing here:
--
--   UPDATE giftcard_jobs SET status='queued', scheduled_at=NOW(), attempts=0, last_error=NULL
--   WHERE status='queued' AND scheduled_at > NOW() AND attempts >= max_attempts;
--
-- It selects exhausted jobs that are still queued. Here an exhausted job is in error, so this is the right statement.
-- First run it as it is: it only counts. Then set p_dry_run to false, and run it again until matched is 0.
select (select count(*) from public.giftcard_jobs
         where status = 'queued' and scheduled_at > now() and attempts >= max_attempts) as found_by_the_older_form,
           answer.*
  from jsonb_to_record(public.giftcard_requeue_dead_letters(
    p_dry_run => true,  -- true counts, false requeues
    p_by      => null   -- you, for the audit; null: your database role
  )) as answer(dry_run boolean, matched integer, requeued integer);

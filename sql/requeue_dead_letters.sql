-- Requeue dead letters, the oldest first, due now, each with a whole new set of attempts.
-- First run it as it is: it only counts. Then set p_dry_run to false, and run it again until matched is 0.
select * from jsonb_to_record(public.giftcard_requeue_dead_letters(
  p_stage      => null,  -- 'email'; null: every stage
  p_error      => null,  -- a part of last_error, like 'mail server'; null: every error
  p_older_than => null,  -- dead for at least this long, like '10 minutes'; null: any age
  p_limit      => 1000,  -- at most so many a run; 1000 is the most
  p_dry_run    => true,  -- true counts, false requeues
  p_by         => null,  -- you, for the audit; null: your database role
  p_reason     => null   -- for the audit: 'the provider is back'
)) as answer(dry_run boolean, matched integer, requeued integer);

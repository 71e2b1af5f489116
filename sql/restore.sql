-- Restore a job from the archive as it was: same id, same status, same history. Requeue it afterwards to run it again.
select * from jsonb_to_record(public.giftcard_restore_job(
  p_job_id => 0,    -- the job
  p_by     => null, -- you, for the audit; null: your database role
  p_reason => null  -- for the audit: 'the customer asks again'
)) as answer(id bigint, status text, restored boolean);

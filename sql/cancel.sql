-- Cancel a job that is queued or in error. For a running one the request is recorded: if it completes, that still
-- counts; any other outcome becomes cancelled.
select * from jsonb_to_record(public.giftcard_cancel(
  p_job_id => 0,    -- the job
  p_by     => null, -- you, for the audit; null: your database role
  p_reason => null  -- for the audit: 'ordered twice'
)) as answer(id bigint, was text, status text, cancel_requested boolean);

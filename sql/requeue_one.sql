-- Requeue one job in error or cancelled, due now, with a whole new set of attempts. Its history stays.
-- Refused: a job that is queued or running; a completed one without force; a new payload once an effect outside was
-- begun.
select * from jsonb_to_record(public.giftcard_requeue(
  p_job_id  => 0,      -- the job
  p_payload => null,   -- a corrected payload, like '{"customer": …}'; null keeps the one it has
  p_force   => false,  -- true: also a completed job, which then runs again
  p_by      => null,   -- you, for the audit; null: your database role
  p_reason  => null    -- for the audit: 'the address is corrected'
)) as answer(id bigint, was text, status text);

-- Decide an effect whose outcome is unknown: did it happen? Find it at the vendor first, by the vendor key
-- (docs/runbook.md shows it). Then run this, then requeue the job.
select public.giftcard_decide_effect(
  p_job_id   => 0,          -- the job
  p_name     => '',         -- the effect: 'charge' of payment, 'issue' of issue_card, 'send' of email, 'call' of
                            -- http_call
  p_happened => false,      -- false: it did not, and the next run does it under a new key; true: it did
  p_result   => null,       -- if it happened, what the stage would have kept, like '{"reference": "ch_123"}'
  p_by       => null        -- you, for the audit; null: your database role
) as decided;

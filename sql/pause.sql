-- Pauses a stage, or everything. Its jobs wait and lose no attempt; runs that have begun end as they would.
select * from jsonb_to_record(public.giftcard_pause(
  p_stage  => '',   -- 'email', or '*' for everything
  p_by     => null, -- you, for status and the audit; null: your database role
  p_reason => null  -- 'the mail provider moves tonight'
)) as answer(stage text, paused boolean, paused_at timestamptz, paused_by text, reason text);

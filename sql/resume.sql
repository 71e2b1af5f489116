-- End a pause. The pause of everything ('*') and that of a stage are separate: end each by itself.
select * from jsonb_to_record(public.giftcard_resume(
  p_stage  => '',   -- as it was paused: 'email', or '*'
  p_by     => null, -- you, for the audit; null: your database role
  p_reason => null  -- for the audit: 'the mail provider has moved'
)) as answer(stage text, paused boolean, resumed_at timestamptz, resumed_by text);

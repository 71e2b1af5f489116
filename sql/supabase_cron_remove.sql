-- Remove what supabase_cron.sql has set up: its two jobs with their run details, and the secret in Vault. The
-- extensions stay. First run it as it is: it only counts. Then set p_dry_run to false.
select * from jsonb_to_record(public.giftcard_stop_clock(
  p_dry_run => true   -- true counts, false removes
)) as answer(dry_run boolean, jobs integer);

-- Remove what supabase_cron.sql has set up: its two jobs with their run details. The extensions and the secret in Vault
-- stay. First run it as it is: it only counts. Then set p_dry_run to false.
select * from jsonb_to_record(public.giftcard_stop_clock(
  p_dry_run => true   -- true counts, false removes
)) as answer(dry_run boolean, jobs integer);

-- Let Supabase Cron call the cron endpoint each minute, beside or instead of another clock. Run it again when one of
-- the values has changed. pg_net gives up after 5 s and records a timeout, as intended: the tick goes on without it.
select * from jsonb_to_record(public.giftcard_start_clock(
  p_url         => '',                     -- the deployment, like 'https://your-project.vercel.app'
  p_secret_name => 'giftcard_cron_secret'  -- of the secret in Vault with its CRON_SECRET: create it there first
)) as answer(clock text, schedule text, calls text);

-- Let Supabase wake a tick for jobs that are due before the next minute. Also set GIFTCARD_WAKE=pg_net in the
-- deployment. Run it again when one of the values has changed. To end it: select giftcard_stop_waking();
select * from jsonb_to_record(public.giftcard_start_waking(
  p_url         => '',                     -- the deployment, like 'https://your-project.vercel.app'
  p_secret_name => 'giftcard_cron_secret'  -- of the secret in Vault with its CRON_SECRET: create it there first
)) as answer(waking text, schedule text, calls text);

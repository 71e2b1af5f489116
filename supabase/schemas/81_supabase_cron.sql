-- Supabase Cron as the clock, for platforms without cron by the minute: pg_cron runs each minute, pg_net calls the cron
-- endpoint, Vault keeps the secret. None of the three is needed before these functions are called.

-- Check what a call by pg_net needs, and enable the extensions that are missing: an address and nothing else, and the
-- name of a secret in Vault. Return the address without a slash at its end.
create function public.giftcard_check_call(p_url text, p_secret_name text) returns text
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_url text := rtrim(p_url, '/');
  v_extension text;
  v_schema text;
  v_secret text;
begin
  if v_url is null
      or v_url !~ '^(https://[A-Za-z0-9.-]+|http://(localhost|127\.0\.0\.1|host\.docker\.internal))(:[0-9]{1,5})?$' then
    perform public.giftcard_refuse('GC400',
      'p_url must be the address of the deployment and nothing else, like https://your-project.vercel.app',
      'p_url');
  end if;
  for v_extension, v_schema in
    select e.name, e.its_schema from (values
        (1, 'cron', 'pg_cron', 'pg_catalog'),
        (2, 'net', 'pg_net', 'extensions'),
        (3, 'vault', 'supabase_vault', null)) e(n, provides, name, its_schema)
     where to_regnamespace(e.provides) is null order by e.n limit 3
  loop
    begin
      execute format('create extension %I', v_extension) || coalesce(' with schema ' || quote_ident(v_schema), '');
    exception when others then
      perform public.giftcard_refuse(
        'GC409', format('the extension %s is not enabled and cannot be from here: %s', v_extension, sqlerrm));
    end;
  end loop;
  select s.decrypted_secret into v_secret from vault.decrypted_secrets s where s.name = p_secret_name;
  if v_secret is null then
    perform public.giftcard_refuse('GC404', format(
      'Vault has no secret named %s: create it there with the value of CRON_SECRET', coalesce(p_secret_name, 'null')),
      'p_secret_name');
  elsif v_secret !~ '^[!-~]+$' then
    perform public.giftcard_refuse('GC400', format(
      'the secret %s in Vault must be the deployment''s CRON_SECRET, without blanks inside', p_secret_name),
      'p_secret_name');
  end if;
  return v_url;
end $$;

-- Start the clock, or change what it calls: the deployment's address, and the name of the secret in Vault that is its
-- CRON_SECRET. Each call reads it there: the secret itself stands in no statement, which Postgres may log, and not in
-- cron.job. A second job deletes pg_cron's records of both; pg_net deletes its responses by itself (after 6 hours).
-- pg_net makes one batch of calls after the other, so it must not wait for a long tick: it gives up after 5 s, and the
-- tick goes on without it.
create function public.giftcard_start_clock(p_url text, p_secret_name text default 'giftcard_cron_secret')
returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_url text := public.giftcard_check_call(p_url, p_secret_name);
begin
  perform cron.schedule('giftcard-jobs', '* * * * *', format(
    'select net.http_post(url := %L, timeout_milliseconds := 5000, headers := '
    'jsonb_build_object(''Authorization'', ''Bearer '' || '
    '(select decrypted_secret from vault.decrypted_secrets where name = %L)))',
    v_url || '/api/cron/giftcard-jobs', p_secret_name));
  perform cron.schedule('giftcard-jobs-prune', '7 3 * * *',
    'delete from cron.job_run_details where start_time < now() - interval ''2 days'' and jobid in '
    '(select jobid from cron.job where jobname in (''giftcard-jobs'', ''giftcard-jobs-prune''))');
  return jsonb_build_object(
    'clock', 'giftcard-jobs', 'schedule', '* * * * *', 'calls', v_url || '/api/cron/giftcard-jobs');
end $$;

-- Remove what giftcard_start_clock has set up, and only that: the extensions may have other users, and the secret in
-- Vault is yours. With p_dry_run only count it.
create function public.giftcard_stop_clock(p_dry_run boolean default false) returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_jobs bigint[] := '{}'::bigint[];
begin
  if to_regnamespace('cron') is not null then
    v_jobs := array(select j.jobid from cron.job j where j.jobname in ('giftcard-jobs', 'giftcard-jobs-prune'));
  end if;
  if not p_dry_run and cardinality(v_jobs) > 0 then
    perform cron.unschedule(j) from unnest(v_jobs) j;
    delete from cron.job_run_details where jobid = any (v_jobs);
  end if;
  return jsonb_build_object('dry_run', p_dry_run, 'jobs', cardinality(v_jobs));
end $$;

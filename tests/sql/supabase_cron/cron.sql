-- What the clock uses of pg_cron, under its own names and signatures, for servers that have no package of it. Nothing runs by itself
-- here; tests/sql/supabase_cron/test_pg_cron.py has the real one.
create schema cron;

create table cron.job (
  jobid bigint generated always as identity primary key,
  schedule text not null,
  command text not null,
  database text not null default current_database(),
  username text not null default current_user,
  active boolean not null default true,
  jobname text unique
);

create table cron.job_run_details (
  jobid bigint,
  runid bigint generated always as identity primary key,
  status text,
  return_message text,
  start_time timestamptz,
  end_time timestamptz
);

create function cron.schedule(job_name text, schedule text, command text) returns bigint language sql as $$
  insert into cron.job (jobname, schedule, command) values (job_name, schedule, command)
  on conflict (jobname) do update set schedule = excluded.schedule, command = excluded.command returning jobid
$$;

create function cron.unschedule(job_id bigint) returns boolean language plpgsql as $$
begin
  delete from cron.job where jobid = job_id;
  if not found then
    raise exception 'could not find valid entry for job ''%''', job_id;
  end if;
  return true;
end $$;

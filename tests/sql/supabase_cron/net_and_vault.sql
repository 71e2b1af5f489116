-- What the clock uses of pg_net and Supabase Vault, under their own names and signatures. No package of either is to be had, so these
-- stand for them: the queue is worked off by tests/sql/supabase_cron/pg_net.py, and the vault hides its secrets no better than rot13 would.
create schema net;

create table net.http_request_queue (
  id bigint generated always as identity,
  method text not null,
  url text not null,
  headers jsonb not null,
  body bytea,
  timeout_milliseconds integer not null
);

create table net._http_response (
  id bigint,
  status_code integer,
  content_type text,
  headers jsonb,
  content text,
  timed_out boolean,
  error_msg text,
  created timestamptz not null default now()
);

create function net.http_post(
  url text, body jsonb default '{}', params jsonb default '{}', headers jsonb default '{"Content-Type": "application/json"}',
  timeout_milliseconds integer default 5000
) returns bigint language sql as $$
  insert into net.http_request_queue (method, url, headers, body, timeout_milliseconds)
  values ('POST', url, '{"Content-Type": "application/json"}'::jsonb || headers, convert_to(body::text, 'UTF8'), timeout_milliseconds)
  returning id
$$;

create schema vault;

create table vault.secrets (
  id uuid primary key default gen_random_uuid(),
  name text unique,
  description text not null default '',
  secret text not null,
  key_id uuid,
  created_at timestamptz not null default now(),
  updated_at timestamptz not null default now()
);

create view vault.decrypted_secrets as
  select id, name, description, secret, reverse(secret) as decrypted_secret, key_id, created_at, updated_at from vault.secrets;

create function vault.create_secret(
  new_secret text, new_name text default null, new_description text default '', new_key_id uuid default null
) returns uuid language sql as $$
  insert into vault.secrets (secret, name, description, key_id)
  values (reverse(new_secret), new_name, new_description, new_key_id) returning id
$$;

create function vault.update_secret(
  secret_id uuid, new_secret text default null, new_name text default null, new_description text default null,
  new_key_id uuid default null
) returns void language sql as $$
  update vault.secrets
     set secret = coalesce(reverse(new_secret), secret), name = coalesce(new_name, name),
         description = coalesce(new_description, description), updated_at = now()
   where id = secret_id
$$;

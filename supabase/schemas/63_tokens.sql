-- Tokens: who may call the API, as rows. The tokens of the environment are no rows: they work without the database.

-- hash: SHA-256 of the token, in hex. A token has 256 random bits, so it cannot be guessed from its hash: a slow or
-- salted hash, as passwords need, would only make each request slower.
create table public.giftcard_tokens (
  id bigint generated always as identity,
  name text collate "C" not null,
  hash text collate "C" not null,
  prefix text not null,
  tenant_id text collate "C",
  scopes text[] not null,
  created_at timestamptz not null,
  created_by text not null,
  expires_at timestamptz,
  revoked_at timestamptz,
  last_used_at timestamptz,
  constraint giftcard_tokens_pkey primary key (id),
  constraint giftcard_tokens_name_key unique (name),
  constraint giftcard_tokens_hash_key unique (hash),
  constraint giftcard_tokens_scopes_are_known check (cardinality(scopes) > 0
    and array_ndims(scopes) = 1 and scopes <@ array[
    'orders:write', 'orders:read', 'jobs:read', 'jobs:write', 'admin', 'metrics'])
);

comment on table public.giftcard_tokens is
  'A token of the API: its hash, what it allows, and for which tenant. The token itself is not stored.';
comment on column public.giftcard_tokens.prefix is 'The first characters of the token, to recognize it in a leak.';
comment on column public.giftcard_tokens.tenant_id is 'The only tenant that it sees and changes. null: all.';
comment on column public.giftcard_tokens.last_used_at is 'Written once a minute at most.';

-- Return a token as the API shows it, never with its hash.
create function public.giftcard_token_json(t public.giftcard_tokens, p_now timestamptz) returns jsonb
language plpgsql stable security invoker set search_path = '' as $$
begin
  return jsonb_build_object(
    'id', t.id, 'name', left(t.name, 200), 'prefix', left(t.prefix, 20), 'tenant_id', left(t.tenant_id, 500),
    'scopes', to_jsonb(t.scopes),
    'state', case when t.revoked_at is not null then 'revoked' when t.expires_at <= p_now then 'expired'
                  else 'active' end,
    'created_at', t.created_at, 'created_by', left(t.created_by, 200), 'expires_at', t.expires_at,
    'revoked_at', t.revoked_at, 'last_used_at', t.last_used_at);
end $$;

-- Record in the audit that a token was created or revoked.
create function public.giftcard_record_token(
  p_by text, p_action text, t public.giftcard_tokens, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  perform public.giftcard_record_act(
    p_by, t.tenant_id, p_action, 'token ' || t.name,
    jsonb_build_object('scopes', to_jsonb(t.scopes), 'expires_at', t.expires_at), p_now);
end $$;

-- Create a token, of which only the hash is given. p_tenant_id null: of all tenants; p_expires_seconds null: it never
-- expires. Called again with the same hash it returns the same token: the first reply was lost. GC409: its name is
-- taken, also by a revoked token, so that a name in the audit is always the same token.
create function public.giftcard_create_token(
  p_name text, p_hash text, p_prefix text, p_scopes text[], p_tenant_id text default null,
  p_expires_seconds double precision default null, p_by text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  t public.giftcard_tokens;
begin
  if p_tenant_id is not null and 'metrics' = any (p_scopes) then
    perform public.giftcard_refuse(
      'GC400', 'metrics are those of all tenants: a token of one tenant cannot have this scope', 'scopes');
  end if;
  insert into public.giftcard_tokens (name, hash, prefix, tenant_id, scopes, created_at, created_by, expires_at)
  values (p_name, p_hash, p_prefix, p_tenant_id, p_scopes, v_now, public.giftcard_actor(p_by),
          v_now + make_interval(secs => p_expires_seconds))
  on conflict (name) do nothing returning * into t;
  if found then
    perform public.giftcard_record_token(p_by, 'create_token', t, v_now);
    return public.giftcard_token_json(t, v_now);
  end if;
  select * into t from public.giftcard_tokens where name = p_name;
  if t.hash is distinct from p_hash then
    perform public.giftcard_refuse('GC409', format('token %s exists already: choose another name', p_name), 'name');
  end if;
  return public.giftcard_token_json(t, v_now);
end $$;

-- Revoke a token for good, and return it. One that is revoked already stays as it is. GC404 for none.
create function public.giftcard_revoke_token(
  p_name text, p_by text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  t public.giftcard_tokens;
begin
  select * into t from public.giftcard_tokens where name = p_name for update;
  if not found then
    perform public.giftcard_refuse('GC404', format('token %s does not exist', p_name), 'name');
  end if;
  if t.revoked_at is null then
    update public.giftcard_tokens set revoked_at = v_now where id = t.id returning * into t;
    perform public.giftcard_record_token(p_by, 'revoke_token', t, v_now);
  end if;
  return public.giftcard_token_json(t, v_now);
end $$;

-- Return a page of tokens, the newest first: {tokens, older}: the id to continue from, null at the end.
create function public.giftcard_list_tokens(
  p_older bigint default null, p_limit integer default 50, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off
set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  t public.giftcard_tokens;
  v_row jsonb;
  v_bytes integer := 0;
  v_rows jsonb[] := array[]::jsonb[];
  v_more boolean := false;
begin
  -- One more than the page holds: its presence means that there are more.
  for t in select * from public.giftcard_tokens where p_older is null or id < p_older
            order by id desc limit v_limit + 1 loop
    v_row := public.giftcard_token_json(t, coalesce(p_now, clock_timestamp()));
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes);
    exit when v_more;
    v_rows := v_rows || v_row;
  end loop;
  return jsonb_build_object('tokens', to_jsonb(v_rows),
                            'older', case when v_more then v_rows[cardinality(v_rows)] -> 'id' end);
end $$;

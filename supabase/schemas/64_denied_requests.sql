-- Denied requests: wrong tokens and signatures are counted by address, and beyond a limit refused for a while. What is
-- right is never counted: a caller behind the same address as an attacker is not locked out.

-- A fixed number of rows: addresses share them by hash, so that no number of addresses makes the table grow, and no
-- address is stored.
create table public.giftcard_denied_requests (
  bucket integer not null,
  window_at timestamptz not null,
  requests integer not null,
  former_requests integer not null default 0,
  constraint giftcard_denied_requests_pkey primary key (bucket),
  constraint giftcard_denied_requests_bucket_is_known check (bucket between 0 and 4095)
);

comment on table public.giftcard_denied_requests is
  'Requests with a wrong token or signature, by a hash of their address, in the current window of five minutes.';
comment on column public.giftcard_denied_requests.former_requests is
  'Those of the window before, if this one followed within five minutes.';

-- Count a request with a wrong token or signature. p_bucket: a hash of its address, 0 to 4095; p_reason: unknown,
-- expired, revoked, signature. Return {reason, retry_after: seconds; null: up to 20 in five minutes}. A database that
-- accepts no changes counts nothing.
create function public.giftcard_count_denied(p_bucket integer, p_reason text, p_now timestamptz default null)
returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_from timestamptz := v_now - interval '5 minutes';
  d public.giftcard_denied_requests;
begin
  if current_setting('transaction_read_only') = 'on' then
    return jsonb_build_object('reason', p_reason, 'retry_after', null);
  end if;
  -- A window in the future: the clock was wrong.
  insert into public.giftcard_denied_requests as r (bucket, window_at, requests) values (p_bucket, v_now, 1)
  on conflict (bucket) do update set
    former_requests = case when r.window_at > v_from and r.window_at <= v_now then r.former_requests
                           when r.window_at > v_from - interval '5 minutes' and r.window_at <= v_now then r.requests
                           else 0 end,
    requests = case when r.window_at > v_from and r.window_at <= v_now then least(r.requests + 1, 1000000) else 1 end,
    window_at = case when r.window_at > v_from and r.window_at <= v_now then r.window_at else v_now end
  returning * into d;
  perform public.giftcard_increment_counters(jsonb_build_array(jsonb_build_object(
    'name', 'denied_requests', 'label', p_reason, 'value', 1)));
  return jsonb_build_object('reason', p_reason, 'retry_after', case when d.requests > 20 then
    ceil(extract(epoch from d.window_at - v_from)) end);
end $$;

-- Return what a token that is none of the environment's allows: {name, tenant_id, scopes}. One that is unknown, expired
-- or revoked is counted: {reason, retry_after}, as giftcard_count_denied returns it.
create function public.giftcard_check_token(p_hash text, p_bucket integer, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  t public.giftcard_tokens;
begin
  select * into t from public.giftcard_tokens where hash = p_hash;
  if not found or t.revoked_at is not null or t.expires_at <= v_now then
    return public.giftcard_count_denied(p_bucket, case when t.id is null then 'unknown'
      when t.revoked_at is not null then 'revoked' else 'expired' end, v_now);
  end if;
  if (t.last_used_at > v_now - interval '1 minute' and t.last_used_at <= v_now) is not true
     and current_setting('transaction_read_only') = 'off' then
    -- Of requests at once one writes it: the others do not wait.
    perform from public.giftcard_tokens where id = t.id for no key update skip locked;
    if found then
      update public.giftcard_tokens set last_used_at = v_now where id = t.id;
    end if;
  end if;
  return jsonb_build_object('name', t.name, 'tenant_id', t.tenant_id, 'scopes', to_jsonb(t.scopes));
end $$;

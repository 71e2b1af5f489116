-- Ciphertexts: where they are stored, and how another key takes over. The database has no key: it finds, counts and
-- replaces them.

-- Return the id of the key that a text is encrypted under; '': it is of the former form, which names none.
create function public.giftcard_key_id(p_encrypted text) returns text
language plpgsql immutable parallel safe security invoker set search_path = '' as $$
begin
  return case when p_encrypted ~ '^v2\.[0-9a-f]{12}\.' then substr(p_encrypted, 4, 12) else '' end;
end $$;
-- For the doctor: the keys in use, however many cards there are.
create index giftcard_cards_by_key on public.giftcard_cards (public.giftcard_key_id(number_encrypted), id);

-- Return some rows that may hold ciphertexts, by id. Texts are bound to (tenant_id, place). number_hash: null for an
-- endpoint. texts: none for an effect that keeps no card number. GC400 for an unknown kind.
create function public.giftcard_ciphertexts(p_kind text, p_after text, p_limit integer)
returns table (id text, tenant_id text, place text, number_hash text, texts text[])
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  if p_kind = 'effect' then
    return query
      select e.vendor_key, e.tenant_id, e.correlation_id, e.result ->> 'number_hash',
             array_remove(array[left(e.result ->> 'number_encrypted', 1000)], null)
        from public.giftcard_effects e where e.vendor_key > coalesce(p_after, '') order by e.vendor_key limit p_limit;
    return;
  elsif p_kind = 'card' then
    return query
      select c.id::text, c.tenant_id, c.correlation_id, c.number_hash, array[left(c.number_encrypted, 1000)]
        from public.giftcard_cards c where c.id > coalesce(p_after, '0')::bigint order by c.id limit p_limit;
    return;
  elsif p_kind is distinct from 'endpoint' then
    perform public.giftcard_refuse('GC400', 'kind is one of effect, card, endpoint', 'kind');
  end if;
  return query
    select w.id::text, w.tenant_id, w.id::text, null::text,
           array_remove(array[left(w.secret_encrypted, 1000), left(w.previous_secret_encrypted, 1000),
                              left(w.oldest_secret_encrypted, 1000)], null)
      from public.giftcard_webhook_endpoints w where w.id > coalesce(p_after, '0')::bigint order by w.id limit p_limit;
end $$;

-- Read at most p_limit rows of a kind. Return {counts: {key id: texts}, rows: [{id, tenant_id, place, number_hash,
-- texts}] with the texts that are not under p_key_id (null: none), after: the id to continue from, null at the end}.
create function public.giftcard_list_ciphertexts(
  p_kind text, p_key_id text default null, p_after text default null, p_limit integer default 200) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 200), 1), 1000);
begin
  return (
    with found as materialized (
      select * from public.giftcard_ciphertexts(p_kind, p_after, v_limit) with ordinality
        f(id, tenant_id, place, number_hash, texts, n)), listed as (
      select f.n, f.id, f.tenant_id, f.place, f.number_hash, array(
               select t from unnest(f.texts) t where public.giftcard_key_id(t) <> p_key_id) as texts
        from found f where p_key_id is not null), counted as (
      select public.giftcard_key_id(t) as key_id, count(*) as texts from found f, unnest(f.texts) t group by 1)
    select jsonb_build_object(
      'counts', (select coalesce(jsonb_object_agg(c.key_id, c.texts), '{}') from counted c),
      'rows', (select coalesce(jsonb_agg(to_jsonb(l) - 'n' order by l.n), '[]') from listed l where l.texts <> '{}'),
      'after', (select f.id from found f where f.n = v_limit)));
end $$;

-- Replace ciphertexts. p_rows: [{id, texts: {old: new}}]. A text that has changed meanwhile stays, and so does a row
-- that another transaction holds: this one never waits. Return {replaced: rows}.
create function public.giftcard_replace_ciphertexts(p_kind text, p_rows jsonb) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_ids text[] := array(select r ->> 'id' from jsonb_array_elements(p_rows) r);
  v_replaced integer;
begin
  case p_kind
  when 'effect' then
    v_ids := array(select e.vendor_key from public.giftcard_effects e
                    where e.vendor_key = any (v_ids) for no key update skip locked);
    update public.giftcard_effects e
       set result = e.result || jsonb_build_object('number_encrypted', r.texts -> (e.result ->> 'number_encrypted'))
      from jsonb_to_recordset(p_rows) r(id text, texts jsonb)
     where e.vendor_key = r.id and r.id = any (v_ids) and r.texts ? (e.result ->> 'number_encrypted');
  when 'card' then
    v_ids := array(select c.id from public.giftcard_cards c
                    where c.id = any (v_ids::bigint[]) for no key update skip locked);
    update public.giftcard_cards c set number_encrypted = r.texts ->> c.number_encrypted
      from jsonb_to_recordset(p_rows) r(id bigint, texts jsonb)
     where c.id = r.id and r.id::text = any (v_ids) and r.texts ? c.number_encrypted;
  when 'endpoint' then
    v_ids := array(select w.id from public.giftcard_webhook_endpoints w
                    where w.id = any (v_ids::bigint[]) for no key update skip locked);
    update public.giftcard_webhook_endpoints w
       set secret_encrypted = coalesce(r.texts ->> w.secret_encrypted, w.secret_encrypted),
           previous_secret_encrypted = coalesce(
             r.texts ->> w.previous_secret_encrypted, w.previous_secret_encrypted),
           oldest_secret_encrypted = coalesce(r.texts ->> w.oldest_secret_encrypted, w.oldest_secret_encrypted)
      from jsonb_to_recordset(p_rows) r(id bigint, texts jsonb)
     where w.id = r.id and r.id::text = any (v_ids)
       and r.texts ?| array[w.secret_encrypted, w.previous_secret_encrypted, w.oldest_secret_encrypted];
  else
    perform public.giftcard_refuse('GC400', 'kind is one of effect, card, endpoint', 'kind');
  end case;
  get diagnostics v_replaced = row_count;
  return jsonb_build_object('replaced', v_replaced);
end $$;

-- Record that an operator makes one key take over from the others. p_texts: how many are to be encrypted again.
create function public.giftcard_record_key_rotation(
  p_key_id text, p_texts bigint, p_by text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' as $$
begin
  perform public.giftcard_record_act(
    p_by, null, 'rotate_keys', 'key ' || p_key_id, jsonb_build_object('texts', p_texts), p_now);
  return jsonb_build_object('noted', true);
end $$;

-- Return the keys that card numbers are under, at most 20, each with its newest and its oldest card: from an index.
create function public.giftcard_keys_of_cards() returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return (
    with recursive known as (
      (select public.giftcard_key_id(number_encrypted) as id, 1 as n from public.giftcard_cards
        order by public.giftcard_key_id(number_encrypted), giftcard_cards.id limit 1)
      union all
      (select (select public.giftcard_key_id(c.number_encrypted) from public.giftcard_cards c
                where public.giftcard_key_id(c.number_encrypted) > k.id
                order by public.giftcard_key_id(c.number_encrypted), c.id limit 1), k.n + 1
         from known k where k.id is not null and k.n < 20)), ends as (
      select k.id as key_id, unnest(array[
               (select max(c.id) from public.giftcard_cards c where public.giftcard_key_id(c.number_encrypted) = k.id),
               (select min(c.id) from public.giftcard_cards c where public.giftcard_key_id(c.number_encrypted) = k.id)
             ]) as card_id
        from known k where k.id is not null)
    select coalesce(jsonb_agg(distinct jsonb_build_object(
             'id', c.id, 'key_id', e.key_id, 'tenant_id', c.tenant_id, 'correlation_id', c.correlation_id,
             'encrypted', left(c.number_encrypted, 1000), 'hash', c.number_hash)), '[]')
      from ends e join public.giftcard_cards c on c.id = e.card_id);
end $$;

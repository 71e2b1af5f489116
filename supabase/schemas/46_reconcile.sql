-- Reconciliation: all differences between money and cards. Status, doctor, alerts and metrics may ask at any time.

-- Return what to do about a difference.
create function public.giftcard_difference_action(p_kind text) returns text
language sql immutable security invoker set search_path = '' as $$
  select case p_kind
    when 'paid_without_card' then 'Requeue the job that failed, or refund what is left. A blocked card: unblock it.'
    when 'paid_but_cancelled' then 'Refund the payment, or requeue the order''s jobs: that reopens it.'
    when 'paid_but_free' then 'Refund the payment.'
    when 'money_without_order' then 'Find out what was paid for, then refund it or take in the order.'
    when 'paid_twice' then 'Refund this payment.'
    when 'wrong_amount' then 'Refund the payment and have the order paid anew, or refund what is too much.'
    when 'refunded_after_issue' then 'Block the card; if it was spent, collect the money or accept the loss.'
    when 'disputed_after_issue' then 'Block the card and contest the dispute; if it was spent, send the proof.'
    when 'card_of_cancelled_order' then 'Block the card, then refund the payment.'
    when 'charge_unknown' then 'Look the key up at the payment provider, then decide the effect.'
    when 'refund_without_payment' then 'Record the refund for the right payment, then accept this one.'
    when 'event_refused' then 'Compare the payment at its provider, record what is missing, then accept this.'
    when 'issue_unknown' then 'Look the key up at the card provider, then decide the effect.'
    else 'Compare the books with their providers; do not correct them by hand.' end
$$;

-- Return all differences between money and cards, the oldest first: what is at stake in minor units, since when, and
-- what to do. reference: the payment, card or vendor key. Each kind is read up to 1,000 rows. p_verify: check every sum
-- and link as well (giftcard_verify_books), which reads all orders.
create function public.giftcard_reconcile(
  p_tenant_id text default null, p_verify boolean default false, p_limit integer default 1000)
returns table (kind text, tenant_id text, correlation_id text, reference text, amount bigint, currency text,
               since timestamptz, detail text, action text)
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  with found as (
    select * from public.giftcard_differences_without_card(p_tenant_id)
    union all
    select * from public.giftcard_differences_of_money(p_tenant_id)
    union all
    select * from public.giftcard_differences_of_cards(p_tenant_id)
    union all
    select * from public.giftcard_differences_of_effects(p_tenant_id)
    union all
    select * from public.giftcard_differences_of_events(p_tenant_id)
    union all
    select * from public.giftcard_verify_books() where p_verify)
  select f.*, public.giftcard_difference_action(f.kind)
    from found f
   where p_tenant_id is null or f.tenant_id = p_tenant_id
   order by f.since, f.kind, f.tenant_id, f.correlation_id, f.reference limit least(p_limit, 1000)
$$;

-- Return {differences: the rows of giftcard_reconcile, truncated: whether there are more than p_limit, at most 999}.
create function public.giftcard_list_differences(
  p_tenant_id text default null, p_verify boolean default false, p_limit integer default 200) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 200), 1), 999);
  v_rows jsonb[] := array(
    select public.giftcard_readable_row(to_jsonb(r), 20000)
      from public.giftcard_reconcile(p_tenant_id, p_verify, v_limit + 1) r);
begin
  return jsonb_build_object('differences', to_jsonb(v_rows[:v_limit]), 'truncated', cardinality(v_rows) > v_limit);
end $$;

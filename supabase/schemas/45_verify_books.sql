-- Sums and links of the books, computed again: what the constraints and triggers keep.

-- Return where a stored sum or link is not what it is computed from, and cards that no constraint would let in. It
-- reads all payments and cards.
create function public.giftcard_verify_books()
returns table (kind text, tenant_id text, correlation_id text, reference text, amount bigint, currency text,
               since timestamptz, detail text)
language sql stable security invoker set search_path = '' set jit = off as $$
  with sums as (
    select k.payment_id, least(greatest(sum(case when k.kind = 'captured' then k.amount else -k.amount end),
                                        -9000000000000000), 9000000000000000)::bigint as worth
      from (select e.payment_id, e.kind, greatest(sum(e.amount) filter (where not e.is_total),
                                                  max(e.amount) filter (where e.is_total)) as amount
              from public.giftcard_payment_events e group by e.payment_id, e.kind) k
     group by k.payment_id)
  (select 'books_differ', p.tenant_id, coalesce(p.correlation_id, p.named_order), p.provider_ref,
          p.worth - coalesce(s.worth, 0), p.currency, p.created_at,
          format('the payment is kept as worth %s, its events add up to %s',
                 public.giftcard_format_money(p.worth, p.currency),
                 public.giftcard_format_money(coalesce(s.worth, 0), p.currency))
     from public.giftcard_payments p left join sums s on s.payment_id = p.id
    where p.worth <> coalesce(s.worth, 0) order by p.id limit 1000)
  union all
  (select 'books_differ', p.tenant_id, p.correlation_id, p.provider_ref, p.worth, p.currency, p.created_at,
          'the payment has a card that does not exist'
     from public.giftcard_payments p
    where p.card_id is not null and not exists (select from public.giftcard_cards c where c.id = p.card_id)
    order by p.id limit 1000)
  union all
  (select case when p.id is null and not c.free_of_charge or o.tenant_id is null then 'card_without_payment'
               when (p.amount, p.currency) <> (c.amount, c.currency) or (o.amount, o.currency) <> (c.amount, c.currency)
               then 'card_other_than_payment' else 'books_differ' end,
          c.tenant_id, c.correlation_id, c.provider_ref, c.amount, c.currency, c.created_at,
          format('card over %s, %s unpaid; order over %s; payment %s over %s, worth %s',
                 public.giftcard_format_money(c.amount, c.currency), public.giftcard_format_money(c.unpaid, c.currency),
                 public.giftcard_format_money(o.amount, o.currency), p.provider_ref,
                 public.giftcard_format_money(p.amount, p.currency),
                 public.giftcard_format_money(p.worth, p.currency))
     from public.giftcard_cards c
     left join public.giftcard_orders o on o.tenant_id = c.tenant_id and o.correlation_id = c.correlation_id
     left join public.giftcard_payments p on p.tenant_id = c.tenant_id and p.correlation_id = c.correlation_id
    where o.tenant_id is null or (o.amount, o.currency, o.free_of_charge) <> (c.amount, c.currency, c.free_of_charge)
       or not c.free_of_charge and (p.id, p.card_id, p.amount, p.currency, greatest(c.amount - p.worth, 0))
                                   is distinct from (c.payment_id, c.id, c.amount, c.currency, c.unpaid)
    order by c.id limit 1000)
$$;

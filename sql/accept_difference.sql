-- Accept a difference between money and cards that reconcile.sql lists: it is not listed again unless its amount
-- changes.
select public.giftcard_accept_difference(
  p_kind      => '',          -- its kind, like 'paid_without_card'
  p_tenant_id => 'default',   -- its tenant
  p_item      => '',          -- its reference
  p_by        => null,        -- you, for the audit; null: your database role
  p_reason    => ''           -- why it is as it should be
) as accepted;

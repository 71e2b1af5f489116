-- Waive the payment of an order that is not paid: its card is issued without one. If its payment job is dead, requeue
-- it (requeue_one.sql).
select public.giftcard_make_free_of_charge(
  p_tenant_id      => 'default',   -- the order's tenant
  p_correlation_id => '',          -- the order
  p_by             => null,        -- you, for the audit; null: your database role
  p_reason         => ''           -- why
) as decided;

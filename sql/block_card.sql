-- Block the card of an order at its provider, whether or not the order is paid. The next tick does it.
select public.giftcard_request_block(
  p_tenant_id      => 'default',  -- the order's tenant
  p_correlation_id => '',         -- the order
  p_by             => null        -- you, for the audit; null: your database role
) as requested;

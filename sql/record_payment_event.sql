-- Record a movement of an order's money, such as a refund that you made by hand. Once part of it went back, a job
-- blocks the order's card. To run this again with the same event id records nothing twice.
select public.giftcard_record_order_event(
  p_tenant_id      => 'default',   -- the order's tenant
  p_correlation_id => '',          -- the order
  p_event_id       => '',          -- a name of this movement, such as the refund's id at the provider
  p_kind           => 'refunded',  -- captured, refunded, voided or disputed
  p_amount         => 0,           -- in minor units: 2500 is 25 dollars
  p_by             => null,        -- you, for the audit; null: your database role
  p_provider_ref   => null,        -- the payment's reference; null: of the payment that the order accepted
  p_provider       => null         -- its provider ('http', 'square' or 'ledger'), if the payment is not known yet
) as recorded;

-- Correct the recipient of an order. Jobs that run later use the new values: to send the mail again, requeue its job
-- (requeue_one.sql). The audit keeps the names of the fields only.
select public.giftcard_correct_recipient(
  p_tenant_id      => 'default',  -- the order's tenant
  p_correlation_id => '',         -- the order
  p_customer       => '{}',       -- what changes, of email, given_name and family_name: '{"email": "kate@example.com"}'
  p_by             => null        -- you, for the audit; null: your database role
) as corrected;

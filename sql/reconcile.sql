-- List where money and cards do not match, the oldest first, and what to do about each. Amounts are in minor units.
select * from public.giftcard_reconcile(
  p_tenant_id => null,   -- one tenant; null: all
  p_verify    => true,   -- also add up every payment and check every card; false: only what is known to be open
  p_limit     => 1000    -- at most so many; 1000 is the most
);

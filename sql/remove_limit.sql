-- Removes a limit: the default is in force again.
select * from jsonb_to_record(public.giftcard_remove_limit(
  p_kind      => '',   -- 'stage', 'circuit', 'tenant' or 'key'
  p_name      => '',   -- the stage, the circuit or the key: 'payment'
  p_tenant_id => '',   -- of the kinds tenant and key
  p_by        => null, -- you, for the audit; null: your database role
  p_reason    => null  -- 'the vendor is back to normal'
)) as answer(kind text, name text, tenant_id text, runs integer, per_second double precision, burst integer,
             until timestamptz);

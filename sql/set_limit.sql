-- Limits how many jobs run at once, or start a second. The next claims obey it; runs that have begun end normally.
select * from jsonb_to_record(public.giftcard_set_limit(
  p_kind        => '',   -- 'stage', 'circuit', 'tenant' (in a stage) or 'key' (a concurrency key)
  p_name        => '',   -- the stage, the circuit or the key: 'payment'
  p_tenant_id   => '',   -- of the kinds tenant ('*': each tenant) and key
  p_runs        => null, -- the most at once: 2; 0: none starts; null: the default
  p_per_second  => null, -- the most starts a second: 10; null: the default
  p_burst       => null, -- with p_per_second, the most at once after a pause: 20; null: those of a second
  p_for_seconds => null, -- when it ends by itself: 7200 is in two hours; null: never
  p_by          => null, -- you, for the audit; null: your database role
  p_reason      => null  -- 'the vendor asked for fewer calls'
)) as answer(kind text, name text, tenant_id text, runs integer, per_second double precision, burst integer,
             until timestamptz);

-- Prune: move finished jobs to the archive and delete the rest for good. Ticks do it by themselves, according to the
-- settings. First run it as it is: it only counts, from the beginning, each kind up to p_limit. Then set p_dry_run to
-- false, and run it again until done is true twice.
select * from jsonb_to_record(public.giftcard_prune(
  p_jobs            => '30 days',   -- completed and cancelled jobs; null, here as below: they stay
  p_dead_letters    => '90 days',   -- dead letters that do not revive
  p_history         => '90 days',   -- runs
  p_ticks           => '30 days',
  p_circuit_changes => '90 days',
  p_archive         => '365 days',  -- jobs that left so long ago
  p_limit           => 1000,        -- at most so many of each a run; 1000 is the most
  p_dry_run         => true         -- true counts, false removes
)) as answer(jobs integer, history integer, ticks integer, circuit_changes integer, archive integer, done boolean,
             dry_run boolean);

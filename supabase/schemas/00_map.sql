-- Gift-card jobs: the map.
--
-- Tables                       one row is
--   giftcard_jobs              one piece of work of one stage; the queue, the lease and the outcome in one place
--   giftcard_job_history       one run of a job (job_id, run_no)
--   giftcard_circuits          one breaker: closed, open, half_open;   giftcard_circuit_changes: each change, with its cause
--   giftcard_stages            a stage that is or was paused; the row '*' pauses everything
--   giftcard_ticks             one bounded pass over due work
--   giftcard_maintenance_tasks            what ticks see to now and then, after their jobs
--   giftcard_schedules         what runs by the clock: each occurrence is a job; Python computes the times
--   giftcard_orders            an order taken in: idempotency key and body hash
--   giftcard_customers, giftcard_payments, giftcard_cards          what the orders became
--   giftcard_effects           an effect outside: the intent before it, the result after it
--   giftcard_webhook_endpoints an address of a tenant that is told of events: webhooks are jobs, enqueued by the settle that they tell of
--   giftcard_inbound_events   an event that a vendor has sent, for good
--   giftcard_audit             personal data shown in clear, or erased
--   giftcard_reports           the report of one tenant's day
--   giftcard_jobs_archive      a job that has left giftcard_jobs;   giftcard_prune_cursors: how far pruning has looked through a table
--
-- States of a job              by                                   functions
--   - → queued                 enqueue, a plain INSERT              giftcard_enqueue, giftcard_submit_order
--   - → queued                 an occurrence of a schedule           giftcard_due_schedules, giftcard_enqueue_occurrences
--   queued → running           claim: attempts + 1, a new lease     giftcard_begin_tick, giftcard_advance_tick → giftcard_claim_for
--   running → completed | queued | error | cancelled     settle     giftcard_advance_tick → giftcard_settle
--   running → running          an ended lease is taken over         giftcard_claim_for
--   error → queued             revival, when revive_at has come     giftcard_begin_tick → giftcard_revive
--   error, cancelled, completed → queued                 requeue    giftcard_requeue, giftcard_requeue_jobs, giftcard_requeue_dead_letters
--   queued, error → cancelled  cancel (running: a wish is noted)    giftcard_cancel, giftcard_cancel_flow
--   ended → archived → ended   pruning; a person restores it        giftcard_prune, giftcard_restore_job
--
-- The fence: a settle counts only while status = 'running' and lease_id is the one presented. Leaving 'running' any other
-- way (the operators' hand-run UPDATE) therefore wins over whoever still holds the lease.
--
-- Order of locks: claim key (advisory) → schedule rows (SKIP LOCKED) → job rows → rows that jobs enqueue → circuit rows by name → tick
-- row. A claim takes job and circuit rows with SKIP LOCKED only, so it never waits and the order cannot be broken by it.
--
-- The clock is the database's; every function that depends on time takes p_now (null: clock_timestamp()) so that tests move it.
-- Refusals have SQLSTATEs of their own: GC400 bad argument, GC404 no such thing, GC409 not in this state, GC410 lease lost,
-- GC422 same key with other content, GC426 code and schema do not fit.

do $$
begin
  if to_regclass('public.giftcard_jobs') is not null then
    raise exception 'public.giftcard_jobs exists already and is not ours: nothing was changed'
      using errcode = 'GC409',
            hint = 'Rename that table (ALTER TABLE public.giftcard_jobs RENAME TO giftcard_jobs_old), migrate again, then copy its open rows with INSERT (correlation_id, stage, payload).';
  end if;
end $$;

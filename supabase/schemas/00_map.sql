-- Gift-card jobs: the map.
--
-- Tables                            one row is
--   giftcard_jobs                   one piece of work of one stage: the queue, the lease and the outcome in one place
--   giftcard_job_history            one run of a job (job_id, run_no)
--   giftcard_jobs_archive           a job that has left giftcard_jobs
--   giftcard_circuits               one circuit breaker: closed, open, half_open
--   giftcard_circuit_changes        one change of a circuit, with its cause
--   giftcard_stages                 a stage that is or was paused; the row '*' pauses everything
--   giftcard_ticks                  one bounded pass over due work
--   giftcard_wakes                  when a tick was last called between two calls of the clock, and is next: one row
--   giftcard_faulty_rows            a row that work has failed on, alone, and why
--   giftcard_limits                 a limit of runs or starts above the settings' defaults
--   giftcard_slots                  a place of a limit of runs, and the lease that has it
--   giftcard_rates                  where the rate of a key stands
--   giftcard_turns                  which tenant had the last turn of a circuit; and where a walk through circuits is
--   giftcard_maintenance_tasks      a task that ticks run at an interval, after their jobs
--   giftcard_operations             what an operator does to many jobs, and how far it is
--   giftcard_prune_cursors          how far pruning has scanned a table
--   giftcard_settle_functions       a function of yours that a stage may call as its job is settled
--   giftcard_batches                jobs that end together, and the follow-up of their end
--   giftcard_effects                an external effect: the intent before it, the result after it
--   giftcard_orders                 an order as it was taken in: amount, currency, recipient
--   giftcard_customers              a customer and their personal code
--   giftcard_payments               a payment at a provider, what it is worth now, and the order that it pays
--   giftcard_payment_events         a movement of a payment's money: captured, refunded, voided, disputed
--   giftcard_cards                  the card of an order
--   giftcard_accepted_differences   a difference between money and cards that an operator has accepted
--   giftcard_audit                  an act of an operator; rows are only added
--   giftcard_schedules              a schedule: each occurrence is a job; Python computes the times
--   giftcard_reports                the report of one tenant's day
--   giftcard_webhook_endpoints      an address that receives a tenant's events: webhooks are jobs, enqueued by a settle
--   giftcard_inbound_events         an event received from a vendor, never removed
--   giftcard_tokens                 a token of the API: its hash, tenant and scopes
--   giftcard_denied_requests        wrong tokens and signatures from the addresses of one hash
--   giftcard_counters, giftcard_counter_watermarks           totals for metrics, and how far they are counted
--   giftcard_run_minutes, giftcard_run_hours                 how many runs ended lately, with what result, how fast
--   giftcard_start_minutes          how many runs began lately, and how long after their time
--   giftcard_alerts                 a condition that operators are or were notified of
--   giftcard_alert_notifications    what was sent of a condition to one channel
--
-- States of a job                   transition            functions
--   - → queued                      enqueue               giftcard_enqueue, giftcard_submit_order, a plain INSERT
--   - → queued                      occurrence            giftcard_enqueue_occurrences → giftcard_apply_plans
--   - → queued | error              pgmq import           giftcard_import_pgmq → …_queue, giftcard_import_message
--   queued → running                claim: attempts + 1, a new lease                     giftcard_claim_for,
--                                                         giftcard_step → giftcard_settle_and_claim
--   running → completed             settle                giftcard_settle → giftcard_settle_completed,
--                                                         giftcard_step → giftcard_settle_and_claim
--   running → queued | error | cancelled    settle        giftcard_settle → giftcard_settle_unfinished
--   running → running               take over an ended lease                             giftcard_take_over
--   error → queued                  revive, once revive_at has come                      giftcard_revive
--   error, cancelled, completed → queued    requeue       giftcard_requeue, giftcard_requeue_jobs,
--                                                         giftcard_requeue_dead_letters, giftcard_step_operation
--   queued, error → cancelled       cancel (running: the request is recorded)            giftcard_cancel,
--                                                         giftcard_cancel_flow, giftcard_step_operation
--   ended → archived                prune                 giftcard_prune → giftcard_prune_jobs
--   archived → ended                restore               giftcard_restore_job
--
-- Who calls whom, in a tick
--   giftcard_begin_tick             check versions, record the tick, revive, claim
--     giftcard_claim → giftcard_claim_for
--   giftcard_step                   when all results are complete: settle and claim in one statement, then
--                                   giftcard_after_step; giftcard_advance_tick for what is left
--   giftcard_advance_tick           settle, claim, end the tick
--     giftcard_settle               → …_completed, …_unfinished, giftcard_enqueue_next, giftcard_enqueue_webhooks,
--                                   giftcard_end_batches, giftcard_count_results (circuits)
--     giftcard_claim_for            → giftcard_scan_queues (→ giftcard_queue_heads), giftcard_pick_probes,
--                                   giftcard_pick_jobs (→ giftcard_pick_carefully), giftcard_mark_claimed
--                                   (→ giftcard_take_over), giftcard_claimed_jobs, giftcard_next_due;
--                                   among many circuits giftcard_pick_on_walk (→ giftcard_find_ready)
--   giftcard_settle_with_call       one job that calls a function of yours → giftcard_lock_lease,
--                                   giftcard_call_function, giftcard_settle
--   After a call that has failed    the same, one by one: giftcard_settle_each, giftcard_claim_each,
--                                   giftcard_mark_each, giftcard_revive_each, giftcard_apply_plan,
--                                   and giftcard_recover_row after a jump of the clock;
--                                   a row at fault is put aside: giftcard_put_aside, giftcard_record_fault
-- Limits                            giftcard_set_limit, giftcard_remove_limit, giftcard_list_limits; those that have
--                                   ended leave with giftcard_prune
--
-- Money and cards: what an order costs is fixed in giftcard_orders; foreign keys tie its payment and its card to that
-- amount; a payment's worth is the sum of its events.
--   what providers report           giftcard_record_payment_event → (trigger) giftcard_value_payment
--                                   → giftcard_enqueue_block
--   what vendors send               giftcard_receive_event → giftcard_apply_action → giftcard_record_movements,
--                                   giftcard_update_card
--   the payment of an order         giftcard_find_offered_payment (with Square), giftcard_record_payment
--                                   → giftcard_check_acceptable
--   its card                        giftcard_record_card → (trigger) giftcard_link_card → giftcard_enqueue_block
--   what does not match             giftcard_reconcile
--   what operators decide           giftcard_make_free_of_charge, giftcard_correct_recipient, giftcard_request_block,
--                                   giftcard_accept_difference, giftcard_record_order_event, giftcard_resend_mail
--   what operators look up          giftcard_find_orders → giftcard_order_matches; giftcard_order_story
--
-- Ciphertexts (card numbers, in giftcard_cards and in the results of effects; webhook secrets) name the key that they
-- are under: giftcard_key_id. Another key takes over: giftcard_list_ciphertexts, giftcard_replace_ciphertexts.
--
-- The fence: a settle counts only while status = 'running' and lease_id is the one presented. An operator's UPDATE that
-- takes a job out of 'running' therefore wins over the worker that still holds the lease.
--
-- Order of locks: claim key, vendor's card (advisory) → schedule rows (SKIP LOCKED) → operation → customer → job rows
-- by id → order → payment → card → rows that jobs enqueue, by their keys → batch rows by id, each with its follow-up →
-- rates by key → circuit rows by name → tick row. What locks several rows of one kind locks them in that order,
-- whatever the order of its arguments. A claim takes jobs, circuits, slots, rates and turns with SKIP LOCKED only, and
-- so does what takes a job while it holds books: it never waits, so it cannot break the order.
--
-- The clock is the database's. Every function that depends on time takes p_now (null: clock_timestamp()), which tests
-- set. Refusals have SQLSTATEs of their own: GC400 bad argument, GC404 not found, GC409 not in this state, GC410 lease
-- lost, GC422 same key with other content, GC426 code and schema do not fit.
--
-- The linter of migrations passes over what cannot matter here, in an empty database. Nothing is locked that anyone
-- waits for: no timeouts. Integers of 32 bits are bounded by checks, or are seconds and bytes. The constraints of the
-- domains are as old as their columns. Later migrations have no such line.
-- squawk-ignore-file require-lock-timeout, require-statement-timeout
-- squawk-ignore-file prefer-bigint-over-int, prefer-bigint-over-smallint, ban-create-domain-with-constraint

do $$
begin
  if getdatabaseencoding() <> 'UTF8' then
    raise exception 'this database has the encoding %, which cannot hold each name: nothing was changed',
      getdatabaseencoding()
      using errcode = 'GC409',
            hint = 'Create one of UTF8: CREATE DATABASE giftcards TEMPLATE template0 ENCODING ''UTF8''.';
  end if;
  if to_regclass('public.giftcard_jobs') is not null then
    raise exception 'public.giftcard_jobs exists already and is not ours: nothing was changed'
      using errcode = 'GC409',
            hint = 'Rename that table (ALTER TABLE public.giftcard_jobs RENAME TO giftcard_jobs_old), migrate again, '
                   'then copy its open rows with INSERT (correlation_id, stage, payload).';
  end if;
end $$;

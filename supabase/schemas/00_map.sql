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
--   giftcard_faulty_rows            a row that work has failed on, alone, and why
--   giftcard_maintenance_tasks      a task that ticks run at an interval, after their jobs
--   giftcard_operations             what an operator does to many jobs, and how far it is
--   giftcard_prune_cursors          how far pruning has scanned a table
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
--   giftcard_alerts                 a condition that operators are or were notified of
--   giftcard_alert_notifications    what was sent of a condition to one channel
--
-- States of a job                   transition            functions
--   - → queued                      enqueue               giftcard_enqueue, giftcard_submit_order, a plain INSERT
--   - → queued                      occurrence            giftcard_enqueue_occurrences → giftcard_apply_plans
--   - → queued | error              pgmq import           giftcard_import_pgmq → …_queue, giftcard_import_message
--   queued → running                claim: attempts + 1, a new lease                     giftcard_claim_for
--   running → completed             settle                giftcard_settle → giftcard_settle_completed
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
--   giftcard_advance_tick           settle, claim, end the tick
--     giftcard_settle               → …_completed, …_unfinished, giftcard_enqueue_next, giftcard_enqueue_webhooks,
--                                   giftcard_count_results (circuits)
--     giftcard_claim_for            → giftcard_scan_queues (→ giftcard_queue_heads, giftcard_remaining_capacity),
--                                   giftcard_pick_probes, giftcard_pick_jobs, giftcard_mark_claimed
--                                   (→ giftcard_take_over), giftcard_claimed_jobs, giftcard_next_due
--   After a call that has failed    the same, one by one: giftcard_settle_each, giftcard_claim_each,
--                                   giftcard_mark_each, giftcard_revive_each, giftcard_apply_plan,
--                                   and giftcard_recover_row after a jump of the clock;
--                                   a row at fault is put aside: giftcard_put_aside, giftcard_record_fault
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
--                                   giftcard_accept_difference, giftcard_record_order_event
--
-- Ciphertexts (card numbers, in giftcard_cards and in the results of effects; webhook secrets) name the key that they
-- are under: giftcard_key_id. Another key takes over: giftcard_list_ciphertexts, giftcard_replace_ciphertexts.
--
-- The fence: a settle counts only while status = 'running' and lease_id is the one presented. An operator's UPDATE that
-- takes a job out of 'running' therefore wins over the worker that still holds the lease.
--
-- Order of locks: claim key, vendor's card (advisory) → schedule rows (SKIP LOCKED) → operation → customer → job rows
-- by id → order → payment → card → rows that jobs enqueue, by their keys → circuit rows by name → tick row. What locks
-- several rows of one kind locks them in that order, whatever the order of its arguments. A claim takes job and
-- circuit rows with SKIP LOCKED only, and so does what takes a job while it holds books: it never waits, so it cannot
-- break the order.
--
-- The clock is the database's. Every function that depends on time takes p_now (null: clock_timestamp()), which tests
-- set. Refusals have SQLSTATEs of their own: GC400 bad argument, GC404 not found, GC409 not in this state, GC410 lease
-- lost, GC422 same key with other content, GC426 code and schema do not fit.

do $$
begin
  if to_regclass('public.giftcard_jobs') is not null then
    raise exception 'public.giftcard_jobs exists already and is not ours: nothing was changed'
      using errcode = 'GC409',
            hint = 'Rename that table (ALTER TABLE public.giftcard_jobs RENAME TO giftcard_jobs_old), migrate again, '
                   'then copy its open rows with INSERT (correlation_id, stage, payload).';
  end if;
end $$;

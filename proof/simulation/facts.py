"""What the tables must say in the morning, as queries for what contradicts it."""

# Each returns a sentence, and the flow that it is about: what an operator did by hand may explain it.
BROKEN = (
    """select format('order %s over %s: paid %s, card over %s', o.correlation_id, o.amount, p.amount, c.amount),
              o.correlation_id
         from giftcard_orders o join giftcard_payments p using (tenant_id, correlation_id)
         left join giftcard_cards c using (tenant_id, correlation_id)
        where p.amount <> o.amount or c.amount <> o.amount or p.card_id is distinct from c.id""",
    """select format('code %s belongs to %s customers', personal_code, count(*)), '' from giftcard_customers
        group by tenant_id, personal_code having count(*) > 1 and personal_code is not null""",
    """select format('customer %s is there %s times', email, count(*)), '' from giftcard_customers
        group by tenant_id, email having count(*) > 1""",
    """select format('job %s (%s) ran %s times, its history has %s', j.id, j.stage, j.run_no, h.runs), j.correlation_id
         from giftcard_jobs j cross join lateral (
           select coalesce(array_agg(run_no order by run_no), '{}') as runs from giftcard_job_history
            where job_id = j.id) h
        where h.runs <> array(select generate_series(1, j.run_no))""",
    """select format('job %s (%s) has the results %s', j.id, j.stage, h.results), j.correlation_id
         from giftcard_jobs j cross join lateral (
           select array_agg(result order by run_no) as results from giftcard_job_history where job_id = j.id) h
        where j.status = 'completed'
          and array_positions(h.results, 'SUCCESS') is distinct from array[cardinality(h.results)]""",
    """select format('job %s (%s) had %s attempts in %s rounds of %s', j.id, j.stage, h.counted, j.revivals + 1,
                     least(coalesce(j.max_attempts, 5), 5)), j.correlation_id
         from giftcard_jobs j cross join lateral (
           select count(*) filter (where result not in ('RELEASED', 'SNOOZED')) as counted
             from giftcard_job_history where job_id = j.id) h
        where h.counted > (j.revivals + 1) * least(coalesce(j.max_attempts, 5), 5)""",
    """select format('job %s (%s) counts %s attempts, its history %s', j.id, j.stage, j.attempts, h.counted),
              j.correlation_id
         from giftcard_jobs j cross join lateral (
           select count(*) filter (where result not in ('RELEASED', 'SNOOZED')) as counted
             from giftcard_job_history where job_id = j.id) h
        where j.revivals = 0 and j.attempts <> h.counted""",
    """select format('job %s (%s) runs at most once and ran %s times', j.id, j.stage, j.run_no), j.correlation_id
         from giftcard_jobs j where j.stage = 'draw' and (select count(*) from giftcard_job_history h
          where h.job_id = j.id and h.result <> 'RELEASED') > 1""",
    """select format('flow %s has %s jobs of %s', correlation_id, count(*), stage), correlation_id from giftcard_jobs
        where stage in ('customer_ingest', 'personal_code', 'payment', 'issue_card', 'email', 'task', 'draw', 'thanks')
          and dedup_key <> 'again'
        group by correlation_id, stage having count(*) > 1""",
    """select format('job %s paid %s times and is %s', j.id, count(p.job), j.status), j.correlation_id
         from giftcard_jobs j left join giftcard_proof.paid p on p.job = j.id
        where j.stage in ('task', 'draw') and (j.payload ->> 'pays')::boolean
        group by j.id having count(p.job) <> (j.status = 'completed')::integer""",
    """select format('the event %s of %s was enqueued %s times', e.event, e.correlation_id, count(w.id)),
              e.correlation_id
         from (select distinct correlation_id, case stage when 'issue_card' then 'giftcard.issued'
                                                 else 'giftcard.delivered' end as event
                 from giftcard_jobs where stage in ('issue_card', 'email') and status = 'completed') e
         left join giftcard_jobs w on w.stage = 'webhook' and w.correlation_id = e.correlation_id
          and w.payload ->> 'body' like '%"' || e.event || '"%'
        group by e.event, e.correlation_id having count(w.id) <> 1""",
    """select format('a slot of %s is taken by job %s, which is %s', s.key, s.job_id, j.status), j.correlation_id
         from giftcard_slots s join giftcard_jobs j on j.id = s.job_id and j.lease_id = s.lease_id
        where j.status <> 'running'""",
    """select format('circuit %s is %s and its job %s waits', c.circuit, c.state, j.id), j.correlation_id
         from giftcard_circuits c join giftcard_jobs j on j.circuit = c.circuit and j.status = 'queued'
        where c.state <> 'closed'""",
    """select format('run %s of job %s (%s) ended at %s and was to be repeated at %s', h.run_no, h.job_id, h.stage,
                     h.finished_at, h.next_run_at), j.correlation_id
         from giftcard_job_history h join giftcard_jobs j on j.id = h.job_id
        where h.result = 'FAILED' and h.next_run_at < h.finished_at + interval '1 second'""",
    # Two ticks of one call of the clock, although the first lived or had ended well.
    """select format('tick %s does the work of tick %s again, for the call %s', b.id, a.id, a.execution_id), ''
         from giftcard_ticks a join giftcard_ticks b on b.execution_id = a.execution_id and b.id > a.id
        where b.stopped_because is distinct from 'duplicate' and a.stopped_because is distinct from 'duplicate'
          and case when a.ended_at is null then b.started_at < a.live_until
                   else a.stopped_because <> 'failed' and a.ended_at <= b.started_at end""",
    # What a payment waits for may come at any time: it is then due at once.
    """select format('run %s of job %s (%s) began at %s, before its time, %s', n.run_no, h.job_id, h.stage,
                     n.started_at, h.next_run_at), j.correlation_id
         from giftcard_job_history h join giftcard_job_history n on n.job_id = h.job_id and n.run_no = h.run_no + 1
         join giftcard_jobs j on j.id = h.job_id
        where n.started_at < h.next_run_at and h.stage <> 'payment'""",
    """select format('circuit %s was changed by job %s of circuit %s', c.circuit, j.id, j.circuit), ''
         from giftcard_circuit_changes c join giftcard_jobs j on j.id = c.job_id
        where j.circuit <> c.circuit""",
    """select format('circuit %s opened after %s', circuit, cause), '' from giftcard_circuit_changes
        where from_state = 'closed' and to_state = 'open'
          and substring(cause from '^[0-9]+')::integer < case when circuit like 'webhook:%' then 10 else 2 end""",
    """select format('circuit %s was open for %s', circuit, open_for), ''
         from (select circuit, from_state, to_state,
                      changed_at - lag(changed_at) over (partition by circuit order by id) as open_for
                 from giftcard_circuit_changes) x
        where from_state = 'open' and to_state = 'half_open' and open_for < interval '60 seconds'""",
    """select format('the occurrence %s is %s jobs', correlation_id, count(*)), min(correlation_id) from giftcard_jobs
        where trigger_type = 'schedule' group by correlation_id having count(*) > 1""",
    """select format('%s of %s: %s', d.kind, d.correlation_id, d.detail), d.correlation_id
         from giftcard_reconcile(null, true) d
        where not exists (select from giftcard_jobs j
                           where j.correlation_id = d.correlation_id and j.status = 'error')""",
)
# What people and vendors read, and what stays after a job.
WORDS = """
select 'last_error', last_error from giftcard_jobs union
select 'history', error from giftcard_job_history union
select 'faulty row', f::text from giftcard_faulty_rows f union
select 'circuit', cause from giftcard_circuit_changes union
select 'alert', a::text from giftcard_alerts a union
select 'audit', a::text from giftcard_audit a union
select 'tick', t::text from giftcard_ticks t"""

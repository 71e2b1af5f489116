-- Marks: what a claim has picked becomes runs, in one statement, or one by one once that has failed.

-- Give the interrupted runs p_ids a new lease of 30 s. The caller holds their rows.
create function public.giftcard_take_over(p_ids bigint[], p_claim_key uuid, p_owner text, p_now timestamptz)
returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_changed bigint;
begin
  update public.giftcard_jobs
     set lease_id = p_claim_key, lease_expires_at = p_now + interval '30 seconds', lock_owner = p_owner,
         locked_at = coalesce(locked_at, p_now), updated_at = p_now
   where id = any (p_ids);
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, cardinality(p_ids));
end $$;

-- Mark jobs as claimed: each runs under a lease for its time to run and 10 s more. The caller holds their rows.
create function public.giftcard_mark_jobs(
  p_ids bigint[], p_owner text, p_stages jsonb, p_claim_key uuid, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_changed bigint;
begin
  update public.giftcard_jobs
     set status = 'running', attempts = least(attempts + 1, 1000000), run_no = least(run_no + 1, 1000000000),
         lease_id = p_claim_key,
         lease_expires_at =
           p_now + make_interval(secs => 10 + coalesce(ttr_seconds, (p_stages ->> stage)::integer, 60)),
         locked_at = p_now, lock_owner = p_owner, updated_at = p_now,
         cancel_requested_at = null, revive_at = null, finished_at = null
   where id = any (p_ids);
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, cardinality(p_ids));
end $$;

-- Keep in the circuits p_half_open which of the jobs p_ids, just marked, is the probe. The caller holds their rows.
create function public.giftcard_mark_probes(p_ids bigint[], p_half_open text[]) returns void
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_changed bigint;
begin
  update public.giftcard_circuits c set probe_job_id = j.id, probe_lease_id = j.lease_id
    from public.giftcard_jobs j
   where j.id = any (p_ids) and c.circuit = j.circuit and c.state = 'half_open' and c.circuit = any (p_half_open);
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, (
    select count(distinct circuit)::integer from public.giftcard_jobs
     where id = any (p_ids) and circuit = any (p_half_open)));
end $$;

-- Keep in a tick's row what it has claimed and served, and its cursors (null: none). p_claimed: what the same call has
-- claimed before. The planner's settings are those of giftcard_claim_for.
create function public.giftcard_mark_tick(
  p_tick_id bigint, p_claim_key uuid, p_claimed bigint[], p_ids bigint[], p_interrupted bigint[], p_served jsonb,
  p_scanned_at timestamptz, p_cursors public.giftcard_cursor[])
returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  update public.giftcard_ticks
     set claim_key = p_claim_key, claim_ids = p_claimed || p_interrupted || p_ids, claim_interrupted = p_interrupted,
         served = p_served, started = started + cardinality(p_ids), scanned_at = p_scanned_at,
         cursors = coalesce(p_cursors, '{}')
   where id = p_tick_id;
end $$;

-- Mark picked jobs one by one, and take over interrupted runs. One that cannot be is put aside. A probe whose circuit
-- is at fault stays queued, and ticks pass over the circuit for ten minutes. Return the ids of both.
create function public.giftcard_mark_each(
  p_tick public.giftcard_ticks, p_claim_key uuid, p_ids bigint[], p_ended bigint[], p_half_open text[],
  p_now timestamptz, out ids bigint[], out ended bigint[])
language plpgsql volatile security invoker set search_path = '' as $$
declare
  v_id bigint;
  v_circuit text;  -- what fails now is this circuit; null: the job
begin
  ids := '{}';
  ended := '{}';
  foreach v_id in array p_ended || p_ids loop
    v_circuit := null;
    begin
      if v_id = any (p_ended) then
        perform public.giftcard_take_over(array[v_id], p_claim_key, p_tick.owner, p_now);
        ended := ended || v_id;
      else
        perform public.giftcard_mark_jobs(array[v_id], p_tick.owner, p_tick.stages, p_claim_key, p_now);
        if p_half_open <> '{}' then
          select circuit into v_circuit from public.giftcard_jobs where id = v_id;
          perform public.giftcard_mark_probes(array[v_id], p_half_open);
        end if;
        ids := ids || v_id;
      end if;
    exception when others then
      if public.giftcard_is_unavailable(sqlstate) then
        raise;
      elsif v_circuit is not null then
        perform public.giftcard_record_fault(
          'circuit', v_circuit, public.giftcard_error_text(sqlstate, sqlerrm), p_now, p_now + interval '10 minutes');
      else
        perform public.giftcard_put_aside(v_id, public.giftcard_error_text(sqlstate, sqlerrm), p_now);
      end if;
    end;
  end loop;
end $$;

-- Mark what a claim has picked, take over the runs p_ended, and keep both in the tick's row. Return the ids of both.
-- p_claimed, p_one_by_one: as in giftcard_claim_for.
create function public.giftcard_mark_claimed(
  t public.giftcard_ticks, p_claim_key uuid, s public.giftcard_claim_state, p_claimed bigint[], p_ended bigint[],
  p_half_open text[], p_one_by_one boolean, p_now timestamptz, out ids bigint[], out ended bigint[])
language plpgsql volatile security invoker set search_path = '' as $$
declare
  m record;
begin
  ids := s.ids;
  ended := p_ended;
  if p_one_by_one then
    m := public.giftcard_mark_each(t, p_claim_key, s.ids, p_ended, p_half_open, p_now);
    ids := m.ids;
    ended := m.ended;
    begin
      perform public.giftcard_mark_tick(t.id, p_claim_key, p_claimed, ids, ended, s.served, null, null);
    exception when others then
      if public.giftcard_is_unavailable(sqlstate) then
        raise;
      end if;
      perform public.giftcard_record_fault('tick', t.id::text, public.giftcard_error_text(sqlstate, sqlerrm), p_now);
    end;
    return;
  end if;
  perform public.giftcard_mark_jobs(s.ids, t.owner, t.stages, p_claim_key, p_now);
  if p_half_open <> '{}' then
    perform public.giftcard_mark_probes(s.ids, p_half_open);
  end if;
  if p_ended <> '{}' then
    perform public.giftcard_take_over(p_ended, p_claim_key, t.owner, p_now);
  end if;
  perform public.giftcard_mark_tick(
    t.id, p_claim_key, p_claimed, ids, p_ended, s.served, t.scanned_at,
    -- Many queues and a single job need a scan each time.
    case when cardinality(s.queues) <= 20 and t.only_job_id is null then s.queues end);
end $$;

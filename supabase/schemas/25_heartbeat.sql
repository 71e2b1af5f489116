-- Heartbeats: a handler that needs longer extends its lease.

-- Extend a lease for a handler that needs longer: p_seconds (1 to 86,400) from now, and the margin of every lease.
-- Return {cancel_requested}: this run should be the job's last. GC410 when the job belongs to another run.
create function public.giftcard_heartbeat(
  p_job_id bigint, p_lease_id uuid, p_seconds double precision, p_now timestamptz default null)
returns jsonb language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off
set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_cancel boolean;
begin
  if p_seconds is null or p_seconds not between 1 and 86400 then
    perform public.giftcard_refuse('GC400', 'p_seconds must be between 1 and 86400', 'p_seconds');
  end if;
  update public.giftcard_jobs
     set lease_expires_at = greatest(lease_expires_at, v_now + make_interval(secs => p_seconds + 10)),
         updated_at = v_now
   where id = p_job_id and status = 'running' and lease_id = p_lease_id
  returning cancel_requested_at is not null into v_cancel;
  if not found then
    perform public.giftcard_refuse('GC410', format('job %s belongs to another run now', p_job_id), 'lease_id');
  end if;
  return jsonb_build_object('cancel_requested', v_cancel);
end $$;

-- Send the mail of an order again.

-- Return whether a job of stage email sends a mail again: its first one has been sent by another job.
create function public.giftcard_is_resend(p_dedup_key text) returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return p_dedup_key like 'resend:%';
end $$;

-- Return the dedup key of the next mail that is sent again: resend:1, resend:2, … An effect outlives its job: a key
-- that was used once would send nothing.
create function public.giftcard_next_resend(p_tenant_id text, p_correlation_id text) returns text
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  return 'resend:' || 1 + coalesce(max(substr(k.dedup_key, 8)::bigint), 0) from (
    select dedup_key from public.giftcard_jobs
     where tenant_id = p_tenant_id and correlation_id = p_correlation_id and stage = 'email'
    union all
    select dedup_key from public.giftcard_jobs_archive
     where tenant_id = p_tenant_id and correlation_id = p_correlation_id and stage = 'email'
    union all
    select dedup_key from public.giftcard_effects
     where tenant_id = p_tenant_id and correlation_id = p_correlation_id and stage = 'email') k
   where k.dedup_key ~ '^resend:[0-9]{1,9}$';
end $$;

-- Refuse (GC409) to send the mail of an order again that must not be sent, or has not been sent yet.
create function public.giftcard_check_resend(o public.giftcard_orders) returns void
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_state text := (select state from public.giftcard_cards
                    where tenant_id = o.tenant_id and correlation_id = o.correlation_id);
  v_problem text := case
    when jsonb_typeof(o.details -> 'customer') is distinct from 'object'
      then format('the customer of order %s was erased: there is no address', o.correlation_id)
    when o.cancelled_at is not null then format('order %s is cancelled: its card is not sent', o.correlation_id)
    when v_state is null then format('order %s has no card to send', o.correlation_id)
    when v_state = 'blocked' then format('the card of order %s is blocked: it is not sent', o.correlation_id)
    -- Its flow would send the first mail beside this one.
    when not public.giftcard_is_at_rest(o.tenant_id, o.correlation_id)
         and not exists (select from public.giftcard_effects
                          where tenant_id = o.tenant_id and correlation_id = o.correlation_id and stage = 'email')
         and not exists (select from public.giftcard_jobs
                          where tenant_id = o.tenant_id and correlation_id = o.correlation_id and stage = 'email')
      then format('order %s is still under way: its mail follows', o.correlation_id) end;
begin
  if v_problem is not null then
    perform public.giftcard_refuse('GC409', v_problem, 'correlation_id');
  end if;
end $$;

-- Return the job that sends the mail of an order again, and how: waiting (it is queued or runs), requeued (it has
-- failed or was cancelled, and sent nothing) or created, from p_job (as giftcard_enqueue takes it). p_changed: the
-- address is another one than that of a job that runs. The caller holds the order's jobs of stage email.
create function public.giftcard_resend_job(
  p_tenant_id text, p_correlation_id text, p_job jsonb, p_changed boolean, p_now timestamptz,
  out job_id bigint, out done text)
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  select j.id, case when j.status in ('queued', 'running') then 'waiting' else 'requeued' end into job_id, done
    from public.giftcard_jobs j
   where j.tenant_id = p_tenant_id and j.correlation_id = p_correlation_id and j.stage = 'email'
     and (j.status = 'queued' or j.status = 'running' and not p_changed or j.status in ('error', 'cancelled'))
     -- A mail that was sent under its key would not be sent by it once more.
     and not exists (select from public.giftcard_effects e
                      where e.tenant_id = j.tenant_id and e.correlation_id = j.correlation_id and e.stage = 'email'
                        and e.dedup_key = j.dedup_key and e.result is not null)
   order by array_position('{queued,running,error,cancelled}'::text[], j.status), j.id desc limit 1;
  if done = 'requeued' then
    perform public.giftcard_requeue_job(job_id, null, false, null, null, p_tenant_id, p_now);
  elsif done is null then
    done := 'created';
    job_id := (public.giftcard_enqueue(jsonb_build_array(p_job || jsonb_build_object(
        'tenant_id', p_tenant_id, 'correlation_id', p_correlation_id, 'stage', 'email',
        'dedup_key', public.giftcard_next_resend(p_tenant_id, p_correlation_id))), p_now => p_now)
      -> 0 ->> 'id')::bigint;
  end if;
end $$;

-- Send the mail of an order again, to its recipient or, from now on, to p_email. A job of it that waits or runs is
-- left to send it; one that has failed is requeued; otherwise a new one is enqueued, whose key no mail was sent with.
-- p_job: that job, as the application prepares it. Return {correlation_id, job_id, done: waiting, requeued or created,
-- scheduled_at, changed: the fields of the recipient that differ now}. GC404 for an unknown order. GC409 for one
-- without a card, with a blocked one, cancelled, of an erased customer, or still under way.
create function public.giftcard_resend_mail(
  p_tenant_id text, p_correlation_id text, p_reason text, p_email text default null, p_job jsonb default '{}',
  p_by text default null, p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
  v_changed jsonb := '[]'::jsonb;
  v_sent record;
  o public.giftcard_orders;
begin
  perform from public.giftcard_jobs
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id and stage = 'email' order by id for update;
  select * into o from public.giftcard_orders
   where tenant_id = p_tenant_id and correlation_id = p_correlation_id for update;
  if not found then
    perform public.giftcard_refuse('GC404', format(
      'no order has the correlation id %s (tenant %s)', p_correlation_id, p_tenant_id), 'correlation_id');
  end if;
  perform public.giftcard_check_resend(o);
  if p_email is not null then
    v_changed := public.giftcard_correct_recipient(
      p_tenant_id, p_correlation_id, jsonb_build_object('email', p_email), p_by, v_now) -> 'changed';
  end if;
  v_sent := public.giftcard_resend_job(
    p_tenant_id, p_correlation_id, p_job, v_changed <> '[]', v_now);
  if v_sent.done <> 'waiting' then
    perform public.giftcard_record_act(
      p_by, p_tenant_id, 'resend', 'order ' || p_correlation_id,
      jsonb_build_object('reason', p_reason, 'job_id', v_sent.job_id, 'done', v_sent.done), v_now);
  end if;
  return jsonb_build_object(
    'correlation_id', p_correlation_id, 'job_id', v_sent.job_id, 'done', v_sent.done, 'changed', v_changed,
    'scheduled_at', (select scheduled_at from public.giftcard_jobs where id = v_sent.job_id));
end $$;

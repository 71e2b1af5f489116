-- Notifications: operators are notified of a condition once when it begins and once when it is over, on each channel.
-- What was sent is stored, because ticks have no memory.

create table public.giftcard_alert_notifications (
  condition text collate "C" not null,
  channel text collate "C" not null,
  notified_at timestamptz,
  notified_through timestamptz,
  end_notified_at timestamptz,
  failed_at timestamptz,
  sending_until timestamptz,
  sending_through timestamptz,
  constraint giftcard_alert_notifications_pkey primary key (condition, channel),
  constraint giftcard_alert_notifications_condition_fkey foreign key (condition)
    references public.giftcard_alerts (condition) on delete cascade
);

comment on table public.giftcard_alert_notifications is
  'One row is one condition on one channel: what was sent there, and what is still to be sent.';
comment on column public.giftcard_alert_notifications.channel is
  'Its kind and a keyed digest of its address, which is not stored: mail:<digest>, url:<digest>; or sentry.';
comment on column public.giftcard_alert_notifications.notified_at is
  'When the channel last accepted that the condition holds. null, or in the future (the clock went back): it has not.';
comment on column public.giftcard_alert_notifications.notified_through is
  'dead_letters, books: when the newest of those notified came.';
comment on column public.giftcard_alert_notifications.end_notified_at is
  'When the channel accepted that it is over, as its last notification.';
comment on column public.giftcard_alert_notifications.failed_at is
  'When the channel last failed to accept a notification; null once it has accepted it.';
comment on column public.giftcard_alert_notifications.sending_until is
  'A tick is sending a notification. After this time another one tries.';

-- Return the notifications that each of p_channels is to be sent now: (condition, channel, kind). raised: not notified
-- of it yet, and not within the last hour if the condition comes and goes; repeated: after p_repeat, and for new dead
-- letters or differences once an hour; resolved: over, after a notification. What another tick is sending is left out.
-- Times that only a clock that went back explains do not count.
create function public.giftcard_due_notifications(p_channels text[], p_repeat interval, p_now timestamptz)
returns table (condition text, channel text, kind text)
language sql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
  select d.condition, d.channel, d.kind from (
    select a.condition, c.channel, n.sending_until, case
        when a.resolved_at is not null
          then case when n.notified_at is not null and n.end_notified_at is null then 'resolved' end
        when n.notified_at is null or n.notified_at > p_now then 'raised'
        when n.end_notified_at is not null
          then case when n.notified_at <= p_now - interval '1 hour' then 'raised' end
        when n.notified_at <= p_now - p_repeat
             and (a.condition <> 'dead_letters' or n.notified_at <= p_now - interval '1 hour') then 'repeated'
        when a.newest > case when n.notified_through <= p_now then n.notified_through else '-infinity' end
             and n.notified_at <= p_now - interval '1 hour' then 'repeated' end as kind
      from public.giftcard_alerts a cross join (select distinct u.channel from unnest(p_channels) u(channel)) c
      left join public.giftcard_alert_notifications n on n.condition = a.condition and n.channel = c.channel) d
   where d.kind is not null
     and not exists (select from public.giftcard_faulty_rows f
                      where f.kind = 'alert' and f.row_id = left(d.channel || ' ' || d.condition, 200)
                        and f.skip_until > p_now and f.skip_until <= p_now + interval '2 hours')
     and (d.sending_until > p_now and d.sending_until <= p_now + interval '1 minute') is not true
   order by d.condition, d.channel limit 10000
$$;

-- Record that work has failed on the row of a notification. It is not sent for an hour: each minute would be a flood.
create function public.giftcard_record_alert_fault(
  p_condition text, p_channel text, p_sqlstate text, p_message text, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  if public.giftcard_is_unavailable(p_sqlstate) then
    raise exception '%', p_message using errcode = p_sqlstate;
  end if;
  perform public.giftcard_record_fault(
    'alert', p_channel || ' ' || p_condition, public.giftcard_error_text(p_sqlstate, p_message), p_now,
    p_now + interval '1 hour');
end $$;

-- Claim a notification for a minute. Return whether it is to be sent: one whose row is refused is recorded.
create function public.giftcard_claim_notification(p_condition text, p_channel text, p_now timestamptz)
returns boolean
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_changed bigint;
begin
  insert into public.giftcard_alert_notifications (condition, channel, sending_until, sending_through)
  select a.condition, p_channel, p_now + interval '1 minute', a.newest
    from public.giftcard_alerts a where a.condition = p_condition
  on conflict (condition, channel) do update
    set sending_until = excluded.sending_until, sending_through = excluded.sending_through;
  get diagnostics v_changed = row_count;
  perform public.giftcard_check_changed(v_changed, 1);
  return true;
exception when others then
  perform public.giftcard_record_alert_fault(p_condition, p_channel, sqlstate, sqlerrm, p_now);
  return false;
end $$;

-- Claim the notifications that are due, for a minute. Arguments as in giftcard_due_notifications, return as in
-- giftcard_check_alerts.
create function public.giftcard_claim_notifications(p_channels text[], p_repeat interval, p_now timestamptz)
returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_due jsonb;
begin
  select coalesce(jsonb_agg(to_jsonb(d)), '[]') into v_due
    from public.giftcard_due_notifications(p_channels, p_repeat, p_now) d;
  v_due := (
    select coalesce(jsonb_agg(d), '[]') from jsonb_array_elements(v_due) d
     where public.giftcard_claim_notification(d ->> 'condition', d ->> 'channel', p_now));
  return (
    select coalesce(jsonb_agg(jsonb_build_object('channel', c.channel, 'alerts', c.alerts)
                              order by c.failed_at nulls first, c.channel), '[]')
      from (select d.channel,
                   jsonb_agg(jsonb_build_object(
                     'condition', a.condition, 'kind', d.kind, 'since', a.since,
                     'detail', public.giftcard_alert_detail(a.detail)) order by a.condition) as alerts,
                   (select max(n.failed_at) from public.giftcard_alert_notifications n
                     where n.channel = d.channel) as failed_at
              from jsonb_to_recordset(v_due) d(condition text, channel text, kind text)
              join public.giftcard_alerts a using (condition) group by d.channel) c);
end $$;

-- Keep a condition that holds. One whose row is refused is recorded, and stops no other.
create function public.giftcard_keep_condition(
  p_condition text, p_since timestamptz, p_detail jsonb, p_newest timestamptz, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  insert into public.giftcard_alerts as a (condition, since, detail, newest)
  values (p_condition, p_since, p_detail, p_newest)
  on conflict (condition) do update set
    since = case when a.resolved_at is null then a.since else excluded.since end, detail = excluded.detail,
    newest = excluded.newest, resolved_at = null;
exception when others then
  perform public.giftcard_record_alert_fault(p_condition, '', sqlstate, sqlerrm, p_now);
end $$;

-- Compare the active conditions with those notified, and return the notifications to send now, by channel: [{channel,
-- alerts: [{condition, kind: 'raised' | 'repeated' | 'resolved', since, detail}]}], first the channels that have not
-- failed, then those whose failure is longest ago. Of two ticks at once one gets them, for a minute: unless
-- giftcard_record_notifications confirms them, the next check returns them again.
create function public.giftcard_check_alerts(
  p_stages jsonb, p_late_seconds double precision default 900, p_repeat_hours double precision default 24,
  p_channels text[] default '{}', p_now timestamptz default null) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz;
  v_found text[];
  v_unknown text[];
  t record;
begin
  perform pg_advisory_xact_lock(hashtextextended('giftcard alerts', 0));
  -- Read after the lock: what another tick has recorded is in the past.
  v_now := coalesce(p_now, clock_timestamp());
  v_found := '{}';
  for t in select * from public.giftcard_active_conditions(
             p_stages, make_interval(secs => p_late_seconds), v_now) order by condition limit 1000 loop
    v_found := v_found || t.condition;
    perform public.giftcard_keep_condition(t.condition, t.since, t.detail, t.newest, v_now);
  end loop;
  v_unknown := array(select split_part(c, ':', 2) from unnest(v_found) c where starts_with(c, 'check_failed:'));
  update public.giftcard_alerts set resolved_at = v_now
   where condition <> all (v_found) and public.giftcard_condition_kind(condition) <> all (v_unknown)
     and (resolved_at is null or resolved_at > v_now);
  -- Kept are ends to notify of, for a day, and those whose alert is less than an hour ago: they may come back.
  delete from public.giftcard_alerts a
   where a.resolved_at is not null and (a.resolved_at <= v_now - interval '24 hours' or not exists (
     select from public.giftcard_alert_notifications n
      where n.condition = a.condition
        and (n.notified_at is not null and n.end_notified_at is null
             or n.notified_at > v_now - interval '1 hour' and n.notified_at <= v_now
             or n.sending_until > v_now and n.sending_until <= v_now + interval '1 minute')));
  return public.giftcard_claim_notifications(p_channels, make_interval(secs => p_repeat_hours * 3600), v_now);
end $$;

-- Record what became of one notification, as giftcard_record_notifications takes it. One whose row is refused is
-- recorded as a fault.
create function public.giftcard_record_notification(
  p_condition text, p_channel text, p_kind text, p_sent boolean, p_now timestamptz) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_changed bigint;
begin
  update public.giftcard_alert_notifications n
     set notified_at = case when p_sent and p_kind <> 'resolved' then p_now else n.notified_at end,
         notified_through = case when p_sent and p_kind <> 'resolved' then n.sending_through
                                 else n.notified_through end,
         end_notified_at = case when p_sent then case when p_kind = 'resolved' then p_now end
                                else n.end_notified_at end,
         failed_at = case when p_sent then null when not p_sent then p_now else n.failed_at end,
         sending_until = null
   where n.condition = p_condition and n.channel = p_channel;
  get diagnostics v_changed = row_count;
  if exists (select from public.giftcard_alert_notifications
              where condition = p_condition and channel = p_channel) then
    perform public.giftcard_check_changed(v_changed, 1);
  end if;
exception when others then
  perform public.giftcard_record_alert_fault(p_condition, p_channel, sqlstate, sqlerrm, p_now);
end $$;

-- Record what became of the notifications that giftcard_check_alerts returned: [{condition, channel, kind, sent}].
-- sent: true if the channel accepted it, false if it failed, null if it was not tried. All but the first are due again.
create function public.giftcard_record_notifications(p_notified jsonb, p_now timestamptz default null) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz;
  t record;
begin
  perform pg_advisory_xact_lock(hashtextextended('giftcard alerts', 0));
  v_now := coalesce(p_now, clock_timestamp());
  for t in select * from jsonb_to_recordset(p_notified) x(condition text, channel text, kind text, sent boolean) loop
    perform public.giftcard_record_notification(t.condition, t.channel, t.kind, t.sent, v_now);
  end loop;
end $$;

-- Return the conditions that hold: [{condition, since, notified_at, detail}], the first 200 by since; how many more is
-- a condition of its own, more:alerts. notified_at: when any channel was last notified of it.
create function public.giftcard_active_alerts() returns jsonb
language sql stable security invoker set search_path = '' as $$
  with active as (
    select a.condition, a.since, public.giftcard_alert_detail(a.detail) as detail,
           (select max(n.notified_at) from public.giftcard_alert_notifications n
             where n.condition = a.condition) as notified_at,
           row_number() over (order by a.since, a.condition) as n
      from public.giftcard_alerts a where a.resolved_at is null)
  select coalesce(jsonb_agg(jsonb_build_object('condition', c.condition, 'since', c.since,
                                               'notified_at', c.notified_at, 'detail', c.detail)
                            order by c.n), '[]')
    from (select * from active where n <= 200
          union all
          select 'more:alerts', min(since), jsonb_build_object('more', count(*)), null, 201
            from active where n > 200 having count(*) > 0) c
$$;

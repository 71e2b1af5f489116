-- Doctor: facts about the database, which lib's doctor judges. Each is bounded, so that a status may ask at any time.

-- Return whether the disk has no room for 100 kB. An INSERT into a full disk succeeds while its page has room, and a
-- trial row would stay as a dead one: so this writes a temporary file, which 64 kB of memory cannot hold.
create function public.giftcard_disk_is_full() returns boolean
language plpgsql volatile security invoker set search_path = '' set work_mem = '64kB' as $$
begin
  perform count(*) from generate_series(1, 8000);
  return false;
exception
  when disk_full then
    return true;
  when configuration_limit_exceeded then
    return false;  -- temp_file_limit allows no such file: what room there is, is not known
end $$;

-- Refuse if this call could not write: 25006 read-only, 57P03 in recovery, 53100 its disk is full. An error and not a
-- value, so that no connection of that time is used again. Volatile: PostgREST runs it in a transaction that may write.
create function public.giftcard_health() returns void
language plpgsql volatile security invoker set search_path = '' as $$
begin
  if pg_is_in_recovery() then
    perform public.giftcard_refuse('57P03', 'the database is in recovery and only reads');
  elsif current_setting('transaction_read_only')::boolean then
    perform public.giftcard_refuse('25006', 'the database is read-only');
  elsif public.giftcard_disk_is_full() then
    perform public.giftcard_refuse('53100', 'the disk of the database is full');
  end if;
end $$;

-- Return privileges on our objects of Supabase's web roles or of everyone, and tables without row level security.
create function public.giftcard_excess_privileges(
  p_limit integer default 20) returns table (name text, kind text, granted_to text)
language sql stable security invoker set search_path = '' as $$
  with everybody as (
    select 0::oid as id, 'public' as who union all select oid, rolname from pg_roles
      where rolname in ('anon', 'authenticated')), ours as (
    select c.oid, c.relname, c.relkind, c.relowner, c.relacl, c.relrowsecurity from pg_class c
     where c.relnamespace = 'public'::regnamespace and c.relname like 'giftcard\_%'
       and c.relkind in ('r', 'p', 'v', 'm', 'S')), grants as (
    select o.relname as name, case o.relkind when 'S' then 'sequence' else 'table' end as kind, a.grantee
      from ours o cross join aclexplode(coalesce(o.relacl,
                                                 acldefault(case o.relkind when 'S' then 's'::"char" else 'r' end,
                                                            o.relowner))) a
    union all
    select o.relname, 'table', a.grantee
      from ours o join pg_attribute t on t.attrelid = o.oid and t.attacl is not null cross join aclexplode(t.attacl) a
    union all
    select p.proname, 'function', a.grantee
      from pg_proc p cross join aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a
     where p.pronamespace = 'public'::regnamespace and p.proname like 'giftcard\_%'), excess as (
    select distinct g.name, g.kind, e.who from grants g join everybody e on e.id = g.grantee
    union all
    select o.relname, 'table', 'every role with a grant: row level security is off' from ours o
      where o.relkind in ('r', 'p') and not o.relrowsecurity)
  select d.name::text, d.kind, string_agg(d.who, ', ' order by d.who) from excess d group by d.name, d.kind
    order by d.kind, d.name limit least(p_limit, 1000)
$$;

-- Return the facts that the doctor judges. p_stages: as in giftcard_status. Ages are seconds before p_now. A role sees
-- only its own sessions' transactions, unless it may read all statistics (`sees_all`); prepared statements are those
-- that lib/store/exchange.py has made in this session.
create function public.giftcard_doctor(p_stages jsonb default null, p_now timestamptz default null) returns jsonb
language plpgsql stable security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_now timestamptz := coalesce(p_now, clock_timestamp());
begin
  return jsonb_build_object(
    'clock', extract(epoch from clock_timestamp()),
    'schema', public.giftcard_schema_version(),
    -- Whether new transactions of this session can only read; this one does in any case.
    'read_only', current_setting('default_transaction_read_only')::boolean,
    'in_recovery', pg_is_in_recovery(), 'disk_full', public.giftcard_disk_is_full(),
    'hides_rows', row_security_active('public.giftcard_jobs'),
    'excess_privileges', (select coalesce(jsonb_agg(to_jsonb(d)), '[]') from public.giftcard_excess_privileges() d),
    -- Ticks of the clock, the newest first.
    'ticks', (select coalesce(jsonb_agg(jsonb_build_object(
          'age', public.giftcard_milliseconds(t.started_at, v_now) / 1000.0,
          'ended_age', public.giftcard_milliseconds(t.ended_at, v_now) / 1000.0,
          'killed', t.ended_at is null and t.live_until <= v_now, 'stopped_because', t.stopped_because,
          'error', t.error)
              order by t.id desc), '[]')
        from (select * from (select * from public.giftcard_ticks order by id desc limit 200) n
               where n.source = 'cron' and isfinite(n.started_at) order by n.id desc limit 20) t),
    'waking', public.giftcard_waking(v_now),
    -- Since when none has ended well, in seconds.
    'silence', (select case when s.silent then public.giftcard_milliseconds(s.began, s.ended) / 1000.0 end
                  from public.giftcard_newest_silence(v_now) s where s.ended > v_now - interval '1 second'),
    'faulty_rows', (select coalesce(jsonb_agg(jsonb_build_object(
          'kind', f.kind, 'row_id', f.row_id, 'error', f.error, 'skipped', f.skip_until > v_now)
              order by f.last_at desc, f.kind, f.row_id), '[]')
        from (select * from public.giftcard_faulty_rows r
               where r.last_at > v_now - interval '24 hours' and public.giftcard_is_faulty(r, v_now)
               order by r.last_at desc, r.kind, r.row_id limit 20) f),
    'differences', (select coalesce(jsonb_object_agg(d.kind, d.items), '{}') from (
          select r.kind, count(*) as items from public.giftcard_reconcile() r group by r.kind order by r.kind) d),
    -- Stages with queued jobs; due: a tick that began now could start one.
    'queued', (select coalesce(jsonb_object_agg(q.stage, q.due), '{}') from (
          select h.stage, bool_or(h.availability in ('ready', 'probing') and h.head_at <= v_now) as due
            from public.giftcard_queue_heads(p_stages, v_now) h group by h.stage order by h.stage limit 200) q),
    'paused', (select coalesce(jsonb_agg(s.stage order by s.stage), '[]')
        from (select stage from public.giftcard_stages where paused_at is not null order by stage limit 200) s),
    'limits', public.giftcard_limits_to_judge(v_now),
    'unusable_settle_functions', public.giftcard_unusable_settle_functions(),
    'unusable_events', public.giftcard_unusable_events(v_now),
    'cards', public.giftcard_keys_of_cards(),
    -- Of the newest endpoints.
    'keys_of_endpoints', (select coalesce(jsonb_agg(distinct c.key_id), '[]') from (
          select public.giftcard_key_id(t) as key_id
            from (select * from public.giftcard_webhook_endpoints order by id desc limit 200) w,
                 unnest(array[w.secret_encrypted, w.previous_secret_encrypted, w.oldest_secret_encrypted]) t
           where t is not null limit 600) c),
    'sees_all', pg_has_role('pg_read_all_stats', 'usage'),
    'oldest_transaction', (select jsonb_build_object('age', extract(epoch from v_now - o.began), 'pid', o.pid,
                                                     'application', o.application)
        from (select a.xact_start as began, a.pid, a.application_name as application from pg_stat_activity a
               where a.datname = current_database() and a.backend_type = 'client backend' and a.pid <> pg_backend_pid()
                 and a.xact_start is not null
               order by a.xact_start limit 1) o),
    'dead_rows', pg_stat_get_dead_tuples('public.giftcard_jobs'::regclass),
    'prepared_statements', (select count(*) from pg_prepared_statements where name like 'giftcard\_%'));
end $$;

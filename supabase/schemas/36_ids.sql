-- Ids that a restore has left behind.

-- Let the ids of each table go on above its highest one. Rows that were copied without their sequences, as a restore of
-- data or a logical replication does it, leave a sequence behind its table: new rows get the ids of old ones, and are
-- refused. Return [{table, highest, next_id}] of those that are behind. p_dry_run: change nothing.
create function public.giftcard_raise_ids(p_dry_run boolean default true) returns jsonb
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
declare
  v_behind jsonb := '[]'::jsonb;
  v_highest bigint;
  v_next bigint;
  v_sequence regclass;  -- its text is a quoted name
  t record;
begin
  for t in
    select c.relname as name,
           pg_get_serial_sequence(format('public.%I', c.relname), a.attname)::regclass as sequence
      from pg_class c
      join pg_attribute a on a.attrelid = c.oid and a.attname = 'id' and a.attidentity <> ''
     where c.relnamespace = 'public'::regnamespace and c.relname like 'giftcard\_%' order by c.relname
  loop
    execute format('select max(id) from public.%I', t.name) into v_highest;
    if t.name = 'giftcard_jobs' then
      -- What has left the table keeps its id.
      v_highest := greatest(v_highest, (select max(id) from public.giftcard_jobs_archive),
                            (select max(job_id) from public.giftcard_job_history));
    end if;
    v_sequence := t.sequence;
    execute format('select last_value + is_called::int from %s', v_sequence) into v_next;
    continue when v_highest is null or v_highest < v_next;
    v_behind := v_behind || jsonb_build_object('table', t.name, 'highest', v_highest, 'next_id', v_next);
    if not p_dry_run then
      perform setval(v_sequence, v_highest);
    end if;
  end loop;
  return v_behind;
end $$;

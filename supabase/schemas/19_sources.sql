-- Sources: where the payload of a job or a schedule comes from. What the application has not written gets no secrets.
-- Functions of this schema name themselves in the setting giftcard.writer while they write, until the transaction ends
-- at the latest; without it, a row is the work of plain SQL, whatever it contains. A guard against mistakes and against
-- roles that only write rows: a role that may also set that setting, or call these functions, can pass for them.

-- Mark a new row as one of plain SQL.
create function public.giftcard_mark_inserted_by_hand() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  new.source := 'sql';
  return new;
end $$;

-- Mark a row whose payload or source plain SQL has changed. An update of its own: a trigger before the update would
-- lock each row again.
create function public.giftcard_mark_changed_by_hand() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  execute format('update public.%I set source = ''sql'' where id = $1', tg_table_name) using new.id;
  return null;
end $$;

create trigger giftcard_jobs_mark_inserted_by_hand before insert on public.giftcard_jobs
  for each row when (new.source <> 'sql' and coalesce(current_setting('giftcard.writer', true), '') = '')
  execute function public.giftcard_mark_inserted_by_hand();
create trigger giftcard_jobs_mark_changed_by_hand after update of payload, source on public.giftcard_jobs
  for each row when (new.source <> 'sql' and coalesce(current_setting('giftcard.writer', true), '') = ''
    and (new.source <> old.source or new.payload is distinct from old.payload))
  execute function public.giftcard_mark_changed_by_hand();

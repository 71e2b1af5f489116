-- Grants: all to the service role, none to any other. Of the audit it may only read rows and add them, with the role
-- that the database sets; the functions that a settle may call it only reads. Supabase grants new tables and functions
-- to its roles by default, so each is revoked by name. A later migration repeats this for what it adds; a test reads
-- the catalog.

do $$
declare
  v_object record;
  v_web_roles text := (select string_agg(quote_ident(rolname), ', ') from pg_roles
                       where rolname in ('anon', 'authenticated'));
  v_service boolean := exists (select from pg_roles where rolname = 'service_role');
begin
  for v_object in
    select c.oid::regclass as name from pg_class c
     where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'S') and c.relname like 'giftcard\_%'
  loop
    if (select relkind from pg_class where oid = v_object.name) = 'r' then
      execute format('alter table %s enable row level security', v_object.name);
      execute format('revoke all on table %s from public%s', v_object.name, coalesce(', ' || v_web_roles, ''));
      if v_service then
        execute format('revoke all on table %s from service_role', v_object.name);
        execute format('grant %s on table %s to service_role', case
          when v_object.name = 'public.giftcard_audit'::regclass
          then 'select, insert (at, by, tenant_id, action, subject, details)'
          when v_object.name = 'public.giftcard_settle_functions'::regclass then 'select'
          else 'select, insert, update, delete' end, v_object.name);
      end if;
    else
      execute format('revoke all on sequence %s from public%s', v_object.name, coalesce(', ' || v_web_roles, ''));
      if v_service then
        execute format('grant usage, select on sequence %s to service_role', v_object.name);
      end if;
    end if;
  end loop;
  for v_object in
    select p.oid::regprocedure as name from pg_proc p
      where p.pronamespace = 'public'::regnamespace and p.proname like 'giftcard\_%'
  loop
    execute format('revoke all on function %s from public%s', v_object.name, coalesce(', ' || v_web_roles, ''));
    if v_service then
      execute format('grant execute on function %s to service_role', v_object.name);
    end if;
  end loop;
end $$;

-- PostgREST reloads the schema at once, even where no event trigger of Supabase notifies it.
notify pgrst, 'reload schema';

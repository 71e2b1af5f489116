-- Versions: schema and code are deployed separately, and each knows which versions of the other it works with.

-- Return the schema's version, and the oldest version of the code that it still serves. Stable, not immutable: an
-- immutable one is folded into prepared plans, which then answer without checking who may call it.
create function public.giftcard_schema_version() returns jsonb
language sql stable security invoker set search_path = '' as $$
  select '{"version": 1, "oldest_code": 1}'::jsonb
$$;

-- Refuse (GC426) code that the schema is too new for, or a schema that is too old for the code.
create function public.giftcard_check_versions(p_code_version integer, p_oldest_schema integer) returns void
language plpgsql stable security invoker set search_path = '' as $$
declare
  v_schema jsonb := public.giftcard_schema_version();
begin
  if p_code_version < (v_schema ->> 'oldest_code')::integer then
    perform public.giftcard_refuse('GC426', format(
      'the database is at schema %s, which serves code from %s on; this code is %s: deploy newer code',
      v_schema ->> 'version', v_schema ->> 'oldest_code', p_code_version));
  elsif (v_schema ->> 'version')::integer < p_oldest_schema then
    perform public.giftcard_refuse('GC426', format(
      'this code needs schema %s or a later one, and the database is at %s: run the migrations',
      p_oldest_schema, v_schema ->> 'version'));
  end if;
end $$;

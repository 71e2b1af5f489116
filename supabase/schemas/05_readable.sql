-- Answers: what others wrote as JSON, in a form that every client reads, and never more than fits one answer.

-- Return why JSON parsers may fail on a value: deep nesting, or a number beyond what a double holds. null: they do not.
create function public.giftcard_unreadable(p_value jsonb) returns text
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return case when octet_length(p_value::text) < 200 then null
              when p_value @? '$.**{100}' then 'nested more than 100 levels'
              when p_value @? '$.**{0 to 100} ? (@.abs() >= 1e308)' then 'a number of more than 308 digits' end;
end $$;

-- Return a value as an answer may hold it: itself, or {unreadable: the reason, bytes, text: its first characters} for
-- one that parsers may fail on or that has more than p_most bytes. Long text is cut. The first characters never end in
-- half of an address or of a card number, which could not be masked.
create function public.giftcard_readable(p_value jsonb, p_most integer default 3300000) returns jsonb
language plpgsql immutable security invoker set search_path = '' as $$
declare
  v_reason text := public.giftcard_unreadable(p_value);
  v_text text := p_value::text;
  v_bytes integer := octet_length(v_text);
begin
  if v_reason is null and v_bytes <= p_most then
    return p_value;
  end if;
  v_text := left(case jsonb_typeof(p_value) when 'string' then p_value #>> '{}' else v_text end, 200);
  v_text := regexp_replace(regexp_replace(v_text, '[^\s",:]*@[^\s",:]*$', ''), '(^|[^0-9])([0-9][ -]?){1,18}$', '\1');
  if jsonb_typeof(p_value) = 'string' then
    return to_jsonb(format('%s… (%s bytes)', v_text, v_bytes));
  end if;
  return jsonb_build_object('unreadable', coalesce(v_reason, 'too large'), 'bytes', v_bytes, 'text', v_text);
end $$;

-- Return a row as an answer may hold it: each of its values readable; if it has more than p_most bytes, its large
-- values cut.
create function public.giftcard_readable_row(p_row jsonb, p_most integer default 3300000) returns jsonb
language plpgsql immutable security invoker set search_path = '' as $$
declare
  v_is_long boolean := octet_length(p_row::text) > p_most;
begin
  if not v_is_long and public.giftcard_unreadable(p_row) is null then
    return p_row;
  end if;
  return (select jsonb_object_agg(m.key, public.giftcard_readable(m.value,
                                                                  case when v_is_long then p_most / 50 else p_most end))
            from jsonb_each(p_row) m);
end $$;

-- Return whether a page ends before the next row: it has p_limit rows, or with this row p_bytes, more than one answer
-- holds. Vercel allows 4.5 MB; masking makes a row longer by a third at most. A page has one row at least.
create function public.giftcard_page_ends(p_rows integer, p_limit integer, p_bytes integer) returns boolean
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return p_rows >= p_limit or p_rows > 0 and p_bytes > 3300000;
end $$;

-- Return the milliseconds between two times; null: one of them is not finite.
create function public.giftcard_milliseconds(p_from timestamptz, p_to timestamptz) returns numeric
language plpgsql immutable security invoker set search_path = '' as $$
begin
  return case when isfinite(p_from) and isfinite(p_to)
              then round((extract(epoch from p_to) - extract(epoch from p_from)) * 1000) end;
end $$;

-- Return a time as sentences have it, in UTC and to the second, as lib/cli/tables.py writes it: 2026-01-31 12:00:00Z.
create function public.giftcard_time_text(p_time timestamptz) returns text
language plpgsql stable security invoker set search_path = '' as $$
begin
  return case when isfinite(p_time) then to_char(p_time at time zone 'UTC', 'YYYY-MM-DD HH24:MI:SS"Z"')
              else p_time::text end;
end $$;

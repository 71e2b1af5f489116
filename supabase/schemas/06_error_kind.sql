-- The kind of an error: giftcard_jobs keeps it beside the text, so that equal errors are found and acted on together.

-- Return what kind of error a text is: without what differs from job to job. Addresses, URLs, hosts, ids, times,
-- numbers and quoted values become [email], [url], [host], [id], [time], [n] and "…". The codes of HTTP, SMTP and SQL
-- stay: they are the kind. Names of fields (customer.email) stay: a host has a port or a usual top-level domain. A kind
-- is one line, without blanks around it, as a filter takes it.
create function public.giftcard_error_kind(p_error text) returns text
language plpgsql immutable security invoker set search_path = '' as $$
declare
  v_text text := regexp_replace(
    left(p_error, 500),
    '[[:cntrl:][:space:]\u0080-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+', ' ', 'g');
  -- What stands before the code of an answer, as in: answered 410, responded with 503, status=404, HTTP/1.1 502.
  v_before constant text := '\m(answered|responded|status|code|http(/\d(\.\d)?)?)( with)?';
  v_rule text[];
begin
  foreach v_rule slice 1 in array array[
    ['[^\s"<>]+@[^\s"<>]+', '[email]'],
    ['\m[a-z][a-z0-9+.-]*://[^\s"''<>,;)]*', '[url]'],
    ['"[^"]*"|“[^”]*”|«[^»]*»|`[^`]*`', '"…"'],
    ['(^|[\s(=:,\[])''[^'']*''', '\1"…"'],
    ['\m\d{4}-\d\d-\d\d([t ]\d\d:\d\d(:\d\d(\.\d+)?)?(z|[+-]\d\d(:?\d\d)?)?)?', '[time]'],
    ['\m\d\d:\d\d(:\d\d(\.\d+)?)?z?\M', '[time]'],
    ['\m\d{1,3}(\.\d{1,3}){3}(:\d+)?\M', '[host]'],
    ['\[[0-9a-f:.]*:[0-9a-f:.]*\](:\d+)?|\m[0-9a-f]{1,4}(:[0-9a-f]{0,4}){2,7}', '[host]'],
    ['\m(?!' || v_before || ':[1-5]\d\d\M)[a-z0-9]([a-z0-9._-]*[a-z0-9])?:\d{2,5}\M', '[host]'],
    ['\m([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+(com|net|org|io|dev|app|cloud|shop|eu|de|uk|example|test|local|localhost|'
     || 'internal|invalid)\M', '[host]'],
    ['\m([a-z0-9]([a-z0-9-]*[a-z0-9])?\.){2,}(?!id\M)[a-z]{2}\M', '[host]'],
    ['(?<![\w-])\d+([.,]\d+)*(ms|s|min|h|d|kb|mb)\M(?!-)', '[n]'],
    ['(?<!(http|smtp|sqlstate|status) )\m(?=[\w-]*[a-z])[\w-]*\d[\w-]*\M', '[id]'],
    ['(?<!(http|smtp|sqlstate|status) )(?!(?<=' || v_before || '[ =:]{1,2})[1-5]\d\d\M)\m\d+([.,]\d+)*\M', '[n]']] loop
    v_text := regexp_replace(v_text, v_rule[1], v_rule[2], 'gi');
  end loop;
  return coalesce(nullif(rtrim(left(btrim(v_text), 200)), ''), 'no error text');
end $$;

-- The audit: one row for each act of an operator, written in the transaction of the act. Rows are only added.

create table public.giftcard_audit (
  id bigint generated always as identity,
  at timestamptz not null,
  by text collate "C" not null,
  role text not null default session_user,
  tenant_id text collate "C",
  action text collate "C" not null,
  subject text collate "C" not null,
  details jsonb not null default '{}',
  constraint giftcard_audit_pkey primary key (id),
  constraint giftcard_audit_by_is_short check (char_length(by) between 1 and 200),
  constraint giftcard_audit_action_is_a_name check (action ~ '^[a-z_]{1,50}$')
);
create index giftcard_audit_by_tenant on public.giftcard_audit (tenant_id, id);
create index giftcard_audit_by_actor on public.giftcard_audit (by, id);
create index giftcard_audit_by_action on public.giftcard_audit (action, id);
-- A hash: a subject may be longer than an index entry of another kind.
create index giftcard_audit_by_subject on public.giftcard_audit using hash (subject);
create index giftcard_audit_by_time on public.giftcard_audit (at, id);

comment on table public.giftcard_audit is
  'One row is one act of an operator. It holds no personal data: names of fields, not their values.';
comment on column public.giftcard_audit.by is
  'The name of the token, the user of the command line, or the database role.';
comment on column public.giftcard_audit.role is
  'The database role that connected: authenticator is the Data API. The service role cannot set it.';
comment on column public.giftcard_audit.tenant_id is 'The tenant whose data the act changed; null: all, or none.';

-- Refuse a change of the audit, also by its owner.
create function public.giftcard_refuse_audit_change() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  perform public.giftcard_refuse('GC409', 'the audit is append-only: its rows are neither changed nor removed');
  return null;
end $$;
create trigger giftcard_audit_is_append_only before update or delete or truncate on public.giftcard_audit
  for each statement execute function public.giftcard_refuse_audit_change();

-- Return the name of who acts: p_by, or the database role that connected.
create function public.giftcard_actor(p_by text) returns text
language sql stable security invoker set search_path = '' as $$
  select left(coalesce(nullif(p_by, ''), session_user), 200)
$$;

-- Record an act of an operator. p_action: a verb like 'cancel'. p_subject: what it changed, like 'job 7'. p_details:
-- names and numbers, never personal data.
create function public.giftcard_record_act(
  p_by text, p_tenant_id text, p_action text, p_subject text, p_details jsonb default '{}',
  p_now timestamptz default null) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  insert into public.giftcard_audit (at, by, tenant_id, action, subject, details)
  values (coalesce(p_now, clock_timestamp()), public.giftcard_actor(p_by), p_tenant_id, p_action, p_subject,
          jsonb_strip_nulls(coalesce(p_details, '{}')));
end $$;

-- Record an act on jobs: one row for each tenant whose jobs they are. None for no job.
create function public.giftcard_record_jobs(
  p_by text, p_action text, p_ids bigint[], p_details jsonb default '{}', p_now timestamptz default null) returns void
language plpgsql volatile security invoker set search_path = '' set enable_seqscan = off set jit = off as $$
begin
  perform public.giftcard_record_act(
      p_by, t.tenant_id, p_action,
      case when t.jobs = 1 then 'job ' || t.first else format('jobs %s to %s', t.first, t.last) end,
      p_details || jsonb_build_object('jobs', nullif(t.jobs, 1)), p_now)
    from (select tenant_id, count(*) as jobs, min(id) as first, max(id) as last
            from public.giftcard_jobs where id = any (p_ids) group by tenant_id order by tenant_id) t;
end $$;

-- Return the names of the fields that differ, the first 50 of them: what the audit keeps of a change.
create function public.giftcard_changed_fields(p_old jsonb, p_new jsonb) returns jsonb
language sql immutable security invoker set search_path = '' as $$
  select coalesce(jsonb_agg(k.name order by k.name), '[]') from (
    select left(n.name, 100) as name
      from (select jsonb_object_keys(p_old) union select jsonb_object_keys(p_new)) n(name)
     where p_old -> n.name is distinct from p_new -> n.name order by 1 limit 50) k
$$;

-- Return a page of the audit, the newest first: {acts: [{id, at, by, role, tenant_id, action, subject, details}],
-- older: the id to continue from, null at the end}. Each filter that is not null must match; p_since: at or after it.
create function public.giftcard_list_audit(
  p_by text default null, p_action text default null, p_subject text default null, p_since timestamptz default null,
  p_older bigint default null, p_limit integer default 50, p_tenant_id text default null) returns jsonb
language plpgsql stable security invoker
-- Planned for the values of each call: an absent condition folds away.
set search_path = '' set enable_seqscan = off set plan_cache_mode = force_custom_plan set jit = off as $$
declare
  v_limit integer := least(greatest(coalesce(p_limit, 50), 1), 200);
  a public.giftcard_audit;
  v_row jsonb;
  v_bytes integer := 0;
  v_rows jsonb[] := array[]::jsonb[];
  v_more boolean := false;
begin
  -- One more than the page holds: its presence means that there are more.
  for a in select * from public.giftcard_audit
            where (p_older is null or id < p_older) and (p_by is null or by = p_by)
              and (p_action is null or action = p_action) and (p_subject is null or subject = p_subject)
              and (p_since is null or at >= p_since) and (p_tenant_id is null or tenant_id = p_tenant_id)
            order by id desc limit v_limit + 1 loop
    v_row := public.giftcard_readable_row(to_jsonb(a), 20000);
    v_bytes := v_bytes + octet_length(v_row::text);
    v_more := public.giftcard_page_ends(cardinality(v_rows), v_limit, v_bytes);
    exit when v_more;
    v_rows := v_rows || v_row;
  end loop;
  return jsonb_build_object('acts', to_jsonb(v_rows),
                            'older', case when v_more then v_rows[cardinality(v_rows)] -> 'id' end);
end $$;

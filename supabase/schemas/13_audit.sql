-- Who saw or removed what was covered.

create table public.giftcard_audit (
  id bigint generated always as identity,
  at timestamptz not null,
  by text not null,
  action text not null,
  subject text not null,
  details jsonb not null default '{}',
  constraint giftcard_audit_pkey primary key (id),
  constraint giftcard_audit_action_is_known check (action in ('reveal', 'erase_customer'))
);

comment on table public.giftcard_audit is 'One row each time personal data was shown in clear or erased.';

-- Orders and customers. Money is in minor units.

-- Return an amount as people read it: 25.00 USD, 2500 JPY, 2.500 KWD. lib/giftcards/money.py has the same currencies.
create function public.giftcard_format_money(p_amount bigint, p_currency text) returns text
language sql immutable security invoker set search_path = '' as $$
  select coalesce(round(p_amount / power(10::numeric, d.digits), d.digits)::text, '?') || ' '
         || coalesce(p_currency, '?')
    from (select case
            when p_currency = any (
              '{BIF,CLP,DJF,GNF,ISK,JPY,KMF,KRW,PYG,RWF,UGX,VND,VUV,XAF,XOF,XPF}'::text[]) then 0
            when p_currency = any ('{BHD,IQD,JOD,KWD,LYD,OMR,TND}'::text[]) then 3
            else 2 end as digits) d
$$;

create table public.giftcard_orders (
  tenant_id text collate "C" not null default 'default',
  correlation_id text collate "C" not null,
  idempotency_key text collate "C",
  body_hash text not null,
  amount bigint not null,
  currency text collate "C" not null,
  details jsonb not null default '{}',
  locale text collate "C" generated always as (details ->> 'locale') stored,
  customer_id bigint,
  free_of_charge boolean not null default false,
  cancelled_at timestamptz,
  created_at timestamptz not null,
  -- The digits of a UUID that are random: its first eight, and its last.
  page_id bigint not null
    default ('x' || left(gen_random_uuid()::text, 8) || right(gen_random_uuid()::text, 8))::bit(64)::bigint,
  constraint giftcard_orders_pkey primary key (tenant_id, correlation_id),
  constraint giftcard_orders_idempotency_key_key unique (tenant_id, idempotency_key),
  constraint giftcard_orders_page_id_key unique (page_id),
  -- What payments and cards refer to: an order's payment and card have its amount and currency, or do not exist.
  constraint giftcard_orders_terms_key unique (tenant_id, correlation_id, amount, currency, free_of_charge),
  constraint giftcard_orders_amount_is_positive check (amount between 1 and 1000000000000000),
  constraint giftcard_orders_details_are_an_object check (jsonb_typeof(details) = 'object')
);
create index giftcard_orders_by_customer on public.giftcard_orders (customer_id, created_at)
    where customer_id is not null;

comment on table public.giftcard_orders is
  'One row is an order as it was taken in. Stages read amount, currency, recipient and customer here, not in payloads.';
comment on column public.giftcard_orders.details is
  '{customer, message, deliver_at, locale}: the recipient and what they get. Empty once the customer is erased.';
comment on column public.giftcard_orders.locale is 'The language of the mail, from details. Null: the default.';
comment on column public.giftcard_orders.customer_id is
  'Known once customer_ingest has run: erasing a customer finds the order by it.';
comment on column public.giftcard_orders.page_id is
  'Random: names the order in the link to its page, which the application signs. The id alone opens nothing.';
comment on column public.giftcard_orders.free_of_charge is 'An operator has waived the payment; the audit has who.';

-- Refuse to change what an order was taken in with.
create function public.giftcard_fix_order() returns trigger
language plpgsql security invoker set search_path = '' as $$
begin
  if (new.amount, new.currency) is distinct from (old.amount, old.currency)
     or old.customer_id is not null and new.customer_id is distinct from old.customer_id then
    raise exception 'amount, currency and customer of order % are fixed', old.correlation_id
      using errcode = '23514', constraint = 'giftcard_orders_facts_are_fixed', table = 'giftcard_orders',
            schema = 'public';
  end if;
  return new;
end $$;
create trigger giftcard_orders_facts_are_fixed before update of amount, currency, customer_id
    on public.giftcard_orders for each row execute function public.giftcard_fix_order();

create table public.giftcard_customers (
  id bigint generated always as identity,
  tenant_id text collate "C" not null default 'default',
  external_id text collate "C",
  email text not null,
  given_name text not null,
  family_name text,
  personal_code text collate "C",
  created_at timestamptz not null,
  updated_at timestamptz not null,
  constraint giftcard_customers_pkey primary key (id),
  constraint giftcard_customers_external_id_key unique (tenant_id, external_id),
  constraint giftcard_customers_personal_code_key unique (tenant_id, personal_code),
  constraint giftcard_customers_personal_code_is_plain check (personal_code ~ '^[A-Z0-9]{1,10}[0-9]{4}$')
);
-- Without an external id, the address identifies the customer.
create unique index giftcard_customers_email_key on public.giftcard_customers (tenant_id, lower(email) collate "C")
    where external_id is null;

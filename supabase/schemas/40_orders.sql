-- Orders and what they became. Money is in minor units.

create table public.giftcard_orders (
  tenant_id text collate "C" not null default 'default',
  correlation_id text collate "C" not null,
  idempotency_key text collate "C",
  body_hash text not null,
  amount bigint not null,
  currency text not null,
  customer_id bigint,
  created_at timestamptz not null,
  constraint giftcard_orders_pkey primary key (tenant_id, correlation_id),
  constraint giftcard_orders_idempotency_key_key unique (tenant_id, idempotency_key),
  constraint giftcard_orders_amount_is_positive check (amount > 0)
);
create index giftcard_orders_by_customer on public.giftcard_orders (customer_id) where customer_id is not null;

comment on column public.giftcard_orders.customer_id is
  'Known once customer_ingest has run: erasing a customer finds the order by it.';

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
create unique index giftcard_customers_email_key on public.giftcard_customers (tenant_id, lower(email))
    where external_id is null;

create table public.giftcard_payments (
  id bigint generated always as identity,
  tenant_id text collate "C" not null,
  correlation_id text collate "C" not null,
  idempotency_key text collate "C" not null,
  provider text not null,
  provider_ref text not null,
  amount bigint not null,
  currency text not null,
  card_id bigint,
  created_at timestamptz not null,
  constraint giftcard_payments_pkey primary key (id),
  constraint giftcard_payments_order_key unique (tenant_id, correlation_id),
  constraint giftcard_payments_idempotency_key_key unique (idempotency_key),
  constraint giftcard_payments_amount_is_positive check (amount > 0)
);
create index giftcard_payments_without_card on public.giftcard_payments (created_at, id) where card_id is null;

comment on table public.giftcard_payments is
  'Money taken: one payment per order. With the provider ledger this row is the payment itself.';

create table public.giftcard_cards (
  id bigint generated always as identity,
  tenant_id text collate "C" not null,
  correlation_id text collate "C" not null,
  customer_id bigint,
  provider text not null,
  provider_ref text not null,
  number_encrypted text not null,
  number_hash text collate "C" not null,
  last4 text not null,
  amount bigint not null,
  balance bigint not null,
  currency text not null,
  state text not null default 'active',
  created_at timestamptz not null,
  vendor_updated_at timestamptz,
  constraint giftcard_cards_pkey primary key (id),
  constraint giftcard_cards_order_key unique (tenant_id, correlation_id),
  constraint giftcard_cards_number_key unique (number_hash),
  constraint giftcard_cards_customer_fkey foreign key (customer_id) references public.giftcard_customers (id),
  constraint giftcard_cards_state_is_known check (state in ('active', 'blocked', 'redeemed')),
  constraint giftcard_cards_balance_is_not_negative check (amount > 0 and balance >= 0),
  constraint giftcard_cards_last4_is_four_digits check (last4 ~ '^[0-9]{4}$')
);

create index giftcard_cards_by_customer on public.giftcard_cards (customer_id);
create index giftcard_cards_by_reference on public.giftcard_cards (tenant_id, provider_ref);

comment on table public.giftcard_cards is
  'One card per order. The number is encrypted; number_hash (keyed) finds it, last4 shows it.';
comment on column public.giftcard_cards.vendor_updated_at is
  'The vendor''s time of the newest known balance and state: an older event changes nothing.';

-- Up Migration

-- Addresses that an organization wants to notify by e-mail. Each confirms once; until then it gets one mail that asks for it.
create table email_addresses (
  organization_id uuid not null references organizations (id),
  -- In lower case.
  address text not null,
  created_at timestamptz not null default now(),
  -- When the newest mail that asks for the confirmation was sent; null: one waits to be sent.
  requested_at timestamptz,
  requests integer not null default 0,
  -- The mail that waits is not sent before.
  not_before timestamptz not null default now(),
  confirmed_at timestamptz,
  primary key (organization_id, address)
);

create index email_addresses_waiting on email_addresses (not_before)
  where requested_at is null and confirmed_at is null;
create index email_addresses_by_address on email_addresses (address, requested_at);

-- Down Migration

drop table email_addresses;

-- Up Migration

-- E-mails of each organization in the last hour. It is apart from the log of deliveries: to delete a target or to send a
-- delivery again forgets nothing here. A crash of Postgres loses it, which does no harm.
create unlogged table sent_emails (
  organization_id uuid primary key,
  -- One entry per recipient and attempt, oldest first.
  sent_at timestamptz[] not null default '{}',
  -- Until then the first e-mail that waits does not fit into its hour.
  blocked_until timestamptz
) with (fillfactor = 50);

-- Down Migration

drop table sent_emails;

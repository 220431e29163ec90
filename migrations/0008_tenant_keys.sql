-- Customers by their own names: the value that the tenant column of a model has for a project.
--
-- It is given when the project is created and never changes: what was delivered belongs to it.

alter table projects
  -- Null: the project's id.
  add column tenant_key text,
  -- What PostgreSQL can take for the same value has the same identity, in any type that a tenant column may have.
  add column tenant_identity text;
create unique index projects_by_tenant_identity on projects ((coalesce(tenant_identity, id::text)));

-- Since when an operator has disabled it: its keys are refused, and its exports are paused.
alter table organizations add column disabled_at timestamptz;
alter table projects add column disabled_at timestamptz;

-- An operator's key belongs to no organization.
alter table api_keys alter column organization_id drop not null;
create index api_keys_of_operators on api_keys (created_at) where organization_id is null;

-- Up Migration

-- The sources of an organization's own plugins, by their content: a run pins the digest, so a row never changes.
-- Retention deletes a source that no plugin has any more, once no run and no receipt names it.
create table plugin_sources (
  -- Of the source in UTF-8, hexadecimal.
  sha256 text primary key,
  source text not null,
  created_at timestamptz not null default now(),
  -- When a plugin got another source instead of this one; null: never.
  replaced_at timestamptz
);
alter table plugins add column source_sha256 text references plugin_sources (sha256);

-- A trigger, since the build before this one changes sources too while a release rolls out.
create function keep_plugin_source() returns trigger language plpgsql as $$
begin
  new.source_sha256 := encode(sha256(convert_to(new.source, 'UTF8')), 'hex');
  insert into plugin_sources (sha256, source) values (new.source_sha256, new.source) on conflict do nothing;
  if tg_op = 'UPDATE' and old.source_sha256 is distinct from new.source_sha256 then
    update plugin_sources set replaced_at = now() where sha256 = old.source_sha256;
  end if;
  return new;
end $$;
create trigger keep_plugin_source before insert or update of source on plugins
  for each row execute function keep_plugin_source();
update plugins set source = source;

-- Down Migration

drop trigger keep_plugin_source on plugins;
drop function keep_plugin_source;
alter table plugins drop column source_sha256;
drop table plugin_sources;

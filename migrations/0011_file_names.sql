-- The default of file_name has no colons. Exports that exist keep the names that their files have.
update batch_exports
   set destination_config = destination_config || '{"file_name": "{data_interval_start}-{data_interval_end}.{generation}-{part}"}'
 where not destination_config ? 'file_name';

-- As files: objects beside the files of an interval that its manifest does not list.
alter table receipts add column side_files jsonb not null default '[]';

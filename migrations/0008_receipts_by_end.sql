-- A statement that looks an interval up by export, start and end may use this index until PostgreSQL has statistics of the table.
-- Without the export in it, such a lookup read the receipts of all exports whose intervals end at that instant.
-- Contracts: 0.1.0 stopped using receipts_by_end, because the index below serves the same statements.
create index receipts_by_end_of_export on receipts (data_interval_end, export_id);
drop index receipts_by_end;

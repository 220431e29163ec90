-- What is empty between two bursts keeps its pages. A plan that was made for a table without pages reads all of it, and a
-- connection keeps such a plan while thousands of rows come.
alter table outbox set (vacuum_truncate = false);
alter table uploads set (vacuum_truncate = false);

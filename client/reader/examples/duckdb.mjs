// node duckdb.mjs --bucket FOLDER --prefix events --key FINGERPRINT --target events.duckdb
// Holds each row of the export once. Run it as often as you like, for example after each statement. The view present_events
// has the rows that count: of mode snapshot those of the newest one, of mode changes the newest state of each.
import { DuckDBInstance } from '@duckdb/node-api';
import { readChanges } from '../index.js';
import { failpoint, readArguments, readFrom, rowsOf } from './bucket.mjs';

const { bucket, prefix, key, target, stopAt } = readArguments();
const step = failpoint(stopAt);
// DuckDB lets one process at a time write the file.
const database = await (await DuckDBInstance.create(target)).connect();
const query = async (sql, values = []) =>
  (await database.runAndReadAll(sql, values)).getRowObjects();
await query(
  'CREATE TABLE IF NOT EXISTS events (id BIGINT, person VARCHAR, op VARCHAR, sluice_file VARCHAR NOT NULL)',
);
await query(
  'CREATE TABLE IF NOT EXISTS sluice_files (file VARCHAR, interval_start VARCHAR NOT NULL)',
);
await query(
  'CREATE TABLE IF NOT EXISTS sluice_intervals (interval_start VARCHAR NOT NULL, mode VARCHAR NOT NULL, element BIGINT, follows BIGINT)',
);
await query('CREATE TABLE IF NOT EXISTS sluice_cursor (number INTEGER, sha256 VARCHAR)');
await query(`
  CREATE OR REPLACE VIEW present_events AS
    WITH held AS (
      SELECT e.*, i.mode, i.element, i.interval_start FROM events e
      JOIN sluice_files f ON f.file = e.sluice_file JOIN sluice_intervals i ON i.interval_start = f.interval_start)
    SELECT id, person FROM held
     WHERE mode = 'append' OR (mode = 'snapshot' AND interval_start = (SELECT max(interval_start) FROM sluice_intervals WHERE mode = 'snapshot'))
    UNION ALL
    SELECT id, person FROM (
      SELECT id, person, op, row_number() OVER (PARTITION BY id ORDER BY element DESC) AS place FROM held
       WHERE mode = 'changes' AND element >= (SELECT max(element) FROM sluice_intervals WHERE mode = 'changes' AND follows IS NULL)) newest
     WHERE place = 1 AND op <> 'd'`);

await query('BEGIN');
const [stored] = await query('SELECT number, sha256 FROM sluice_cursor');
step('begin');

async function heldFiles({ start }) {
  const sql = 'SELECT file FROM sluice_files WHERE interval_start = $1';
  return (await query(sql, [start])).map(({ file }) => file);
}
const options = {
  readObject: readFrom(bucket),
  prefix,
  keys: [key],
  cursor: stored ?? null,
  heldFiles,
};
for await (const change of readChanges(options)) {
  if (change.type === 'cursor') {
    step('cursor');
    const { number, sha256 } = change.cursor;
    await query('DELETE FROM sluice_cursor');
    await query('INSERT INTO sluice_cursor VALUES ($1, $2)', [number, sha256]);
    continue;
  }
  // An interval without rows counts too: it may be the newest snapshot, or begin the changes anew.
  const { start, mode, element } = change;
  await query('DELETE FROM sluice_intervals WHERE interval_start = $1', [start]);
  if (mode !== null) {
    const values = [start, mode, element?.number ?? null, element?.follows ?? null];
    await query('INSERT INTO sluice_intervals VALUES ($1, $2, $3, $4)', values);
  }
  step('interval');
  for (const file of change.remove) {
    await query('DELETE FROM events WHERE sluice_file = $1', [file]);
    step('removed');
    await query('DELETE FROM sluice_files WHERE file = $1', [file]);
  }
  for (const file of change.add) {
    await query('INSERT INTO sluice_files VALUES ($1, $2)', [file.id, change.start]);
    step('file');
    for (const { id, person, _sluice_op: op } of await rowsOf(file)) {
      const values = [id, person, op ?? null, file.id];
      await query('INSERT INTO events VALUES ($1, $2, $3, $4)', values);
      step('row');
    }
  }
}
step('commit');
await query('COMMIT');
step('committed');
database.closeSync();

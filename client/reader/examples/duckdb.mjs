// node duckdb.mjs --bucket FOLDER --prefix events --key FINGERPRINT --target events.duckdb
// Holds each row of the export once. Run it as often as you like, for example after each statement.
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
  'CREATE TABLE IF NOT EXISTS events (id BIGINT, person VARCHAR, sluice_file VARCHAR NOT NULL)',
);
await query(
  'CREATE TABLE IF NOT EXISTS sluice_files (file VARCHAR, interval_start VARCHAR NOT NULL)',
);
await query('CREATE TABLE IF NOT EXISTS sluice_cursor (number INTEGER, sha256 VARCHAR)');

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
  for (const file of change.remove) {
    await query('DELETE FROM events WHERE sluice_file = $1', [file]);
    step('removed');
    await query('DELETE FROM sluice_files WHERE file = $1', [file]);
  }
  for (const file of change.add) {
    await query('INSERT INTO sluice_files VALUES ($1, $2)', [file.id, change.start]);
    step('file');
    for (const { id, person } of await rowsOf(file)) {
      await query('INSERT INTO events VALUES ($1, $2, $3)', [id, person, file.id]);
      step('row');
    }
  }
}
step('commit');
await query('COMMIT');
step('committed');
database.closeSync();

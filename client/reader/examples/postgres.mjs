// node postgres.mjs --bucket FOLDER --prefix events --key FINGERPRINT --target postgres://…
// Holds each row of the export once. Run it as often as you like, for example after each statement. The view present_events
// has the rows that count: of mode snapshot those of the newest one, of mode changes the newest state of each.
import pg from 'pg';
import { readChanges } from '../index.js';
import { failpoint, readArguments, readFrom, rowsOf } from './bucket.mjs';

const { bucket, prefix, key, target, stopAt } = readArguments();
const step = failpoint(stopAt);
const client = new pg.Client({ connectionString: target });
await client.connect();
await client.query(`
  CREATE TABLE IF NOT EXISTS events (id bigint, person text, op text, sluice_file text NOT NULL);
  CREATE INDEX IF NOT EXISTS events_file ON events (sluice_file);
  CREATE TABLE IF NOT EXISTS sluice_files (file text PRIMARY KEY, interval_start text NOT NULL);
  CREATE TABLE IF NOT EXISTS sluice_intervals (interval_start text PRIMARY KEY, mode text NOT NULL, element bigint, follows bigint);
  CREATE TABLE IF NOT EXISTS sluice_cursor (one boolean PRIMARY KEY CHECK (one), number bigint, sha256 text);
  INSERT INTO sluice_cursor VALUES (true) ON CONFLICT DO NOTHING;
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

await client.query('BEGIN');
// A second process waits here until the first has committed.
const { rows } = await client.query('SELECT number, sha256 FROM sluice_cursor FOR UPDATE');
const cursor = rows[0].sha256 ? { number: Number(rows[0].number), sha256: rows[0].sha256 } : null;
step('begin');

async function heldFiles({ start }) {
  const sql = 'SELECT file FROM sluice_files WHERE interval_start = $1';
  return (await client.query(sql, [start])).rows.map(({ file }) => file);
}
for await (const change of readChanges({
  readObject: readFrom(bucket),
  prefix,
  keys: [key],
  cursor,
  heldFiles,
})) {
  if (change.type === 'cursor') {
    step('cursor');
    const { number, sha256 } = change.cursor;
    await client.query('UPDATE sluice_cursor SET number = $1, sha256 = $2', [number, sha256]);
    continue;
  }
  // An interval without rows counts too: it may be the newest snapshot, or begin the changes anew.
  const { start, mode, element } = change;
  await client.query('DELETE FROM sluice_intervals WHERE interval_start = $1', [start]);
  if (mode !== null) {
    const values = [start, mode, element?.number ?? null, element?.follows ?? null];
    await client.query('INSERT INTO sluice_intervals VALUES ($1, $2, $3, $4)', values);
  }
  step('interval');
  await client.query('DELETE FROM events WHERE sluice_file = ANY ($1)', [change.remove]);
  step('removed');
  await client.query('DELETE FROM sluice_files WHERE file = ANY ($1)', [change.remove]);
  for (const file of change.add) {
    await client.query('INSERT INTO sluice_files VALUES ($1, $2)', [file.id, change.start]);
    step('file');
    for (const { id, person, _sluice_op: op } of await rowsOf(file)) {
      const values = [id, person, op ?? null, file.id];
      await client.query('INSERT INTO events VALUES ($1, $2, $3, $4)', values);
      step('row');
    }
  }
}
step('commit');
await client.query('COMMIT');
step('committed');
await client.end();

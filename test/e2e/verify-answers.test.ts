import { createHash, randomUUID } from 'node:crypto';
import { CreateMultipartUploadCommand, GetObjectCommand } from '@aws-sdk/client-s3';
import { afterEach, describe, expect, test } from 'vitest';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  projectPath,
  type S3ExportChanges,
  untilEnded,
} from '../support/exported-events.ts';
import { bucket, startInstallation } from '../support/installation.ts';
import { packedList } from '../support/packed-list.ts';
import { until } from '../support/until.ts';
import { openVerifySide, type VerifySide } from '../support/verify-side.ts';
import { useStage } from '../support/use-stage.ts';

/** What `sluice verify` says about sources, buckets and runs that change, one export after the other. */

const other = 'elsewhere';
const nextHour = { start: hour.end, end: '2024-03-01T02:00:00Z' };
const installation = useStage(() =>
  startInstallation({
    workers: 1,
    checksNamedKeys: false,
    s3: { buckets: [bucket, other] },
    env: { ALLOWED_PRIVATE_ENDPOINTS: '127.0.0.1,localhost' },
  }),
);
const side = useStage(async () => openVerifySide(installation));
afterEach(() => side.clean());

const verify = (...asked: Parameters<VerifySide['verify']>) => side.verify(...asked);
const put = (...asked: Parameters<VerifySide['put']>) => side.put(...asked);
const exportHour = (changes: S3ExportChanges = {}) => side.exportHour(changes);

async function change(id: string, config: Readonly<Record<string, unknown>>): Promise<void> {
  const { client } = installation;
  const path = `${projectPath(installation)}/batch_exports/${id}/`;
  const { status, text } = await client.patch(path, { destination: { config } });
  expect(status, text).toBe(200);
}

const strayOf = (folder: string, generation = 9) =>
  `${folder}/20240301T000000Z-20240301T010000Z.v${generation}.jsonl`;

test('a table whose list of manifests unpacks to GiB ends no process', async () => {
  const { client, pool, s3, tenant, workers } = installation;
  const config = { file_format: 'Parquet', table_format: 'iceberg', prefix: '{batch_export_id}/' };
  const id = await exportHour({ name: 'A hostile table', config });
  const path = `${projectPath(installation)}/batch_exports/${id}/`;
  // A second generation: snapshots need files of the first, so the sweep looks at the table again and again.
  await insertEvents(pool, { team: tenant.projectIds[0], rows: 5 });
  const isFree = async () =>
    (await pool.query(`select from backfills where status = 'Running'`)).rowCount === 0;
  await until(isFree);
  await backfill(installation, id);
  await untilEnded(installation, id, { count: 2 });
  const victim = await createS3Export(installation, { name: 'A victim' });
  await backfill(installation, victim);
  await untilEnded(installation, victim);
  const [newest] = (await s3.objects(bucket))
    .map(({ key }) => key)
    .filter((key) => key.startsWith(id) && key.endsWith('.metadata.json'))
    .toSorted()
    .reverse();
  const table = JSON.parse(String(await s3.body(bucket, newest ?? '')));
  for (const snapshot of table.snapshots) {
    await put(snapshot['manifest-list'].replace(`s3://${bucket}/`, ''), packedList());
  }

  await until(isFree);
  await pool.query('update leftover_files set tried_at = null, tries = 0');
  await backfill(installation, id, nextHour);
  await backfill(installation, victim, nextHour);
  const ended = await untilEnded(installation, victim, { count: 2 });
  expect(ended.at(-1)).toMatchObject({ status: 'Completed', crashes: 0 });
  const runs = await untilEnded(installation, id, { count: 3 });
  expect(runs.at(-1)).toMatchObject({
    ...{ status: 'Failed', errorCode: 'destination.table_damaged', crashes: 0 },
  });
  const { lines } = await verify();
  expect(lines).toContainEqual(expect.stringMatching(/^proven .*A victim/));
  expect(lines).toContainEqual(expect.stringMatching(/^BROKEN .*A hostile table/));

  await client.delete(path);
  await pool.query('update leftover_files set tried_at = null, tries = 0');
  const isTried = async () =>
    (await pool.query('select from leftover_files where tried_at is null')).rowCount === 0;
  await until(isTried, { message: 'the sweep has looked at the table' });
  // No process died: the sweep forgets what it has done.
  const isForgotten = async () => (await pool.query('select from guarded_work')).rowCount === 0;
  await until(isForgotten, { message: 'the sweep is done' });
  for (const worker of workers) expect(worker.hasExited()).toBe(false);
});

describe('a row of the source', () => {
  test('that was pruned or moved after its export is counted, and only --strict fails', async () => {
    const { pool, sql } = installation;
    const id = await exportHour();
    await pool.query(`delete from events where (properties->>'n')::int < 10`);
    await sql`update events set inserted_at = inserted_at + interval '5 h'
      where (properties->>'n')::int between 10 and 14`;
    const { code, lines } = await verify();
    expect(lines).toEqual([
      expect.stringMatching(
        new RegExp(
          `^proven {4}Events to S3 \\(${id}\\): 1 interval, 1 file, 100 rows, .*; 10 rows gone from the source; 5 rows moved to another interval$`,
        ),
      ),
      expect.stringMatching(/^verified 1 export \(1 proven\): .* 10 rows gone/),
    ]);
    expect(code).toBe(0);
    const strict = await verify(['--strict']);
    expect(strict.code).toBe(1);
    expect(strict.lines[0]).toMatch(/^CHANGED {3}Events to S3/);
    expect(strict.lines[1]).toMatch(
      /2024-03-01T00:00:00.*: 10 rows gone from the source: [0-9a-f-]{36}/,
    );

    await pool.query('truncate events');
    const empty = await verify();
    expect(empty.code).toBe(0);
    expect(empty.lines[0]).toMatch(/^proven .*; 100 rows gone from the source$/);
  });

  test('that the query no longer selects is gone, and one that came late is missing unless a look-back is due', async () => {
    const { pool, tenant } = installation;
    const dsl_query = `SELECT uuid, event, inserted_at FROM events WHERE event <> 'deleted'`;
    const id = await exportHour({ dsl_query });
    await pool.query(`update events set event = 'deleted' where (properties->>'n')::int = 3`);
    await insertEvents(pool, { team: tenant.projectIds[0], rows: 2 });
    const late = await verify();
    expect(late.code).toBe(1);
    expect(late.lines[0]).toMatch(
      /^BROKEN .*: 1 breach\. Run `sluice backfill .* With look_back_hours of the export, Sluice adds late rows by itself from then on\.$/,
    );
    expect(late.lines[1]).toMatch(/I3 .* 2 rows missing from the files, because they came after/);
    await pool.query('update receipts set settled = false where export_id = $1', [id]);
    const awaited = await verify();
    expect(awaited.code).toBe(0);
    expect(awaited.lines[0]).toMatch(
      /^proven .*; 1 row gone from the source; 2 rows came late; the next look-back adds them$/,
    );
    expect((await verify(['--strict'])).code).toBe(1);
  });

  test('that is in the files twice, or that the run should have written, is a breach beside pruned rows', async () => {
    const { pool, s3 } = installation;
    const id = await exportHour({ config: { manifest: false } });
    const [file] = (await s3.objects(bucket)).filter(({ key }) => key.startsWith(id));
    const text = (await s3.body(bucket, file?.key ?? '')).toString();
    const [first = '', second = '', ...others] = text.trimEnd().split('\n');
    /** As if the run had written these lines. */
    const forge = async (lines: readonly string[]) => {
      const body = Buffer.from(`${lines.join('\n')}\n`);
      await put(file?.key ?? '', body);
      const sha256 = createHash('sha256').update(body).digest('hex');
      await pool.query(
        `update receipts set rows = $2::int, files = jsonb_build_array(files->0 || jsonb_build_object('rows', $2::int, 'bytes', $3::int, 'sha256', $4::text))
          where export_id = $1`,
        [id, lines.length, body.length, sha256],
      );
    };
    await pool.query(`delete from events where (properties->>'n')::int > 50`);
    await forge([first, first, second, ...others]);
    const doubled = await verify();
    expect(doubled.code).toBe(1);
    expect(doubled.out).toMatch(/I3 .* 1 row doubled: /);
    expect(doubled.lines).toHaveLength(3);

    await forge([second, ...others]);
    const lost = await verify();
    expect(lost.code).toBe(1);
    expect(lost.lines[1]).toMatch(/I3 .* 1 row missing from the files: /);
    // As many as the run read, but one of them twice.
    await forge([second, second, ...others]);
    const both = await verify();
    expect(both.out).toMatch(/1 row doubled: /);
    expect(both.out).toMatch(/1 row missing from the files: /);
  });

  test('is only counted if the files do not have its key, and the proof says so', async () => {
    const { pool } = installation;
    await exportHour({ dsl_query: 'SELECT event FROM events' });
    const counted = 'the rows of 1 interval were only counted: the files do not have the keys';
    expect((await verify()).lines[0]).toContain(`; ${counted}`);
    await pool.query(`delete from events where (properties->>'n')::int < 10`);
    const { code, lines } = await verify();
    expect(code).toBe(0);
    expect(lines[0]).toContain(`; 10 rows gone from the source; ${counted}`);
  });
});

test('without a right to list, the files are proven, and the line says that strays were not looked for', async () => {
  const { s3 } = installation;
  await exportHour();
  await s3.setQuirks({ listUploads: 'refuse' });
  const uploads = await verify();
  expect(uploads.code).toBe(0);
  expect(uploads.lines[0]).toMatch(
    /^proven .* 100 rows, .*; unfinished uploads were not looked for: the store does not list them$/,
  );
  for (const operation of ['ListObjectsV2', 'ListMultipartUploads'] as const) {
    const denied = { status: 403, code: 'AccessDenied', message: 'Access Denied' };
    await s3.faults.add({ match: { operation }, times: 1_000, effect: denied });
  }
  const denied = await verify();
  expect(denied.code).toBe(0);
  expect(denied.lines[0]).toMatch(/^proven .*; strays were not looked for: the key may not list$/);
});

describe('strays', () => {
  test('are found while other exports run, at former prefixes, and though another bucket has the same key', async () => {
    const { pool, s3 } = installation;
    const id = await exportHour({ config: { prefix: 'first' } });
    const there = await createS3Export(installation, {
      config: { bucket_name: other, prefix: 'second' },
    });
    await backfill(installation, there);
    await untilEnded(installation, there);
    await change(id, { prefix: 'second' });
    await backfill(installation, id);
    await untilEnded(installation, id, { count: 2 });
    expect((await verify()).code).toBe(0);

    // Some other run is live.
    await backfill(installation, there, nextHour);
    await untilEnded(installation, there, { count: 2 });
    const makeLive = `update runs set status = $3, finished_at = case $3 when 'Starting' then null else now() end,
              lease_expires_at = case $3 when 'Starting' then now() + interval '1 hour' end
       where id = (select id from runs where export_id = $1 and data_interval_start = $2 order by generation desc limit 1)`;
    await pool.query(makeLive, [there, nextHour.start, 'Starting']);
    const [known] = (await s3.objects(other)).filter(({ key }) => key.endsWith('010000Z.jsonl'));
    expect(known?.key).toMatch(/^second\/20240301T00/);
    const keys = [strayOf('first'), strayOf('second')];
    for (const key of keys) await put(key);
    await put('second/notes.txt');
    const { UploadId } = await side.store.send(
      new CreateMultipartUploadCommand({ Bucket: bucket, Key: keys[1] }),
    );
    const { code, out } = await verify(['--export', id]);
    expect(code).toBe(1);
    for (const key of keys) expect(out).toContain(`${key} is in no current manifest`);
    expect(out).toContain(`${UploadId} of ${keys[1]} is neither completed nor aborted`);
    expect(out).toMatch(/: 3 breaches\./);
    const oldFile = ({ key }: { readonly key: string }) => /^first.*01\d+Z\.jsonl$/.test(key);
    await until(async () => !(await s3.objects(bucket)).some(oldFile));
    // Only an interval that a run of this place writes is left out.
    await pool.query(makeLive, [id, hour.start, 'Starting']);
    const live = await verify(['--export', id]);
    expect(live.out).toMatch(/: 1 breach\./);
    expect(live.out).toContain(`${keys[0]} is in no current manifest`);
    await s3.remove(bucket, keys[0] ?? '');
    const written = await verify(['--export', id]);
    expect(written.code).toBe(0);
    expect(written.out).toMatch(/; 2 objects of intervals that a run is writing$/m);
    await pool.query(makeLive, [id, hour.start, 'Completed']);
    await pool.query(makeLive, [there, nextHour.start, 'Completed']);
    for (const key of keys) await s3.remove(bucket, key);
  });

  test('are found at a former bucket, whose current files are read too', async () => {
    const { s3, pool } = installation;
    const id = await exportHour({ config: { prefix: 'moves' } });
    await change(id, { bucket_name: other });
    expect((await verify()).lines[0]).toMatch(/^proven .*: 1 interval, 1 file, 100 rows/);
    await put(strayOf('moves'));
    const stray = await verify();
    expect(stray.code).toBe(1);
    expect(stray.out).toContain(`${strayOf('moves')} is in no current manifest`);
    await s3.remove(bucket, strayOf('moves'));
    const [file] = (await s3.objects(bucket)).filter(({ key }) => /^moves.*jsonl$/.test(key));
    const body = await s3.body(bucket, file?.key ?? '');
    await s3.remove(bucket, file?.key ?? '');
    expect((await verify()).out).toContain(`${file?.key} is missing`);
    await put(file?.key ?? '', body);
    // A day later the secrets of the former place are deleted.
    await pool.query('update former_destinations set destination_secrets = null');
    const locked = await verify();
    expect(locked.code).toBe(0);
    expect(locked.lines[0]).toMatch(
      /^proven .*: 0 intervals.*; a former destination was not looked at: its secrets are no longer kept; 1 interval at a former destination: not read$/,
    );
  });

  test('are not what an export has on record at another address of the same bucket', async () => {
    const { pool, sql, s3 } = installation;
    const id = await exportHour({ config: { prefix: 'alias' } });
    const key = strayOf('alias');
    await put(key);
    await sql`insert into leftover_files (export_id, data_interval_start, data_interval_end,
      destination_version, key, generation, manifest_key, uncommitted) select export_id,
      data_interval_start, data_interval_end, destination_version, ${key}, 9, manifest_key, true
      from receipts where export_id = ${id}`;
    // No sweep compares the two addresses.
    await pool.query(
      `create function postpone() returns trigger language plpgsql as $$ begin new.compare_after = 'infinity'; return new; end $$;
       create trigger postpone before insert on former_destinations for each row execute function postpone()`,
    );
    const { port } = new URL(s3.endpoint);
    await change(id, { endpoint_url: `http://localhost:${port}` });
    await pool.query('drop function postpone cascade');
    expect(await verify(['--export', id])).toMatchObject({ code: 0 });
    await pool.query('update former_destinations set compare_after = null');
    const places = () => pool.query('select from former_destinations where export_id = $1', [id]);
    await until(async () => (await places()).rowCount === 0, {
      message: 'the sweep has found that they are one place',
    });
    expect(await verify(['--export', id])).toMatchObject({ code: 0 });
    await s3.remove(bucket, key);
  });

  test('of a lost history do not vouch for themselves', async () => {
    const id = await exportHour({ config: { prefix: 'restored' } });
    const manifestKey = 'restored/20240301T000000Z-20240301T010000Z_manifest.json';
    const found = await side.store.send(new GetObjectCommand({ Bucket: bucket, Key: manifestKey }));
    const manifest = JSON.parse((await found.Body?.transformToString()) ?? '');
    const lost = 'restored/20240301T020000Z-20240301T030000Z';
    const files = [{ key: `${lost}.jsonl`, rows: 1, bytes: 3, sha256: '' }];
    await put(`${lost}.jsonl`);
    await put(
      `${lost}_manifest.json`,
      JSON.stringify({ ...manifest, run_id: randomUUID(), files }),
    );
    const { code, out } = await verify(['--export', id]);
    expect(code).toBe(1);
    expect(out).toMatch(/: 1 breach\./);
    expect(out).toMatch(
      /_manifest\.json is of run .* which this database does not know: of a history/,
    );
    await installation.s3.remove(bucket, `${lost}.jsonl`);
    await installation.s3.remove(bucket, `${lost}_manifest.json`);
  });
});

describe('beside a run', () => {
  test('that replaces the files while they are read, there is no false alarm', async () => {
    const { pool, s3 } = installation;
    const id = await exportHour();
    await s3.faults.add({
      match: { operation: 'GetObject', key: /\.jsonl$/ },
      times: 1,
      effect: { delayMs: 8_000 },
    });
    const verifying = verify();
    const waiting = async () =>
      (await s3.requests()).some(
        ({ operation, key }) => operation === 'GetObject' && /jsonl$/.test(key ?? ''),
      );
    await until(waiting, { message: () => 'verify reads the file' });
    await pool.query(`update events set event = 'changed'`);
    await backfill(installation, id);
    await untilEnded(installation, id, { count: 2 });
    await until(
      async () =>
        (await s3.objects(bucket)).every(
          ({ key }) => !key.startsWith(id) || /v2|manifest/.test(key),
        ),
      { timeoutMs: 7_000, message: () => 'the replaced file is removed' },
    );
    const { code, out } = await verifying;
    expect(code, out).toBe(0);
    expect(out).toMatch(/^proven .* 100 rows/);
  });

  test('that has put its manifest and not recorded it yet, the interval is left out by name', async () => {
    const { pool, s3 } = installation;
    const id = await exportHour();
    const [at] = (await s3.objects(bucket)).filter(
      ({ key }) => key.startsWith(id) && key.endsWith('_manifest.json'),
    );
    const manifest = JSON.parse((await s3.body(bucket, at?.key ?? '')).toString());
    await put(at?.key ?? '', JSON.stringify({ ...manifest, generation: 2 }));
    expect((await verify()).out).toMatch(/BROKEN .*\n.*is of generation 2/);
    const setStatus = `update runs set status = $2, finished_at = case $2 when 'Starting' then null else now() end,
              lease_expires_at = case $2 when 'Starting' then now() + interval '1 hour' end where export_id = $1`;
    await pool.query(setStatus, [id, 'Starting']);
    const { code, lines } = await verify();
    expect(code).toBe(0);
    expect(lines[0]).toMatch(
      /1 interval left out: 2024-03-01T00:00:00.* is being written by a run/,
    );
    await pool.query(setStatus, [id, 'Completed']);
  });
});

import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  projectPath,
  type RunRow,
  readRuns,
  retireExports,
  untilEnded,
} from '../../support/exported-events.ts';
import { bucket, startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { casesOf } from '../../support/nightly.ts';
import type { FaultEffect } from '../../support/s3-server/faults.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

const rows = 40;
/** A part of 5 MiB and a short one. */
const large = { start: '2024-03-02T00:00:00Z', end: '2024-03-02T01:00:00Z', rows: 1_600 };
const forever = Number.POSITIVE_INFINITY;
const installation = useStage(() =>
  startInstallation({
    workers: 1,
    // Until re-runs write keys of their own.
    env: { UPLOAD_STALL_SECONDS: '1', RETRY_MAX_ATTEMPTS: '4' },
  }),
);
beforeAll(async () => {
  const team = installation.tenant.projectIds[0];
  await insertEvents(installation.pool, { team, rows });
  await insertEvents(installation.pool, { team, rowBytes: 4_000, ...large });
});
afterEach(async () => {
  await installation?.s3.faults.clear();
  await installation?.s3.setQuirks({});
});

async function logOf(run: RunRow | undefined): Promise<string> {
  const { rows: entries } = await installation.pool.query<{ line: string }>(
    `select level || ' ' || message as line from log_entries where run_id = $1 order by id`,
    [run?.id],
  );
  return entries.map(({ line }) => line).join('\n');
}

async function traitsOf(exportId: string): Promise<unknown> {
  const { rows: found } = await installation.pool.query<{ traits: unknown }>(
    'select store_traits as traits from batch_exports where id = $1',
    [exportId],
  );
  return found[0]?.traits;
}

/** An export whose first interval has arrived. */
async function workingExport(
  name: string,
  range: typeof large = { ...hour, rows },
): Promise<string> {
  const exportId = await createS3Export(installation, { name });
  await backfill(installation, exportId, range);
  expect(await untilEnded(installation, exportId)).toMatchObject([
    { status: 'Completed', rows: range.rows },
  ]);
  return exportId;
}

/** Runs the interval of an export once more, with other bytes. */
async function rerun(
  exportId: string,
  range: { start: string; end: string } = hour,
  { columns = 'uuid, event, properties, inserted_at', count = 2 } = {},
) {
  const query = { dsl_query: `SELECT ${columns} FROM events` };
  const path = `${projectPath(installation)}/batch_exports/${exportId}/`;
  expect((await installation.client.patch(path, query)).status).toBe(200);
  // The backfill before it ends a little after its run.
  await until(() => backfill(installation, exportId, range), { message: 'a backfill starts' });
  return (await untilEnded(installation, exportId, { count })).at(-1);
}

describe('conditions are tested, not assumed', () => {
  test.each([
    ['refuses quotes in If-Match', { quotedIfMatch: 'refuse' }, { ifMatch: 'unquoted' }],
    ['ignores If-Match', { ifMatch: 'ignore' }, { ifMatch: 'none' }],
    ['does not know If-Match', { ifMatch: 'refuse' }, { ifMatch: 'none' }],
    ['ignores If-None-Match', { ifNoneMatch: 'ignore' }, { ifNoneMatch: false }],
  ] as const)('a re-run at a store that %s is whole', async (name, quirks, traits) => {
    await installation.s3.setQuirks(quirks);
    const exportId = await workingExport(name);
    expect(await rerun(exportId)).toMatchObject({ status: 'Completed', rows, faults: 0 });
    expect(await traitsOf(exportId)).toMatchObject(traits);
    await expectInvariants(installation);
    await retireExports(installation);
  });

  test('a store that begins to refuse quotes is probed again, and the run says so', async () => {
    // Only the completion of an upload shows the other change.
    const exportId = await workingExport('changes', large);
    expect(await traitsOf(exportId)).toMatchObject({ ifMatch: 'quoted' });
    await installation.s3.setQuirks({ quotedIfMatch: 'refuse', completeConditions: 'refuse' });
    const run = await rerun(exportId, large);
    expect(run).toMatchObject({ status: 'Completed', rows: large.rows, faults: 0 });
    expect(await logOf(run)).toMatch(/WARNING The store behaved differently than before/);
    // A completion that was refused wrongly is in doubt for this run alone: the next one probes all of it.
    expect(await traitsOf(exportId)).toBeNull();
    const next = await rerun(exportId, large, { columns: 'uuid, event, properties', count: 3 });
    expect(next).toMatchObject({ status: 'Completed', rows: large.rows, faults: 0 });
    expect(await traitsOf(exportId)).toMatchObject({ ifMatch: 'unquoted', completeIfMatch: false });
    await expectInvariants(installation);
    await retireExports(installation);
  });
});

describe('a transient error does not end a run', () => {
  // A 404 that cannot be read is confirmed by a list; there is no such way out of a proxy's page.
  const unread = casesOf<readonly [string, FaultEffect, RegExp]>(
    [
      [
        'a page of a proxy',
        { foreignAnswer: { status: 403, body: '<html>Forbidden</html>' } },
        /WARNING Attempt 1 failed .* \(HTTP 403 with/,
      ],
    ],
    [
      ['cut off in its body', { cutBodyAfterBytes: 50 }, /Completed/],
      ['without a body', { foreignAnswer: { status: 404, body: '', unended: true } }, /Completed/],
    ],
  );

  test.each(unread)(
    'the first read of a manifest is %s for a while',
    async (name, effect, says) => {
      const exportId = await workingExport(name);
      const match = { operation: 'GetObject', key: new RegExp(exportId) } as const;
      await installation.s3.faults.add({ match, times: 9, effect });
      const run = await rerun(exportId);
      expect(run).toMatchObject({ status: 'Completed', rows });
      expect(await logOf(run)).toMatch(says);
      // What is left of the fault would cut the files that the checker reads.
      await installation.s3.faults.clear();
      await expectInvariants(installation);
      await retireExports(installation);
    },
  );

  const denied = { status: 403, code: 'AccessDenied' };
  const deny = (exportId: string, times: number) =>
    installation.s3.faults.add({
      match: { operation: 'CreateMultipartUpload', key: new RegExp(exportId) },
      times,
      effect: denied,
    });

  test('a destination that worked before and denies access once is asked again', async () => {
    const exportId = await workingExport('denied once');
    await deny(exportId, 1);
    await backfill(installation, exportId, large);
    const run = (await untilEnded(installation, exportId, { count: 2 })).at(-1);
    expect(run).toMatchObject({ status: 'Completed', rows: large.rows, attempt: 2, faults: 0 });
    expect(await logOf(run)).toMatch(/WARNING Attempt 1 failed.*tries once more in 1 s/);
    await expectInvariants(installation);
    await retireExports(installation);
  });
});

describe('uploads', () => {
  test.each([
    ['knows no checksums', { checksums: 'drop-parts' }],
    ['takes parts of a completed one', { lateParts: 'take' }],
  ] as const)('one of a killed worker is aborted at a store that %s', async (name, quirks) => {
    await installation.s3.setQuirks(quirks);
    const exportId = await createS3Export(installation, { name });
    await installation.s3.faults.add({
      match: { operation: 'UploadPart', key: new RegExp(exportId) },
      times: forever,
      effect: { halfOpen: true },
    });
    await backfill(installation, exportId, large);
    const held = await until(
      async () => {
        const begun = await installation.s3.uploads(bucket);
        const [run] = await readRuns(installation, exportId);
        return begun.some(({ key }) => key.startsWith(exportId)) ? run : null;
      },
      { message: 'the upload is begun' },
    );
    process.kill(held.holderPid ?? 0, 'SIGKILL');
    await installation.s3.faults.clear();
    await installation.startWorker();
    const [run] = await untilEnded(installation, exportId);
    expect(run).toMatchObject({ status: 'Completed', rows: large.rows, faults: 0 });
    // More if the machine is so busy that a worker cannot keep its short lease.
    expect(run?.attempt).toBeGreaterThanOrEqual(2);
    await expectInvariants(installation);
    expect(await installation.s3.uploads(bucket)).toEqual([]);
    await retireExports(installation);
  });
});

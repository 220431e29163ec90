import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import {
  backfill,
  createS3Export,
  insertEvents,
  retireExports,
  untilEnded,
} from '../../support/exported-events.ts';
import { startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { isNightly } from '../../support/nightly.ts';
import type { Fault } from '../../support/s3-server/faults.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

/** A part of 5 MiB and a short one. */
const rows = 1_500;
const quiet = { start: '2024-03-02T00:00:00Z', end: '2024-03-02T12:00:00Z' };
const forever = Number.POSITIVE_INFINITY;
const installation = useStage(() =>
  startInstallation({ workers: 2, env: { UPLOAD_STALL_SECONDS: '1' } }),
);
beforeAll(async () => {
  const team = installation.tenant.projectIds[0];
  await insertEvents(installation.pool, { team, rows, rowBytes: 4_000 });
  await insertEvents(installation.pool, { team, rows: 60, ...quiet });
});
afterEach(() => installation?.s3.faults.clear());

/** The fault that hits the requests of one export. `s3-uploads.test.ts` has those of a part and of a completion. */
type Faults = readonly (Omit<Fault, 'match'> & { readonly match?: Fault['match'] })[];

const passing: Record<string, Faults> = {
  'SlowDown at 20%': [{ probability: 0.2, effect: { status: 503, code: 'SlowDown' } }],
  'the answers to a completion and to the manifest lost': [
    { match: { operation: 'CompleteMultipartUpload' }, times: 1, effect: { loseResponse: true } },
    { match: { operation: 'PutObject' }, times: 1, effect: { loseResponse: true } },
  ],
};
if (isNightly) {
  const effect = { status: 412, code: 'PreconditionFailed' };
  passing['412 on the conditional put'] = [{ match: { operation: 'PutObject' }, times: 2, effect }];
}

describe('transient faults: backoff, then success', () => {
  const exports = new Map<string, string>();
  beforeAll(async () => {
    for (const [name, faults] of Object.entries(passing)) {
      const id = await createS3Export(installation, { name });
      exports.set(name, id);
      for (const { match, ...fault } of faults) {
        await installation.s3.faults.add({ ...fault, match: { ...match, key: new RegExp(id) } });
      }
    }
    for (const id of exports.values()) await backfill(installation, id);
    for (const id of exports.values()) await untilEnded(installation, id, { timeoutMs: 100_000 });
  });

  test.each(Object.keys(passing))('%s', async (name) => {
    expect(await untilEnded(installation, exports.get(name) ?? '')).toMatchObject([
      { status: 'Completed', rows },
    ]);
  });

  test('all invariants hold after all of them', async () => {
    const intervals = Object.keys(passing).length;
    const verified = await expectInvariants(installation);
    await retireExports(installation);
    expect(verified).toMatchObject({ intervals, rows: intervals * rows });
  });
});

test('nothing but 503 for a while: the slot is freed between attempts, then success', async () => {
  const exportId = await createS3Export(installation, { name: 'no S3 for a while' });
  const other = await createS3Export(installation, { name: 'another export meanwhile' });
  await installation.s3.faults.add({
    match: { key: new RegExp(exportId) },
    times: forever,
    effect: { status: 503, code: 'ServiceUnavailable' },
  });
  await backfill(installation, exportId, quiet, { concurrency: 12 });
  await until(
    async () => {
      const { rows: found } = await installation.sql<{ faults: number }>`select sum(faults)::int
        as faults from runs where export_id = ${exportId}`;
      return (found[0]?.faults ?? 0) >= 1;
    },
    { message: 'an attempt has ended' },
  );
  await backfill(installation, other);
  expect(await untilEnded(installation, other)).toMatchObject([{ status: 'Completed' }]);
  await installation.s3.faults.clear();
  const line = /"err":.*destination\.unavailable.*"msg":"an attempt failed"/;
  expect(installation.workers.map((worker) => worker.output()).join('\n')).toMatch(line);
  const runs = await untilEnded(installation, exportId, { count: 12, timeoutMs: 100_000 });
  expect(runs.map(({ status }) => status)).toEqual(runs.map(() => 'Completed'));
  await expectInvariants(installation);
  await retireExports(installation);
});

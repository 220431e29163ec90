import { afterEach, beforeAll, describe, expect, test } from 'vitest';
import {
  backfill,
  createS3Export,
  insertEvents,
  projectPath,
  retireExports,
  untilEnded,
} from '../../support/exported-events.ts';
import { bucket, startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { isNightly } from '../../support/nightly.ts';
import type { Fault } from '../../support/s3-server/faults.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

/** Three parts of 5 MiB, the last one shorter. */
const rows = 3_000;
const quiet = { start: '2024-03-02T00:00:00Z', end: '2024-03-02T12:00:00Z' };
/** What is wrong at a place is known to all exports there. */
const ownBuckets = ['expired', 'denied-key', 'denied-access'];
const forever = Number.POSITIVE_INFINITY;
const installation = useStage(() =>
  startInstallation({
    workers: 2,
    env: { UPLOAD_STALL_SECONDS: '1' },
    s3: { buckets: [bucket, ...ownBuckets] },
  }),
);
beforeAll(async () => {
  const team = installation.tenant.projectIds[0];
  await insertEvents(installation.pool, { team, rows, rowBytes: 4_000 });
  await insertEvents(installation.pool, { team, rows: 60, ...quiet });
});
afterEach(() => installation?.s3.faults.clear());

/** The fault that hits the requests of one export; the others continue meanwhile. */
type Faults = readonly (Omit<Fault, 'match'> & { readonly match?: Fault['match'] })[];

const passing: Record<string, Faults> = {
  'SlowDown at 20%': [{ probability: 0.2, effect: { status: 503, code: 'SlowDown' } }],
  'InternalError at 20%': [{ probability: 0.2, effect: { status: 500, code: 'InternalError' } }],
  'a reset after 100 kB': [
    { match: { operation: 'UploadPart' }, times: 3, effect: { resetAfterBytes: 100_000 } },
  ],
  'half-open sockets': [
    { match: { operation: 'UploadPart' }, times: 2, effect: { halfOpen: true } },
    { match: { operation: 'CompleteMultipartUpload' }, times: 1, effect: { halfOpen: true } },
  ],
  'a byte a second': [
    { match: { operation: 'UploadPart' }, times: 2, effect: { trickleBytesPerSecond: 1 } },
  ],
  '200 with an error in the body of the completion': [
    {
      match: { operation: 'CompleteMultipartUpload' },
      times: 2,
      effect: { okWithError: 'InternalError' },
    },
  ],
  'the answers to a completion and to the manifest lost': [
    { match: { operation: 'CompleteMultipartUpload' }, times: 1, effect: { loseResponse: true } },
    { match: { operation: 'PutObject' }, times: 1, effect: { loseResponse: true } },
  ],
  '409 on the conditional put': [
    {
      match: { operation: 'PutObject' },
      times: 2,
      effect: { status: 409, code: 'ConditionalRequestConflict' },
    },
  ],
  '412 on the conditional put': [
    {
      match: { operation: 'PutObject' },
      times: 2,
      effect: { status: 412, code: 'PreconditionFailed' },
    },
  ],
};

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
      const { rows: found } = await installation.pool.query<{ faults: number }>(
        'select sum(faults)::int as faults from runs where export_id = $1',
        [exportId],
      );
      return (found[0]?.faults ?? 0) >= 1;
    },
    { timeoutMs: 60_000, message: 'an attempt has ended' },
  );
  await backfill(installation, other);
  expect(await untilEnded(installation, other)).toMatchObject([{ status: 'Completed' }]);
  await installation.s3.faults.clear();
  const runs = await untilEnded(installation, exportId, { count: 12, timeoutMs: 100_000 });
  expect(runs.map(({ status }) => status)).toEqual(runs.map(() => 'Completed'));
  await expectInvariants(installation);
  await retireExports(installation);
});

const lasting: Record<
  string,
  { config?: Record<string, unknown>; fault?: Fault['effect']; code: string }
> = {
  'a wrong secret key': {
    config: { aws_secret_access_key: 'canary-of-a-wrong-secret' },
    code: 'destination.invalid_credentials',
  },
  'expired credentials': {
    config: { bucket_name: 'expired' },
    fault: { status: 400, code: 'ExpiredToken' },
    code: 'destination.expired_credentials',
  },
  'no bucket': { config: { bucket_name: 'no-such-bucket' }, code: 'destination.bucket_not_found' },
  'the wrong region': { config: { region: 'us-west-2' }, code: 'destination.wrong_region' },
  'a denied KMS key': {
    config: { bucket_name: 'denied-key', encryption: 'aws:kms', kms_key_id: 'denied' },
    fault: { status: 403, code: 'KMS.DisabledException' },
    code: 'destination.kms_denied',
  },
  'denied access': {
    config: { bucket_name: 'denied-access' },
    fault: { status: 403, code: 'AccessDenied' },
    code: 'destination.access_denied',
  },
};

/** By day those two that differ most. `s3-refusals.test.ts` has the words of each. */
const tested = Object.entries(lasting).filter(
  ([name]) => isNightly || ['a wrong secret key', 'a denied KMS key'].includes(name),
);

describe('faults that a person must fix', () => {
  const exports = new Map<string, string>();
  beforeAll(async () => {
    for (const [name, { config = {}, fault }] of tested) {
      const id = await createS3Export(installation, { name, config });
      exports.set(name, id);
      if (fault) {
        await installation.s3.faults.add({
          match: { key: new RegExp(id), operation: 'PutObject' },
          times: forever,
          effect: fault,
        });
      }
      await backfill(installation, id, quiet, { concurrency: 1 });
    }
    for (const id of exports.values()) {
      const path = `${projectPath(installation)}/batch_exports/${id}/backfills`;
      await until(
        async () => (await installation.client.get(path)).body.results[0]?.status === 'Cancelled',
        { timeoutMs: 100_000, message: 'the backfill stops itself' },
      );
    }
  });

  test.each(tested)(
    '%s: Failed at once, and ten of them stop the backfill, not the schedule',
    async (name, { code }) => {
      const id = exports.get(name) ?? '';
      const runs = await untilEnded(installation, id, { count: 10 });
      expect(runs.map(({ status, errorCode, attempt }) => [status, errorCode, attempt])).toEqual(
        runs.map(() => ['Failed', code, 1]),
      );
      expect(runs[0]?.latestError).toMatch(/retry the run( once it is fixed)?\.$/);
      const { body } = await installation.client.get(
        `${projectPath(installation)}/batch_exports/${id}/`,
      );
      expect(body).toMatchObject({ paused: false, failure_streak: 0 });
      const path = `${projectPath(installation)}/batch_exports/${id}/backfills`;
      const [backfilled] = (await installation.client.get(path)).body.results;
      expect(String(backfilled?.stopped_reason)).toContain(code);
    },
  );

  test('the invariants hold for all others, and no secret is shown', async () => {
    await installation.s3.faults.clear();
    for (const [name, { config }] of tested) {
      // What cannot be reached cannot be verified.
      if (config)
        await installation.client.delete(
          `${projectPath(installation)}/batch_exports/${exports.get(name)}/`,
        );
    }
    await expectInvariants(installation);
    await retireExports(installation);
    const seen = installation.processes.map((process) => process.output()).join('\n');
    expect(seen).not.toContain('canary-of-a-wrong-secret');
  });
});

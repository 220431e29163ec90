import { beforeAll, describe, expect, test } from 'vitest';
import type { FailpointName } from '../../../src/foundation/failpoints/failpoint.ts';
import {
  backfill,
  createS3Export,
  insertEvents,
  type RunRow,
  untilEnded,
} from '../../support/exported-events.ts';
import { startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { useStage } from '../../support/use-stage.ts';
import { readSource, setCompression, untilNoStrays } from '../current-files.ts';
import { readStore } from '../store.ts';

/** Three parts of 5 MiB, the last one shorter. */
const rows = 3_000;
const rowBytes = 4_000;
const steps: readonly FailpointName[] = [
  'upload_begun',
  'first_part',
  'mid_part',
  'before_complete',
  'after_complete',
  'before_manifest',
  'after_manifest',
  'before_record',
];
/** A re-run that is compressed has less than a part, so most stores get it without an upload. */
const rerunSteps = steps.filter((step) => !/upload_begun|first_part|mid_part/.test(step));

const installation = useStage(() => startInstallation({ workers: 0, foreignS3: readStore() }));
const exports = new Map<FailpointName, string>();
beforeAll(async () => {
  const team = installation.tenant.projectIds[0];
  await insertEvents(installation.pool, { team, rows, rowBytes });
  for (const step of steps) {
    exports.set(step, await createS3Export(installation, { name: step }));
  }
});

/** A worker dies at the step, in a run of the step's export. Its lease outlasts this. */
async function killAt(step: FailpointName): Promise<void> {
  const worker = await installation.startWorker({
    FAILPOINTS: `${step}=kill`,
    WORKER_CONCURRENCY: '1',
    WORKER_SMALL_RUNS: '0',
    LEASE_SECONDS: '300',
  });
  await backfill(installation, exports.get(step) ?? '');
  expect(await worker.waitForExit(), step).toEqual({ code: null, signal: 'SIGKILL' });
}

/** Other workers take over what the dead ones held. */
async function expectTakenOver(killed: readonly FailpointName[], count: number) {
  await installation.sql`update runs set lease_expires_at = now() where lease_holder is not null`;
  await installation.startWorker();
  await installation.startWorker();
  const source = await readSource(installation);
  const ended = new Map<FailpointName, RunRow | undefined>();
  for (const step of killed) {
    const runs = await untilEnded(installation, exports.get(step) ?? '', { count });
    ended.set(step, runs.at(-1));
  }
  await letADayPass();
  const outcomes: Record<string, unknown> = {};
  for (const step of killed) {
    const exportId = exports.get(step) ?? '';
    const run = ended.get(step);
    const current = await untilNoStrays(installation, exportId);
    outcomes[step] = {
      ...{ status: run?.status, attempt: run?.attempt, error: run?.latestError },
      whole: current.uuids.join() === source.join(),
    };
  }
  await installation.stopWorkers();
  const good = { status: 'Completed', attempt: 2, error: null, whole: true };
  expect(outcomes).toEqual(Object.fromEntries(killed.map((step) => [step, good])));
}

/**
 * At a store without conditional writes the files of a commit that was begun and never confirmed stay
 * for a day: the dead worker could be a sleeping one, whose manifest would name them.
 */
async function letADayPass(): Promise<void> {
  await installation.sql`update leftover_files set noted_at = noted_at - interval '1 day',
    tried_at = null`;
}

describe('kill -9 of a worker at each step', () => {
  test('of a first run: another worker finishes it', async () => {
    for (const step of steps) await killAt(step);
    await expectTakenOver(steps, 1);
  });

  test('of a re-run with other bytes: another worker finishes it', async () => {
    for (const step of rerunSteps) {
      await setCompression(installation, exports.get(step) ?? '', 'gzip');
      await killAt(step);
    }
    await expectTakenOver(rerunSteps, 2);
  });

  test('all invariants hold after all of them', async () => {
    expect(await expectInvariants(installation)).toMatchObject({
      intervals: steps.length,
      rows: steps.length * rows,
    });
    expect(await installation.s3.uploads('exports')).toEqual([]);
  });
});

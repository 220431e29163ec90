import { beforeAll, expect, test } from 'vitest';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  readRuns,
  untilEnded,
} from '../../support/exported-events.ts';
import { startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { useStage } from '../../support/use-stage.ts';
import { readCurrent, readSource, setCompression, untilNoStrays } from '../current-files.ts';
import { readStore } from '../store.ts';

/** Three parts of 5 MiB, the last one shorter, while nothing is compressed. */
const rows = 3_000;
const rowBytes = 4_000;
const empty = { start: '2024-03-02T00:00:00Z', end: '2024-03-02T01:00:00Z' };

const installation = useStage(() => startInstallation({ workers: 1, foreignS3: readStore() }));
beforeAll(async () => {
  const team = installation.tenant.projectIds[0];
  await insertEvents(installation.pool, { team, rows, rowBytes });
});

/** Runs the interval once more, and reads what is there then. */
async function rerun(exportId: string) {
  const before = (await readRuns(installation, exportId)).length;
  await backfill(installation, exportId);
  const runs = await untilEnded(installation, exportId, { count: before + 1 });
  expect(runs.at(-1)).toMatchObject({ status: 'Completed', attempt: 1 });
  return await untilNoStrays(installation, exportId);
}

test('a re-run replaces an interval of several parts: gzip, plain, gzip, and a row more each time', async () => {
  const exportId = await createS3Export(installation);
  for (const compression of ['gzip', null, 'gzip'] as const) {
    const { start, end } = hour;
    await insertEvents(installation.pool, {
      ...{ team: installation.tenant.projectIds[0], rows: 1, start, end },
    });
    await setCompression(installation, exportId, compression);
    const current = await rerun(exportId);
    expect(current.uuids).toEqual(await readSource(installation));
  }
});

test('a re-run with the same bytes leaves the manifest and its files as they are', async () => {
  const exportId = await createS3Export(installation);
  const first = await rerun(exportId);
  const again = await rerun(exportId);
  expect(again).toEqual(first);
});

test('an interval without a row is exported', async () => {
  const exportId = await createS3Export(installation);
  await backfill(installation, exportId, empty);
  expect(await untilEnded(installation, exportId)).toMatchObject([
    { status: 'Completed', rows: 0, attempt: 1 },
  ]);
  expect(await readCurrent(installation, exportId)).toMatchObject({ uuids: [], strays: [] });
});

test('all invariants hold at the end', async () => {
  const { intervals, rows: verified } = await expectInvariants(installation);
  const source = (await readSource(installation)).length;
  expect({ intervals, verified }).toEqual({ intervals: 3, verified: 2 * source });
});

import { beforeAll, expect, test } from 'vitest';
import type { CheckStep } from '../../../src/rows/destinations/destination.ts';
import { createApiClient } from '../../support/api-client.ts';
import {
  backfill,
  createS3Export,
  insertEvents,
  projectPath,
  untilEnded,
} from '../../support/exported-events.ts';
import { bucket, startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { useStage } from '../../support/use-stage.ts';
import { readCurrent, readSource } from '../current-files.ts';
import { readStore, type StoreName } from '../store.ts';

const prefixes = [
  ...['two words', 'trailing space ', 'größe €😀', 'a+b', '100%', 'a%20b', 'day=1&x=2'],
  ...["(it's)", '[a]*!', 'a:b,c;d@e', '#a?b', '"a"<b>', 'a\\b|c^d`', '~.-_', '.hidden'],
];

/** Steps of the destination's test that warn, each of something that the store cannot do. */
const warned: Record<StoreName, readonly string[]> = {
  ceph: ['conditional_complete', 'checksums'],
  swift: ['conditional_write', 'conditional_complete', 'checksums'],
};

const store = readStore();
const installation = useStage(() => startInstallation({ workers: 2, foreignS3: store }));
beforeAll(() =>
  insertEvents(installation.pool, { team: installation.tenant.projectIds[0], rows: 20 }),
);

/** What came of an export's runs and files; `good` if all is right. */
async function findOutcome(exportId: string, prefix: string, count: number): Promise<string> {
  const run = (await untilEnded(installation, exportId, { count })).at(-1);
  if (run?.status !== 'Completed' || run.attempt !== 1) return JSON.stringify(run);
  const { files, strays, uuids } = await readCurrent(installation, exportId);
  const start = `${exportId}/${prefix}/20240301T`;
  if (strays.length > 0 || !files.every((key) => key.startsWith(start))) {
    return JSON.stringify([files, strays]);
  }
  const source = await readSource(installation);
  return uuids.join() === source.join() ? 'good' : `${uuids.length} rows of ${source.length}`;
}

test('exports to each prefix, and again', async () => {
  const good = Object.fromEntries(prefixes.map((prefix) => [prefix, 'good']));
  const exports = new Map<string, string>();
  for (const prefix of prefixes) {
    const config = { prefix: `{batch_export_id}/${prefix}/` };
    exports.set(prefix, await createS3Export(installation, { config }));
  }
  for (const count of [1, 2]) {
    for (const id of exports.values()) await backfill(installation, id);
    const outcomes: Record<string, string> = {};
    for (const [prefix, id] of exports) outcomes[prefix] = await findOutcome(id, prefix, count);
    expect(outcomes).toEqual(good);
  }
});

test("the destination's test passes, warns of what the store cannot do and leaves nothing", async () => {
  const exportId = await createS3Export(installation, { config: { prefix: 'tested here/(a+b)' } });
  const { client, tenant } = installation;
  const path = `${projectPath(installation)}/batch_exports/${exportId}/test/`;
  // By a client whose answers are not taken for what the export is.
  const answer = await createApiClient(client.baseUrl, tenant.key).post(path);
  expect(answer.status).toBe(200);
  const steps = answer.body.steps as readonly CheckStep[];
  expect(steps.filter(({ passed, error }) => !passed || error !== null)).toEqual([]);
  const warnings = steps.filter(({ warning }) => warning !== null).map(({ step }) => step);
  expect(warnings, JSON.stringify(steps)).toEqual(warned[store.name]);
  const left = (await installation.s3.objects(bucket)).filter(({ key }) =>
    key.startsWith('tested'),
  );
  expect(left).toEqual([]);
});

test('all invariants hold at the end', async () => {
  const { intervals, rows } = await expectInvariants(installation);
  expect({ intervals, rows }).toEqual({ intervals: prefixes.length, rows: prefixes.length * 20 });
});

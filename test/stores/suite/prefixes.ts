import { afterAll, beforeAll, expect, test } from 'vitest';
import type { CheckStep } from '../../../src/destinations/destination.ts';
import { createApiClient } from '../../support/api-client.ts';
import {
  createS3Export,
  insertEvents,
  projectPath,
  untilEnded,
} from '../../support/exported-events.ts';
import { bucket, type Installation, startInstallation } from '../../support/installation.ts';
import { expectInvariants } from '../../support/invariants.ts';
import { readCurrent, readSource, startBackfill } from '../current-files.ts';
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
let installation: Installation;
beforeAll(async () => {
  installation = await startInstallation({ workers: 2, foreignS3: store });
  await insertEvents(installation.pool, { team: installation.tenant.projectIds[0], rows: 20 });
});
afterAll(() => installation?.close());

test.each(prefixes)('exports to the prefix %s, and again', async (prefix) => {
  const exportId = await createS3Export(installation, {
    config: { prefix: `{batch_export_id}/${prefix}/` },
  });
  for (const count of [1, 2]) {
    await startBackfill(installation, exportId);
    const runs = await untilEnded(installation, exportId, { count });
    expect(runs.at(-1)).toMatchObject({ status: 'Completed', attempt: 1, rows: 20 });
  }
  const { files, strays, uuids } = await readCurrent(installation, exportId);
  expect(files.every((key) => key.startsWith(`${exportId}/${prefix}/2024-03-01T`))).toBe(true);
  expect(strays).toEqual([]);
  expect(uuids).toEqual(await readSource(installation));
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

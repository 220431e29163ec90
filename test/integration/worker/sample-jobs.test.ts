import { expect, test } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { WorkGuard } from '../../../src/service/use-cases/work-guard.ts';
import type { MemoryGate } from '../../../src/service/admission/memory-gate.ts';
import { sampleJobs } from '../../../src/service/worker/run-sample-jobs.ts';
import { startApiUnderTest } from '../../support/api-under-test.ts';
import { createTenant } from '../../support/tenants.ts';
import { testApiOptions } from '../../support/test-api-options.ts';
import { until } from '../../support/until.ts';

test('organizations take turns with sample jobs, and one does not wait for a long job of another', async () => {
  const api = await startApiUnderTest();
  try {
    const other = await createTenant(api.db);
    const start = async (key: string, team: number, count: number) => {
      const client = api.client.withKey(key);
      const steps = `/api/projects/${team}/pipeline_transformation_configs`;
      for (let order = 1; order <= count; order += 1) {
        const { body } = await client.post(steps, { plugin: 2, order, config: { events: 'a' } });
        expect((await client.post(`${steps}/${body.id}/job`, {})).status).toBe(200);
      }
    };
    const [first = 0, second = 0] = [api.tenant.projectIds[0], other.projectIds[0]];
    await start(api.tenant.key, first, 5);
    await start(other.key, second, 2);
    const begun: number[] = [];
    const waiting: (() => void)[] = [];
    const run = sampleJobs({
      context: testApiOptions(api.db, api.databaseUrl).context,
      memory: {} as MemoryGate,
      guard: new WorkGuard(api.db, () => {}),
      defaultModel: 'events',
      onSampleError: () => {},
      async previewRows({ teamId }) {
        begun.push(teamId);
        // Jobs of the first organization take long.
        if (teamId === first) await new Promise<void>((resolve) => waiting.push(resolve));
        throw new SluiceError('source.unavailable');
      },
    });
    const all = run();
    await until(() => begun.filter((team) => team === second).length === 2);
    expect(begun.filter((team) => team === first)).toHaveLength(1);
    for (let n = 0; n < 5; n += 1) {
      await until(() => waiting.length > 0);
      waiting.shift()?.();
    }
    await all;
    expect(begun).toHaveLength(7);
  } finally {
    await api.stop();
  }
});

import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it, test } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import type { HandlerOptions } from '../../../src/service/worker/options.ts';
import { createSweep } from '../../../src/service/worker/sweep.ts';
import { attemptsOf, placeOf } from '../../support/attempts-at-places.ts';
import { hourMs, useRunSide } from '../../support/run-side.ts';
import { WorkGuard } from '../../../src/service/use-cases/work-guard.ts';
import type { MemoryGate } from '../../../src/service/admission/memory-gate.ts';
import { sampleJobs } from '../../../src/service/worker/run-sample-jobs.ts';
import { startApiUnderTest } from '../../support/api-under-test.ts';
import { createTenant } from '../../support/tenants.ts';
import { testApiOptions } from '../../support/test-api-options.ts';
import { until } from '../../support/until.ts';
import { projectRoot } from '../../support/processes.ts';
import { inTest } from '../../support/use-stage.ts';

const side = useRunSide({ retry: { maxAttempts: 1, baseMs: 1, capMs: 1 } });
const { work } = attemptsOf(side);

/** The sweep of a worker. Its long duties are not what is tested. */
function openSweep(done: string[]) {
  const note = (duty: string) => async () => void done.push(duty);
  return createSweep(
    {
      executor: { context: side.context, stopping: AbortSignal.abort(), connectors: {} },
      admission: {},
      courier: { collect: note('collect') },
      reports: { runsMade: () => {}, sampleFailed: () => {}, offboardingFailed: () => {} },
      verifySchedule: null,
    } as unknown as HandlerOptions,
    {
      async advance(id) {
        done.push(`advance ${id}`);
        if (id.startsWith('0')) throw new Error('its schedule is broken');
      },
      dispatch: note('dispatch'),
    },
  );
}

it('heals, advances and dispatches for all, although exports of one tenant are broken', async () => {
  const { id } = await side.createExport({ createdMsAgo: hourMs });
  await side.decide();
  await work([id], placeOf(new SluiceError('destination.invalid_credentials')));
  await side.sql`update holes set next_try_at = now()`;
  const runs = (await side.listRuns(id)).length;

  const other = await side.createExport({ deadlineMinutes: 5 });
  const broken = await side.createExport({ deadlineMinutes: 5 });
  await side.sql`update batch_exports set schedule = '{}' where id = ${broken.id}`;
  await side.sql`update export_checks set next_check_at = now() - interval '1 s'`;
  const backfills = [0, 1].map((n) => `${n}0000000-0000-7000-8000-000000000001`);
  for (const [index, exportId] of [broken.id, other.id].entries()) {
    await side.sql`insert into backfills (id, export_id, team_id, start_at, end_at, concurrency, total_runs)
       values (${backfills[index]}, ${exportId}, ${side.teamId}, '2024-01-01', '2024-01-02', 1, 1)`;
  }

  const done: string[] = [];
  await expect(openSweep(done)()).rejects.toThrow(
    `the deadline of export ${broken.id} cannot be judged; Error: its schedule is broken`,
  );
  expect((await side.listRuns(id)).length).toBe(runs + 1);
  expect(done.filter((duty) => duty.startsWith('advance')).toSorted()).toEqual(
    backfills.map((backfill) => `advance ${backfill}`),
  );
  expect(done).toContain('dispatch');
  const due = await side.sql`select from export_checks where next_check_at <= now()`;
  expect(due, 'the broken one is put off, the others are judged').toEqual([]);
});

test('organizations take turns with sample jobs, and one does not wait for a long job of another', async () => {
  const api = await inTest(startApiUnderTest());
  const other = await createTenant(api.db);
  const start = async (key: string, team: number, count: number) => {
    const client = api.withKey(key);
    const steps = `/api/projects/${team}/pipeline_transformation_configs`;
    for (let order = 1; order <= count; order += 1) {
      const { body } = await client.post(steps, { plugin: 2, order, config: { events: 'a' } });
      expect((await client.post(`${steps}/${body.id}/job`, {})).status).toBe(200);
    }
  };
  const [first = 0, second = 0] = [api.teamId, other.projectIds[0]];
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
});

const run = promisify(execFile);

/** Prints the MiB of the young generation as a worker starts, with all it loads, and before a run of many rows. */
const program = `
  import v8 from 'node:v8';
  import { growForSmallRuns, growYoungGeneration, tuneGarbageCollection } from './dist/service/admission/process-memory.js';
  const sizes = [];
  const look = () => {
    const young = v8.getHeapSpaceStatistics().find((space) => space.space_name === 'new_space');
    sizes.push(young.space_size / 2 ** 20);
  };
  tuneGarbageCollection();
  look();
  await import('./dist/rows/query/parser.js');
  // Takes back what V8 can do without, as it does after idle times.
  v8.getHeapSnapshot().destroy();
  look();
  growYoungGeneration();
  look();
  // What survives does not make it grow further.
  const kept = Array.from({ length: 300_000 }, (_, n) => ({ n }));
  look();
  growForSmallRuns();
  look();
  growYoungGeneration();
  look();
  console.log(JSON.stringify({ sizes, kept: kept.length }));
`;

test('the young generation has four megabytes for each half again before a run of many rows', async () => {
  const { stdout } = await run(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: projectRoot,
  });
  const [atStart, loaded, grown, used, ...forSmallRuns] = JSON.parse(stdout).sizes;
  expect(atStart).toBe(8);
  expect(loaded).toBeLessThan(8);
  expect([grown, used]).toEqual([8, 8]);
  // Twice as much, which a run of many rows after them does not change.
  expect(forSmallRuns).toEqual([16, 16]);
});

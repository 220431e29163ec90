import { expect } from 'vitest';
import type { FailpointName } from '../../src/foundation/failpoints/failpoint.ts';
import { backfill, projectPath, type RunRow, readRuns, untilEnded } from './exported-events.ts';
import { bucket, type Installation } from './installation.ts';
import type { TestProcess } from './processes.ts';
import { until } from './until.ts';

/** What tests do with an export of one hour, whose runs they break. */
export function hourRuns(installed: () => Installation) {
  /** Asks for a run of the hour: the first by a backfill, the next by a retry of the last. */
  async function order(exportId: string): Promise<void> {
    const installation = installed();
    const last = (await readRuns(installation, exportId)).at(-1);
    if (!last) return void (await backfill(installation, exportId));
    const path = `${projectPath(installation)}/batch_exports/${exportId}/runs/${last.id}/retry/`;
    const answer = await installation.client.post(path);
    expect(answer.status, answer.text).toBe(201);
  }

  return {
    order,

    /** Runs the hour once more. @returns the newest run, ended */
    async runAgain(exportId: string, runsBefore: number): Promise<RunRow | undefined> {
      await order(exportId);
      return (await untilEnded(installed(), exportId, { count: runsBefore + 1 })).at(-1);
    },

    /** Changes the destination's config. */
    async change(exportId: string, config: Readonly<Record<string, unknown>>): Promise<void> {
      const path = `${projectPath(installed())}/batch_exports/${exportId}/`;
      const destination = { type: 'S3', config };
      const answer = await installed().client.patch(path, { destination });
      expect(answer.status, answer.text).toBe(200);
    },

    /** Keys of an export in the bucket, in order, without the folder that is its id. */
    async keysOf(exportId: string): Promise<string[]> {
      const keys = (await installed().s3.objects(bucket)).map(({ key }) => key);
      return keys
        .filter((key) => key.includes(exportId))
        .map((key) => key.split(`${exportId}/`)[1] ?? '')
        .sort();
    },

    /**
     * Begins a run in a worker of its own that stops, or dies, the first time it is at a step.
     *
     * @param knows whether the worker sees by its own clocks, once it wakes, that its lease is over. By default it does
     *   not, so what it sends then comes late
     */
    async breakAt(
      exportId: string,
      step: FailpointName,
      action: 'kill' | 'stop',
      { knows = false }: { readonly knows?: boolean } = {},
    ): Promise<TestProcess> {
      const worker = await installed().startWorker({
        FAILPOINTS: `${step}=${action}@1`,
        ...(knows ? {} : { LEASE_SECONDS: '300' }),
      });
      await order(exportId);
      await until(() => worker.output().includes(`=${action}`), {
        message: () => `the worker breaks at ${step}:\n${worker.output().slice(-1_000)}`,
      });
      if (action === 'kill') await worker.waitForExit();
      if (!knows) {
        await installed().sql`update runs set lease_expires_at = now()
          where lease_holder is not null`;
      }
      return worker;
    },

    /** Resumes a stopped worker until it has noticed that it lost its run. */
    async wake(worker: TestProcess): Promise<void> {
      const noticed = () => {
        worker.kill('SIGCONT');
        return /"end":"(lost|failed|completed)"/.test(worker.output());
      };
      await until(noticed, { message: () => `it notices:\n${worker.output().slice(-2_000)}` });
    },
  };
}

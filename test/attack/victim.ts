import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { backfill, createS3Export, insertEvents, projectPath } from '../support/exported-events.ts';
import type { Installation } from '../support/installation.ts';
import { projectRoot, startProcess } from '../support/processes.ts';
import { until } from '../support/until.ts';

/** What the victim saw in one phase, in ms. */
export interface Seen {
  /** From the request for a run to its end. */
  readonly runs: readonly number[];
  readonly calls: readonly number[];
  /** Calls that failed, and runs that did not complete. */
  readonly faults: readonly string[];
}

const rowsPerRun = 3_000;
const firstHour = Date.parse('2024-03-01T00:00:00Z');
const hourMs = 3_600_000;
/** Until the caches of processes and database know the victim. */
const warmUpRuns = 5;
/** Each run needs a request: together with the calls, these must stay below its rate limit, however short the runs are. */
const restBetweenRunsMs = 400;
/** Half of its rate limit. */
const callEveryMs = 250;

/** A tenant that exports one hour after the other, and calls the API at a steady rate. */
export class Victim {
  readonly #installation: Installation;
  readonly #exportId: string;
  #hour = 0;

  private constructor(installation: Installation, exportId: string) {
    this.#installation = installation;
    this.#exportId = exportId;
  }

  static async open(installation: Installation): Promise<Victim> {
    const victim = new Victim(installation, await createS3Export(installation));
    for (let run = 0; run < warmUpRuns; run += 1) await victim.#run();
    return victim;
  }

  /** Runs and calls for this time, and waits for the last ones. */
  async live(forMs: number): Promise<Seen> {
    const runs: number[] = [];
    const faults: string[] = [];
    const endsAt = performance.now() + forMs;
    const running = async () => {
      while (performance.now() < endsAt) {
        try {
          runs.push(await this.#run());
        } catch (error) {
          faults.push(String(error));
        }
        await sleep(restBetweenRunsMs);
      }
    };
    const calling = this.#startCalls(forMs);
    await running();
    const called = await calling;
    return { runs, calls: called.calls, faults: [...faults, ...called.faults] };
  }

  /** One interval with rows of its own, as an hour that has just ended. */
  async #run(): Promise<number> {
    const { pool, tenant } = this.#installation;
    const start = firstHour + this.#hour * hourMs;
    this.#hour += 1;
    const range = {
      start: new Date(start).toISOString(),
      end: new Date(start + hourMs).toISOString(),
    };
    await insertEvents(pool, { team: tenant.projectIds[0], rows: rowsPerRun, ...range });
    const id = await backfill(this.#installation, this.#exportId, range);
    const find = async () => {
      const { rows } = await pool.query<{ status: string; rows: number; ms: number }>(
        // Both times are PostgreSQL's.
        `select r.status, r.records_completed::int as rows,
                extract(epoch from r.finished_at - b.created_at)::float8 * 1000 as ms
           from runs r join backfills b on b.id = r.backfill_id
          where b.id = $1 and r.finished_at is not null`,
        [id],
      );
      return rows[0] ?? null;
    };
    const run = await until(find, { timeoutMs: 300_000, message: "the victim's run ends" });
    if (run.status !== 'Completed' || run.rows !== rowsPerRun) {
      throw new Error(`run ${run.status} with ${run.rows} rows`);
    }
    return run.ms;
  }

  async #startCalls(forMs: number): Promise<Pick<Seen, 'calls' | 'faults'>> {
    const { client, tenant } = this.#installation;
    const options = {
      baseUrl: client.baseUrl,
      key: tenant.key,
      project: projectPath(this.#installation),
      exportId: this.#exportId,
      everyMs: callEveryMs,
      forMs,
    };
    const caller = startProcess(process.execPath, [
      path.join(projectRoot, 'test/attack/caller.mjs'),
      JSON.stringify(options),
    ]);
    return JSON.parse(await caller.waitForLine(/^\{"calls"/, forMs + 120_000));
  }
}

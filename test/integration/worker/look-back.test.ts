import { randomBytes } from 'node:crypto';
import { Client } from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readConfig } from '../../../src/config/config.ts';
import { type Foundation, openFoundation } from '../../../src/main/foundation.ts';
import { startWorker, type WorkerProcess } from '../../../src/main/worker-process.ts';
import { ensureEventsTable } from '../../../src/sources/index.ts';
import {
  createExportOfThePast,
  listRuns,
  openRunSide,
  type RunSide,
} from '../../support/run-side.ts';
import { until } from '../../support/until.ts';

describe('rows that come late', () => {
  let side: RunSide;
  let writer: Client;
  let foundation: Foundation;
  let worker: WorkerProcess | null = null;

  beforeEach(async () => {
    side = await openRunSide();
    await ensureEventsTable(side.url);
    writer = new Client({ connectionString: side.url });
    await writer.connect();
  });
  afterEach(async () => {
    await worker?.close();
    await foundation.close();
    await writer.end();
    await side.stop();
  });

  async function start(env: Record<string, string>): Promise<void> {
    const config = readConfig({
      DATABASE_URL: side.url,
      ENCRYPTION_KEYS: `test:${randomBytes(32).toString('base64')}`,
      LOG_LEVEL: 'silent',
      MAX_JITTER_SECONDS: '0',
      ...env,
    });
    foundation = await openFoundation(config, 'worker');
    worker = await startWorker(foundation);
  }

  const insert = (
    client: { query(text: string, values: unknown[]): Promise<unknown> },
    name: string,
    at: number,
  ) =>
    client.query(
      `insert into events (uuid, team_id, event, inserted_at) values (gen_random_uuid(), $1, $2, to_timestamp($3 / 1000.0))`,
      [side.teamId, name, at],
    );

  /** So that a test need not wait for the pauses between two looks. */
  const letTimePass = () =>
    side.db.query(
      `update receipts set pending_checked_at = pending_checked_at - interval '3 hours',
              looked_back_at = looked_back_at - interval '3 hours'`,
    );

  const untilRuns = (exportId: string, wanted: number) =>
    until(
      async () => {
        await letTimePass();
        const runs = await listRuns(side.db, exportId);
        const done = runs.filter(({ status }) => status === 'Completed');
        return done.length === wanted ? done : null;
      },
      { timeoutMs: 40_000, message: `${wanted} runs have completed` },
    );

  const inForce = async () => {
    const rows = await side.db.query<{ runId: string; rows: number }>(
      `select run_id as "runId", rows from receipts`,
    );
    return rows;
  };

  it('of a transaction that outlived the wait are fetched by a run of the whole interval', async () => {
    const { id, schedule } = await createExportOfThePast(side);
    await writer.query('begin');
    await insert(writer, 'late', schedule.openIntervalStart + 1_000);
    await insert(side.db, 'in time', schedule.openIntervalStart + 2_000);
    await start({ SETTLE_TIMEOUT_SECONDS: '0' });
    const [first] = await untilRuns(id, 1);
    expect(await inForce()).toEqual([{ runId: first?.id, rows: 1 }]);

    await writer.query('commit');
    const runs = await untilRuns(id, 2);
    const [receipt] = await inForce();
    expect(receipt?.rows).toBe(2);
    expect(receipt?.runId).not.toBe(first?.id);
    expect(runs.map((run) => run.id)).toContain(receipt?.runId);
  });

  it('by another clock are fetched within the look-back', async () => {
    const { id, schedule } = await createExportOfThePast(side);
    await insert(side.db, 'in time', schedule.openIntervalStart + 1_000);
    await start({ LATE_LOOKBACK_HOURS: '3' });
    await untilRuns(id, 1);
    await insert(side.db, 'by a slow clock', schedule.openIntervalStart + 2_000);
    await untilRuns(id, 2);
    expect(await inForce()).toMatchObject([{ rows: 2 }]);
  });
});

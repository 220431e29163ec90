import { afterEach, expect, it } from 'vitest';
import { SluiceError } from '../../../src/foundation/domain/errors.ts';
import { createMetrics } from '../../../src/foundation/telemetry/metrics.ts';
import type { RunStep } from '../../../src/foundation/domain/run-step.ts';
import { watchService } from '../../../src/main/service-metrics.ts';
import { listCauses } from '../../../src/state/store/healing/operator-causes.ts';
import type { ClaimedRun } from '../../../src/state/store/runs/claims.ts';
import { LeaseKeeper } from '../../../src/service/worker/leases.ts';
import { openRunSide, openTestPool } from '../../support/run-side.ts';
import { claimRun } from '../../support/run-verbs.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';
import { until } from '../../support/until.ts';
import { useStage } from '../../support/use-stage.ts';

const leaseMs = 1_200;
const keepers: LeaseKeeper[] = [];

const side = useStage(openRunSide);
afterEach(() => {
  for (const keeper of keepers.splice(0)) keeper.close();
});

function openKeeper(db = side.db): LeaseKeeper {
  const keeper = new LeaseKeeper({ db, leaseMs, onError: () => {} });
  keepers.push(keeper);
  return keeper;
}

async function claimed(): Promise<ClaimedRun> {
  const { id } = await side.exportWithRuns(1);
  return side.claim((await side.firstRun(id)).id, { leaseMs });
}

async function codeOf(signal: AbortSignal): Promise<string> {
  await until(() => signal.aborted, { message: 'the signal is aborted' });
  return signal.reason instanceof SluiceError ? signal.reason.code : String(signal.reason);
}

const leaseLeftMs = (runId: string) =>
  side.sql.value<number>`
    select (extract(epoch from lease_expires_at - clock_timestamp()) * 1000)::float8 from runs
      where id = ${runId}`;

async function leaseEndMs(runId: string): Promise<number> {
  const ms = await side.sql.value<number>`
    select (extract(epoch from lease_expires_at) * 1000)::float8 from runs where id = ${runId}`;
  return ms ?? Number.NaN;
}

it('keeps all leases of a worker for much longer than one lasts', async () => {
  const keeper = openKeeper();
  const runs = [await claimed(), await claimed()];
  const signals = runs.map((run) => keeper.keep(run, performance.now()));
  const untilLater = async ({ runId }: ClaimedRun) => {
    const first = await leaseEndMs(runId);
    await until(async () => (await leaseEndMs(runId)) > first + 2 * leaseMs);
  };
  await Promise.all(runs.map(untilLater));
  expect(signals.map((signal) => signal.aborted)).toEqual([false, false]);
  for (const { runId } of runs) expect(await claimRun(side.db, runId, 'other', leaseMs)).toBeNull();
});

it('notifies a run that it was cancelled, within seconds', async () => {
  const run = await claimed();
  const signal = openKeeper().keep(run, performance.now());
  await side.cancel(run);
  expect(await codeOf(signal)).toBe('run.cancelled');
});

it('notifies a run that another worker took it over', async () => {
  const run = await claimed();
  await side.expireLease(run.runId);
  await side.claim(run.runId);
  expect(await codeOf(openKeeper().keep(run, performance.now()))).toBe('run.lease_lost');
});

it('asks every run to hand itself back, also those that are claimed later', async () => {
  const keeper = openKeeper();
  const early = keeper.keep(await claimed(), performance.now());
  keeper.releaseAll();
  expect(await codeOf(early)).toBe('run.released');
  expect(keeper.keep(await claimed(), performance.now()).aborted).toBe(true);
});

it('says what an attempt is doing: the run shows it, the gauge counts it, and a late export names its source', async () => {
  const run = await claimed();
  let name: RunStep = 'first_row';
  const watch = { current: () => ({ name, seconds: 420 }) };
  openKeeper().keep(run, performance.now(), watch);
  const step = await until(async () => (await side.findRun(run)).step ?? null);
  expect(step).toMatchObject({ name: 'first_row', usual: null });
  expect(step.seconds).toBeGreaterThanOrEqual(420);
  const metrics = createMetrics();
  watchService(metrics, side.db, { look: async () => new Map([['postgres', true]]) });
  const gauge = await metrics.registry.getSingleMetricAsString('sluice_longest_run_seconds');
  const seconds = (of: string) => Number(new RegExp(`step="${of}"\\} (\\S+)`).exec(gauge)?.[1]);
  expect(seconds('first_row')).toBeGreaterThanOrEqual(420);
  expect(seconds('write')).toBe(0);
  const causes = async () => {
    const all = { search: run.exportId, turn: null, causeId: null };
    const { results } = await listCauses(side.db, all, { limit: 10, offset: 0 });
    return results.map(({ code, turn, place }) => [code, turn, place]);
  };
  await side.sql`update batch_exports set late_since = now() where id = ${run.exportId}`;
  expect(await causes()).toEqual([['source.slow', 'source', 'events']]);
  name = 'write';
  await until(async () => (await causes()).join() === 'export.late,ours,');
});

it('forgets a run that has ended', async () => {
  const keeper = openKeeper();
  const run = await claimed();
  const signal = keeper.keep(run, performance.now());
  keeper.release(run);
  await side.expireLease(run.runId);
  const marker = await claimed();
  await side.expireLease(marker.runId);
  await side.claim(marker.runId);
  await codeOf(keeper.keep(marker, performance.now()));
  expect(signal.aborted).toBe(false);
});

it.each(['hangs', 'is unreachable'])(
  'stops a run before its lease runs out if Postgres %s',
  async (how) => {
    const { hostname, port } = new URL(side.url);
    const proxy = await startTcpProxy({ target: { host: hostname, port: Number(port) } });
    const url = new URL(side.url);
    url.port = String(proxy.port);
    url.hostname = proxy.host;
    const db = openTestPool(url.href);
    await db.query('select 1');
    const run = await claimed();
    const signal = openKeeper(db).keep(run, performance.now());
    if (how === 'hangs') proxy.pause();
    else {
      await proxy.refuse();
      proxy.cut();
    }
    const leftMs = new Promise<number | undefined>((resolve) => {
      signal.addEventListener('abort', () => resolve(leaseLeftMs(run.runId)));
    });
    expect(await leftMs).toBeGreaterThan(0);
    expect(await codeOf(signal)).toBe('run.lease_lost');
    await proxy.close();
    await db.close();
  },
);

import { readFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  retireExports,
  untilEnded,
} from '../support/exported-events.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import type { TestProcess } from '../support/processes.ts';
import { addStep, installPlugin } from '../support/transforms/purchases.ts';
import { until } from '../support/until.ts';

/** What a hostile plugin of one organization does to the runs of another one, in the same worker. */

const rows = 400;
const hours = { start: hour.start, end: '2024-03-01T03:00:00Z' };
const leaseMs = 6_000;
/** A worker renews its leases three times before they expire. */
const heartbeatMs = leaseMs / 3;

let installation: Installation;
let worker: TestProcess;
let metricsPort: number;
let hostile: Installation;
let healthy: Installation;

beforeAll(async () => {
  metricsPort = await findFreePort();
  installation = await startInstallation({
    workers: 0,
    env: {
      WORKER_MEMORY_MB: '2048',
      WORKER_CONCURRENCY: '8',
      LEASE_SECONDS: String(leaseMs / 1_000),
      WORKER_PORT: String(metricsPort),
    },
  });
  const other = await installation.addTenant();
  hostile = installation;
  healthy = { ...installation, tenant: other, client: installation.client.withKey(other.key) };
  for (const { tenant, pool } of [hostile, healthy]) {
    await insertEvents(pool, { team: tenant.projectIds[0], rows });
  }
  worker = await installation.startWorker();
});
afterAll(() => installation?.close());
afterEach(async () => {
  await retireExports(hostile);
  await retireExports(healthy);
});

const plugins = {
  'never ends': 'export function processEvent(event) { for (;;); }',
  leaks:
    'const kept = []; export function processEvent(e) { for (;;) kept.push("x".repeat(1e6) + Math.random()); }',
  throws: 'export function processEvent(event) { throw new Error(event.distinct_id); }',
  'never settles': 'export function processEvent() { return new Promise(() => {}); }',
  'answers rubbish': `export function processEvent(event) {
    const n = event.properties.n;
    if (n % 4 === 0) return [event];
    if (n % 4 === 1) return { get event() { throw new Error('x'); } };
    if (n % 4 === 2) return { ...event, uuid: 'other', nothing: 1n };
    return JSON.parse('{"__proto__": {"team_id": 1}, "team_id": 1}');
  }`,
} as const;
/** Which limit such a plugin meets first depends on the machine. */
const stopped = { status: 'Failed', errorCode: 'transformation.plugin_failed' };
const ignored = { status: 'Completed', rows, attempt: 1 };
const ends: Readonly<Record<keyof typeof plugins, object>> = {
  'never ends': stopped,
  leaks: stopped,
  throws: ignored,
  'never settles': ignored,
  'answers rubbish': ignored,
};

it('costs only its own runs: those of another organization complete, and no heartbeat is late', async () => {
  const alone = await watchLoop(async () => {
    await runHealthy();
  });
  const kinds = await Promise.all(Object.entries(plugins).map(prepareHostile));
  const beside = await watchLoop(async () => {
    const [good] = await Promise.all([runHealthy(), ...kinds.map(runHostile)]);
    const { rows: found } = await installation.pool.query<{ beside: number }>(
      `select count(*)::int as beside from runs r where r.export_id = any ($1::uuid[])
          and exists (select from runs h where h.export_id = any ($2::uuid[])
                         and h.started_at < r.finished_at and r.started_at < h.finished_at)`,
      [good, kinds.map(({ exportId }) => exportId)],
    );
    expect(found[0]?.beside, 'healthy runs that a hostile one ran beside').toBeGreaterThan(5);
  });
  expect(beside.maxMs, JSON.stringify({ alone, beside })).toBeLessThan(heartbeatMs);
  expect(worker.output()).not.toContain('leases could not be renewed');
  await expectNoSandboxes();
}, 400_000);

interface Hostile {
  readonly name: keyof typeof plugins;
  readonly from: Installation;
  readonly exportId: string;
}

/** An organization with one kind of plugin, and rows of three hours. */
async function prepareHostile([name, source]: readonly [string, string]): Promise<Hostile> {
  const tenant = await installation.addTenant();
  const from = { ...installation, tenant, client: installation.client.withKey(tenant.key) };
  const range = { start: hours.start, end: hours.end };
  await insertEvents(from.pool, { team: tenant.projectIds[0], rows: 3 * rows, ...range });
  const plugin = await installPlugin(from, { name, source });
  await addStep(from, plugin, 1, {});
  const exportId = await createS3Export(from, { name, transformations: true });
  return { name: name as keyof typeof plugins, from, exportId };
}

async function runHostile({ name, from, exportId }: Hostile): Promise<void> {
  await backfill(from, exportId, hours);
  const runs = await untilEnded(from, exportId, { count: 3, timeoutMs: 200_000 });
  expect(runs, name).toMatchObject(Array(3).fill(ends[name]));
}

it('is tried again if something else ends its sandbox, and leaves none behind', async () => {
  const plugin = await installPlugin(hostile, {
    name: 'Slow',
    source: `export function processEvent(event) { for (let n = 0; n < 2e5; n += 1); return event; }`,
  });
  await addStep(hostile, plugin, 1, {});
  const id = await createS3Export(hostile, { transformations: true });
  await backfill(hostile, id);
  const [sandbox] = await until(async () => (sandboxes().length > 0 ? sandboxes() : null), {
    message: 'a sandbox has begun',
  });
  process.kill(sandbox ?? 0, 'SIGKILL');
  const [run] = await untilEnded(hostile, id, { timeoutMs: 120_000 });
  expect(run).toMatchObject({ status: 'Completed', rows });
  expect(run?.attempt).toBeGreaterThan(1);
  await expectNoSandboxes();
}, 200_000);

/** Twenty exports of another organization, none with a chain: each completes in its first attempt. */
async function runHealthy(): Promise<string[]> {
  const ids = await Promise.all(Array.from({ length: 20 }, () => createS3Export(healthy)));
  await Promise.all(ids.map((id) => backfill(healthy, id)));
  for (const id of ids) {
    const [run] = await untilEnded(healthy, id, { timeoutMs: 120_000 });
    expect(run, run?.latestError ?? '').toMatchObject({
      status: 'Completed',
      rows,
      attempt: 1,
      crashes: 0,
      faults: 0,
    });
  }
  return ids;
}

interface LoopDelay {
  readonly p99Ms: number;
  readonly maxMs: number;
}

/** The delay of the worker's event loop while something happens. */
async function watchLoop(work: () => Promise<void>): Promise<LoopDelay> {
  // Each look begins a new histogram.
  await readLoop();
  await work();
  return readLoop();
}

async function readLoop(): Promise<LoopDelay> {
  const metrics = await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text();
  const read = (name: string) =>
    Math.round(Number(new RegExp(`^${name} (.*)$`, 'm').exec(metrics)?.[1]) * 1_000);
  return {
    p99Ms: read('nodejs_eventloop_lag_p99_seconds'),
    maxMs: read('nodejs_eventloop_lag_max_seconds'),
  };
}

/** The sandboxes that the worker has started and that run. */
function sandboxes(): number[] {
  const text = readFileSync(`/proc/${worker.pid}/task/${worker.pid}/children`, 'utf8').trim();
  return text.split(' ').map(Number).filter(isSandbox);
}

function isSandbox(pid: number): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('--frozen-intrinsics');
  } catch {
    return false;
  }
}

async function expectNoSandboxes(): Promise<void> {
  await until(async () => sandboxes().length === 0, {
    timeoutMs: 60_000,
    message: () => `sandboxes have ended: ${sandboxes()}`,
  });
}

function findFreePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => resolve(typeof address === 'object' ? (address?.port ?? 0) : 0));
    });
  });
}

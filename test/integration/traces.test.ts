import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readConfig } from '../../src/foundation/config/config.ts';
import { startApi } from '../../src/main/api-process.ts';
import { openFoundation } from '../../src/main/foundation.ts';
import { startWorker } from '../../src/main/worker-process.ts';
import { ensureEventsTable } from '../../src/rows/sources/index.ts';
import { createApiClient } from '../support/api-client.ts';
import {
  createExportOfThePast,
  hourMs,
  listRuns,
  openRunSide,
  type RunSide,
} from '../support/run-side.ts';
import { until } from '../support/until.ts';

interface Value {
  readonly stringValue?: string;
  readonly intValue?: number | string;
}

/** A span as OTLP writes it in JSON. */
interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly attributes: readonly { readonly key: string; readonly value: Value }[];
}

const key = `test:${randomBytes(32).toString('base64')}`;
const hostileName = 'canary-name';
let side: RunSide;
let receiver: Server;
let received: { readonly path: string; readonly header: string; readonly body: string }[];
let env: Record<string, string>;
let folder: string;

beforeAll(async () => {
  folder = await mkdtemp(path.join(tmpdir(), 'sluice-traces-'));
  side = await openRunSide();
  received = [];
  receiver = createServer((request, response) => {
    text(request).then((body) => {
      const { url = '', headers } = request;
      received.push({ path: url, header: String(headers['x-team']), body });
      response.setHeader('content-type', 'application/json').end('{}');
    });
  }).listen(0, '127.0.0.1');
  await until(() => receiver.listening);
  const { port } = receiver.address() as AddressInfo;
  env = {
    DATABASE_URL: side.url,
    ENCRYPTION_KEYS: key,
    LOG_LEVEL: 'silent',
    PORT: '0',
    MAX_JITTER_SECONDS: '0',
    SETTLE_TIMEOUT_SECONDS: '0',
    FILE_DESTINATION_ROOT: folder,
    OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}/`,
    OTEL_EXPORTER_OTLP_HEADERS: 'x-team=a%20b',
  };
  await ensureEventsTable(side.url);
});
afterAll(async () => {
  receiver?.close();
  await side?.stop();
  await rm(folder, { recursive: true, force: true });
});

/** API and worker, each with a foundation of its own, as in two processes. */
async function serve(work: (address: string) => Promise<void>): Promise<void> {
  const foundations = [
    await openFoundation(readConfig(env), 'api'),
    await openFoundation(readConfig(env), 'worker'),
  ] as const;
  const api = await startApi(foundations[0]);
  const worker = await startWorker(foundations[1]);
  try {
    await work(api.address);
  } finally {
    await worker.close();
    await api.close();
    for (const foundation of foundations) await foundation.close();
  }
}

const spansOf = (): readonly Span[] =>
  received.flatMap(({ body }) =>
    JSON.parse(body).resourceSpans.flatMap(
      ({ scopeSpans }: { scopeSpans: readonly { spans: readonly Span[] }[] }) =>
        scopeSpans.flatMap(({ spans }) => spans),
    ),
  );

const attribute = (span: Span | undefined, name: string): string =>
  Object.values(span?.attributes.find((found) => found.key === name)?.value ?? {}).join();

/** The names of a span's ancestors, from the root on, and its own. */
function lineOf(span: Span, all: readonly Span[]): string {
  const above = all.find(({ spanId }) => spanId === span.parentSpanId);
  return above ? `${lineOf(above, all)} > ${span.name}` : span.name;
}

test('one trace leads from a request or a tick through the queue to each step of the run', async () => {
  // A destination that keeps files, so that there is a commit.
  const destination = { type: 'File', config: { directory: 'files' }, secrets: null };
  const { id } = await createExportOfThePast(side, { createdMsAgo: hourMs, destination });
  await side.db.query(`update batch_exports set name = $2 where id = $1`, [id, hostileName]);
  let runs: Awaited<ReturnType<typeof listRuns>> = [];
  const isDone = async (count: number) => {
    runs = await listRuns(side.db, id);
    return runs.length >= count && runs.every(({ status }) => status === 'Completed');
  };
  const untilDone = (count: number) =>
    until(() => isDone(count), {
      timeoutMs: 60_000,
      message: () => `${count} runs are completed: ${JSON.stringify(runs)}`,
    });
  await serve(async (address) => {
    await untilDone(1);
    const [run] = await listRuns(side.db, id);
    const client = createApiClient(address, side.tenant.key);
    const base = `/api/projects/${side.teamId}/batch_exports/${id}`;
    expect(await client.post(`${base}/runs/${run?.id}/retry`, {})).toMatchObject({ status: 201 });
    await untilDone(2);
    const range = { start_at: '2024-03-01T00:00:00Z', end_at: '2024-03-01T01:00:00Z' };
    expect((await client.post(`${base}/backfill`, range)).status).toBeLessThan(300);
    await untilDone(3);
  });
  const spans = spansOf();
  const made = await side.db.query<{ id: string; backfill_id: string | null; generation: number }>(
    'select id, backfill_id, generation from runs where export_id = $1',
    [id],
  );
  for (const run of made) {
    const [process] = spans.filter(
      (span) =>
        /^process sluice-(small-)?runs$/.test(span.name) &&
        attribute(span, 'sluice.run.id') === run.id &&
        attribute(span, 'sluice.attempt.end') === 'completed',
    );
    const cause =
      run.backfill_id !== null
        ? /^POST .*\/backfill$/
        : run.generation > 0
          ? /^POST .*\/retry$/
          : /^tick$/;
    const [root = '', ...rest] = process ? lineOf(process, spans).split(' > ') : [];
    expect(root).toMatch(cause);
    // A run with small ones before it is expected to be small.
    const queue = rest[0]?.replace(/^send /, '');
    expect(queue).toMatch(/^sluice-(small-)?runs$/);
    expect(rest).toEqual([`send ${queue}`, `process ${queue}`]);
    const steps = spans.filter(({ parentSpanId }) => parentSpanId === process?.spanId);
    // The second run finds what the first one wrote.
    const commit = run.generation > 0 ? [] : ['commit'];
    expect(steps.map(({ name }) => name)).toEqual([
      ...['claim', 'source', 'write', ...commit, 'record'],
    ]);
    const traces = new Set(steps.map(({ traceId }) => traceId));
    expect([...traces]).toEqual([process?.traceId]);
  }
  expect(new Set(received.map(({ path, header }) => `${path} ${header}`))).toEqual(
    new Set(['/v1/traces a b']),
  );
  const sent = received.map(({ body }) => body).join();
  for (const secret of [side.tenant.key, hostileName, key, 'select']) {
    expect(sent).not.toContain(secret);
  }
});

test('a receiver that never answers holds up nothing', async () => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1');
  await until(() => silent.listening);
  const { port } = silent.address() as AddressInfo;
  const before = env;
  env = { ...env, OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}` };
  const { id } = await createExportOfThePast(side, { createdMsAgo: hourMs });
  const isDone = async () =>
    (await listRuns(side.db, id)).some(({ status }) => status === 'Completed');
  await serve(async () => {
    await until(isDone, { timeoutMs: 60_000 });
  });
  env = before;
  silent.closeAllConnections();
  silent.close();
});

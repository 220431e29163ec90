import { createHash, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parquetMetadata } from 'hyparquet';
import { afterAll, beforeAll, expect, inject, it } from 'vitest';
import { readBackBytes } from '../../src/service/admission/memory-budget.ts';
import { insertRuns } from '../../src/state/store/runs/runs.ts';
import { deployedMalloc } from '../support/deployed-malloc.ts';
import {
  backfill,
  createS3Export,
  hour,
  insertEvents,
  untilEnded,
} from '../support/exported-events.ts';
import { listen, stopServer } from '../support/free-port.ts';
import { type Installation, startInstallation } from '../support/installation.ts';
import type { TestProcess } from '../support/processes.ts';
import { openTestPool } from '../support/run-side.ts';

/** A file as the sink saw it. */
interface SunkFile {
  readonly bytes: number;
  readonly parts: number;
  /** Line feeds in it: the rows of plain JSON Lines. */
  readonly lines: number;
  /** Its last two parts, which hold a Parquet file's footer. */
  readonly tail: Buffer;
}

interface SinkS3 {
  readonly endpoint: string;
  /** Of completed uploads, by key. */
  readonly files: ReadonlyMap<string, SunkFile>;
  /** Objects put in one request, by key: the manifests. */
  readonly objects: ReadonlyMap<string, Buffer>;
  close(): Promise<void>;
}

interface Part {
  readonly bytes: number;
  readonly lines: number;
  body: Buffer | null;
}

/** An S3 that takes any amount of bytes, counts them and keeps only the ends. It checks nothing. */
async function startSinkS3(): Promise<SinkS3> {
  const uploads = new Map<string, Map<number, Part>>();
  const files = new Map<string, SunkFile>();
  const objects = new Map<string, Buffer>();
  const heads = new Map<string, { readonly etag: string; readonly size: number }>();
  const server = createServer((request, response) => {
    answer(request, response).catch((error: unknown) => response.destroy(error as Error));
  });

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const url = new URL(request.url ?? '/', 'http://sink');
    const key = decodeURIComponent(url.pathname.split('/').slice(2).join('/'));
    const uploadId = url.searchParams.get('uploadId') ?? '';
    const number = Number(url.searchParams.get('partNumber'));
    const etag = `"${randomUUID()}"`;
    if (request.method === 'POST' && url.searchParams.has('uploads')) {
      const id = randomUUID();
      uploads.set(id, new Map());
      response.setHeader('x-amz-checksum-algorithm', 'CRC32');
      end(
        response,
        200,
        `<InitiateMultipartUploadResult><UploadId>${id}</UploadId></InitiateMultipartUploadResult>`,
      );
    } else if (request.method === 'PUT' && uploadId !== '') {
      const parts = uploads.get(uploadId);
      parts?.set(number, await readPart(request));
      // Parts in flight may arrive in any order; the last two are among the last six.
      const old = parts?.get(number - 6);
      if (old) old.body = null;
      end(response.setHeader('etag', etag), 200, '');
    } else if (request.method === 'POST') {
      request.resume();
      const parts = uploads.get(uploadId) ?? new Map();
      files.set(key, fileOf(parts));
      heads.set(key, { etag, size: fileOf(parts).bytes });
      uploads.delete(uploadId);
      end(
        response,
        200,
        `<CompleteMultipartUploadResult><ETag>${etag}</ETag></CompleteMultipartUploadResult>`,
      );
    } else if (request.method === 'PUT') {
      const body = (await readPart(request)).body ?? Buffer.alloc(0);
      objects.set(key, body);
      // As at a real store; the tag of parts stays a name.
      const md5 = createHash('md5').update(body).digest('hex');
      end(response.setHeader('etag', `"${md5}"`), 200, '');
    } else if (request.method === 'HEAD' && heads.has(key)) {
      const head = heads.get(key);
      response.setHeader('content-length', head?.size ?? 0);
      end(response.setHeader('etag', head?.etag ?? ''), 200, '');
    } else if (request.method === 'DELETE') {
      end(response, 204, '');
    } else {
      end(response, 404, '<Error><Code>NoSuchKey</Code><Message>nothing is kept</Message></Error>');
    }
  }

  return {
    endpoint: `http://127.0.0.1:${await listen(server)}`,
    files,
    objects,
    close: () => stopServer(server),
  };
}

function end(response: ServerResponse, status: number, body: string): void {
  response.statusCode = status;
  response.end(body);
}

async function readPart(request: IncomingMessage): Promise<Part> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const body = Buffer.concat(chunks);
  let lines = 0;
  for (let at = body.indexOf(10); at !== -1; at = body.indexOf(10, at + 1)) lines += 1;
  return { bytes: body.length, lines, body };
}

function fileOf(parts: ReadonlyMap<number, Part>): SunkFile {
  const inOrder = [...parts].toSorted(([one], [other]) => one - other).map(([, part]) => part);
  const sum = (value: (part: Part) => number) =>
    inOrder.reduce((all, part) => all + value(part), 0);
  return {
    bytes: sum((part) => part.bytes),
    lines: sum((part) => part.lines),
    parts: inOrder.length,
    tail: Buffer.concat(inOrder.slice(-2).flatMap(({ body }) => body ?? [])),
  };
}

/** What `npm run test:big` was called with. */
interface BigRun {
  readonly rows: number;
  /** Of each, about. */
  readonly rowBytes: number;
  readonly format: string;
  readonly compression: string | null;
}

declare module 'vitest' {
  interface ProvidedContext {
    bigRun: BigRun;
  }
}

const { rows, rowBytes, format, compression } = inject('bigRun') satisfies BigRun;
const batch = 250_000;
const workerPort = 39_461;
/** What is promised of any size; the heap alone may take 256 MiB. */
const mostMib = 180;
/** What a run reserves besides that reads delivered files. */
const readBackMib = readBackBytes / 1024 ** 2;
/** How long a heartbeat may wait for its turn; a machine that is busy otherwise adds to it. */
const mostDelayMs = 50;
/** Of the timer that the gauges look with: an idle loop shows it. */
const resolutionMs = 10;

let sink: SinkS3;
/** The sink keeps nothing, and a supplement reads what is delivered. */
let files: string;
let installation: Installation;
let worker: TestProcess;

beforeAll(async () => {
  sink = await startSinkS3();
  files = await mkdtemp(join(tmpdir(), 'sluice-big-'));
  installation = await startInstallation({
    programs: 'build',
    workers: 0,
    // As in production; the others' short times are for faults.
    env: {
      LEASE_SECONDS: '10',
      UPLOAD_PART_MIB: '8',
      UPLOAD_STALL_SECONDS: '60',
      FILE_DESTINATION_ROOT: files,
    },
  });
  worker = await installation.startWorker({
    NODE_OPTIONS: '--max-old-space-size=256',
    WORKER_PORT: String(workerPort),
    ...deployedMalloc,
    LOG_LEVEL: 'info',
  });
  await fill();
});

afterAll(async () => {
  await installation?.close();
  await sink?.close();
  await rm(files, { recursive: true, force: true });
});

interface Sample {
  readonly rssMib: number;
  /** Delay of the event loop since the last sample. */
  readonly p99Ms: number;
  readonly maxMs: number;
}

async function sample(): Promise<Sample> {
  const status = readFileSync(`/proc/${worker.pid}/status`, 'utf8');
  // On a busy machine the worker closes an idle connection while a request is sent on it.
  const headers = { connection: 'close' };
  const answer = await fetch(`http://127.0.0.1:${workerPort}/metrics`, { headers });
  const metrics = await answer.text();
  const read = (name: string) => Number(new RegExp(`^${name} (.*)$`, 'm').exec(metrics)?.[1]);
  return {
    rssMib: Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024,
    p99Ms: read('nodejs_eventloop_lag_p99_seconds') * 1000 - resolutionMs,
    maxMs: read('nodejs_eventloop_lag_max_seconds') * 1000 - resolutionMs,
  };
}

/** Samples twice a second until it is stopped. */
function watch(): { readonly samples: readonly Sample[]; stop(): Promise<void> } {
  const samples: Sample[] = [];
  let going = true;
  const loop = (async () => {
    while (going) {
      samples.push(await sample());
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  })();
  return {
    samples,
    async stop() {
      going = false;
      await loop;
    },
  };
}

async function fill(): Promise<void> {
  const [team] = installation.tenant.projectIds;
  const start = Date.parse(hour.start);
  const length = Date.parse(hour.end) - start;
  const instant = (row: number) => new Date(start + (length * row) / rows).toISOString();
  for (let done = 0; done < rows; done += batch) {
    const count = Math.min(batch, rows - done);
    const range = { start: instant(done), end: instant(done + count) };
    await insertEvents(installation.pool, { team, rows: count, rowBytes, ...range });
  }
  await installation.pool.query('vacuum analyze events');
}

/** What a run left; the trial of the destination goes before it. */
function valuesOf<Value>(kept: ReadonlyMap<string, Value>): readonly Value[] {
  return [...kept].flatMap(([key, value]) => (key.startsWith('.sluice-test-') ? [] : [value]));
}

function rowsOf(file: SunkFile | undefined): number | null {
  if (format === 'JSONLines' && compression === null) return file?.lines ?? null;
  if (format !== 'Parquet' || !file) return null;
  const { buffer, byteOffset, byteLength } = file.tail;
  const tail = buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer;
  return Number(parquetMetadata(tail).num_rows);
}

it(`${rows} rows in ${format} ${compression ?? ''} arrive all, in flat memory`, async () => {
  const idle = await sample();
  const watched = watch();
  const startedAt = performance.now();
  const id = await createS3Export(installation, {
    config: { endpoint_url: sink.endpoint, file_format: format, compression },
  });
  await backfill(installation, id, hour);
  const [run] = await untilEnded(installation, id, { timeoutMs: 7_000_000 });
  const seconds = (performance.now() - startedAt) / 1000;
  await watched.stop();

  const { samples } = watched;
  const half = samples.length >> 1;
  const peak = (part: readonly Sample[]) => Math.max(...part.map(({ rssMib }) => rssMib));
  const at = (tenth: number) => Math.ceil((samples.length * tenth) / 10);
  const tenths = Array.from({ length: 10 }, (_, n) => peak(samples.slice(at(n), at(n + 1) + 1)));
  const file = valuesOf(sink.files)[0];
  const p99s = samples.map(({ p99Ms }) => p99Ms).toSorted((one, other) => one - other);
  const report = {
    rows: run?.rows,
    rowsInFile: rowsOf(file),
    seconds: Math.round(seconds * 10) / 10,
    rowsPerSecond: Math.round(rows / seconds),
    fileMib: Math.round((file?.bytes ?? 0) / 1024 ** 2),
    rssMib: {
      idle: Math.round(idle.rssMib),
      firstHalf: Math.round(peak(samples.slice(0, half))),
      secondHalf: Math.round(peak(samples.slice(half))),
      inTenths: tenths.map(Math.round).join(' '),
    },
    eventLoopDelayMs: {
      medianOfP99: Math.round(p99s[p99s.length >> 1] ?? 0),
      worstP99: Math.round(p99s.at(-1) ?? 0),
      max: Math.round(Math.max(...samples.map(({ maxMs }) => maxMs))),
    },
  };
  console.log(JSON.stringify(report, null, 1));

  // One attempt: the heartbeats went on.
  expect(run).toMatchObject({ status: 'Completed', rows, attempt: 1, crashes: 0 });
  expect(rowsOf(file) ?? rows).toBe(rows);
  const [manifest] = valuesOf(sink.objects).map((body) => JSON.parse(body.toString()));
  expect(manifest).toMatchObject({ total_rows: rows, total_bytes: file?.bytes });
  expect(peak(samples)).toBeLessThan(mostMib);
  // The worst single one is printed, not asserted: the machine may cause it.
  expect(report.eventLoopDelayMs.medianOfP99).toBeLessThan(mostDelayMs);
  // What the first half took the second may use again, not pass; a short run has not warmed up by then.
  if (samples.length >= 40)
    expect(report.rssMib.secondHalf).toBeLessThan(report.rssMib.firstHalf * 1.25);
});

it(`one late row is added to ${rows} delivered rows; half have left the source, and a run of the whole is refused`, async () => {
  const { pool, sql, client, tenant, databaseUrl } = installation;
  const [team] = tenant.projectIds;
  const created = await client.post(`/api/projects/${team}/batch_exports/`, {
    name: 'kept',
    interval: 'hour',
    end_at: hour.end,
    destination: { type: 'File', config: { directory: 'kept', file_format: format, compression } },
  });
  const id = String(created.body.id);
  await backfill(installation, id, hour);
  await untilEnded(installation, id, { timeoutMs: 7_000_000 });
  await sql`delete from events where ctid in (select ctid from events limit ${rows / 2})`;
  await insertEvents(pool, { team, rows: 1, start: '2024-03-01T00:30:00Z', end: hour.end });
  const db = openTestPool(databaseUrl);
  const interval = { start: Date.parse(hour.start), end: Date.parse(hour.end) };
  const run = async (purpose: 'supplement' | 'whole', count: number) => {
    const watched = watch();
    const startedAt = performance.now();
    await insertRuns(db, [{ exportId: id, teamId: team, interval, backfillId: null, purpose }]);
    const ended = (await untilEnded(installation, id, { count, timeoutMs: 7_000_000 })).at(-1);
    await watched.stop();
    const seconds = Math.round((performance.now() - startedAt) / 100) / 10;
    const peakRssMib = Math.round(Math.max(...watched.samples.map(({ rssMib }) => rssMib)));
    console.log(JSON.stringify({ ...ended, seconds, peakRssMib }, null, 1));
    expect(peakRssMib).toBeLessThan(mostMib + readBackMib);
    return ended;
  };
  const supplement = await run('supplement', 2);
  expect(supplement).toMatchObject({ status: 'Completed', rows: 1, attempt: 1, crashes: 0 });
  const { rows: found } = await sql<{ rows: number }>`select rows::float8 as rows
    from receipts where export_id = ${id}`;
  expect(found[0]?.rows).toBe(rows + 1);
  expect(await run('whole', 3)).toMatchObject({ status: 'Failed', attempt: 1, crashes: 0 });
  await db.close();
});

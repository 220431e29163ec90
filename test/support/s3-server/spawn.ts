import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { inject } from 'vitest';
import type { S3Credentials } from './authentication.ts';
import { faultToJson } from './control.ts';
import type { RequestLogEntry } from './exchange.ts';
import type { Fault } from './faults.ts';
import type { S3Quirks } from './quirks.ts';
import type { ObjectWrite } from './recorder.ts';
import type { ObjectSnapshot, UploadSnapshot } from './snapshots.ts';

export interface SpawnedS3ServerOptions {
  buckets: readonly string[];
  credentials: S3Credentials;
  region?: string;
  minPartBytes?: number;
  maxParts?: number;
  quirks?: S3Quirks;
}

/** The same questions as to a server in this process, asked over the control port. */
export interface SpawnedS3Server {
  readonly endpoint: string;
  faults: { add(fault: Fault): Promise<void>; clear(): Promise<void> };
  requests(): Promise<RequestLogEntry[]>;
  objects(bucket: string): Promise<Omit<ObjectSnapshot, 'body'>[]>;
  body(bucket: string, key: string): Promise<Buffer>;
  uploads(bucket: string): Promise<UploadSnapshot[]>;
  writes(bucket: string): Promise<ObjectWrite[]>;
  namedKeyViolations(): Promise<string[]>;
  setQuirks(quirks: S3Quirks): Promise<void>;
  /** Takes an object away, as its owner may do; it is not recorded. */
  remove(bucket: string, key: string): Promise<void>;
  /** SIGTERM, and waits for the end; also after the process was killed otherwise. */
  close(): Promise<void>;
}

async function readReady(child: ChildProcess): Promise<{ endpoint: string; control: string }> {
  if (!child.stdout) throw new Error('The S3 server has no standard output.');
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.startsWith('ready ')) return JSON.parse(line.slice('ready '.length));
  }
  throw new Error(`The S3 server ended before it was ready (exit ${child.exitCode}).`);
}

function argumentsOf(options: SpawnedS3ServerOptions): string[] {
  const given: Record<string, string | number | undefined> = {
    'access-key-id': options.credentials.accessKeyId,
    'secret-access-key': options.credentials.secretAccessKey,
    region: options.region,
    'min-part-bytes': options.minPartBytes,
    'max-parts': options.maxParts,
    quirks: options.quirks && JSON.stringify(options.quirks),
  };
  return [
    ...options.buckets.map((bucket) => `--bucket=${bucket}`),
    ...Object.entries(given)
      .filter(([, value]) => value !== undefined)
      .map(([name, value]) => `--${name}=${value}`),
  ];
}

/** Starts the S3 server as a process of its own. */
export async function spawnS3Server(options: SpawnedS3ServerOptions): Promise<SpawnedS3Server> {
  const main = inject('s3Server');
  const child = spawn(process.execPath, [main, ...argumentsOf(options)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const exited = once(child, 'exit');
  const { endpoint, control } = await readReady(child);
  const ask = async (path: string, init?: RequestInit): Promise<Response> => {
    const response = await fetch(`${control}${path}`, init);
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
    return response;
  };
  const query = (values: Record<string, string>): string => String(new URLSearchParams(values));
  return {
    endpoint,
    faults: {
      async add(fault) {
        await ask('/faults', { method: 'POST', body: JSON.stringify(faultToJson(fault)) });
      },
      async clear() {
        await ask('/faults', { method: 'DELETE' });
      },
    },
    requests: async () => (await ask('/requests')).json() as Promise<RequestLogEntry[]>,
    objects: async (bucket) =>
      (await ask(`/objects?${query({ bucket })}`)).json() as Promise<ObjectSnapshot[]>,
    body: async (bucket, key) =>
      Buffer.from(await (await ask(`/body?${query({ bucket, key })}`)).arrayBuffer()),
    uploads: async (bucket) =>
      (await ask(`/uploads?${query({ bucket })}`)).json() as Promise<UploadSnapshot[]>,
    writes: async (bucket) =>
      (await ask(`/writes?${query({ bucket })}`)).json() as Promise<ObjectWrite[]>,
    namedKeyViolations: async () => (await ask('/violations')).json() as Promise<string[]>,
    async setQuirks(quirks) {
      await ask('/quirks', { method: 'PUT', body: JSON.stringify(quirks) });
    },
    async remove(bucket, key) {
      await ask(`/object?${query({ bucket, key })}`, { method: 'DELETE' });
    },
    async close() {
      child.kill('SIGTERM');
      await exited;
    },
  };
}

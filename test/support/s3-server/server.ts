import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Clock, systemClock } from '../../../src/foundation/domain/clock.ts';
import type { S3Credentials } from './authentication.ts';
import type { S3Limits } from './context.ts';
import { type RequestLogEntry, serveRequest } from './exchange.ts';
import { createFaultPlan, type FaultPlan } from './faults.ts';
import type { S3Quirks } from './quirks.ts';
import { createRecorder, type ObjectWrite, type Recorder } from './recorder.ts';
import {
  type ObjectSnapshot,
  snapshotObjects,
  snapshotUploads,
  type UploadSnapshot,
} from './snapshots.ts';
import { Bucket } from './storage.ts';

export interface S3ServerOptions {
  /** A name, or a bucket of another region, which is answered PermanentRedirect. */
  buckets?: readonly (string | { name: string; region: string })[];
  credentials: S3Credentials | readonly S3Credentials[];
  /** Default us-east-1. */
  region?: string;
  /** Default 5 MiB, as S3. */
  minPartBytes?: number;
  /** Default 10,000, as S3. */
  maxParts?: number;
  /** KMS keys that exist; default: any. */
  kmsKeys?: readonly string[];
  clock?: Clock;
  /** How it differs from S3. */
  quirks?: S3Quirks;
}

export interface S3Server {
  /** `http://127.0.0.1:<port>` */
  readonly endpoint: string;
  readonly port: number;
  readonly region: string;
  readonly faults: FaultPlan;
  /** The newest 50,000 requests, oldest first. */
  readonly requests: readonly Readonly<RequestLogEntry>[];
  /** In the order of their keys; throws for a bucket that is not there. */
  objects(bucket: string): ObjectSnapshot[];
  /** Open multipart uploads, in the order of their keys. */
  uploads(bucket: string): UploadSnapshot[];
  /** Writes and deletes of objects, oldest first. */
  writes(bucket: string): readonly ObjectWrite[];
  /** Takes an object away, as its owner may do; it is not recorded. */
  removeObject(bucket: string, key: string): void;
  /** Makes an object look as old as this, in milliseconds. */
  age(bucket: string, key: string, ms: number): void;
  /** Writes and deletes of keys that a current manifest named, and manifests that named missing keys. */
  namedKeyViolations(): readonly string[];
  /** From now on it differs from S3 in these ways. */
  setQuirks(quirks: S3Quirks): void;
  /** Cuts every connection and ends. */
  close(): Promise<void>;
}

/** What serving a request needs of the server. */
export interface ServerState {
  region: string;
  endpoint: string;
  credentials: readonly S3Credentials[];
  limits: S3Limits;
  kmsKeys: readonly string[] | undefined;
  buckets: Map<string, Bucket>;
  quirks: S3Quirks;
  recorder: Recorder;
  faults: ReturnType<typeof createFaultPlan>;
  now: () => number;
  nextRequestId: () => string;
  log: (entry: RequestLogEntry) => void;
}

const maxLogEntries = 50_000;

function createState(options: S3ServerOptions, requests: RequestLogEntry[]): ServerState {
  const { region = 'us-east-1', clock = systemClock, credentials } = options;
  const buckets = (options.buckets ?? []).map((entry) => {
    const { name, region: home } = typeof entry === 'string' ? { name: entry, region } : entry;
    return new Bucket(name, home);
  });
  let count = 0;
  return {
    region,
    endpoint: '',
    credentials: 'accessKeyId' in credentials ? [credentials] : credentials,
    limits: {
      minPartBytes: options.minPartBytes ?? 5 * 1024 ** 2,
      maxParts: options.maxParts ?? 10_000,
    },
    kmsKeys: options.kmsKeys,
    buckets: new Map(buckets.map((bucket) => [bucket.name, bucket])),
    quirks: options.quirks ?? {},
    recorder: createRecorder(() => clock.now()),
    faults: createFaultPlan(),
    now: () => clock.now(),
    nextRequestId: () => {
      count += 1;
      return `REQ${count.toString().padStart(13, '0')}`;
    },
    log: (entry) => {
      requests.push(entry);
      if (requests.length > maxLogEntries) requests.shift();
    },
  };
}

/**
 * A strict S3 server on 127.0.0.1, data in memory: it refuses what S3 refuses, with S3's codes, and
 * fails on request. See README.md for what it does not do.
 */
export async function startS3Server(options: S3ServerOptions): Promise<S3Server> {
  const requests: RequestLogEntry[] = [];
  const state = createState(options, requests);
  const server = createServer({ requestTimeout: 0, keepAliveTimeout: 60_000, noDelay: true });
  server.on('request', (message, response) => serveRequest(state, message, response, false));
  // Answering by ourselves lets an error come before the body is sent, as S3 does it.
  server.on('checkContinue', (message, response) => serveRequest(state, message, response, true));
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  state.endpoint = `http://127.0.0.1:${port}`;
  const bucketNamed = (name: string): Bucket => {
    const bucket = state.buckets.get(name);
    if (!bucket) throw new Error(`The S3 server has no bucket ${name}.`);
    return bucket;
  };
  return {
    endpoint: state.endpoint,
    port,
    region: state.region,
    faults: state.faults,
    requests,
    objects: (name) => snapshotObjects(bucketNamed(name)),
    uploads: (name) => snapshotUploads(bucketNamed(name)),
    removeObject: (name, key) => void state.buckets.get(name)?.objects.delete(key),
    age(name, key, ms) {
      const object = state.buckets.get(name)?.objects.get(key);
      if (object) object.modifiedAt = state.now() - ms;
    },
    writes: (name) => state.recorder.writes.filter((write) => write.bucket === name),
    namedKeyViolations: () => state.recorder.violations,
    setQuirks(quirks) {
      state.quirks = quirks;
    },
    async close() {
      const closed = once(server, 'close');
      server.close();
      server.closeAllConnections();
      await closed;
    },
  };
}

import { randomBytes } from 'node:crypto';
import { createServer, type RequestListener } from 'node:http';
import type {
  Destination,
  DestinationContext,
  StoreTraits,
} from '../../src/rows/destinations/destination.ts';
import { s3Definition } from '../../src/rows/destinations/s3/definition.ts';
import { contextWith, options, owner, recordingJournal } from '../conformance/destination-suite.ts';
import type { ActiveFault, Fault, FaultEffect } from './s3-server/faults.ts';
import type { OperationName } from './s3-server/operations.ts';
import { type S3Server, type S3ServerOptions, startS3Server } from './s3-server/server.ts';
import { inTest, listenInTest } from './use-stage.ts';

export const credentials = {
  accessKeyId: 'AKIACANARY0000000001',
  secretAccessKey: 'canary-secret',
};
/** Small, so that the tests are quick; the server has the same limit. */
export const partBytes = 256 * 1024;
export const bucket = 'exports';

export interface OpenedStore {
  readonly server: S3Server;
  readonly destination: Destination;
  /** What it was opened with. */
  readonly config: Readonly<Record<string, unknown>>;
  readonly context: DestinationContext;
  /** The same destination in another process, as it were. */
  open(traits?: StoreTraits | null): Destination;
  /** The next request for the operation meets this; `more` says how often, if not once. */
  fault(operation: OperationName, effect: FaultEffect, more?: Partial<Fault>): ActiveFault;
  /** How many requests for an operation came in. */
  sent(operation: string): number;
  close(): Promise<void>;
}

export const serverDefaults = { buckets: [bucket], credentials, minPartBytes: partBytes };

/** The strict server, with quirks if a test wants them, and a destination that writes to it. */
export async function openStore(
  server: Partial<S3ServerOptions> = {},
  context: Partial<DestinationContext> = {},
  config: Readonly<Record<string, unknown>> = {},
): Promise<OpenedStore> {
  const started = await startS3Server({ ...serverDefaults, ...server });
  const opened: Destination[] = [];
  const given = {
    config: {
      bucket_name: bucket,
      region: started.region,
      aws_access_key_id: credentials.accessKeyId,
      aws_secret_access_key: credentials.secretAccessKey,
      endpoint_url: started.endpoint,
      ...config,
    },
    context: contextWith({ partBytes, ...context }),
  };
  const open = (traits: StoreTraits | null = null) => {
    const destination = s3Definition.open(given.config, given.context, owner, traits);
    opened.push(destination);
    return destination;
  };
  return {
    ...given,
    server: started,
    destination: open(),
    open,
    fault: (operation, effect, more) =>
      started.faults.add({ match: { operation }, effect, ...more }),
    sent: (operation) => started.requests.filter((entry) => entry.operation === operation).length,
    async close() {
      for (const destination of opened) await destination.close();
      await started.close();
    },
  };
}

/** A store whose end is that of the test. */
export function start(
  overrides: {
    readonly config?: Record<string, unknown>;
    readonly context?: Partial<DestinationContext>;
    readonly server?: Partial<S3ServerOptions>;
  } = {},
): Promise<OpenedStore> {
  return inTest(openStore(overrides.server, overrides.context, overrides.config));
}

/** The answer to what credentials may not do. */
export const denied = { status: 403, code: 'AccessDenied' };

/** A file that has bytes and is not complete yet. */
export async function beginFile(destination: Destination, bytes: Uint8Array, key = 'a') {
  const writer = await destination.createFile(options(key), recordingJournal().journal);
  await writer.write(bytes);
  return writer;
}

/** Writes one whole file. */
export async function upload(
  { destination }: Pick<OpenedStore, 'destination'>,
  bytes: Uint8Array,
  key = 'a.jsonl',
) {
  return (await beginFile(destination, bytes, key)).complete();
}

/** A server that gives the answers of the test, which no correct store gives. @returns its port */
export function serve(answer: RequestListener): Promise<number> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => answer(request, response));
  });
  return listenInTest(server);
}

export const twoParts = randomBytes(Math.round(1.4 * partBytes));

interface StsAnswer {
  readonly status: number;
  readonly xml: string;
  readonly date?: string;
}

/** Speaks as much of STS as AssumeRole needs. */
export async function startSts(answer: (signedAt: string) => StsAnswer) {
  const calls: URLSearchParams[] = [];
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request.setEncoding('utf8')) body += chunk;
    calls.push(new URLSearchParams(body));
    const { status, xml, date } = answer(String(request.headers['x-amz-date']));
    response.writeHead(status, { 'content-type': 'text/xml', ...(date && { date }) }).end(xml);
  });
  return { calls, endpoint: `http://127.0.0.1:${await listenInTest(server)}` };
}

/** The keys of the role. */
export const issued = {
  accessKeyId: 'ASIACANARY0000000001',
  secretAccessKey: 'issued-canary',
  sessionToken: 'issued-session-canary/+=',
};

/** What STS answers about a role that may be assumed. */
export const assumed = (expiration = '2999-01-01T00:00:00Z'): StsAnswer => ({
  status: 200,
  xml: `<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
    <AccessKeyId>${issued.accessKeyId}</AccessKeyId><SecretAccessKey>${issued.secretAccessKey}</SecretAccessKey>
    <SessionToken>${issued.sessionToken}</SessionToken><Expiration>${expiration}</Expiration>
    </Credentials></AssumeRoleResult></AssumeRoleResponse>`,
});

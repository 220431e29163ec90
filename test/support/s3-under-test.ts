import { randomBytes } from 'node:crypto';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import type { DestinationContext } from '../../src/rows/destinations/destination.ts';
import { s3Definition } from '../../src/rows/destinations/s3/definition.ts';
import { contextWith, options, owner, recordingJournal } from '../conformance/destination-suite.ts';
import { bucket, credentials, partBytes } from './s3-destination.ts';
import { type S3ServerOptions, startS3Server } from './s3-server/server.ts';

export const serverDefaults = { buckets: [bucket], credentials, minPartBytes: partBytes };

/** Starts the strict server, and opens a destination that writes to it. The end of the test closes both. */
export async function start(
  overrides: {
    readonly config?: Record<string, unknown>;
    readonly context?: Partial<DestinationContext>;
    readonly server?: Partial<S3ServerOptions>;
  } = {},
) {
  const server = await startS3Server({ ...serverDefaults, ...overrides.server });
  const config: Record<string, unknown> = {
    bucket_name: bucket,
    region: 'us-east-1',
    aws_access_key_id: credentials.accessKeyId,
    aws_secret_access_key: credentials.secretAccessKey,
    endpoint_url: server.endpoint,
    ...overrides.config,
  };
  const context = contextWith({ partBytes, ...overrides.context });
  const destination = s3Definition.open(config, context, owner);
  onTestFinished(() => server.close());
  onTestFinished(() => destination.close());
  const sent = (operation: string) =>
    server.requests.filter((entry) => entry.operation === operation).length;
  return { server, destination, config, context, sent };
}

type Started = Awaited<ReturnType<typeof start>>;

/** Writes one whole file. */
export async function upload({ destination }: Started, bytes: Uint8Array, key = 'a.jsonl') {
  const { journal } = recordingJournal();
  const writer = await destination.createFile(options(key), journal);
  await writer.write(bytes);
  await writer.complete();
}

/** A server that gives the answers of the test, which no correct store gives. @returns its port */
export async function serve(answer: RequestListener): Promise<number> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => answer(request, response));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

export const twoParts = randomBytes(Math.round(1.4 * partBytes));

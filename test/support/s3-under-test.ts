import { randomBytes } from 'node:crypto';
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { onTestFinished } from 'vitest';
import type { DestinationContext } from '../../src/rows/destinations/destination.ts';
import { options, recordingJournal } from '../conformance/destination-suite.ts';
import { type OpenedStore, openStore, partBytes } from './s3-destination.ts';
import type { S3ServerOptions } from './s3-server/server.ts';

/** A store whose end is that of the test. */
export async function start(
  overrides: {
    readonly config?: Record<string, unknown>;
    readonly context?: Partial<DestinationContext>;
    readonly server?: Partial<S3ServerOptions>;
  } = {},
): Promise<OpenedStore> {
  const store = await openStore(overrides.server, overrides.context, overrides.config);
  onTestFinished(() => store.close());
  return store;
}

/** Writes one whole file. */
export async function upload({ destination }: OpenedStore, bytes: Uint8Array, key = 'a.jsonl') {
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

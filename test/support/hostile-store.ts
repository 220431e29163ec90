import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Destination, DestinationContext } from '../../src/rows/destinations/destination.ts';
import { s3Definition } from '../../src/rows/destinations/s3/definition.ts';
import { contextWith, owner } from '../conformance/destination-suite.ts';
import { listen, stopServer } from './free-port.ts';

export interface HostileStore {
  readonly endpoint: string;
  readonly port: number;
  /** `GET /bucket?uploads=` and so on, in order of arrival. */
  readonly requests: readonly string[];
  /** Bytes of answers that were handed to the system. */
  readonly sentBytes: () => number;
  readonly openConnections: () => number;
  close(): Promise<void>;
}

export type Answer = (request: IncomingMessage, response: ServerResponse) => void | Promise<void>;

/** A host that a tenant names as its store, and that answers as a test wants. */
export async function startHostileStore(answer: Answer): Promise<HostileStore> {
  const requests: string[] = [];
  const sockets = new Set<Socket>();
  let closedBytes = 0;
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    // The client may leave at any time.
    response.on('error', () => {});
    void answer(request, response);
  });
  server.on('connection', (socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('close', () => {
      sockets.delete(socket);
      closedBytes += socket.bytesWritten;
    });
  });
  const port = await listen(server);
  return {
    endpoint: `http://127.0.0.1:${port}`,
    port,
    requests,
    sentBytes: () => [...sockets].reduce((sum, socket) => sum + socket.bytesWritten, closedBytes),
    openConnections: () => sockets.size,
    close: () => stopServer(server),
  };
}

/** A destination at a hostile store, with one try per request. */
export function destinationAt(
  store: Pick<HostileStore, 'endpoint'>,
  context: Partial<DestinationContext> = {},
): Destination {
  return s3Definition.open(
    {
      bucket_name: 'bucket',
      region: 'us-east-1',
      aws_access_key_id: 'AKIAHOSTILE000000001',
      aws_secret_access_key: 'hostile-secret',
      endpoint_url: store.endpoint,
    },
    contextWith({ requestRetry: { maxAttempts: 1, baseMs: 1, capMs: 1 }, ...context }),
    owner,
  );
}

const filler = Buffer.alloc(64 * 1024, '<Contents><Key>a</Key></Contents>');

/** Sends XML without an end, until the client leaves or `maxBytes` are sent. */
export async function sendEndlessly(
  response: ServerResponse,
  head: string,
  maxBytes: number,
  status = 200,
): Promise<void> {
  response.writeHead(status, { 'content-type': 'application/xml', etag: '"tag"' });
  response.write(head);
  for (let bytes = 0; bytes < maxBytes && !response.destroyed; bytes += filler.length) {
    if (!response.write(filler)) await untilDrained(response);
  }
  response.end();
}

function untilDrained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      response.off('drain', done);
      response.off('close', done);
      resolve();
    };
    response.on('drain', done);
    response.on('close', done);
  });
}

/** Sends a little at a time, for ever. */
export function drip(response: ServerResponse, bytes: number, everyMs: number): void {
  response.writeHead(200, { 'content-type': 'application/xml', etag: '"tag"' });
  const timer = setInterval(() => response.write(filler.subarray(0, bytes)), everyMs);
  response.once('close', () => clearInterval(timer));
}

export function sendXml(response: ServerResponse, name: string, content: string): void {
  const text = `<?xml version="1.0" encoding="UTF-8"?><${name}>${content}</${name}>`;
  response.writeHead(200, { 'content-type': 'application/xml' }).end(text);
}

import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Fault } from './faults.ts';
import type { S3Quirks } from './quirks.ts';
import type { S3Server } from './server.ts';

/** A fault as JSON: the key as the source of a regular expression, endless `times` as null. */
export interface FaultJson extends Omit<Fault, 'match' | 'times'> {
  match: Omit<Fault['match'], 'key'> & { key?: { source: string; flags: string } };
  times?: number | null;
}

export function faultToJson({ match: { key, ...match }, times, ...rest }: Fault): FaultJson {
  return {
    ...rest,
    match: { ...match, ...(key ? { key: { source: key.source, flags: key.flags } } : {}) },
    ...(times === undefined ? {} : { times: Number.isFinite(times) ? times : null }),
  };
}

export function faultFromJson({ match: { key, ...match }, times, ...rest }: FaultJson): Fault {
  return {
    ...rest,
    match: { ...match, ...(key ? { key: new RegExp(key.source, key.flags) } : {}) },
    ...(times === undefined ? {} : { times: times ?? Number.POSITIVE_INFINITY }),
  };
}

async function readJson<T>(message: IncomingMessage): Promise<T> {
  let text = '';
  for await (const chunk of message) text += chunk;
  return JSON.parse(text);
}

/**
 * Serves a server's faults and state over plain HTTP on 127.0.0.1, for tests in another process:
 * POST and DELETE /faults; PUT /quirks; DELETE /object?bucket=&key=; GET /requests, /objects?bucket=, /body?bucket=&key=,
 * /uploads?bucket=, /writes?bucket=, /violations.
 */
export async function startControl(
  server: S3Server,
): Promise<{ port: number; close(): Promise<void> }> {
  const answer = async (message: IncomingMessage): Promise<unknown> => {
    const url = new URL(message.url ?? '/', 'http://control');
    const bucket = url.searchParams.get('bucket') ?? '';
    switch (`${message.method} ${url.pathname}`) {
      case 'POST /faults':
        server.faults.add(faultFromJson(await readJson<FaultJson>(message)));
        return {};
      case 'DELETE /faults':
        server.faults.clear();
        return {};
      case 'PUT /quirks':
        server.setQuirks(await readJson<S3Quirks>(message));
        return {};
      case 'DELETE /object':
        server.removeObject(bucket, url.searchParams.get('key') ?? '');
        return {};
      case 'GET /writes':
        return server.writes(bucket);
      case 'GET /violations':
        return server.namedKeyViolations();
      case 'GET /requests':
        return server.requests;
      case 'GET /objects':
        return server.objects(bucket);
      case 'GET /uploads':
        return server.uploads(bucket);
      case 'GET /body': {
        const key = url.searchParams.get('key');
        return server
          .objects(bucket)
          .find((object) => object.key === key)
          ?.body();
      }
      default:
        return undefined;
    }
  };
  const http = createServer(async (message, response) => {
    try {
      const value = await answer(message);
      response.writeHead(value === undefined ? 404 : 200);
      response.end(Buffer.isBuffer(value) ? value : JSON.stringify(value ?? null));
    } catch (error) {
      response.writeHead(400);
      response.end(String(error));
    }
  });
  http.listen(0, '127.0.0.1');
  await once(http, 'listening');
  return {
    port: (http.address() as AddressInfo).port,
    async close() {
      const closed = once(http, 'close');
      http.close();
      http.closeAllConnections();
      await closed;
    },
  };
}

import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import { listen, stopServer } from './free-port.ts';

/** A request that a receiver of webhooks got. */
export interface Received {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** How a receiver answers: a status, or on its own. */
export type Answering = number | ((response: ServerResponse, received: Received) => void);

/** A receiver of webhooks on 127.0.0.1. */
export interface Receiver {
  readonly url: string;
  /** `127.0.0.1:4711`, as ALLOWED_PRIVATE_ENDPOINTS names it. */
  readonly endpoint: string;
  readonly received: readonly Received[];
  answer(answering: Answering): void;
  close(): Promise<void>;
}

export async function startReceiver(first: Answering = 204): Promise<Receiver> {
  let answering = first;
  const received: Received[] = [];
  const server = createServer(async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const headers = Object.fromEntries(
      Object.entries(request.headers).map(([name, value]) => [name, String(value)]),
    );
    const body = Buffer.concat(chunks).toString();
    const seen = { path: request.url ?? '', headers, body };
    received.push(seen);
    if (typeof answering === 'number') response.writeHead(answering).end();
    else answering(response, seen);
  });
  const port = await listen(server);
  return {
    url: `http://127.0.0.1:${port}/hooks/sluice`,
    endpoint: `127.0.0.1:${port}`,
    received,
    answer(next) {
      answering = next;
    },
    close: () => stopServer(server),
  };
}

import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { Api } from '../api.ts';

/** For a client to send the rest of a request, once the server closes. */
const patienceMs = 3_000;

interface Connection {
  /** Those that are not answered yet. */
  readonly requests: Set<IncomingMessage>;
  /** What it had sent when the last of them was answered. */
  answeredBytes: number;
}

/**
 * Keeps clients from holding up the end of the server: it closes connections without a request at once, others
 * after their answers, and those whose request does not come to its end a little later. By itself Node.js would
 * wait for all three, for the third one without end.
 */
export function endConnections(api: Api): void {
  const connections = new Map<Socket, Connection>();
  let isClosing = false;
  api.server.on('connection', (socket: Socket) => {
    connections.set(socket, { requests: new Set(), answeredBytes: 0 });
    socket.once('close', () => connections.delete(socket));
  });
  api.server.prependListener('request', (request: IncomingMessage, answer: ServerResponse) => {
    const { socket } = request;
    const connection = connections.get(socket);
    if (!connection) return;
    connection.requests.add(request);
    answer.once('close', () => {
      connection.requests.delete(request);
      connection.answeredBytes = socket.bytesRead;
      if (isClosing && connection.requests.size === 0) socket.destroySoon();
    });
  });
  api.addHook('preClose', async () => {
    isClosing = true;
    for (const [socket, { requests, answeredBytes }] of connections) {
      if (requests.size === 0 && socket.bytesRead === answeredBytes) socket.destroy();
    }
    setTimeout(() => {
      for (const [socket, { requests }] of connections) {
        if ([...requests].every(({ complete }) => !complete)) socket.destroy();
      }
    }, patienceMs).unref();
  });
}

import { createServer, type Socket } from 'node:net';
import { listen } from './free-port.ts';

/** Between two bytes. */
const dripMs = 10;

/**
 * Starts a server that sends a byte again and again, so that it is never silent and never done.
 *
 * @param begin what it says on a connection before, the first connection being 0; `drip` begins the rest
 */
export async function startDrippingServer(
  begin: (socket: Socket, nth: number, drip: () => void) => void = (_, __, drip) => drip(),
) {
  const closed: Promise<unknown>[] = [];
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    closed.push(new Promise((resolve) => socket.once('close', resolve)));
    sockets.push(socket);
    socket.on('error', () => {}).resume();
    begin(socket, sockets.length - 1, () => {
      const timer = setInterval(() => socket.write('a'), dripMs);
      socket.once('close', () => clearInterval(timer));
    });
  });
  return {
    port: await listen(server),
    /** For each connection that it took: once that is closed. */
    closed,
    stop: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

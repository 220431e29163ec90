import { createServer } from 'node:http';
import { connect } from 'node:net';
import { listen } from './free-port.ts';

/** A target that a proxy was asked for, and the login that came with it. */
export interface AskedTarget {
  readonly target: string;
  readonly login: string | undefined;
}

/**
 * Starts an HTTP proxy (CONNECT) on this machine. It knows no network.
 *
 * @param portOf the port of 127.0.0.1 that stands for a target `host:port`, or the status of a refusal
 */
export async function startConnectProxy(
  portOf: (target: string, login: string | undefined) => number | { readonly refused: number },
) {
  const asked: AskedTarget[] = [];
  const server = createServer();
  server.on('connect', ({ url = '', headers }, socket) => {
    const login = headers['proxy-authorization'];
    asked.push({ target: url, login });
    const port = portOf(url, login);
    if (typeof port === 'object') return socket.end(`HTTP/1.1 ${port.refused} No\r\n\r\n`);
    const inner = connect(port, '127.0.0.1', () => {
      socket.write('HTTP/1.1 200 Connection established\r\n\r\n');
      inner.pipe(socket).pipe(inner);
    });
    inner.on('error', () => socket.destroy());
    socket.on('error', () => inner.destroy());
  });
  const port = await listen(server);
  return {
    asked,
    port,
    stop() {
      server.closeAllConnections();
      server.close();
    },
  };
}

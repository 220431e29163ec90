import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export interface TcpTarget {
  host?: string;
  port: number;
}

export interface TcpProxy {
  readonly host: string;
  readonly port: number;
  /** Client connections that are open now. */
  readonly connections: number;
  /** Client connections so far. */
  readonly asked: number;
  /** Resets every open connection, and each new one at once. `accept` ends it. */
  hangUp(): void;
  /** Resets every open connection on both sides; new ones are still taken. */
  cut(): void;
  /** Stops listening: new connections are refused. Open ones stay open. */
  refuse(): Promise<void>;
  /** Listens again, on the same port. */
  accept(): Promise<void>;
  /** Half-open: connections stay (and are taken), but no byte moves in either direction. */
  pause(): void;
  resume(): void;
  /** Holds back each piece of data, in each direction, for this many milliseconds; 0 ends it. */
  delay(ms: number): void;
  /** How many connections `resetAfterBytes` has reset. */
  readonly resets: number;
  /** Lets `bytes` more bytes through (all connections, both directions), then resets the connection that reached them. Once. */
  resetAfterBytes(bytes: number): void;
  /** The same, but then it pauses, for good: what exceeds the bytes is lost. */
  pauseAfterBytes(bytes: number): void;
  close(): Promise<void>;
}

interface Pair {
  client: Socket;
  upstream: Socket;
}

/** Controls shared by all connections of one proxy. */
class Valve {
  delayMs = 0;
  resets = 0;
  /** Bytes that may still pass; null is no limit. */
  budget: number | null = null;
  #paused: { opened: Promise<void>; open: () => void } | null = null;

  pause(): void {
    if (this.#paused) return;
    let open = (): void => {};
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    this.#paused = { opened, open };
  }

  resume(): void {
    this.#paused?.open();
    this.#paused = null;
  }

  async opened(): Promise<void> {
    while (this.#paused) await this.#paused.opened;
  }

  /** Whether it pauses at the budget's end, instead of a reset. */
  pausesAtEnd = false;

  /** How many of `bytes` may pass. Reaching the budget's end spends it. */
  spend(bytes: number): { pass: number; reset: boolean } {
    if (this.budget === null) return { pass: bytes, reset: false };
    if (bytes < this.budget) {
      this.budget -= bytes;
      return { pass: bytes, reset: false };
    }
    const pass = this.budget;
    this.budget = null;
    if (this.pausesAtEnd) {
      this.pause();
      return { pass, reset: false };
    }
    return { pass, reset: true };
  }
}

function reset(pair: Pair): void {
  pair.client.resetAndDestroy();
  pair.upstream.resetAndDestroy();
}

/** Carries one direction, in order and with back-pressure, until its source ends. */
async function carry(from: Socket, to: Socket, pair: Pair, valve: Valve): Promise<void> {
  // A plain `for await` would destroy the socket at its end, and with it the other direction.
  for await (const chunk of from.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    if (valve.delayMs > 0) await sleep(valve.delayMs);
    await valve.opened();
    const { pass, reset: last } = valve.spend(chunk.length);
    let noteSent = (): void => {};
    // Not 'drain', which a short chunk never causes, nor a socket that closes meanwhile.
    const sent = new Promise<void>((resolve) => {
      noteSent = resolve;
    });
    const room = to.write(chunk.subarray(0, pass), () => noteSent());
    if (last) {
      // The bytes that were allowed must reach the other side before the reset overtakes them.
      await sent;
      valve.resets += 1;
      reset(pair);
      return;
    }
    if (!room && !to.destroyed) await once(to, 'drain');
  }
  await valve.opened();
  to.end();
}

/**
 * A TCP proxy on 127.0.0.1 that can fail in the ways a network does. It knows no protocol: put it
 * before Postgres, Redis or S3.
 */
export async function startTcpProxy({ target }: { target: TcpTarget }): Promise<TcpProxy> {
  const host = '127.0.0.1';
  const pairs = new Set<Pair>();
  const valve = new Valve();

  let asked = 0;
  let hangsUp = false;
  const serve = (client: Socket): void => {
    asked += 1;
    if (hangsUp) {
      client.on('error', () => {});
      client.resetAndDestroy();
      return;
    }
    const upstream = connect({
      host: target.host ?? host,
      port: target.port,
      allowHalfOpen: true,
      noDelay: true,
    });
    client.setNoDelay(true);
    const pair: Pair = { client, upstream };
    pairs.add(pair);
    for (const [socket, other] of [
      [client, upstream],
      [upstream, client],
    ] as const) {
      socket.on('error', () => other.resetAndDestroy());
      socket.on('close', () => {
        other.destroySoon();
        if (socket === client) pairs.delete(pair);
      });
    }
    // The listeners above close the other side when one side dies.
    carry(client, upstream, pair, valve).catch(() => reset(pair));
    carry(upstream, client, pair, valve).catch(() => reset(pair));
  };

  const listen = async (port: number): Promise<Server> => {
    const server = createServer({ allowHalfOpen: true }, serve);
    server.listen(port, host);
    await once(server, 'listening');
    return server;
  };

  let server: Server | null = await listen(0);
  const { port } = server.address() as AddressInfo;
  const cut = (): void => {
    for (const pair of pairs) reset(pair);
  };
  const refuse = async (): Promise<void> => {
    // The listener is closed at once; its 'close' would wait for open connections.
    server?.close();
    server = null;
  };

  return {
    host,
    port,
    get resets() {
      return valve.resets;
    },
    get connections() {
      return pairs.size;
    },
    get asked() {
      return asked;
    },
    hangUp() {
      hangsUp = true;
      cut();
    },
    cut,
    refuse,
    async accept() {
      hangsUp = false;
      server ??= await listen(port);
    },
    pause: () => valve.pause(),
    resume: () => valve.resume(),
    delay(ms) {
      valve.delayMs = ms;
    },
    resetAfterBytes(bytes) {
      valve.pausesAtEnd = false;
      valve.budget = bytes;
    },
    pauseAfterBytes(bytes) {
      valve.pausesAtEnd = true;
      valve.budget = bytes;
    },
    async close() {
      const closing = server;
      server = null;
      const closed = closing ? once(closing, 'close') : null;
      closing?.close();
      valve.resume();
      cut();
      await closed;
    },
  };
}

import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import { isIPv6, type Socket } from 'node:net';

/** The network of one client: an IPv4 address, or the 64 bits of an IPv6 network. */
export function networkOf(ip: string): string {
  const mapped = /^::ffff:(\d+\.\d+\.\d+\.\d+)$/i.exec(ip)?.[1];
  if (mapped !== undefined) return mapped;
  const [address = ''] = ip.split('%');
  if (!isIPv6(address)) return ip;
  const [head = '', tail] = address.split('::');
  const front = head === '' ? [] : head.split(':');
  const back = tail ? tail.split(':') : [];
  const gap = tail === undefined ? 0 : 8 - front.length - back.length;
  const groups = [...front, ...Array.from({ length: Math.max(0, gap) }, () => '0'), ...back];
  return `${groups
    .slice(0, 4)
    .map((group) => Number.parseInt(group, 16).toString(16))
    .join(':')}::/64`;
}

export interface ConnectionLimits {
  /** Open connections of one address. A trusted proxy has one address for all its clients: `inAll` then. */
  readonly perAddress: number;
  readonly inAll: number;
  /** Requests of one connection that are not answered yet. */
  readonly pipelined: number;
  /** Maximum time in which a client takes an answer. Then it is disconnected. */
  readonly takeMs: number;
}

export const usualConnections: ConnectionLimits = {
  perAddress: 256,
  inAll: 2_048,
  pipelined: 16,
  takeMs: 60_000,
};

/** Times of Node's server: a client that sends its headers or its body too slowly is disconnected. */
export const slowRequests = {
  headersTimeout: 15_000,
  requestTimeout: 30_000,
  connectionsCheckingInterval: 5_000,
};

/** For a client to send the rest of a request, once the server closes. */
const patienceMs = 3_000;

interface Asked {
  readonly request: IncomingMessage;
  readonly proceed: () => void;
}

interface Connection {
  readonly socket: Socket;
  readonly address: string;
  /** Requests that are not answered yet: the first one is in progress, the others wait. */
  readonly queue: Asked[];
  /** The bytes that it had sent when the last of its requests was answered. */
  answeredBytes: number;
  /** When it was opened, or its last answer was taken. On this process' steady clock, milliseconds. */
  idleSince: number;
  sentAt: number | null;
}

/**
 * The open connections of a server. A connection is served one request at a time: the next one begins when the client has taken the
 * answer before. So a client that does not read holds one answer per connection.
 * It also ends the server: by itself Node.js would wait for each client that keeps its connection open.
 */
export class Connections {
  readonly #limits: ConnectionLimits;
  readonly #open = new Set<Connection>();
  readonly #bySocket = new WeakMap<Socket, Connection>();
  readonly #perAddress = new Map<string, number>();
  readonly #watch: NodeJS.Timeout;
  #isClosing = false;

  constructor(limits: ConnectionLimits) {
    this.#limits = limits;
    const everyMs = Math.min(1_000, limits.takeMs / 4);
    this.#watch = setInterval(() => this.#endUntaken(), everyMs).unref();
  }

  /** Counts the connections of a server. A connection too many takes the slot of an idle one, or is refused. */
  watch(server: Server): void {
    server.on('connection', (socket: Socket) => {
      const address = networkOf(socket.remoteAddress ?? '');
      if (!this.#makeRoom(address)) {
        socket.destroy();
        return;
      }
      const connection = this.#connectionOf(socket, address);
      this.#open.add(connection);
      this.#perAddress.set(address, this.#countOf(address) + 1);
      socket.once('close', () => this.#forget(connection));
    });
  }

  /** Calls `proceed` when the answers before this request are taken, or never if the connection ends before. */
  enter(request: IncomingMessage, answer: ServerResponse, proceed: () => void): void {
    const { socket } = request;
    if (socket.destroyed) return;
    const connection = this.#connectionOf(socket, '');
    const { queue } = connection;
    if (queue.push({ request, proceed }) > this.#limits.pipelined) {
      socket.destroy();
      stopParsing(socket);
      return;
    }
    answer.once('close', () => this.#leave(connection));
    if (queue.length === 1) proceed();
  }

  /** The answer is complete: its client has `takeMs` to take it. */
  sent({ socket }: IncomingMessage): void {
    const connection = this.#bySocket.get(socket);
    if (connection) connection.sentAt = performance.now();
  }

  /** The server takes no connections any more: ends those without a request at once, others after their answers. */
  end(): void {
    this.#isClosing = true;
    clearInterval(this.#watch);
    for (const { socket, queue, answeredBytes } of this.#open) {
      if (queue.length === 0 && socket.bytesRead === answeredBytes) socket.destroy();
    }
    setTimeout(() => {
      for (const { socket, queue } of this.#open) {
        if (queue.every(({ request }) => !request.complete)) socket.destroy();
      }
    }, patienceMs).unref();
  }

  #connectionOf(socket: Socket, address: string): Connection {
    const existing = this.#bySocket.get(socket);
    if (existing) return existing;
    const idleSince = performance.now();
    const connection = { socket, address, queue: [], answeredBytes: 0, idleSince, sentAt: null };
    this.#bySocket.set(socket, connection);
    return connection;
  }

  #leave(connection: Connection): void {
    const { socket, queue } = connection;
    queue.shift();
    connection.answeredBytes = socket.bytesRead;
    connection.idleSince = performance.now();
    connection.sentAt = null;
    if (socket.destroyed) return;
    if (this.#isClosing && queue.length === 0) socket.destroySoon();
    queue[0]?.proceed();
  }

  #forget(connection: Connection): void {
    const { address, queue } = connection;
    if (!this.#open.delete(connection)) return;
    queue.length = 0;
    const open = this.#countOf(address) - 1;
    if (open > 0) this.#perAddress.set(address, open);
    else this.#perAddress.delete(address);
  }

  #countOf(address: string): number {
    return this.#perAddress.get(address) ?? 0;
  }

  /** Closes the connection that has been idle for the longest time: of this address, or of the one with the most. */
  #makeRoom(address: string): boolean {
    if (this.#countOf(address) >= this.#limits.perAddress) return this.#closeIdle(address);
    if (this.#open.size < this.#limits.inAll) return true;
    const [largest] = [...this.#perAddress].toSorted(([, one], [, other]) => other - one);
    return this.#closeIdle(largest?.[0] ?? address) || this.#closeIdle(null);
  }

  #closeIdle(address: string | null): boolean {
    let longest: Connection | null = null;
    for (const connection of this.#open) {
      if (connection.queue.length > 0 || connection.socket.destroyed) continue;
      if (address !== null && connection.address !== address) continue;
      if (longest === null || connection.idleSince < longest.idleSince) longest = connection;
    }
    if (longest === null) return false;
    longest.socket.destroy();
    this.#forget(longest);
    return true;
  }

  #endUntaken(): void {
    const before = performance.now() - this.#limits.takeMs;
    for (const { socket, sentAt } of this.#open) {
      if (sentAt !== null && sentAt < before) socket.destroy();
    }
  }
}

/**
 * Node.js parses all that it has read of a connection, though the connection is destroyed meanwhile. In 64 KiB a client
 * sends more than a thousand requests, and each of them costs as much as an answer. An upgrade, which is what the number 2
 * says to the parser (llhttp), ends the parsing of HTTP. The next connection that uses this parser has its own `onIncoming`.
 */
function stopParsing(socket: Socket): void {
  const { parser } = socket as Socket & { readonly parser?: { onIncoming: () => number } | null };
  if (parser) parser.onIncoming = () => 2;
}

import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';

/**
 * A PostgreSQL for one benchmark that sends the rows of a COPY from memory, in a process of its own, so that the database is
 * not what limits. All else goes to a real server, and so does the first of equal copies and counts, whose answer is kept.
 * The port goes to the parent.
 */
const [address = ''] = process.argv.slice(2);
const { hostname, port } = new URL(address);

/** Answers of the server, by the text of the query, in the pieces in which they came. */
const kept = new Map<string, readonly Buffer[]>();

const isKept = (text: string) => /^(COPY|SELECT pg_catalog\.count\(\*\)) /.test(text);

const simpleQuery = 'Q'.charCodeAt(0);

/** A complete statement, and then the server is ready for the next one of the transaction. */
const complete = Buffer.from('C\0\0\0', 'latin1');
const ready = Buffer.from([0x5a, 0, 0, 0, 5, 0x54]);
/** Both have fewer bytes. */
const endBytes = 40;

/** An answer that is on its way. */
interface Coming {
  readonly text: string;
  readonly pieces: Buffer[];
}

const server = createServer((client) => {
  const upstream = connect(Number(port), hostname);
  const end = () => {
    client.destroy();
    upstream.destroy();
  };
  for (const socket of [client, upstream]) socket.setNoDelay().on('error', end).on('close', end);
  let coming: Coming | null = null;
  let rest = Buffer.alloc(0);
  let isStarted = false;
  client.on('data', (data) => {
    rest = Buffer.concat([rest, data]);
    for (let length = messageBytes(rest, isStarted); length > 0; ) {
      const message = rest.subarray(0, length);
      rest = rest.subarray(length);
      const text = message[0] === simpleQuery ? message.toString('utf8', 5, length - 1) : '';
      isStarted = true;
      const answer = kept.get(text);
      if (answer) void send(client, answer);
      else upstream.write(message);
      coming = !answer && isKept(text) ? { text, pieces: [] } : coming;
      length = messageBytes(rest, isStarted);
    }
  });
  upstream.on('data', (data) => {
    if (!client.write(data)) {
      upstream.pause();
      client.once('drain', () => upstream.resume());
    }
    if (coming && takes(coming, data)) coming = null;
  });
});

/** The size of the first message, 0 if it is not whole. Only the first message of a connection has no kind. */
function messageBytes(bytes: Buffer, hasKind: boolean): number {
  const head = hasKind ? 1 : 0;
  if (bytes.length < head + 4) return 0;
  const length = head + bytes.readInt32BE(head);
  return bytes.length < length ? 0 : length;
}

/** @returns whether the answer is whole; then it is kept */
function takes({ text, pieces }: Coming, data: Buffer): boolean {
  pieces.push(data);
  const end = Buffer.concat(pieces.slice(-3).map((piece) => piece.subarray(-endBytes)));
  if (!end.subarray(-ready.length).equals(ready) || !end.includes(complete)) return false;
  kept.set(text, pieces);
  return true;
}

async function send(client: Socket, pieces: readonly Buffer[]): Promise<void> {
  for (const piece of pieces) {
    if (client.destroyed) return;
    if (!client.write(piece)) await once(client, 'drain').catch(() => {});
  }
}

process.on('disconnect', () => process.exit());
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port));

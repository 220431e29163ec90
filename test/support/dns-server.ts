import { createSocket, type RemoteInfo } from 'node:dgram';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';

export interface DnsServer {
  /** In the form that a resolver takes: `127.0.0.1:5300`. */
  readonly address: string;
  /** Names in order of arrival, one entry per query of an address of version 4. */
  readonly queries: readonly string[];
  close(): Promise<void>;
}

/** What the server knows of a name: addresses of version 4, or `silent` for a query that it leaves unanswered. */
export type Known = 'silent' | { readonly addresses: readonly string[]; readonly ttl: number };

const typeA = 1;

/** A DNS server on 127.0.0.1. A name that `find` does not know (null) does not exist. */
export async function startDnsServer(find: (name: string) => Known | null): Promise<DnsServer> {
  const queries: string[] = [];
  const socket = createSocket('udp4');
  socket.on('message', (query: Buffer, from: RemoteInfo) => {
    const { name, end, type } = readQuestion(query);
    if (type === typeA) queries.push(name);
    const known = find(name);
    if (known === 'silent') return;
    socket.send(answerTo(query.subarray(0, end), type, known), from.port, from.address);
  });
  socket.bind(0, '127.0.0.1');
  await once(socket, 'listening');
  const { port } = socket.address() as AddressInfo;
  return {
    address: `127.0.0.1:${port}`,
    queries,
    async close() {
      socket.close();
      await once(socket, 'close');
    },
  };
}

/** RFC 1035, 4.1: a header of 12 bytes, then the labels, type and class of the question. */
function readQuestion(query: Buffer): { name: string; end: number; type: number } {
  const labels: string[] = [];
  let at = 12;
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('latin1', at + 1, at + 1 + length));
    at += 1 + length;
  }
  return { name: labels.join('.').toLowerCase(), type: query.readUInt16BE(at + 1), end: at + 5 };
}

function answerTo(question: Buffer, type: number, known: Exclude<Known, 'silent'> | null): Buffer {
  const header = Buffer.from(question);
  const addresses = type === typeA ? (known?.addresses ?? []) : [];
  // A recursive answer; code 3 says that there is no such name.
  header.writeUInt16BE(known === null ? 0x8183 : 0x8180, 2);
  header.writeUInt16BE(addresses.length, 6);
  header.writeUInt16BE(0, 8);
  header.writeUInt16BE(0, 10);
  const records = addresses.map((address) => {
    const record = Buffer.alloc(16);
    // A pointer to the name of the question.
    record.writeUInt16BE(0xc00c, 0);
    record.writeUInt16BE(typeA, 2);
    record.writeUInt16BE(1, 4);
    record.writeUInt32BE(known?.ttl ?? 0, 6);
    record.writeUInt16BE(4, 10);
    Buffer.from(address.split('.').map(Number)).copy(record, 12);
    return record;
  });
  return Buffer.concat([header, ...records]);
}

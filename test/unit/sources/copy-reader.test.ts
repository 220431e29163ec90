import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { CopyReader } from '../../../src/sources/postgres/copy-reader.ts';
import { RowBlockBuilder } from '../../../src/sources/postgres/row-blocks.ts';
import { countLoopTurns } from '../../support/loop-turns.ts';
import { columnsOf } from '../../support/row-blocks.ts';

/**
 * A server that speaks as much of PostgreSQL's protocol as a COPY needs, and sends what a test gives
 * it: PostgreSQL itself always sends a row in one message and never a wrong one.
 */
let server: Server;
/** `null` ends the connection. */
let answer: readonly (Buffer | null)[] = [];
const sockets = new Set<Socket>();

beforeAll(async () => {
  server = createServer((socket) => {
    sockets.add(socket);
    let started = false;
    socket.on('error', () => {});
    socket.on('data', async (bytes) => {
      if (!started) {
        started = true;
        socket.write(Buffer.concat([message('R', int32(0)), message('Z', Buffer.from('I'))]));
      } else if (bytes[0] === 0x51) {
        for (const part of answer) {
          // A piece of its own on the wire, so that messages break anywhere.
          if (part === null) socket.end();
          else await new Promise((resolve) => socket.write(part, resolve));
          await new Promise(setImmediate);
        }
      } else socket.end();
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
});

afterAll(() => {
  for (const socket of sockets) socket.destroy();
  server?.close();
});

const columns = columnsOf({ n: 'text' });
const header = Buffer.from('PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0', 'latin1');
const trailer = Buffer.from([0xff, 0xff]);
const copyRow = (text: string) =>
  Buffer.concat([Buffer.from([0, 1]), int32(text.length), Buffer.from(text)]);

const copyOut = message('H', Buffer.from([1, 0, 1, 0, 1]));
const copyDone = message('c', Buffer.alloc(0));
const ready = message('Z', Buffer.from('I'));
const complete = (rows: number) => message('C', Buffer.from(`COPY ${rows}\0`));
const notice = message('S', Buffer.from('TimeZone\0UTC\0'));
const failure = message('E', Buffer.from('SERROR\0VERROR\0C22012\0Mdivision by zero\0\0'));

async function open(parts: readonly (Buffer | null)[]) {
  answer = parts;
  const { port } = server.address() as AddressInfo;
  const client = new pg.Client({ host: '127.0.0.1', port, user: 'test', database: 'test' });
  client.on('error', () => {});
  await client.connect();
  const reader = new CopyReader([{ sql: 'COPY …', builder: new RowBlockBuilder(columns, 64) }]);
  client.query(reader);
  return { client, reader };
}

async function read(parts: readonly (Buffer | null)[]): Promise<string[]> {
  const { client, reader } = await open(parts);
  const rows: string[] = [];
  try {
    for (let block = await reader.next(); block !== null; block = await reader.next()) {
      for (let row = 0; row < block.rowCount; row += 1) {
        const from = block.offsets[row] as number;
        rows.push(block.bytes.toString('utf8', from, from + (block.lengths[row] as number)));
      }
    }
  } finally {
    await client.end();
  }
  return rows;
}

describe('CopyReader', () => {
  it('reads rows that lie across messages, and messages that lie across packets', async () => {
    const texts = Array.from({ length: 20 }, (_, index) => 'row '.repeat(index));
    const stream = Buffer.concat([header, ...texts.map(copyRow), trailer]);
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.nat(stream.length), { maxLength: 8 }),
        fc.array(fc.nat(2000), { maxLength: 8 }),
        async (messageEnds, packetEnds) => {
          const messages = cut(stream, messageEnds).flatMap((data) => [message('d', data), notice]);
          const bytes = Buffer.concat([copyOut, ...messages, copyDone, complete(20), ready]);
          expect(await read(cut(bytes, packetEnds))).toEqual(texts);
        },
      ),
      { numRuns: 40 },
    );
  });

  it('gives each block a turn of the event loop, also if many come at once', async () => {
    const texts = Array.from({ length: 100 }, (_, index) => `${index}`.padStart(50));
    const data = message('d', Buffer.concat([header, ...texts.map(copyRow), trailer]));
    const { client, reader } = await open([
      Buffer.concat([copyOut, data, copyDone, complete(100), ready]),
    ]);
    await reader.next();
    const loop = countLoopTurns();
    let blocks = 0;
    while ((await reader.next()) !== null) blocks += 1;
    loop.stop();
    await client.end();
    expect(blocks).toBeGreaterThan(90);
    expect(loop.turns()).toBeGreaterThanOrEqual(blocks);
  });

  it('fails if fewer rows came than the server says it sent', async () => {
    const data = message('d', Buffer.concat([header, copyRow('a'), trailer]));
    const bytes = Buffer.concat([copyOut, data, copyDone, complete(2), ready]);
    await expect(read([bytes])).rejects.toThrow('1 rows arrived, the server sent 2');
  });

  it('fails if the server ends the stream without a trailer', async () => {
    const data = message('d', Buffer.concat([header, copyRow('a')]));
    const bytes = Buffer.concat([copyOut, data, copyDone, complete(1), ready]);
    await expect(read([bytes])).rejects.toThrow('ended before its trailer');
  });

  it('fails with the server’s error between two rows, however it is cut', async () => {
    const data = message('d', Buffer.concat([header, copyRow('a')]));
    const bytes = Buffer.concat([copyOut, data, failure, ready]);
    for (const at of [1, 2, 4, 8].map((back) => bytes.length - ready.length - back)) {
      await expect(read(cut(bytes, [at]))).rejects.toThrow('division by zero');
    }
  });

  it('fails if the connection ends in the middle of a message', async () => {
    const data = message('d', Buffer.concat([header, copyRow('a')]));
    const half = Buffer.concat([copyOut, data]).subarray(0, -3);
    await expect(read([half, null])).rejects.toThrow('Connection terminated unexpectedly');
  });

  it('fails if the server answers with anything but rows', async () => {
    await expect(read([Buffer.concat([complete(0), ready])])).rejects.toThrow('was not sent');
  });
});

function cut(bytes: Buffer, ends: readonly number[]): Buffer[] {
  const places = [...ends.filter((at) => at < bytes.length), bytes.length].sort((a, b) => a - b);
  return places.map((end, index) => bytes.subarray(places[index - 1] ?? 0, end));
}

function message(type: string, payload: Buffer): Buffer {
  return Buffer.concat([Buffer.from(type), int32(payload.length + 4), payload]);
}

function int32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
}

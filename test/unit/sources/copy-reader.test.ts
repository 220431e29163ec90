import { createServer, type Server, type Socket } from 'node:net';
import fc from 'fast-check';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Copy, CopyReader } from '../../../src/rows/sources/postgres/copy-reader.ts';
import { RowBlockBuilder } from '../../../src/rows/sources/postgres/row-blocks.ts';
import { listen } from '../../support/free-port.ts';
import { countLoopTurns } from '../../support/loop-turns.ts';
import { columnsOf } from '../../support/row-blocks.ts';

/**
 * A server that speaks as much of PostgreSQL's protocol as a COPY needs, and sends what a test gives
 * it: PostgreSQL itself always sends a row in one message and never a wrong one.
 */
let server: Server;
let port: number;
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
  port = await listen(server);
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

const copyIntoBlocks = (): Copy => ({ sql: 'COPY …', builder: new RowBlockBuilder(columns, 64) });

async function open(parts: readonly (Buffer | null)[], copies = 1) {
  answer = parts;
  const client = new pg.Client({ host: '127.0.0.1', port, user: 'test', database: 'test' });
  client.on('error', () => {});
  await client.connect();
  const others = Array.from({ length: copies - 1 }, copyIntoBlocks);
  const reader = new CopyReader([copyIntoBlocks(), ...others]);
  client.query(reader);
  return { client, reader };
}

async function read(parts: readonly (Buffer | null)[]): Promise<string[]> {
  const [rows = []] = await readAll(parts, 1);
  return rows;
}

/** The rows of each copy. */
async function readAll(parts: readonly (Buffer | null)[], copies: number): Promise<string[][]> {
  const { client, reader } = await open(parts, copies);
  const all: string[][] = [];
  try {
    for (let copy = 0; copy < copies; copy += 1) {
      const rows: string[] = [];
      all.push(rows);
      for (let block = await reader.next(copy); block; block = await reader.next(copy)) {
        for (let row = 0; row < block.rowCount; row += 1) {
          const from = block.offsets[row] as number;
          rows.push(block.bytes.toString('utf8', from, from + (block.lengths[row] as number)));
        }
      }
    }
  } finally {
    await client.end();
  }
  return all;
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

describe('CopyReader of several copies', () => {
  /** What the server sends for a copy, before it is ready. */
  const answerTo = (texts: readonly string[], said = texts.length) => {
    const data = message('d', Buffer.concat([header, ...texts.map(copyRow), trailer]));
    return Buffer.concat([copyOut, data, copyDone, complete(said)]);
  };

  it('keeps the rows of each apart, however the answer is cut', async () => {
    const texts = [[], ['a', 'b'.repeat(200), ''], ['c'], []];
    const bytes = Buffer.concat([...texts.map((rows) => answerTo(rows)), ready]);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.nat(bytes.length), { maxLength: 12 }), async (packetEnds) => {
        expect(await readAll(cut(bytes, packetEnds), texts.length)).toEqual(texts);
      }),
      { numRuns: 40 },
    );
    const bytewise = cut(
      bytes,
      Array.from({ length: bytes.length }, (_, at) => at + 1),
    );
    expect(await readAll(bytewise, texts.length)).toEqual(texts);
  });

  it.each([0, 1, 2])('fails if fewer rows of copy %i came than the server says', async (short) => {
    const said = [1, 1, 1].map((rows, copy) => answerTo(['a'], copy === short ? 2 : rows));
    const bytes = Buffer.concat([...said, ready]);
    await expect(readAll([bytes], 3)).rejects.toThrow('1 rows arrived, the server sent 2');
  });

  it('ends each one before the next one has arrived', async () => {
    const { client, reader } = await open([answerTo(['a'])], 2);
    expect(await reader.next(0)).toMatchObject({ rowCount: 1 });
    expect(await reader.next(0)).toBeNull();
    const rest = reader.next(1).catch((error: Error) => error.message);
    for (const socket of sockets) socket.destroy();
    expect(await rest).toContain('terminated unexpectedly');
    await client.end();
  });

  it('fails if the server answers to fewer copies than it was asked for', async () => {
    const bytes = Buffer.concat([answerTo(['a']), ready]);
    await expect(readAll([bytes], 2)).rejects.toThrow('was not sent');
    const more = Buffer.concat([answerTo(['a']), answerTo(['a']), ready]);
    await expect(read([more])).rejects.toThrow();
  });

  it('fails with the server’s error in a later copy, after the rows of those before', async () => {
    const half = message('d', Buffer.concat([header, copyRow('c')]));
    const bytes = Buffer.concat([answerTo(['a']), copyOut, half, failure, ready]);
    for (const at of [1, 2, 4, 8].map((back) => bytes.length - ready.length - back)) {
      const { client, reader } = await open(cut(bytes, [at]), 2);
      const first = await reader.next(0).catch((error: unknown) => error);
      expect(await reader.next(1).catch((error: Error) => error.message)).toContain('by zero');
      expect(first).toMatchObject({ rowCount: 1 });
      await client.end();
    }
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

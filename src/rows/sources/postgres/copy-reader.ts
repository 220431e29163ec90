import type { Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import type pg from 'pg';
import type { Connection, Submittable } from 'pg';
import type { DataInterval } from '../../../foundation/domain/time.ts';
import type { KeyTexts } from '../../query/select.ts';
import type { Slice } from '../source.ts';
import type { SnapshotOptions } from './snapshot-connections.ts';
import { withAbort } from './connection.ts';
import { KeyDigest, keyFieldsOf } from './key-digest.ts';
import type { SelectPlan } from './plan.ts';
import { CopyFormatError, RowBlockBuilder, type SourceBlock } from './row-blocks.ts';
import { nameLargeRow } from './row-skimmer.ts';

/** Smaller rows are part of the memory that each run has. */
const freeRowBytes = 2 * 2 ** 20;

/** A block of rows, and the index of its copy. The next block reuses its memory. */
type CopiedBlock = { readonly of: number; readonly block: SourceBlock };

export interface SliceReading {
  readonly options: SnapshotOptions;
  readonly select: SelectPlan;
  readonly keys: KeyDigest;
}

/**
 * Several slices after one message, each by interval column, then key. Limits of large rows are those of the first.
 * @throws the errors of the reader and its memory; the connection can't be used afterwards
 */
export async function* readSlices(
  client: pg.Client,
  slices: readonly { readonly reading: SliceReading; readonly slice: Slice }[],
  signal: AbortSignal,
): AsyncGenerator<CopiedBlock, void> {
  const copies = slices.map(({ reading: { options, select }, slice }): Copy => {
    const { blockBytes, maxRowBytes, holdRow } = options;
    const freeBytes = holdRow ? freeRowBytes : Number.POSITIVE_INFINITY;
    const limits = { hidden: select.hidden.length, maxRowBytes, freeBytes };
    const builder = new RowBlockBuilder(select.columns, blockBytes, limits);
    const named = (error: unknown) => nameLargeRow(error, select, maxRowBytes);
    return { sql: select.copySql(slice), builder, named };
  });
  const { holdRow } = slices[0]?.reading.options ?? {};
  for await (const { of, block } of readCopies(client, copies, signal, holdRow)) {
    const { select, keys } = (slices[of] as (typeof slices)[number]).reading;
    const fields = keyFieldsOf(block, select.columns.length, select.keys?.places ?? []);
    if (select.keys) keys.add(block.bytes, block.rowCount, fields);
    yield { of, block };
  }
}

async function* readCopies(
  client: pg.Client,
  copies: readonly Copy[],
  signal: AbortSignal,
  holdRow?: SnapshotOptions['holdRow'],
): AsyncGenerator<CopiedBlock, void> {
  const [first, ...others] = copies;
  if (!first) return;
  const hold = holdRow && ((bytes: number) => holdRow(bytes, signal));
  const reader = new CopyReader([first, ...others], hold);
  try {
    client.query(reader);
    for (const [of, { named = (error: unknown) => error }] of copies.entries()) {
      const fail = (error: unknown): never => {
        throw named(error);
      };
      for (;;) {
        const block = await withAbort(client, signal, () => reader.next(of).catch(fail));
        if (!block) break;
        yield { of, block };
      }
    }
  } finally {
    reader.close();
  }
}

export async function readKeys(
  client: pg.Client,
  { keys }: SelectPlan,
  interval: DataInterval,
  blockBytes: number,
  signal: AbortSignal,
): Promise<KeyDigest> {
  const { columns, copySql } = keys ?? { columns: [], copySql: () => '' };
  const digest = new KeyDigest();
  const copy = { sql: copySql(interval), builder: new RowBlockBuilder(columns, blockBytes) };
  for await (const { block } of readCopies(client, [copy], signal)) {
    const { offsets, lengths } = block;
    const fields = columns.map((_, field) => ({ offsets, lengths, width: columns.length, field }));
    digest.add(block.bytes, block.rowCount, fields);
  }
  return digest;
}

/** Of those that are given, their binary form. @throws as `readSlices` */
export async function* readDeletes(
  client: pg.Client,
  { blockBytes, maxRowBytes }: SnapshotOptions,
  { deletes }: SelectPlan,
  range: DataInterval,
  signal: AbortSignal,
  keys?: readonly KeyTexts[],
): AsyncGenerator<CopiedBlock, void> {
  const sqls = keys ? deletes?.keysSqls(keys) : deletes?.copySqls(range);
  for (const sql of sqls ?? []) {
    const builder = new RowBlockBuilder(deletes?.columns ?? [], blockBytes, { maxRowBytes });
    yield* readCopies(client, [{ sql, builder }], signal);
  }
}

const COPY_DATA = 0x64;
const COPY_DONE = 0x63;
const COPY_OUT_RESPONSE = 0x48;
const ERROR_RESPONSE = 0x45;
const HEADER_BYTES = 5;

type DataHandler = (chunk: Buffer) => void;

/** A `COPY … TO STDOUT (FORMAT binary)`, and what cuts its rows into blocks. */
export interface Copy {
  readonly sql: string;
  readonly builder: RowBlockBuilder;
  /** Makes the error of a row from one of the reader. */
  readonly named?: (error: unknown) => unknown;
}

/** A block to be given out, and what gives back the memory of its large row. */
interface Ready {
  readonly of: number;
  readonly block: SourceBlock;
  readonly giveBack: () => void;
}

/**
 * Several copies in one message. While data flows it replaces pg's parser, which makes an object of each row. While no
 * caller waits for a block the socket is paused, so the server stops sending.
 */
export class CopyReader implements Submittable {
  readonly #copies: readonly Copy[];
  #builder: RowBlockBuilder;
  /** Number of copies that have arrived with as many rows as the server has sent. */
  #ended = 0;
  readonly #blocks: Ready[] = [];
  #given: Ready | null = null;
  readonly #header = Buffer.alloc(HEADER_BYTES);
  #headerBytes = 0;
  #code = 0;
  #payloadLeft = 0;
  #socket: Socket | null = null;
  #pgHandler: DataHandler | null = null;
  #state: 'copying' | 'copied' | 'ready' | 'failed' = 'copying';
  #error: unknown;
  #wake: (() => void) | null = null;
  readonly #hold: (bytes: number) => Promise<() => void>;
  /** A row that needs memory, and the rest of its chunk. Nothing is read until it has that. */
  #waiting: { readonly bytes: number; readonly rest: Buffer } | null = null;
  #isHolding = false;
  /** The memory of the row that is being read, and of large rows that are not given back. */
  #permits: (() => void)[] = [];
  #largeBlocks = 0;
  #isClosed = false;

  /** @param hold waits until a large row may be held; the function gives its memory back */
  constructor(
    copies: readonly [Copy, ...Copy[]],
    hold: (bytes: number) => Promise<() => void> = async () => () => {},
  ) {
    this.#copies = copies;
    this.#builder = copies[0].builder;
    this.#hold = hold;
  }

  /**
   * Null after the last block of copy `of`. The earlier block's memory is reused. Each block comes in its own turn of
   * the event loop: a busy socket is read 32 times in one turn (libuv, uv__read), and heartbeats would wait for all of
   * it.
   */
  async next(of = 0): Promise<SourceBlock | null> {
    if (this.#given) {
      const { giveBack, of: copy } = this.#given;
      this.#given = null;
      this.#copies[copy]?.builder.release();
      await setImmediate();
      giveBack();
      this.#startHold();
    }
    for (;;) {
      const [ready] = this.#blocks;
      if (ready?.of === of) {
        this.#blocks.shift();
        this.#given = ready;
        return ready.block;
      }
      if (this.#state === 'failed') throw this.#error;
      const isLast = of === this.#copies.length - 1;
      if (isLast ? this.#state === 'ready' : this.#ended > of) return null;
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      if (!this.#isHolding && !this.#waiting) this.#socket?.resume();
      await woken;
    }
  }

  /** Fails the waiting and every later `next`. The connection can't be used afterwards. */
  fail(error: unknown): void {
    if (this.#state === 'failed' || this.#state === 'ready') return;
    this.#state = 'failed';
    this.#error = error;
    this.#detach();
    this.#notify();
  }

  close(): void {
    this.#isClosed = true;
    this.#waiting = null;
    const ready = this.#given ? [this.#given, ...this.#blocks] : this.#blocks;
    for (const { giveBack } of ready) giveBack();
    for (const giveBack of this.#permits.splice(0)) giveBack();
  }

  submit(connection: Connection): undefined {
    const socket = connection.stream as unknown as Socket;
    const [handler] = socket.listeners('data');
    this.#socket = socket;
    this.#pgHandler = handler as DataHandler;
    socket.off('data', this.#pgHandler);
    socket.on('data', this.#onData);
    connection.query(this.#copies.map(({ sql }) => sql).join('; '));
  }

  handleError(error: Error): void {
    this.fail(error);
  }

  handleCommandComplete(message: { text: string }): void {
    const rows = Number(/^COPY (\d+)$/.exec(message.text)?.[1]);
    const { totalRows } = this.#builder;
    if (rows !== totalRows) {
      this.fail(new CopyFormatError(`${totalRows} rows arrived, the server sent ${rows}`));
      return;
    }
    this.#ended += 1;
    const next = this.#copies[this.#ended];
    if (!next) return;
    this.#builder = next.builder;
    this.#notify();
  }

  handleReadyForQuery(): void {
    if (this.#state === 'copying') this.fail(new CopyFormatError('the row stream was not sent'));
    if (this.#state === 'copied') this.#state = 'ready';
    this.#notify();
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }

  readonly #onData = (chunk: Buffer): void => {
    try {
      this.#consume(chunk);
    } catch (error) {
      // The position in the stream is lost, so nothing later on this connection can be trusted.
      this.fail(error);
      this.#socket?.destroy();
      return;
    }
    this.#deliver(this.#builder.take());
    if (this.#waiting) {
      this.#socket?.pause();
      this.#startHold();
    }
    if (this.#blocks.length === 0) return;
    if (this.#state === 'copying') this.#socket?.pause();
    this.#notify();
  };

  #deliver(blocks: readonly SourceBlock[]): void {
    for (const block of blocks) {
      const permits = block.isLarge ? this.#permits.splice(0) : [];
      if (block.isLarge) this.#largeBlocks += 1;
      const giveBack = () => {
        for (const permit of permits) permit();
        if (block.isLarge) this.#largeBlocks -= 1;
      };
      this.#blocks.push({ of: this.#ended, block, giveBack });
    }
  }

  /** Waits for the memory of a large row. Of one run, only one such row is held at a time. */
  #startHold(): void {
    if (!this.#waiting || this.#largeBlocks > 0) return;
    const { bytes, rest } = this.#waiting;
    this.#waiting = null;
    this.#isHolding = true;
    void this.#hold(bytes).then(
      (giveBack) => {
        this.#isHolding = false;
        if (this.#isClosed || this.#state !== 'copying') return giveBack();
        this.#permits.push(giveBack);
        this.#builder.permit();
        this.#socket?.resume();
        this.#onData(rest);
      },
      (error: unknown) => {
        this.#isHolding = false;
        this.fail(error);
      },
    );
  }

  /** Protocol messages: one type byte, int32 length (which includes itself), payload. */
  #consume(chunk: Buffer): void {
    let at = 0;
    while (at < chunk.length) {
      if (this.#payloadLeft === 0 && this.#headerBytes < HEADER_BYTES) {
        while (at < chunk.length && this.#headerBytes < HEADER_BYTES) {
          this.#header[this.#headerBytes] = chunk[at] as number;
          this.#headerBytes += 1;
          at += 1;
        }
        if (this.#headerBytes < HEADER_BYTES) return;
        this.#code = this.#header[0] as number;
        this.#payloadLeft = this.#header.readUInt32BE(1) - 4;
        if (this.#startMessage(chunk, at)) return;
      }
      const end = Math.min(chunk.length, at + this.#payloadLeft);
      if (this.#code === COPY_DATA) {
        const taken = this.#builder.append(chunk, at, end);
        const size = this.#builder.wantedBytes;
        if (size !== null) {
          this.#payloadLeft -= taken - at;
          this.#waiting = { bytes: size, rest: chunk.subarray(taken) };
          return;
        }
      } else if (this.#code !== COPY_OUT_RESPONSE) this.#pgHandler?.(chunk.subarray(at, end));
      this.#payloadLeft -= end - at;
      at = end;
      if (this.#payloadLeft === 0) this.#headerBytes = 0;
    }
  }

  /** @returns whether the rest of the chunk went to pg, because the row stream has ended */
  #startMessage(chunk: Buffer, at: number): boolean {
    switch (this.#code) {
      case COPY_DATA:
      case COPY_OUT_RESPONSE:
        return false;
      case COPY_DONE:
        this.#deliver(this.#builder.finish());
        if (this.#ended < this.#copies.length - 1) {
          this.#pgHandler?.(Buffer.from(this.#header));
          return false;
        }
        this.#state = 'copied';
        this.#returnToPg(chunk.subarray(at));
        return true;
      case ERROR_RESPONSE:
        this.#returnToPg(Buffer.concat([this.#header, chunk.subarray(at)]));
        return true;
      default:
        this.#pgHandler?.(Buffer.from(this.#header));
        return false;
    }
  }

  #returnToPg(rest: Buffer): void {
    const handler = this.#pgHandler;
    this.#detach();
    handler?.(rest);
    this.#socket?.resume();
  }

  #detach(): void {
    if (!this.#socket || !this.#pgHandler) return;
    this.#socket.off('data', this.#onData);
    this.#socket.on('data', this.#pgHandler);
    this.#pgHandler = null;
  }
}

import type { Socket } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import type { Connection, Submittable } from 'pg';
import { CopyFormatError, type RowBlockBuilder, type SourceBlock } from './row-blocks.ts';

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
}

/** A block to be given out, and what gives back the memory of its large row. */
interface Ready {
  /** The index of its copy. */
  readonly of: number;
  readonly block: SourceBlock;
  readonly giveBack: () => void;
}

/**
 * Runs copies on a pg client, sent in one message, and yields their row blocks. While data flows it
 * replaces pg's own message parser, which makes an object of each row; all other messages are passed to pg.
 * Pull-based: while no caller waits for a block the socket is paused, so the server stops sending.
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
   * The next block of a copy, or null after its last. Ask for the copies in their order. The earlier block's memory is reused, so do not read it any
   * more. Each block comes in its own turn of the event loop: a busy socket is read 32 times in one turn
   * (libuv, uv__read), and heartbeats would wait for all of it. Rejects with pg's error or a
   * CopyFormatError.
   *
   * @param of the index of the copy
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

  /** Gives back what it holds. Blocks must not be read any more. */
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

  /**
   * Splits the chunk into protocol messages: one type byte, int32 length (which includes itself), payload.
   */
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

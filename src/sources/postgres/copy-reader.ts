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

/**
 * Runs one `COPY … TO STDOUT (FORMAT binary)` on a pg client and hands out its row blocks. It takes
 * the place of pg's own message parser while data flows, because that one makes an object of each
 * row; every message that is not COPY data is passed through to it. Pull-based: while nobody waits
 * for a block the socket is paused, so the server stops sending.
 */
export class CopyReader implements Submittable {
  readonly #sql: string;
  readonly #builder: RowBlockBuilder;
  readonly #blocks: SourceBlock[] = [];
  #hasGivenOne = false;
  readonly #header = Buffer.alloc(HEADER_BYTES);
  #headerBytes = 0;
  #code = 0;
  #payloadLeft = 0;
  #socket: Socket | null = null;
  #pgHandler: DataHandler | null = null;
  #state: 'copying' | 'copied' | 'ready' | 'failed' = 'copying';
  #error: unknown;
  #wake: (() => void) | null = null;

  constructor(sql: string, builder: RowBlockBuilder) {
    this.#sql = sql;
    this.#builder = builder;
  }

  /**
   * The next block, or null after the last. The one before is not to be read any more: its memory is
   * used again. Each comes in a turn of the event loop of its own: a socket that is never still is read
   * 32 times in one turn (libuv, uv__read), and heartbeats would wait for all that is made of it.
   * Rejects with pg's error or a CopyFormatError.
   */
  async next(): Promise<SourceBlock | null> {
    if (this.#hasGivenOne) {
      this.#builder.release();
      this.#hasGivenOne = false;
      await setImmediate();
    }
    for (;;) {
      const block = this.#blocks.shift();
      if (block) {
        this.#hasGivenOne = true;
        return block;
      }
      if (this.#state === 'failed') throw this.#error;
      if (this.#state === 'ready') return null;
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#socket?.resume();
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

  submit(connection: Connection): undefined {
    const socket = connection.stream as unknown as Socket;
    const [handler] = socket.listeners('data');
    this.#socket = socket;
    this.#pgHandler = handler as DataHandler;
    socket.off('data', this.#pgHandler);
    socket.on('data', this.#onData);
    connection.query(this.#sql);
  }

  handleError(error: Error): void {
    this.fail(error);
  }

  handleCommandComplete(message: { text: string }): void {
    const rows = Number(/^COPY (\d+)$/.exec(message.text)?.[1]);
    const { totalRows } = this.#builder;
    if (rows !== totalRows) {
      this.fail(new CopyFormatError(`${totalRows} rows arrived, the server sent ${rows}`));
    }
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
      // The stream's position is lost: nothing that follows on this connection can be trusted.
      this.fail(error);
      this.#socket?.destroy();
      return;
    }
    this.#blocks.push(...this.#builder.take());
    if (this.#blocks.length === 0) return;
    if (this.#state === 'copying') this.#socket?.pause();
    this.#notify();
  };

  /** Splits the chunk into protocol messages: one type byte, int32 length with itself, payload. */
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
      if (this.#code === COPY_DATA) this.#builder.append(chunk, at, end);
      else if (this.#code !== COPY_OUT_RESPONSE) this.#pgHandler?.(chunk.subarray(at, end));
      this.#payloadLeft -= end - at;
      at = end;
      if (this.#payloadLeft === 0) this.#headerBytes = 0;
    }
  }

  /** @returns whether the rest of the chunk went to pg, as the row stream has ended. */
  #startMessage(chunk: Buffer, at: number): boolean {
    switch (this.#code) {
      case COPY_DATA:
      case COPY_OUT_RESPONSE:
        return false;
      case COPY_DONE:
        this.#blocks.push(...this.#builder.finish());
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

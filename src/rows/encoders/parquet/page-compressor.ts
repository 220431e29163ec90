import { promisify } from 'node:util';
import zlib from 'node:zlib';
import { loadZstd } from '../codecs/zstd.ts';
import type { Compression } from '../encoder.ts';
import type { RawPage } from './page.ts';

/** A slab; the first ones are smaller, since most files are small. */
const slabBytes = 1 << 20;
const firstBytes = 1 << 13;
/** A larger page has memory of its own. */
const maxPageBytes = slabBytes / 2;

/** Pages live too long for V8 to free them soon, so the next row group has the memory of the one before. */
export class PageArena {
  /** Memory of the group that is filled; the last buffer has room. */
  #filled: Buffer[] = [];
  #used = 0;
  /** Memory of groups that were handed out and may still be read. */
  #given: Buffer[] = [];
  #spare: Buffer[] = [];

  copy(body: Uint8Array): Uint8Array {
    const { length } = body;
    if (length > maxPageBytes) return Buffer.from(body);
    const slab = this.#slabFor(length);
    const start = this.#used;
    slab.set(body, start);
    this.#used = start + length;
    return slab.subarray(start, this.#used);
  }

  #slabFor(length: number): Buffer {
    const last = this.#filled.at(-1);
    if (last && this.#used + length <= last.length) return last;
    const size = last ? Math.min(slabBytes, last.length * 4) : firstBytes;
    const slab = this.#spare.pop() ?? Buffer.allocUnsafeSlow(Math.max(size, length));
    this.#filled.push(slab);
    this.#used = 0;
    return slab;
  }

  endGroup(): void {
    this.#given.push(...this.#filled);
    this.#filled = [];
    this.#used = 0;
  }

  reuse(): void {
    const whole = this.#given.filter(({ length }) => length === slabBytes);
    this.#spare.push(...whole);
    this.#given = [];
  }
}

/** Keeps the threads busy while this one fills pages, without more memory than necessary. */
const maxPagesInFlight = 4;

export interface CompressedPage extends Pick<RawPage, 'values' | 'encoding'> {
  readonly rawBytes: number;
  readonly body: Uint8Array;
}

export interface PendingPage {
  readonly rawBytes: number;
  readonly done: Promise<CompressedPage>;
}

export class PageCompressor {
  readonly #codec: Promise<Codec>;
  readonly #inFlight: Promise<unknown>[] = [];
  readonly #arena: PageArena;

  constructor(compression: Compression, arena: PageArena) {
    this.#arena = arena;
    this.#codec = loadCodec(compression);
    // The caller of `submit` gets the error of a codec that fails to load.
    this.#codec.catch(() => {});
  }

  get codecId(): Promise<number> {
    return this.#codec.then((codec) => codec.id);
  }

  /** As soon as there is room; releases the memory of the page at the end. */
  async submit(page: RawPage): Promise<PendingPage> {
    if (this.#inFlight.length >= maxPagesInFlight) await this.#inFlight.shift();
    const done = this.#compress(page);
    // Awaited later, when the row group needs it; until then a failure must not count as unhandled.
    done.catch(() => {});
    this.#inFlight.push(done);
    return { rawBytes: page.body.length, done };
  }

  async #compress(page: RawPage): Promise<CompressedPage> {
    const { compress } = await this.#codec;
    const { values, encoding, body: raw } = page;
    // A copy: the page's memory is reused, and codecs return more memory than they filled.
    const body = this.#arena.copy(await compress(raw));
    page.release();
    return { values, encoding, rawBytes: raw.length, body };
  }
}

/** On the thread pool if that pays. */
interface Codec {
  readonly id: number;
  /** The page must not change until this resolves. The result may be the page itself. */
  readonly compress: (page: Buffer) => Promise<Uint8Array>;
}

const gzip = promisify(zlib.gzip);
const brotli = promisify(zlib.brotliCompress);

/** Below zlib's usual 6: 1.4 times as fast on events for 5% more bytes. */
const gzipLevel = 4;

/** Brotli's usual 11 takes seconds per page. */
const brotliQuality = 4;

/** zlib switches threads for each chunk of output, so most pages should fit into one chunk. */
const chunkSizeFor = (page: Buffer): number => Math.max(1024, page.length >>> 1);

/** Packages with native code are loaded only if they are used. */
async function loadCodec(compression: Compression): Promise<Codec> {
  switch (compression) {
    case null:
      return { id: 0, compress: async (page) => page };
    case 'snappy': {
      const { compressSync } = await import('snappy');
      // Not on the pool, and with the copy: otherwise the package's allocator keeps hundreds of megabytes.
      // It is as fast as filling the page.
      return { id: 1, compress: async (page) => compressSync(page, { copyOutputData: true }) };
    }
    case 'gzip':
      return {
        id: 2,
        compress: (page) => gzip(page, { level: gzipLevel, chunkSize: chunkSizeFor(page) }),
      };
    case 'brotli': {
      const params = { [zlib.constants.BROTLI_PARAM_QUALITY]: brotliQuality };
      return { id: 4, compress: (page) => brotli(page, { params, chunkSize: chunkSizeFor(page) }) };
    }
    case 'zstd': {
      const { compress } = await loadZstd();
      return { id: 6, compress: (page) => compress(page, chunkSizeFor(page)) };
    }
    case 'lz4':
      return { id: 7, compress: async (page) => compressLz4(page) };
    default:
      throw new TypeError(`Parquet's pages take no compression ${compression}`);
  }
}

/**
 * Parquet calls it LZ4_RAW. Our own code: native packages keep their output so long that a file takes hundreds of MB.
 * Source: https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md
 */

const minMatch = 4;
/** The last match starts at least this far from the end, and the last 5 bytes are literals. */
const matchStartLimit = 12;
const lastLiterals = 5;
const maxDistance = 0xffff;
const hashBits = 13;

/** The last position of four bytes with a hash, plus one. Shared, since compression is synchronous. */
const table = new Int32Array(1 << hashBits);

export function maxLz4Bytes(length: number): number {
  return length + Math.ceil(length / 255) + 16;
}

export function compressLz4(source: Buffer): Buffer {
  const target = Buffer.allocUnsafeSlow(maxLz4Bytes(source.length));
  const view = new DataView(source.buffer, source.byteOffset, source.length);
  const matchStartEnd = source.length - matchStartLimit;
  const matchEnd = source.length - lastLiterals;
  table.fill(0);
  let literals = 0;
  let end = 0;
  let at = 0;
  // If nothing matches for long, steps grow: incompressible data is skipped quickly.
  let misses = 0;
  while (at <= matchStartEnd) {
    const word = view.getInt32(at, true);
    const slot = Math.imul(word, 0x9e3779b1) >>> (32 - hashBits);
    const seen = (table[slot] as number) - 1;
    table[slot] = at + 1;
    if (seen < 0 || at - seen > maxDistance || view.getInt32(seen, true) !== word) {
      at += 1 + (misses++ >> 6);
      continue;
    }
    misses = 0;
    const matchLength = extend(source, view, seen + minMatch, at + minMatch, matchEnd) + minMatch;
    end = putSequence(target, end, source, literals, at, at - seen, matchLength);
    at += matchLength;
    literals = at;
  }
  return target.subarray(0, putLiterals(target, end, source, literals, source.length, 0));
}

/** At `at`, before `limit`, as at `seen`. */
function extend(source: Buffer, view: DataView, seen: number, at: number, limit: number): number {
  let length = 0;
  while (
    at + length + 4 <= limit &&
    view.getInt32(at + length, true) === view.getInt32(seen + length, true)
  ) {
    length += 4;
  }
  while (at + length < limit && source[at + length] === source[seen + length]) length++;
  return length;
}

function putSequence(
  target: Buffer,
  end: number,
  source: Buffer,
  literals: number,
  literalsEnd: number,
  distance: number,
  matchLength: number,
): number {
  const extra = matchLength - minMatch;
  let next = putLiterals(target, end, source, literals, literalsEnd, Math.min(extra, 15));
  target[next++] = distance;
  target[next++] = distance >>> 8;
  return extra < 15 ? next : putLength(target, next, extra - 15);
}

/** The token, with the match's length in its low half, and the literals [from, to). */
function putLiterals(
  target: Buffer,
  end: number,
  source: Buffer,
  from: number,
  to: number,
  matchToken: number,
): number {
  const length = to - from;
  target[end] = (Math.min(length, 15) << 4) | matchToken;
  const next = length < 15 ? end + 1 : putLength(target, end + 1, length - 15);
  if (length > 64) source.copy(target, next, from, to);
  else
    for (let index = 0; index < length; index++) target[next + index] = source[from + index] ?? 0;
  return next + length;
}

function putLength(target: Buffer, end: number, length: number): number {
  let next = end;
  let rest = length;
  for (; rest >= 255; rest -= 255) target[next++] = 255;
  target[next++] = rest;
  return next;
}

import type { Compression } from '../encoder.ts';
import { type Codec, loadCodec } from './codecs.ts';
import type { RawPage } from './page.ts';
import type { PageArena } from './page-arena.ts';

/** A page of version 2 stays as it is unless compression saves a little: then readers save the time. */
const worthwhile = 0.97;

/** Keeps the threads busy while this one fills pages, without more memory than necessary. */
const maxPagesInFlight = 4;

export interface CompressedPage
  extends Pick<RawPage, 'values' | 'rows' | 'nulls' | 'bounds' | 'encoding' | 'levels'> {
  readonly rawBytes: number;
  /** Whether the codec was used; its pages of version 1 always are. */
  readonly isCompressed: boolean;
  readonly body: Uint8Array;
}

/** A page on its way through a codec. */
export interface PendingPage {
  readonly rawBytes: number;
  readonly done: Promise<CompressedPage>;
}

/** Compresses pages, a few at a time. */
export class PageCompressor {
  readonly #codec: Promise<Codec>;
  readonly #inFlight: Promise<unknown>[] = [];
  readonly #arena: PageArena;

  /** @param arena gets the compressed pages */
  constructor(compression: Compression, arena: PageArena) {
    this.#arena = arena;
    this.#codec = loadCodec(compression);
    // The caller of `submit` gets the error of a codec that fails to load.
    this.#codec.catch(() => {});
  }

  get codecId(): Promise<number> {
    return this.#codec.then((codec) => codec.id);
  }

  /** The bytes that these would take as a page's body. */
  async sizeOf(plain: Buffer): Promise<number> {
    const { compress } = await this.#codec;
    return (await compress(plain)).length;
  }

  /** Starts compressing the page as soon as there is room, and releases its memory at the end. */
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
    const { values, rows, nulls, bounds, encoding, levels, body: raw } = page;
    const levelBytes = levels ? levels.repetitionBytes + levels.definitionBytes : 0;
    const plain = raw.subarray(levelBytes);
    const compressed = await compress(plain);
    const isCompressed = levels === undefined || compressed.length < plain.length * worthwhile;
    // A copy: the page's memory is reused, and codecs return more memory than they filled.
    const head = raw.subarray(0, levelBytes);
    const body = this.#arena.copy(head, isCompressed ? compressed : plain);
    page.release();
    const kept = { values, rows, nulls, bounds, encoding, levels, isCompressed };
    return { ...kept, rawBytes: raw.length, body };
  }
}

import type { Compression } from '../encoder.ts';
import { type Codec, loadCodec } from './codecs.ts';
import type { RawPage } from './page.ts';

/** Keeps the threads busy while this one fills pages, without more memory than necessary. */
const maxPagesInFlight = 4;

export interface CompressedPage
  extends Pick<RawPage, 'values' | 'rows' | 'nulls' | 'bounds' | 'encoding'> {
  readonly rawBytes: number;
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

  constructor(compression: Compression) {
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
    // A copy: the page's memory is reused, and codecs return more memory than they filled.
    const body = Buffer.from(await compress(page.body));
    page.release();
    const { values, rows, nulls, bounds, encoding } = page;
    return { values, rows, nulls, bounds, encoding, rawBytes: page.body.length, body };
  }
}

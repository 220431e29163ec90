import { createHash } from 'node:crypto';
import { S3Error } from './errors.ts';
import { type ChunkSigner, sameSignature, sha256Hex } from './signature.ts';

const minChunkBytes = 8192;
const maxHeaderBytes = 16_384;

/** Takes lines and counted bytes from a stream of buffers, without joining what is passed on. */
class Reader {
  readonly #source: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(source: AsyncIterable<Buffer>) {
    this.#source = source[Symbol.asyncIterator]();
  }

  async #more(): Promise<boolean> {
    const next = await this.#source.next();
    if (next.done) return false;
    this.#rest = this.#rest.length === 0 ? next.value : Buffer.concat([this.#rest, next.value]);
    return true;
  }

  /** Up to the next CRLF, which is taken too; null at the end of the stream. */
  async line(): Promise<string | null> {
    let at = this.#rest.indexOf('\r\n');
    while (at < 0) {
      if (this.#rest.length > maxHeaderBytes || !(await this.#more())) return null;
      at = this.#rest.indexOf('\r\n');
    }
    const text = this.#rest.toString('utf8', 0, at);
    this.#rest = this.#rest.subarray(at + 2);
    return text;
  }

  /** Exactly `size` bytes, in pieces. */
  async *bytes(size: number): AsyncGenerator<Buffer> {
    let left = size;
    while (left > 0) {
      if (this.#rest.length === 0 && !(await this.#more())) throw new S3Error('IncompleteBody');
      const piece = this.#rest.subarray(0, left);
      this.#rest = this.#rest.subarray(piece.length);
      left -= piece.length;
      yield piece;
    }
  }

  /** Nothing may follow the body. */
  async expectEnd(): Promise<void> {
    if (this.#rest.length > 0 || (await this.#more())) throw new S3Error('IncompleteBody');
  }
}

function parseChunkHeader(line: string | null): { size: number; signature: string | undefined } {
  const match = /^([0-9a-fA-F]{1,8})(?:;chunk-signature=([0-9a-f]{64}))?$/.exec(line ?? '');
  if (!match?.[1]) {
    throw new S3Error('IncompleteBody', { message: 'The chunk header is not well-formed.' });
  }
  return { size: Number.parseInt(match[1], 16), signature: match[2] };
}

const badChunk = (message: string) => new S3Error('SignatureDoesNotMatch', { message });

async function readTrailers(
  reader: Reader,
  signer: ChunkSigner | null,
): Promise<Map<string, string>> {
  const trailers = new Map<string, string>();
  let signed = '';
  for (let line = await reader.line(); line !== ''; line = await reader.line()) {
    const match = /^([A-Za-z0-9-]+):(.*)$/.exec(line ?? '');
    if (!match?.[1] || match[2] === undefined) throw new S3Error('MalformedTrailerError');
    const [name, value] = [match[1].toLowerCase(), match[2].trim()];
    trailers.set(name, value);
    if (name !== 'x-amz-trailer-signature') signed += `${name}:${value}\n`;
  }
  if (signer) {
    const expected = signer.trailer(sha256Hex(signed));
    if (!sameSignature(expected, trailers.get('x-amz-trailer-signature') ?? '')) {
      throw badChunk('The trailer signature does not match.');
    }
  }
  trailers.delete('x-amz-trailer-signature');
  return trailers;
}

/**
 * Unwraps an aws-chunked body and passes its data on. With a signer, each chunk's signature (and the
 * trailer's) must be right. Returns the trailing headers.
 * https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-streaming-trailers.html
 */
export async function* decodeAwsChunked(
  source: AsyncIterable<Buffer>,
  { signer, trailing }: { signer: ChunkSigner | null; trailing: boolean },
): AsyncGenerator<Buffer, Map<string, string>> {
  const reader = new Reader(source);
  let sawShortChunk = false;
  for (;;) {
    const { size, signature } = parseChunkHeader(await reader.line());
    if (signer && signature === undefined) throw badChunk('A chunk carries no signature.');
    // Only the last chunk before the empty one may be short.
    if (size > 0 && sawShortChunk) throw new S3Error('InvalidChunkSizeError');
    sawShortChunk = size < minChunkBytes;
    const hash = signer ? createHash('sha256') : null;
    for await (const piece of reader.bytes(size)) {
      hash?.update(piece);
      yield piece;
    }
    if (signer && hash && !sameSignature(signer.nextChunk(hash.digest('hex')), signature ?? '')) {
      throw badChunk('A chunk signature does not match.');
    }
    if (size === 0) break;
    if ((await reader.line()) !== '') {
      throw new S3Error('IncompleteBody', { message: 'A chunk is longer than it says.' });
    }
  }
  if (!trailing) {
    if ((await reader.line()) !== '') throw new S3Error('IncompleteBody');
    await reader.expectEnd();
    return new Map();
  }
  const trailers = await readTrailers(reader, signer);
  await reader.expectEnd();
  return trailers;
}

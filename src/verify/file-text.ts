import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { pipeline, type Transform } from 'node:stream';
import { promisify } from 'node:util';
import zlib from 'node:zlib';
import { readZstdFrames } from './zstd-frames.ts';

const readBytes = 1 << 20;

/** The text of a file on local disk, in pieces as they come. */
export function readText(path: string, compression: string | null): AsyncIterable<Buffer> {
  switch (compression) {
    case null:
      return createReadStream(path, { highWaterMark: readBytes });
    case 'gzip':
      return decompressed(path, zlib.createGunzip({ chunkSize: readBytes }));
    case 'brotli':
      return decompressed(path, zlib.createBrotliDecompress({ chunkSize: readBytes }));
    case 'zstd':
      return readZstd(path);
    default:
      throw new Error(`unknown compression ${compression}`);
  }
}

function decompressed(path: string, codec: Transform): AsyncIterable<Buffer> {
  // Whoever reads the codec is told of an error of either; it needs no second hearer.
  return pipeline(createReadStream(path, { highWaterMark: readBytes }), codec, () => {});
}

async function* readZstd(path: string): AsyncGenerator<Buffer> {
  const decompress = await loadZstd();
  const file = await open(path);
  try {
    for await (const frame of readZstdFrames(file)) yield await decompress(frame);
  } finally {
    await file.close();
  }
}

type NodeZstd = (input: Buffer, done: (error: Error | null, result: Buffer) => void) => void;

async function loadZstd(): Promise<(frame: Buffer) => Promise<Buffer>> {
  const { zstdDecompress } = zlib as { readonly zstdDecompress?: NodeZstd };
  if (zstdDecompress) return promisify(zstdDecompress);
  return (await import('@mongodb-js/zstd')).decompress;
}

/**
 * Records, each with the line break that ends it.
 *
 * @param quoted whether a line break between double quotes belongs to the record (RFC 4180)
 */
export async function* splitRecords(
  chunks: AsyncIterable<Buffer>,
  quoted: boolean,
): AsyncGenerator<Buffer> {
  let begun: Buffer[] = [];
  let inQuotes = false;
  for await (const chunk of chunks) {
    let start = 0;
    for (let at = 0; at < chunk.length; ) {
      const found = chunk.indexOf(10, at);
      const end = found === -1 ? chunk.length : found + 1;
      if (quoted) inQuotes = endsInQuotes(inQuotes, chunk, at, end);
      at = end;
      if (found === -1 || inQuotes) continue;
      const last = chunk.subarray(start, end);
      yield begun.length === 0 ? last : Buffer.concat([...begun, last]);
      begun = [];
      start = end;
    }
    if (start < chunk.length) begun.push(chunk.subarray(start));
  }
  if (begun.length > 0) yield Buffer.concat(begun);
}

/** A doubled quote within a field leaves and enters again. */
function endsInQuotes(before: boolean, bytes: Buffer, start: number, end: number): boolean {
  let inQuotes = before;
  for (let at = start; at < end; at += 1) if (bytes[at] === 0x22) inQuotes = !inQuotes;
  return inQuotes;
}

import { crc32 } from 'node:zlib';

/** `x-amz-checksum-crc32` of a body, in base64. The server knows no other algorithm. */
export function crc32Of(chunks: Iterable<Buffer>): string {
  let value = 0;
  for (const chunk of chunks) value = crc32(chunk, value);
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value >>> 0);
  return bytes.toString('base64');
}

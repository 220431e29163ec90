import type { Readable } from 'node:stream';

export interface BodyErrors {
  readonly tooLong: () => Error;
  /** @param bytes that came before `cause` */
  readonly cutOff: (cause: unknown, bytes: number) => unknown;
}

/**
 * Reads a body to its end. Its pieces are joined at once: a store may send one byte at a time, and an
 * object per byte would need a hundred times the memory.
 *
 * @throws one of `errors`; the connection ends
 */
export async function collectBody(
  body: Readable,
  maxBytes: number,
  errors: BodyErrors,
): Promise<Buffer> {
  let joined = Buffer.allocUnsafe(4_096);
  let bytes = 0;
  let isTooLong = false;
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      const needed = bytes + chunk.length;
      isTooLong = needed > maxBytes;
      // Leaving the loop destroys the connection.
      if (isTooLong) break;
      if (needed > joined.length) {
        const larger = Buffer.allocUnsafe(Math.max(needed, Math.min(maxBytes, 2 * joined.length)));
        joined.copy(larger, 0, 0, bytes);
        joined = larger;
      }
      chunk.copy(joined, bytes);
      bytes = needed;
    }
  } catch (cause) {
    throw errors.cutOff(cause, bytes);
  }
  if (isTooLong) throw errors.tooLong();
  return joined.subarray(0, bytes);
}

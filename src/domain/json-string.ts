const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const SPACE = 0x20;

/** How a byte is written in a JSON string; null: unchanged. Everything else is plain UTF-8. */
const escapes: readonly (Buffer | null)[] = Array.from({ length: 256 }, (_, byte) => {
  const plain = byte >= SPACE && byte !== QUOTE && byte !== BACKSLASH;
  return plain ? null : Buffer.from(JSON.stringify(String.fromCharCode(byte)).slice(1, -1));
});

/** By byte: 1 if it is not written as it is. */
export const isEscapedByte = Uint8Array.from(escapes, (escaped) => (escaped === null ? 0 : 1));

/** How a byte is written for which `isEscapedByte` is 1. */
export function escapeOf(byte: number): Buffer {
  return escapes[byte] as Buffer;
}

/**
 * Writes UTF-8 text as a JSON string with its quotes, as PostgreSQL does. There must be room for all of it.
 *
 * @returns the end of what was written
 */
export function putJsonString(
  target: Buffer,
  at: number,
  bytes: Buffer,
  from: number,
  end: number,
): number {
  let to = at;
  target[to++] = QUOTE;
  for (let index = from; index < end; index += 1) {
    const byte = bytes[index] as number;
    if (isEscapedByte[byte] === 0) target[to++] = byte;
    else to += escapeOf(byte).copy(target, to);
  }
  target[to++] = QUOTE;
  return to;
}

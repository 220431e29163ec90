/** Length of a uuid's text, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`. */
export const uuidTextBytes = 36;

const digits = Buffer.from('0123456789abcdef');
const dash = 0x2d;

/** Writes the text of the 16 bytes at `from` into `target` from `at` on: lower case, as PostgreSQL. */
export function formatUuid(bytes: Uint8Array, from: number, target: Uint8Array, at: number): void {
  let end = at;
  for (let index = 0; index < 16; index++) {
    if (index === 4 || index === 6 || index === 8 || index === 10) target[end++] = dash;
    const byte = bytes[from + index] as number;
    target[end++] = digits[byte >> 4] as number;
    target[end++] = digits[byte & 15] as number;
  }
}

import { hash, randomBytes, timingSafeEqual } from 'node:crypto';
import { crc32 } from 'node:zlib';

const prefix = 'slc_';
const alphabet = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const secretLength = 32;
const checksumLength = 6;
const shape = new RegExp(
  `^${prefix}([0-9A-Za-z]{${secretLength}})([0-9A-Za-z]{${checksumLength}})$`,
);

/** 32 random base62 digits (190 bits), drawn without bias. */
function drawSecret(): string {
  let secret = '';
  while (secret.length < secretLength) {
    for (const byte of randomBytes(secretLength)) {
      // 248 = 4 × 62: bytes above it would favour the first digits.
      if (byte < 248 && secret.length < secretLength) secret += alphabet[byte % 62];
    }
  }
  return secret;
}

function checksumOf(secret: string): string {
  let rest = crc32(prefix + secret);
  let digits = '';
  while (digits.length < checksumLength) {
    digits = alphabet[rest % 62] + digits;
    rest = Math.floor(rest / 62);
  }
  return digits;
}

/** A new key: `slc_`, 32 random base62 digits, and their CRC32 in 6 more. Show it only once. */
export function mintApiKey(): string {
  const secret = drawSecret();
  return prefix + secret + checksumOf(secret);
}

/** Refuses typing errors and guesses before the database is asked. */
export function isWellFormedApiKey(text: string): boolean {
  const [, secret, checksum] = shape.exec(text) ?? [];
  if (secret === undefined || checksum === undefined) return false;
  return timingSafeEqual(Buffer.from(checksumOf(secret)), Buffer.from(checksum));
}

/** SHA-256 of the key, all that is stored. A key has 190 random bits, so it needs no salt. */
export function hashApiKey(key: string): Buffer {
  return hash('sha256', key, 'buffer');
}

export function sameHash(a: Buffer, b: Buffer): boolean {
  return a.length === b.length && timingSafeEqual(a, b);
}

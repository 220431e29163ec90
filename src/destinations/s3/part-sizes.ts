const mebibyte = 1024 ** 2;

/** A part is held in memory until it is sent, in one buffer; S3 itself takes 5 GiB. */
const mostPartBytes = 2048 * mebibyte;

/** The part size doubles so often over a file's parts. */
const doublings = 11;

/**
 * The size of a file's part. It doubles each eleventh of the parts, so a file starts with parts
 * that cost little memory and yet 10,000 parts hold more than the 5 TiB an object may have:
 * 8 MiB parts up to 7 GiB, 16 MiB up to 21 GiB, 32 MiB up to 50 GiB.
 *
 * @param number from 1
 * @param partBytes of the first part; S3 itself takes no less than 5 MiB but for the last part
 */
export function partSize(number: number, partBytes: number, maxParts: number): number {
  const step = Math.max(1, Math.floor(maxParts / doublings));
  const growth = 2 ** Math.floor((number - 1) / step);
  return Math.min(mostPartBytes, partBytes * growth);
}

const mebibyte = 1024 ** 2;

/** A part is held in memory until it is sent, in one buffer; S3 itself takes 5 GiB. */
const mostPartBytes = 2048 * mebibyte;

/** So many of a file's parts have the first size; over the others it doubles so often. */
const steadyShare = 0.2;
const doublings = 10;

/**
 * The size of a file's part. A file starts with parts that cost little memory, and keeps to them for
 * as long as the rest still reaches: 10,000 parts hold more than the 5 TiB an object may have. 8 MiB
 * parts up to 15 GiB, 16 MiB up to 28 GiB, 32 MiB up to 53 GiB.
 *
 * @param number from 1
 * @param partBytes of the first part; S3 itself takes no less than 5 MiB but for the last part
 */
export function partSize(number: number, partBytes: number, maxParts: number): number {
  const steady = Math.max(1, Math.floor(maxParts * steadyShare));
  if (number <= steady) return partBytes;
  const step = Math.max(1, Math.floor((maxParts - steady) / doublings));
  const growth = 2 ** (1 + Math.floor((number - steady - 1) / step));
  return Math.min(mostPartBytes, partBytes * growth);
}

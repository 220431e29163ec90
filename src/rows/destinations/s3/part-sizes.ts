const mebibyte = 1024 ** 2;

/** A part is held in memory, in one buffer, until it is sent. S3 itself allows 5 GiB. */
const maxPartBytes = 2048 * mebibyte;

/** Share of a file's parts that have the first size. Over the others the size doubles ten times. */
const steadyShare = 0.2;
const doublings = 10;

/**
 * The size of a file's part. A file starts with small parts and keeps to them while the remaining parts
 * can still hold the 5 TiB that an object may have. With 8 MiB: 8 MiB up to 15 GiB, 16 MiB up to 28
 * GiB, 32 MiB up to 53 GiB.
 *
 * @param number from 1
 * @param partBytes of the first part; S3 requires 5 MiB for all but the last part
 */
export function partSize(number: number, partBytes: number, maxParts: number): number {
  const steady = Math.max(1, Math.floor(maxParts * steadyShare));
  if (number <= steady) return partBytes;
  const step = Math.max(1, Math.floor((maxParts - steady) / doublings));
  const growth = 2 ** (1 + Math.floor((number - steady - 1) / step));
  return Math.min(maxPartBytes, partBytes * growth);
}

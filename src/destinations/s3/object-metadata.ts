/**
 * Metadata of our files. The mark is random, of one upload or one put: after a lost answer it shows whether the object
 * is from it. (An ETag cannot: with KMS it is not a digest, and equal bytes have equal ETags.)
 */

const markName = 'sluice-upload';
const ownerName = 'sluice-export';

type Metadata = Readonly<Record<string, string>> | undefined;

/** @param owner the export; undefined: the object does not say */
export function metadataHeaders(
  mark: string,
  owner: string | undefined,
): Readonly<Record<string, string | undefined>> {
  return { [`x-amz-meta-${markName}`]: mark, [`x-amz-meta-${ownerName}`]: owner };
}

export function hasMark(metadata: Metadata, mark: string): boolean {
  return mark !== '' && metadata?.[markName] === mark;
}

/** The export that made an object; null if the object does not say: another program may have put it. */
export function ownerOf(metadata: Metadata): string | null {
  return metadata?.[ownerName] ?? null;
}

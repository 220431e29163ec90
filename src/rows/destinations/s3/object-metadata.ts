import type { FileOptions, RunMark, UploadRef } from '../destination.ts';

/**
 * Metadata of our files. The mark is random, of one upload or one put: after a lost answer it shows whether the object
 * is from it. (An ETag cannot: with KMS it is not a digest, and equal bytes have equal ETags.)
 */

const markName = 'sluice-upload';
const ownerName = 'sluice-export';
const runName = 'sluice-run';
const eraName = 'sluice-era';

type Metadata = Readonly<Record<string, string>> | undefined;

export function metadataHeaders(
  mark: string,
  { owner, run }: Pick<FileOptions, 'owner' | 'run'>,
): Readonly<Record<string, string | undefined>> {
  return {
    [`x-amz-meta-${markName}`]: mark,
    [`x-amz-meta-${ownerName}`]: owner,
    [`x-amz-meta-${runName}`]: run?.id,
    [`x-amz-meta-${eraName}`]: run?.era,
  };
}

export function hasMark(metadata: Metadata, mark: string): boolean {
  return mark !== '' && metadata?.[markName] === mark;
}

/** Says whether an object with this metadata was made by this upload. */
export function isOwnObject(
  upload: UploadRef,
  metadata: Readonly<Record<string, string>> | undefined,
): boolean {
  return hasMark(metadata, splitId(upload)[0]);
}

/** Our id of an upload is `<mark>.<the store's id>`. */
export function splitId({ uploadId }: UploadRef): readonly [mark: string, id: string] {
  const dot = uploadId.indexOf('.');
  return [uploadId.slice(0, Math.max(dot, 0)), uploadId.slice(dot + 1)];
}

/** The export that made an object; null if the object does not say: another program may have put it. */
export function ownerOf(metadata: Metadata): string | null {
  return metadata?.[ownerName] ?? null;
}

/** The run that made an object; null if the object does not say. */
export function runOf(metadata: Metadata): RunMark | null {
  const { [runName]: id, [eraName]: era } = metadata ?? {};
  return id && era ? { id, era } : null;
}

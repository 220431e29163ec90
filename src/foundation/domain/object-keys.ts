import { type KeyNames, renderTail } from './file-name.ts';

/** Keys of files contain the generation: a key that a current manifest names is never written again. A manifest's key has none. */

/**
 * `<prefix>/<start>-<end>[-<part>].<extension>`; from generation 2 on `<start>-<end>.v<generation>…`, or
 * what the template of the export says.
 *
 * @param generation from 1
 * @param part from 1 if the interval's rows are split over files, else null
 * @param extension with the compression's suffix, without the first dot
 * @param partition the folders of its rows' values, between the prefix and the name; `''` for none
 */
export function fileKey(
  { stem, tail }: KeyNames,
  generation: number,
  part: number | null,
  extension: string,
  partition = '',
): string {
  const { folder, name } = cutStem(stem);
  const folders = partition === '' ? folder : `${folder}${partition}/`;
  return `${folders}${name}${renderTail(tail, generation, part)}.${extension}`;
}

function cutStem(stem: string) {
  const at = stem.lastIndexOf('/') + 1;
  return { folder: stem.slice(0, at), name: stem.slice(at) };
}

const partitionFolders = '(?:[^/=]+=[^/]+/){1,3}';

/** The partition of a key of an interval: `event=signup`; `''` if it is beside the manifest, null if it is no key of the interval. */
export function partitionOfKey(stem: string, key: string): string | null {
  const { folder, name } = cutStem(stem);
  if (key.startsWith(stem)) return '';
  if (!key.startsWith(folder)) return null;
  const at = key.lastIndexOf('/') + 1;
  const between = key.slice(folder.length, at);
  const isPartition = new RegExp(`^${partitionFolders}$`).test(between);
  return isPartition && key.startsWith(name, at) ? between.slice(0, -1) : null;
}

/** The stems that the key of an interval's file can have: its own, and that without each of its last folders that can be a partition's. */
export function stemsOfKey(stem: string): readonly string[] {
  const { folder, name } = cutStem(stem);
  const folders = folder.split('/').slice(0, -1);
  const stems = [stem];
  for (let gone = 1; gone <= 3 && folders.at(-gone)?.includes('='); gone += 1) {
    stems.push([...folders.slice(0, -gone), name].join('/'));
  }
  return stems;
}

const manifestEnd = '_manifest.json';

/** `<prefix>/<start>-<end>_manifest.json`: the object whose presence commits the interval. */
export function manifestKey({ stem }: Pick<KeyNames, 'stem'>): string {
  return `${stem}${manifestEnd}`;
}

/** The keys of a manifest's interval start with this. */
export function stemOf(manifestKey: string): string {
  return manifestKey.slice(0, -manifestEnd.length);
}

/** The key of the rows that the format of the file at `key` cannot represent, each with its reason. */
export function rejectedKey(key: string): string {
  return `${key}_rejected.jsonl`;
}

/** Begins the name of each object that a test, a probe or a comparison of places writes and removes again. */
export const markerPrefix = '.sluice-test-';

export function isMarkerKey(key: string): boolean {
  return key.slice(key.lastIndexOf('/') + 1).startsWith(markerPrefix);
}

/** The removal of replaced files needs these: a manifest that the export has left gets a tombstone before its files go. */
export const rightsToRemove = 's3:GetObject, s3:PutObject and s3:DeleteObject';

/** Far above what any interval reaches, and far below what our tables can hold. */
const maxGeneration = 1_000_000_000;

/** Says whether a run may write the generation after it. A bucket may name any number. */
export function mayFollow(generation: number): boolean {
  return Number.isSafeInteger(generation) && generation >= 0 && generation < maxGeneration;
}

/** The order in which stores list: that of the bytes in UTF-8. */
export const compareKeys = (one: string, other: string): number =>
  Buffer.compare(Buffer.from(one), Buffer.from(other));

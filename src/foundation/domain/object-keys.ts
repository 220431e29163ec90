import { isoSeconds } from './key-template.ts';
import type { DataInterval } from './time.ts';

/**
 * Names of an interval's objects. The manifest's key depends on the interval alone. The keys of its
 * files also contain the generation: a key that a current manifest names is never written again.
 */

/**
 * `<prefix>/<start>-<end>[-<part>].<extension>`; from generation 2 on `<start>-<end>.v<generation>…`.
 *
 * @param prefix as `renderKeyTemplate` gives it; `''` for none
 * @param generation from 1
 * @param part from 1 if the interval's rows are split over files, else null
 * @param extension with the compression's suffix, without the first dot
 */
export function fileKey(
  prefix: string,
  interval: DataInterval,
  generation: number,
  part: number | null,
  extension: string,
): string {
  const version = generation === 1 ? '' : `.v${generation}`;
  // Padded, so that keys sort in the order of the rows.
  const suffix = part === null ? '' : `-${String(part).padStart(5, '0')}`;
  return `${intervalStem(prefix, interval)}${version}${suffix}.${extension}`;
}

/** `<prefix>/<start>-<end>_manifest.json`: the object whose presence commits the interval. */
export function manifestKey(prefix: string, interval: DataInterval): string {
  return `${intervalStem(prefix, interval)}_manifest.json`;
}

/** The prefix that a manifest's key of an interval was made with. */
export function prefixOfManifest(key: string, interval: DataInterval): string {
  return key.slice(0, -manifestKey('', interval).length).replace(/\/$/, '');
}

/** The key of the manifest that belongs to the same interval as `key`, a file's or a manifest's. */
export function manifestKeyOf(key: string): string {
  return key.replace(
    /(T\d\d:\d\d:\d\dZ-\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)[^/]*$/,
    '$1_manifest.json',
  );
}

/** The key of the rows that the format of the file at `key` cannot represent, each with its reason. */
export function rejectedKey(key: string): string {
  return `${key}_rejected.jsonl`;
}

/** What all keys of an interval start with: `<prefix>/<start>-<end>`. */
export function intervalStem(prefix: string, interval: DataInterval): string {
  const folder = prefix === '' ? '' : `${prefix}/`;
  return `${folder}${isoSeconds(interval.start)}-${isoSeconds(interval.end)}`;
}

/** Begins the name of each object that a test, a probe or a comparison of places writes and removes again. */
export const markerPrefix = '.sluice-test-';

export function isMarkerKey(key: string): boolean {
  return key.slice(key.lastIndexOf('/') + 1).startsWith(markerPrefix);
}

/** Far above what any interval reaches, and far below what our tables can hold. */
const maxGeneration = 1_000_000_000;

/** Whether a run may write the generation after it. A bucket may name any number. */
export function mayFollow(generation: number): boolean {
  return Number.isSafeInteger(generation) && generation >= 0 && generation < maxGeneration;
}

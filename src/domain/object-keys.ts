import { isoSeconds } from './key-template.ts';
import type { DataInterval } from './time.ts';

/**
 * Names of an interval's objects. They depend on the interval alone, never on the attempt or the
 * clock: a re-run replaces what it wrote before and never adds to it.
 */

/**
 * `<prefix>/<start>-<end>[-<part>].<extension>`.
 *
 * @param prefix as `renderKeyTemplate` gives it; `''` for none
 * @param part from 1 where the interval's rows are split over files, null where they are not
 * @param extension with the compression's suffix, without the first dot
 */
export function fileKey(
  prefix: string,
  interval: DataInterval,
  part: number | null,
  extension: string,
): string {
  // Padded, so that keys sort in the order of the rows.
  const suffix = part === null ? '' : `-${String(part).padStart(5, '0')}`;
  return `${intervalStem(prefix, interval)}${suffix}.${extension}`;
}

/** `<prefix>/<start>-<end>_manifest.json`: the object whose presence commits the interval. */
export function manifestKey(prefix: string, interval: DataInterval): string {
  return `${intervalStem(prefix, interval)}_manifest.json`;
}

/** Whether a key of ours is a manifest's. */
export function isManifestKey(key: string): boolean {
  return key.endsWith('_manifest.json');
}

/** Where rows go that the file at `key` cannot hold, each with its reason. */
export function rejectedKey(key: string): string {
  return `${key}_rejected.jsonl`;
}

/** What all keys of an interval start with: `<prefix>/<start>-<end>`. */
function intervalStem(prefix: string, interval: DataInterval): string {
  const folder = prefix === '' ? '' : `${prefix}/`;
  return `${folder}${isoSeconds(interval.start)}-${isoSeconds(interval.end)}`;
}

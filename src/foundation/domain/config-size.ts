import type { Problem } from './problem.ts';

const kibibyte = 1024;
/** Maximum size of what a tenant may store as one JSON value. */
const maxKibibytes = 64;

/** @param attr the field that the problem names */
export function checkConfigSize(config: unknown, attr: string): Problem[] {
  const bytes = Buffer.byteLength(JSON.stringify(config) ?? '');
  if (bytes <= maxKibibytes * kibibyte) return [];
  const kibibytes = Math.ceil(bytes / kibibyte);
  const detail = `It has ${kibibytes} KiB as JSON; the maximum is ${maxKibibytes} KiB. Shorten its texts and lists.`;
  return [{ code: 'max_length', detail, attr }];
}

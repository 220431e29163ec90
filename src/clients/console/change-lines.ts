import type { Activity } from './api-types.ts';
import { isRecord } from './json.ts';

/** One changed setting of an export, in words. */
export interface ChangeLine {
  /** The name of the field; of the destination, that of its setting. */
  readonly field: string;
  readonly before: string | null;
  readonly after: string | null;
  /** A secret: its values are not shown, only that it changed. */
  readonly isSecret: boolean;
}

type Change = Activity['changes'][number];

const masked = '********';

/** The changes of an activity, one line per setting: those of a destination are compared one by one. */
export function changeLines(changes: readonly Change[]): readonly ChangeLine[] {
  return changes.flatMap((change) =>
    change.field === 'destination' ? destinationLines(change) : [lineOf(change)],
  );
}

function lineOf({ field, before, after }: Change): ChangeLine {
  const isSecret = before === masked || after === masked;
  return { field: wordsOf(field), before: textOf(before), after: textOf(after), isSecret };
}

/** A value of over 8 KiB is cut by the API and no object any longer: such a change is one line. */
function destinationLines(change: Change): readonly ChangeLine[] {
  const { before, after } = change;
  const [old, next] = [settingsOf(before), settingsOf(after)];
  if (next === null || (old === null && before !== null)) return [lineOf(change)];
  const names = [...new Set([...Object.keys(old ?? {}), ...Object.keys(next)])];
  return names
    .map((field) => lineOf({ field, before: old?.[field] ?? null, after: next[field] ?? null }))
    .filter((line) => line.before !== line.after);
}

/** Type and config of a destination, as one object; null if it is none. */
function settingsOf(destination: unknown): Record<string, unknown> | null {
  if (!isRecord(destination) || !isRecord(destination.config)) return null;
  return { type: destination.type, ...destination.config };
}

/** `offset_hour` → `offset hour` */
const wordsOf = (field: string): string => field.replaceAll('_', ' ');

function textOf(value: unknown): string | null {
  if (value === null || value === undefined || value === '') return null;
  if (typeof value === 'boolean') return value ? 'yes' : 'no';
  if (Array.isArray(value)) return value.length === 0 ? null : value.map(String).join(', ');
  const text = typeof value === 'object' ? JSON.stringify(value) : String(value);
  // Times that were given to the second or the minute.
  return text.replace(/(T\d\d:\d\d:\d\d)\.000000Z/g, '$1Z');
}

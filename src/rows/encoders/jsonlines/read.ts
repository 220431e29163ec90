import { QUOTE } from '../../../foundation/domain/json-bytes.ts';
import { streamCodecOf } from '../codecs/stream-compressions.ts';
import type { ReadColumn, ReadRow } from '../encoder.ts';
import { splitRecords } from '../text/split-records.ts';
import { findMembers, readString } from './raw-json.ts';

/** @param inside the property of a line that holds the row; null if the line is the row */
export async function* readJsonLines(
  text: AsyncIterable<Buffer>,
  columns: readonly ReadColumn[],
  inside: string | null = null,
): AsyncGenerator<ReadRow> {
  const names = new Set(columns.map(({ name }) => name));
  const holder = new Set(inside === null ? [] : [inside]);
  for await (const record of splitRecords(text, false)) {
    const start = inside === null ? 0 : findMembers(record, holder).get(inside)?.start;
    if (start === undefined) throw new Error(`a record has no ${inside}`);
    const members = findMembers(record, names, start);
    yield columns.map(({ name, type }) => {
      const bounds = members.get(name);
      // A row that a step rejected has only its keys.
      if (bounds === undefined && inside !== null) return undefined;
      if (bounds === undefined) throw new Error(`column not found: ${name}`);
      const isText = record[bounds.start] === QUOTE && type !== 'json' && type !== 'jsonb';
      if (isText) return readString(record, bounds);
      const value = record.toString('utf8', bounds.start, bounds.end);
      return value === 'null' ? null : value;
    });
  }
}

/** Reads a file of rejected rows: `{"column", "reason", "row"}` per line. */
export function readRejectedRows(
  path: string,
  columns: readonly ReadColumn[],
): AsyncIterable<ReadRow> {
  return readJsonLines(streamCodecOf(null).read(path), columns, 'row');
}

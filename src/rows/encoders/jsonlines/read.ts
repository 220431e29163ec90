import { streamCodecOf } from '../codecs/stream-compressions.ts';
import type { ReadColumn, ReadRow } from '../encoder.ts';
import { splitRecords } from '../text/split-records.ts';
import { rawProperty } from './raw-json.ts';

type JsonObject = Readonly<Record<string, unknown>>;

/** @param inside the property of a line that holds the row; null if the line is the row */
export async function* readJsonLines(
  text: AsyncIterable<Buffer>,
  columns: readonly ReadColumn[],
  inside: string | null = null,
): AsyncGenerator<ReadRow> {
  for await (const record of splitRecords(text, false)) {
    const line = record.toString('utf8');
    const json = inside === null ? line : (rawProperty(line, inside) ?? '');
    const row = JSON.parse(json) as JsonObject;
    yield columns.map(({ name, type }) => {
      const value = Object.hasOwn(row, name) ? row[name] : undefined;
      if (value === null) return null;
      // A row that a step rejected has only its keys.
      if (value === undefined && inside !== null) return undefined;
      if (value === undefined) throw new Error(`column not found: ${name}`);
      const isText = typeof value === 'string' && type !== 'json' && type !== 'jsonb';
      return isText ? value : (rawProperty(json, name) ?? '');
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

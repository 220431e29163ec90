import type { ReadColumn, ReadRow } from '../encoder.ts';
import { splitRecords } from '../text/split-records.ts';

export async function* readCsv(
  text: AsyncIterable<Buffer>,
  columns: readonly ReadColumn[],
  guarded = false,
): AsyncGenerator<ReadRow> {
  let places: readonly number[] | null = null;
  const isText = columns.map(({ type }) => guarded && (type === 'text' || type === 'as_json'));
  for await (const record of splitRecords(text, true)) {
    const fields = csvFields(record.toString('utf8'));
    if (places) yield places.map((place, at) => unguard(fields[place] ?? null, isText[at]));
    else places = columns.map(({ name }) => placeOf(name, fields));
  }
}

function placeOf(name: string, header: readonly (string | null)[]): number {
  const place = header.indexOf(name);
  if (place === -1) throw new Error(`column not found: ${name}`);
  return place;
}

/** The apostrophe of a guarded text is not part of its value. */
function unguard(field: string | null, isGuarded: boolean | undefined): string | null {
  return field !== null && isGuarded ? field.replace(/^'(?='*[=+\-@\t\r])/, '') : field;
}

const cellEnd = /[,\r\n]/g;

/** The fields of a record of RFC 4180; an empty field without quotes is null. */
function csvFields(record: string): readonly (string | null)[] {
  const fields: (string | null)[] = [];
  for (let position = 0; ; position += 1) {
    let field: string | null = null;
    if (record[position] === '"') {
      field = '';
      for (;;) {
        const quote = record.indexOf('"', position + 1);
        if (quote === -1) throw new Error('a quoted field does not end');
        field += record.slice(position + 1, quote);
        position = quote + 1;
        if (record[position] !== '"') break;
        field += '"';
      }
    } else {
      cellEnd.lastIndex = position;
      const end = cellEnd.exec(record)?.index ?? record.length;
      if (end > position) field = record.slice(position, end);
      position = end;
    }
    fields.push(field);
    if (record[position] !== ',') return fields;
  }
}

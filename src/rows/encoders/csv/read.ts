import type { FormatOptions, ReadColumn, ReadRow } from '../encoder.ts';
import { splitRecords } from '../text/split-records.ts';
import { delimiterOf, nullTextOf } from './encode.ts';

export async function* readCsv(
  text: AsyncIterable<Buffer>,
  columns: readonly ReadColumn[],
  options: FormatOptions = {},
): AsyncGenerator<ReadRow> {
  const { csvFormulaGuard = false, csvDelimiter = 'comma', csvNull } = options;
  const { csvBom = false, csvHeader = true, schema } = options;
  const fieldsOf = fieldReader(delimiterOf[csvDelimiter], nullTextOf(csvNull));
  const indicesIn = (header: readonly (string | null)[]) =>
    columns.map(({ name }) => indexIn(name, header));
  if (!csvHeader && !schema) throw new Error('the columns of a CSV without a header are not known');
  let indices = csvHeader ? null : indicesIn(schema?.map(({ name }) => name) ?? []);
  let isFirst = true;
  const isText = columns.map(
    ({ type }) => csvFormulaGuard && (type === 'text' || type === 'as_json'),
  );
  for await (const record of splitRecords(text, true)) {
    const text = record.toString('utf8');
    // A value can also begin with this character.
    const line = isFirst && csvBom ? text.replace(/^\ufeff/, '') : text;
    isFirst = false;
    if (indices) {
      const fields = fieldsOf(line);
      yield indices.map((index, at) => {
        const field = fields[index];
        if (field === undefined) throw new Error(`a record has only ${fields.length} fields`);
        return unguard(field, isText[at]);
      });
    } else {
      indices = indicesIn(fieldsOf(line));
    }
  }
}

function indexIn(name: string, header: readonly (string | null)[]): number {
  const index = header.indexOf(name);
  if (index === -1) throw new Error(`column not found: ${name}`);
  return index;
}

/** The apostrophe of a guarded text is not part of its value. */
function unguard(field: string | null, isGuarded: boolean | undefined): string | null {
  return field !== null && isGuarded ? field.replace(/^'(?='*[=+\-@\t\r])/, '') : field;
}

/** The fields of a record of RFC 4180; a field of `nullText` without quotes is null. */
function fieldReader(delimiter: string, nullText: string) {
  const cellEnd = new RegExp(`[\\${delimiter}\\r\\n]`, 'g');
  return (record: string): readonly (string | null)[] => {
    const fields: (string | null)[] = [];
    for (let position = 0; ; position += 1) {
      let field: string | null;
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
        const found = record.slice(position, end);
        field = found === nullText ? null : found;
        position = end;
      }
      fields.push(field);
      if (record[position] !== delimiter) return fields;
    }
  };
}

import { CARRIAGE_RETURN, LINE_FEED, QUOTE } from '../../../foundation/domain/json-bytes.ts';
import type { FormatOptions, ReadColumn, ReadRow } from '../encoder.ts';
import { splitRecords } from '../text/split-records.ts';
import { byteOrderMark, delimiterOf, nullTextOf } from './encode.ts';

export async function* readCsv(
  text: AsyncIterable<Buffer>,
  columns: readonly ReadColumn[],
  options: FormatOptions = {},
): AsyncGenerator<ReadRow> {
  const { csvFormulaGuard = false, csvDelimiter = 'comma', csvNull } = options;
  const { csvBom = false, csvHeader = true, schema } = options;
  const delimiter = delimiterOf[csvDelimiter].charCodeAt(0);
  const nullText = nullTextOf(csvNull);
  if (!csvHeader && !schema) throw new Error('the columns of a CSV without a header are not known');
  const indicesIn = (header: readonly (string | null)[]) =>
    columns.map(({ name }) => indexIn(name, header));
  let indices = csvHeader ? null : indicesIn(schema?.map(({ name }) => name) ?? []);
  let isFirst = true;
  const isText = columns.map(
    ({ type }) => csvFormulaGuard && (type === 'text' || type === 'as_json'),
  );
  for await (const record of splitRecords(text, true)) {
    // A value can also begin with this character.
    const hasMark = isFirst && csvBom && record.indexOf(byteOrderMark) === 0;
    isFirst = false;
    const fields = findFields(record, hasMark ? byteOrderMark.length : 0, delimiter);
    if (indices) {
      yield indices.map((index, at) => {
        const field = fields[index];
        if (field === undefined) throw new Error(`a record has only ${fields.length} fields`);
        return unguard(textOf(record, field, nullText), isText[at]);
      });
    } else {
      indices = indicesIn(fields.map((field) => textOf(record, field, nullText)));
    }
  }
}

function indexIn(name: string, header: readonly (string | null)[]): number {
  const index = header.indexOf(name);
  if (index === -1) throw new Error(`column not found: ${name}`);
  return index;
}

function unguard(field: string | null, isGuarded: boolean | undefined): string | null {
  return field !== null && isGuarded ? field.replace(/^'(?='*[=+\-@\t\r])/, '') : field;
}

interface Field {
  readonly start: number;
  readonly end: number;
  readonly isQuoted: boolean;
}

/** RFC 4180. Only those that are wanted become text: a record may have many MiB. */
function findFields(record: Buffer, first: number, delimiter: number): readonly Field[] {
  const fields: Field[] = [];
  for (let at = first; ; at += 1) {
    const isQuoted = record[at] === QUOTE;
    const start = isQuoted ? at + 1 : at;
    at = isQuoted ? endOfQuoted(record, start) : endOfPlain(record, start, delimiter);
    fields.push({ start, end: at, isQuoted });
    if (isQuoted) at += 1;
    if (record[at] !== delimiter) return fields;
  }
}

/** A doubled quote is of the field. */
function endOfQuoted(record: Buffer, start: number): number {
  for (let at = start; at < record.length; at += 1) {
    if (record[at] !== QUOTE) continue;
    if (record[at + 1] !== QUOTE) return at;
    at += 1;
  }
  throw new Error('a quoted field does not end');
}

function endOfPlain(record: Buffer, start: number, delimiter: number): number {
  let at = start;
  for (; at < record.length; at += 1) {
    const byte = record[at];
    if (byte === delimiter || byte === LINE_FEED || byte === CARRIAGE_RETURN) break;
  }
  return at;
}

function textOf(record: Buffer, { start, end, isQuoted }: Field, nullText: string): string | null {
  const text = record.toString('utf8', start, end);
  if (isQuoted) return text.includes('""') ? text.replaceAll('""', '"') : text;
  return text === nullText ? null : text;
}

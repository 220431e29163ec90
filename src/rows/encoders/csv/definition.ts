import { textFormat } from '../text/text-file.ts';
import { formatCsv } from './encode.ts';
import { readCsv } from './read.ts';

/** Comma-separated text with a header line; see README.md for how each type is written. */
export const csv = textFormat(
  { format: 'CSV', extension: 'csv', contentType: 'text/csv' },
  (columns, options) => formatCsv(columns, options?.csvFormulaGuard === true),
  (text, columns, options) => readCsv(text, columns, options?.csvFormulaGuard === true),
  { isQuoted: true, headers: 1 },
);

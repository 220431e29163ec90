import { textFormat } from '../text/text-file.ts';
import { byteOrderMark, formatCsv } from './encode.ts';
import { readCsv } from './read.ts';

export const csv = textFormat(
  { format: 'CSV', extension: 'csv', contentType: 'text/csv' },
  formatCsv,
  readCsv,
  ({ csvHeader = true, csvBom = false }) => ({
    isQuoted: true,
    headers: csvHeader ? 1 : 0,
    markBytes: csvBom ? byteOrderMark.length : 0,
  }),
);

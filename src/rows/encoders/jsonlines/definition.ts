import { textFormat } from '../text/text-file.ts';
import { formatJsonLines } from './encode.ts';
import { readJsonLines } from './read.ts';

export const jsonLines = textFormat(
  { format: 'JSONLines', extension: 'jsonl', contentType: 'application/x-ndjson' },
  (columns) => formatJsonLines(columns),
  (text, columns) => readJsonLines(text, columns),
  () => ({ isQuoted: false, headers: 0, markBytes: 0 }),
);

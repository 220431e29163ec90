import { hash } from 'node:crypto';
import { jsonNull, plainOf } from '../json.ts';
import { columnOf } from '../properties.ts';
import { readNumber } from '../settings.ts';
import { defineTransform, field } from '../transform.ts';

export const sampleRows = defineTransform({
  id: 19,
  name: 'Sample rows',
  description: 'Keeps a share of the rows: always the same ones, by the value of a column.',
  protects: false,
  fields: [
    field({
      key: 'percent',
      name: 'Percent that are kept',
      required: true,
      hint: 'From 0 to 100.',
    }),
    field({ key: 'by', name: 'Column', default: 'distinct_id' }),
    field({ key: 'seed', name: 'Seed', default: '', hint: 'Another seed gives another sample.' }),
  ],
  compile(config) {
    const percent = readNumber(config, 'percent', { from: 0, to: 100, whole: false });
    const { by = 'distinct_id', seed = '' } = config;
    return (row) => {
      const value = columnOf(row, by);
      if (percent === 100) return row;
      return value !== jsonNull && shareOf(seed, plainOf(value)) * 100 < percent ? row : null;
    };
  },
});

/** A place from 0 to 1 that the text always has. */
function shareOf(seed: string, text: string): number {
  const digest = hash('sha256', `${seed}\0${text}`, 'hex');
  return Number.parseInt(digest.slice(0, 8), 16) / 2 ** 32;
}

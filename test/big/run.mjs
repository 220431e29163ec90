/**
 * `npm run test:big -- --rows 10000000 --format Parquet --compression zstd`: one interval of many rows
 * through the real worker with a heap of 256 MB, to an S3 that counts what it is sent and keeps nothing. Then the same rows
 * to a folder, and a late row. `--only late --row-bytes 100` leaves out the first part, and makes short rows.
 */

import { parseArgs } from 'node:util';
import { startVitest } from 'vitest/node';

const { values } = parseArgs({
  options: {
    rows: { type: 'string', default: '10000000' },
    format: { type: 'string', default: 'JSONLines' },
    compression: { type: 'string', default: 'none' },
    'row-bytes': { type: 'string', default: '800' },
    only: { type: 'string' },
  },
});
const rows = Number(values.rows);
if (!Number.isSafeInteger(rows) || rows < 1000) {
  throw new RangeError('--rows takes a whole number of at least 1000');
}
const { format, only } = values;
const rowBytes = Number(values['row-bytes']);
const compression = values.compression === 'none' ? null : values.compression;

const vitest = await startVitest('test', [], {
  config: false,
  watch: false,
  include: ['test/big/ten-million.ts'],
  globalSetup: ['test/support/global-setup.ts'],
  testTimeout: 7_200_000,
  hookTimeout: 7_200_000,
  ...(only && { testNamePattern: only }),
  provide: { bigRun: { rows, rowBytes, format, compression } },
});
await vitest.close();

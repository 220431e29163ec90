import { expect, it } from 'vitest';
import { settings } from '../../../src/config/settings.ts';
import {
  idleWorkerBytes,
  memoryBudget,
  type RunShape,
} from '../../../src/pipeline/memory-budget.ts';

const mebibyte = 1024 ** 2;
const upload = { partBytes: 8 * mebibyte, partsInFlight: 2 };
const budget = (shape: Pick<RunShape, 'format' | 'compression'>) =>
  memoryBudget({ ...upload, ...shape }) / mebibyte;

it.each([
  ['JSONLines', null, 36],
  ['CSV', 'gzip', 48],
  ['JSONLines', 'zstd', 60],
  ['JSONLines', 'brotli', 68],
  ['Parquet', 'zstd', 88],
  ['Parquet', null, 88],
])(
  '%s with %s may need %i MiB, as the documentation of the setting says',
  (format, compression, mib) => {
    expect(budget({ format, compression })).toBe(mib);
  },
);

it('without an upload no part is counted', () => {
  const shape = { format: 'JSONLines', compression: null, partBytes: 0, partsInFlight: 2 };
  expect(memoryBudget(shape)).toBe(12 * mebibyte);
});

it('the default memory holds the default concurrency in every format', () => {
  const memory = Number(settings.WORKER_MEMORY_MB.defaultText) - idleWorkerBytes / mebibyte;
  const runs = Number(settings.WORKER_CONCURRENCY.defaultText);
  expect(memory).toBeGreaterThanOrEqual(runs * budget({ format: 'Parquet', compression: 'zstd' }));
});

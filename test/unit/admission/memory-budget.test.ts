import { describe, expect, it } from 'vitest';
import { settings } from '../../../src/foundation/config/settings.ts';
import { encoderOf, registry } from '../../../src/main/connectors.ts';
import { encoderMemory } from '../../../src/rows/encoders/index.ts';
import { Admission, type ComingRun } from '../../../src/service/admission/admission.ts';
import {
  idleWorkerBytes,
  memoryBudget,
  readBackBytes,
} from '../../../src/service/admission/memory-budget.ts';
import { BufferWatch } from '../../../src/service/admission/process-memory.ts';

const mebibyte = 1024 ** 2;
const upload = { partBytes: 8 * mebibyte, partsInFlight: 2 };
const bytesOf = (format: string, compression: string | null) =>
  encoderMemory(encoderOf(registry, format), compression);
const budget = (format: string, compression: string | null) =>
  memoryBudget({ ...upload, transforms: false, encoderBytes: bytesOf(format, compression) }) /
  mebibyte;

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
    expect(budget(format, compression)).toBe(mib);
  },
);

it('without an upload no part is counted', () => {
  const shape = {
    transforms: false,
    encoderBytes: bytesOf('JSONLines', null),
    partBytes: 0,
    partsInFlight: 2,
  };
  expect(memoryBudget(shape)).toBe(12 * mebibyte);
});

it('the default memory holds the default concurrency in every format', () => {
  const memory = Number(settings.WORKER_MEMORY_MB.defaultText) - idleWorkerBytes / mebibyte;
  const runs = Number(settings.WORKER_CONCURRENCY.defaultText);
  expect(memory).toBeGreaterThanOrEqual(runs * budget('Parquet', 'zstd'));
});

it.each([
  [0, 16],
  [1, 240],
  [2, 464],
])('with %i own plugins a chain gets the memory that the documentation says', (ownSteps, more) => {
  const shape = { ...upload, encoderBytes: 0 };
  const without = memoryBudget({ ...shape, transforms: false });
  expect((memoryBudget({ ...shape, transforms: true, ownSteps }) - without) / mebibyte).toBe(more);
});

it('a run that reads delivered files has the memory for it from its start', async () => {
  const admission = new Admission({
    ...{ memoryBytes: 2 ** 30, slots: 9, smallRuns: 0, memoryOf: () => 1_000 },
    comparesKeys: (model) => model === 'compared',
    stopping: new AbortController().signal,
    pressure: { isPressed: () => false, rest: 0, close() {} },
  });
  const bytesOf = async (changes: Partial<ComingRun>) => {
    const ticket = await admission.enter({
      ...{ organizationId: 'acme', purpose: 'whole', model: 'compared', mode: 'changes' },
      ...{
        type: 'S3',
        config: {},
        transformations: false,
        ownSteps: 0,
        small: false,
        isAlone: false,
      },
      ...changes,
    });
    const { usedBytes } = admission.room();
    ticket?.leave();
    return usedBytes;
  };
  expect(await bytesOf({})).toBe(1_000 + readBackBytes);
  expect(await bytesOf({ purpose: 'supplement', mode: 'append' })).toBe(1_000 + readBackBytes);
  expect(await bytesOf({ mode: 'snapshot' })).toBe(1_000);
  expect(await bytesOf({ model: 'with tombstones' })).toBe(1_000);
  admission.close();
});

describe('the watch of buffers', () => {
  const mebibyte = 1024 ** 2;

  /** Notes a window of these MiB, again and again. @returns whether buffers are to be freed */
  function noteWindow(watch: BufferWatch, ...mib: readonly number[]): boolean {
    const answers = Array.from({ length: 20 }, (_, at) =>
      watch.note((mib[at % mib.length] as number) * mebibyte),
    );
    expect(answers.slice(0, -1)).not.toContain(true);
    return answers.at(-1) as boolean;
  }

  it('frees buffers once the least of a window has grown by more than 8 MiB', () => {
    const watch = new BufferWatch();
    expect(noteWindow(watch, 30)).toBe(false);
    expect(noteWindow(watch, 38)).toBe(false);
    expect(noteWindow(watch, 39)).toBe(true);
  });

  it('leaves what rises and falls within a window to small collections', () => {
    const watch = new BufferWatch();
    expect(noteWindow(watch, 30)).toBe(false);
    expect(noteWindow(watch, 90, 60, 31)).toBe(false);
  });

  it('does not free again what is still in use', () => {
    const watch = new BufferWatch();
    noteWindow(watch, 30);
    expect(noteWindow(watch, 90)).toBe(true);
    watch.noteFreed(85 * mebibyte);
    expect(noteWindow(watch, 90)).toBe(false);
    expect(noteWindow(watch, 94)).toBe(true);
  });

  it('counts from the lowest of all windows since', () => {
    const watch = new BufferWatch();
    noteWindow(watch, 90);
    expect(noteWindow(watch, 20)).toBe(false);
    expect(noteWindow(watch, 30)).toBe(true);
  });
});

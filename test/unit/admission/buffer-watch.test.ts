import { expect, it } from 'vitest';
import { BufferWatch } from '../../../src/service/admission/process-memory.ts';

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

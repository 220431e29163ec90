import { expect, test } from 'vitest';
import { remember } from '../../../src/rows/transforms/remember.ts';

function counted() {
  const asked: string[] = [];
  const write = remember((text) => {
    asked.push(text);
    return text.toUpperCase();
  });
  return { asked, write };
}

test('a text that repeats is computed once', () => {
  const { asked, write } = counted();
  expect([write('a'), write('b'), write('a')]).toEqual(['A', 'B', 'A']);
  expect(asked).toEqual(['a', 'b']);
});

test('long texts are not remembered', () => {
  const { asked, write } = counted();
  const long = 'x'.repeat(100_000);
  for (let n = 0; n < 3; n += 1) expect(write(long)).toBe(long.toUpperCase());
  expect(asked).toHaveLength(3);
});

test('what is remembered has a bound in characters', () => {
  const { asked, write } = counted();
  const texts = Array.from({ length: 1_000 }, (_, n) => `${n} ${'x'.repeat(900)}`);
  for (const text of texts) write(text);
  // 256 Ki characters: the first ones are forgotten.
  write(texts[0] ?? '');
  expect(asked).toHaveLength(1_001);
});

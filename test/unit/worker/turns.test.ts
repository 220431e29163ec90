import { expect, test } from 'vitest';
import { Turns } from '../../../src/worker/turns.ts';

test('work of one name waits for the work before it, also if that fails; other work does not', async () => {
  const turns = new Turns();
  const seen: string[] = [];
  let fail: (error: Error) => void = () => {};
  const first = turns.take('a', () => {
    seen.push('first');
    return new Promise<never>((_, reject) => {
      fail = reject;
    });
  });
  const second = turns.take('a', async () => seen.push('second'));
  await turns.take('b', async () => seen.push('other'));
  expect(seen).toEqual(['first', 'other']);
  fail(new Error('lost'));
  await expect(first).rejects.toThrow('lost');
  await second;
  expect(await turns.take('a', async () => seen.length)).toBe(3);
  expect(seen).toEqual(['first', 'other', 'second']);
});

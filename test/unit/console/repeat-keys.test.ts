import { expect, test } from 'vitest';
import { createRepeatKeys } from '../../../src/clients/console/repeat-keys.ts';

const minute = 60_000;

function keysAt(time: { now: number }) {
  let made = 0;
  return createRepeatKeys(
    () => {
      made += 1;
      return String(made);
    },
    () => time.now,
  );
}

test('a change that is sent again has the same key, until an answer is there', () => {
  const keys = keysAt({ now: 0 });
  const first = keys.of('/a', '{}');
  expect(keys.of('/a', '{}').key).toBe(first.key);
  first.forget();
  const second = keys.of('/a', '{}');
  expect(second.key).not.toBe(first.key);
  // A late answer of the first says nothing of the second.
  first.forget();
  expect(keys.of('/a', '{}').key).toBe(second.key);
});

test('other changes have other keys, and the same one has another key later', () => {
  const time = { now: 0 };
  const keys = keysAt(time);
  const { key } = keys.of('/a', '{}');
  expect(keys.of('/b', '{}').key).not.toBe(key);
  expect(keys.of('/a', '{"b":1}').key).not.toBe(key);
  time.now = 5 * minute;
  expect(keys.of('/a', '{}').key).toBe(key);
  time.now += 1;
  expect(keys.of('/a', '{}').key).not.toBe(key);
});

test('nothing is kept after a sign-out', () => {
  const keys = keysAt({ now: 0 });
  const { key } = keys.of('/a', '{}');
  keys.clear();
  expect(keys.of('/a', '{}').key).not.toBe(key);
});

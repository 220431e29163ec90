import { expect, test } from 'vitest';
import { BoundedMap } from '../../../src/rows/query/bounded-map.ts';

test('what was not read for the longest time leaves first, as soon as the weights are too much', () => {
  const map = new BoundedMap<string, number>(10);
  map.set('a', 1, 4);
  map.set('b', 2, 4);
  expect(map.get('a')).toBe(1);
  map.set('c', 3, 4);
  expect([map.get('a'), map.get('b'), map.get('c')]).toEqual([1, undefined, 3]);
});

test('an entry that is set again has its new weight alone', () => {
  const map = new BoundedMap<string, number>(10);
  map.set('a', 1, 8);
  map.set('a', 2, 2);
  map.set('b', 3, 8);
  expect([map.get('a'), map.get('b')]).toEqual([2, 3]);
});

test('an entry heavier than the map is not kept, and the old one under its key is gone', () => {
  const map = new BoundedMap<string, number>(10);
  map.set('a', 1, 1);
  map.set('b', 1, 1);
  map.set('a', 2, 11);
  expect(map.get('a')).toBeUndefined();
  expect(map.get('b')).toBe(1);
});

import { expect, test } from 'vitest';
import { readYaml } from '../../../src/clients/cli/api/export-spec.ts';
import type { Terminal } from '../../../src/clients/cli/deps.ts';

const read = (text: string) => {
  const terminal = { readInput: async () => text } as Terminal;
  return readYaml(terminal, '-');
};

test.each([
  ...['9007199254740993', '-12345678901234567890', '9223372036854775808', '.inf', '-.inf', '.nan'],
  ...['1e400', '0xFFFFFFFFFFFFFFFF'],
])('a file with the number %s, which JSON would change, is refused', async (number) => {
  const detail = `-: the number ${number} has more digits than a JSON number keeps. Put it in quotes.`;
  await expect(read(`filters: [{ value: ${number} }]`)).rejects.toThrow(detail);
});

test('other numbers, and any number in quotes, are read as they are', async () => {
  const value = await read(
    '[1, -0.5, 1e3, 9007199254740991, 12345678901234567000, 0xFF, "9007199254740993"]',
  );
  expect(value).toEqual([
    ...[1, -0.5, 1_000, 9_007_199_254_740_991, 12_345_678_901_234_567_000, 255],
    '9007199254740993',
  ]);
});

test('a field that occurs twice is refused', async () => {
  await expect(read('filters: [{ key: a }]\nfilters: []')).rejects.toThrow(/unique/);
});

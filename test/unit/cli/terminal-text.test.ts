import { expect, test } from 'vitest';
import { readYaml } from '../../../src/clients/cli/api/export-spec.ts';
import { createProgress } from '../../../src/clients/cli/api/progress.ts';
import { readEventRows } from '../../../src/clients/cli/arguments.ts';
import type { Terminal } from '../../../src/clients/cli/deps.ts';
import { paintFor, plain, visible } from '../../../src/clients/cli/text.ts';

const foreign = 'a\u001b[2J\n\u009b1m\u202e\u2066\u2028\u061c\u007fb';

test('what a terminal acts on is escaped, and a line of JSON keeps its values', () => {
  const shown = 'a\\u001b[2J\\u000a\\u009b1m\\u202e\\u2066\\u2028\\u061c\\u007fb';
  expect(visible(foreign, false)).toBe(shown);
  expect(visible(foreign, true)).toBe(shown);
  const line = visible(JSON.stringify({ name: foreign }), false);
  expect(line).not.toMatch(/[\p{Cc}\p{Bidi_Control}\u2028]/u);
  expect(JSON.parse(line)).toEqual({ name: foreign });
  expect(plain(foreign)).not.toMatch(/[\p{Cc}\p{Bidi_Control}\u2028]/u);
});

test('colours of a table stay on a terminal that wants them', () => {
  const paint = paintFor({ isTerminal: true, env: { TERM: 'xterm' } });
  const painted = paint('fine', 'green');
  expect(painted).toContain('\u001b[');
  expect(visible(painted, true)).toBe(painted);
  expect(visible(painted, false)).not.toContain('\u001b');
});

/** What a progress writes: on a terminal or elsewhere. */
function written(drawsProgress: boolean, shares: readonly number[]): string {
  let text = '';
  const progress = createProgress({
    drawsProgress,
    err: (piece) => {
      text += piece;
    },
  });
  for (const share of shares) progress.show(share, `${share * 8}/8 runs`);
  progress.end();
  return text;
}

test('a terminal gets one bar that is drawn again, and a new line at the end', () => {
  const begin = '\r\u001b[K';
  const half = `${'█'.repeat(15)}${'░'.repeat(15)}  50%  4/8 runs`;
  const full = `${'█'.repeat(30)} 100%  8/8 runs`;
  expect(written(true, [0.5, 1])).toBe(`${begin}${half}${begin}${full}\n`);
});

test('elsewhere there is one line per quarter', () => {
  expect(written(false, [0, 0.125, 0.25, 0.375, 1, 1])).toBe(
    '  0%  0/8 runs\n 25%  2/8 runs\n100%  8/8 runs\n',
  );
});

test('the quickstart writes from one to ten million events', () => {
  expect(['1', '20000', '10000000'].map(readEventRows)).toEqual([1, 20_000, 10_000_000]);
  for (const text of ['0', '-1', '1.5', '1e3', '', 'many', '10000001']) {
    expect(() => readEventRows(text), text).toThrow('a whole number from 1 to 10000000');
  }
});

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

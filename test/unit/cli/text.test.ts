import { expect, test } from 'vitest';
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

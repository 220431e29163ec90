import { expect, test } from 'vitest';
import { createProgress } from '../../../src/clients/cli/api/progress.ts';

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

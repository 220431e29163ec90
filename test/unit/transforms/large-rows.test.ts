/** A large row may take as long in each step as many small rows: the process has its turn between the steps. */

import { expect, test } from 'vitest';
import type { BatchStep, Step } from '../../../src/rows/transforms/step.ts';
import { RowTransformer } from '../../../src/rows/transforms/transform-rows.ts';
import { countLoopTurns } from '../../support/loop-turns.ts';
import { columnsOf, rowBlock } from '../../support/row-blocks.ts';
import { stepOf } from '../../support/transforms/rows.ts';

const columns = columnsOf({ id: 'text', text: 'text' });
const block = (bytes: number) => rowBlock(columns, [['a', 'x'.repeat(bytes)]]);
const shape = {
  columns,
  outputs: columns.map(({ name }) => ({ name, column: name, path: [] })),
  keyColumns: ['id'],
  fixedColumns: ['id'],
  toJson: () => {
    throw new Error('not asked for text');
  },
};

/** Longer than a turn. */
function work(): void {
  const endsAt = performance.now() + 12;
  while (performance.now() < endsAt);
}

function slowSteps(count: number, onStep: (id: number) => void = () => {}): Step[] {
  return Array.from({ length: count }, (_, index) =>
    stepOf(
      (row) => {
        work();
        onStep(index + 1);
        return row;
      },
      { id: index + 1 },
    ),
  );
}

async function countTurns(steps: readonly Step[], bytes: number): Promise<number> {
  const loop = countLoopTurns();
  try {
    await new RowTransformer(steps, shape).apply(block(bytes));
    return loop.turns();
  } finally {
    loop.stop();
  }
}

test('the process has a turn after each slow step of a large row, and one for a small row', async () => {
  expect(await countTurns(slowSteps(8), 100_000)).toBeGreaterThanOrEqual(8);
  expect(await countTurns(slowSteps(8), 100)).toBeLessThan(8);
});

test('also in a chain with a step that works elsewhere', async () => {
  const elsewhere: BatchStep = {
    ...{ kind: 'batch', id: 9, name: 'Elsewhere', onError: 'keep', maxErrorShare: 1 },
    applyBatch: async (rows) => [...rows].map(({ row }) => row),
  };
  const steps = [...slowSteps(4), elsewhere, ...slowSteps(4)];
  expect(await countTurns(steps, 100_000)).toBeGreaterThanOrEqual(8);
});

test('a run that is given up ends between two steps', async () => {
  const given = new AbortController();
  const reason = new Error('cancelled');
  const done: number[] = [];
  const steps = slowSteps(5, (id) => {
    done.push(id);
    if (id === 2) given.abort(reason);
  });
  const transformer = new RowTransformer(steps, shape, given.signal);
  await expect(transformer.apply(block(200_000))).rejects.toBe(reason);
  expect(done).toEqual([1, 2]);
});

import path from 'node:path';
import { describe, expect, test } from 'vitest';
import {
  type ThreadOptions,
  ThreadTransformer,
} from '../../../src/rows/chain-thread/thread-transformer.ts';
import type { RowBlock } from '../../../src/foundation/domain/row-block.ts';
import { jsonOfField } from '../../../src/rows/encoders/index.ts';
import {
  type BlockTransformer,
  inThisThread,
} from '../../../src/rows/transforms/block-transformer.ts';
import { findTransform } from '../../../src/rows/transforms/index.ts';
import { compileStep } from '../../../src/rows/transforms/step.ts';
import {
  type RowsShape,
  RowTransformer,
  type TransformedRows,
} from '../../../src/rows/transforms/transform-rows.ts';
import { columnsOf, rowBlock } from '../../support/row-blocks.ts';

const root = path.resolve(import.meta.dirname, '../../..');
const entry = path.join(root, 'dist/rows/chain-thread/thread.js');
const program = (name: string) => path.join(root, 'test/support/chain-thread', name);

const columns = columnsOf({
  uuid: 'uuid',
  event: 'text',
  properties: 'jsonb',
  inserted_at: 'timestamptz',
});
const shape: RowsShape = {
  columns,
  outputs: columns.map(({ name }) => ({ name, column: name, path: [] })),
  keyColumns: ['uuid'],
  fixedColumns: ['uuid', 'inserted_at'],
  toJson: ({ type }) => jsonOfField(type),
};
const stepOf = (plugin: number, id: number, config: Readonly<Record<string, string>>) => {
  const transform = findTransform(plugin);
  if (!transform) throw new Error(`there is no plugin ${plugin}`);
  return compileStep({ id, name: null, config }, transform);
};
/** Rows are dropped, changed, kept with an error and rejected. */
const steps = [
  stepOf(2, 1, { events: 'dropped' }),
  stepOf(9, 2, { types: '{"n": "number"}' }),
  stepOf(11, 3, { properties: '$ip', otherwise: 'reject' }),
  stepOf(3, 4, { properties: 'email', salt: 'salt' }),
];

function blockOf(from: number, rows: number, filler = ''): RowBlock {
  const made = Array.from({ length: rows }, (_, index) => {
    const n = from + index;
    const ip = n % 11 === 0 ? 'none' : `10.0.${n % 250}.7`;
    const number = n % 7 === 0 ? '"x"' : String(n);
    return [
      `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`,
      n % 5 === 0 ? 'dropped' : 'kept',
      `{"n": ${number}, "$ip": "${ip}", "email": "a${n}@b.c", "title": "Größe “${n}”${filler}"}`,
      BigInt(n) * 1_000_000n,
    ];
  });
  return rowBlock(columns, made);
}

const blocks = [...Array.from({ length: 20 }, (_, n) => blockOf(n * 100, 100)), blockOf(9_000, 1)];
const never = new AbortController().signal;

const open = (given: Partial<ThreadOptions> = {}) =>
  new ThreadTransformer(steps, shape, { entry, signal: never, ...given });

async function through(
  transformer: Pick<BlockTransformer, 'write' | 'finish' | 'steps'>,
  given: readonly RowBlock[],
) {
  const made: TransformedRows[] = [];
  for (const block of given) made.push(...(await transformer.write(block)));
  made.push(...(await transformer.finish()));
  const described = made.map(({ block, rejected, dropped }) => ({
    rejected,
    dropped,
    fields: fieldsOf(block),
  }));
  const tallies = transformer.steps.map(({ counters, timeMs, errors }) => ({
    ...counters,
    tookTime: timeMs > 0,
    errors,
  }));
  return { described, tallies };
}

function fieldsOf({ bytes, offsets, lengths }: RowBlock): (string | null)[] {
  return [...offsets].map((offset, index) => {
    const length = lengths[index] ?? -1;
    return length < 0 ? null : bytes.toString('hex', offset, offset + length);
  });
}

describe('a chain in a thread', () => {
  test('makes the same blocks, rejections and counters as in this thread, in the same order', async () => {
    const large = blockOf(10_000, 3, 'x'.repeat(800_000));
    // It takes longer than a turn of the event loop, and the next block is already there.
    const long = blockOf(20_000, 8_000);
    const given = [long, ...blocks.slice(0, 7), large, ...blocks.slice(7)];
    const transformer = open();
    const threaded = await through(transformer, given);
    await transformer.close();
    const here = await through(inThisThread(new RowTransformer(steps, shape)), given);
    expect(threaded.described.flatMap(({ fields }) => fields).length).toBeGreaterThan(1_000);
    expect(threaded).toEqual(here);
    expect(here.tallies.map(({ errored }) => errored > 0)).toEqual([false, true, true, false]);
    expect(here.tallies.map(({ tookTime }) => tookTime)).toEqual([true, true, true, true]);
  });

  test('leaves the memory of a block to its source', async () => {
    const transformer = open();
    // Small ones are in a pool, which cannot be handed over.
    const block = blockOf(0, 100);
    const before = fieldsOf(block);
    const ready = await transformer.write(block);
    expect(fieldsOf(block)).toEqual(before);
    block.bytes.fill(0);
    const made = [...ready, ...(await transformer.finish())];
    expect(made).toHaveLength(1);
    expect(made.flatMap(({ block: { rowCount } }) => rowCount)).not.toEqual([0]);
    expect(made.flatMap((each) => fieldsOf(each.block))).toContain(
      Buffer.from('kept').toString('hex'),
    );
    await transformer.close();
  });

  test('an abort in the middle ends it at once, with the reason of the abort', async () => {
    const lost = new Error('the lease was lost');
    const controller = new AbortController();
    const transformer = open({ entry: program('hangs.mjs'), signal: controller.signal });
    const writing = through(transformer, blocks);
    controller.abort(lost);
    await expect(writing).rejects.toBe(lost);
    await expect(transformer.write(blockOf(0, 1))).rejects.toBe(lost);
    await transformer.close();
  });

  test('an abort before the first block is one too', async () => {
    const lost = new Error('the lease was lost');
    const transformer = open({ signal: AbortSignal.abort(lost) });
    await expect(transformer.write(blockOf(0, 1))).rejects.toBe(lost);
    await transformer.close();
  });

  test.each([
    ['ends', 'exits.mjs', 60_000],
    ['does not answer', 'hangs.mjs', 200],
    ['cannot start', 'missing.mjs', 60_000],
  ])('a thread that %s fails the run with a transient error', async (_, name, stallMs) => {
    const transformer = open({ entry: program(name), stallMs });
    const fault = { code: 'transformation.thread_ended' };
    await expect(through(transformer, blocks)).rejects.toMatchObject(fault);
    await expect(transformer.write(blockOf(0, 1))).rejects.toMatchObject(fault);
    await transformer.close();
    // The next attempt gets a thread of its own.
    const next = open();
    expect((await through(next, blocks)).described).toHaveLength(blocks.length);
    await next.close();
  });
});

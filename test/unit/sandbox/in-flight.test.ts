import { describe, expect, test } from 'vitest';
import { ownSteps } from '../../../src/extensions/own-plugins/own-plugins.ts';
import type { RowBlock } from '../../../src/foundation/domain/row-block.ts';
import { jsonOfField } from '../../../src/rows/encoders/index.ts';
import {
  blockByBlock,
  type BlockTransformer,
  type RowsShape,
  RowTransformer,
  withBlocksInFlight,
} from '../../../src/rows/transforms/transform-rows.ts';
import { jsonNull, textOf } from '../../../src/rows/transforms/json.ts';
import { defineOwnStep, withOpenSteps } from '../../../src/rows/transforms/own-steps.ts';
import type { BatchStep, RowStep } from '../../../src/rows/transforms/step.ts';
import { columnsOf, rowBlock } from '../../support/row-blocks.ts';
import {
  intervalEndMs,
  rowOf,
  shown,
  someEvent,
  withPlugin,
  applyRows,
} from '../../support/sandbox/apply-plugin.ts';
import { stepOfPlugin } from '../../support/transforms/rows.ts';
import { atNight } from '../../support/nightly.ts';

const columns = columnsOf({
  uuid: 'uuid',
  event: 'text',
  properties: 'jsonb',
  size: 'int4',
  inserted_at: 'timestamptz',
});
const shape: RowsShape = {
  columns,
  outputs: columns.map(({ name }) => ({ name, column: name, path: [] })),
  keyColumns: ['uuid'],
  fixedColumns: ['uuid', 'inserted_at'],
  toJson: ({ type }) => jsonOfField(type),
};
const own = (id: number, source: string) =>
  defineOwnStep(ownSteps, { id, name: 'Mine', source, config: {}, secrets: [] });

/** The blocks in which all rows are dropped reach the last step before those that go to a process. */
const chain = [
  stepOfPlugin(2, { events: 'dropped', mode: 'drop' }, 1),
  own(
    2,
    `export function processEvent(e) {
      console.log('row', e.uuid.slice(-6));
      if (e.properties.n % 7 === 0) throw new Error('seven');
      e.properties.dice = Math.random();
      e.event = e.event === 'kept' ? 'kept é' : e.event;
      return e;
    }`,
  ),
  stepOfPlugin(9, { types: '{"n": "boolean"}' }, 3),
  own(4, 'export function processEvent(e) { e.properties.last = e.event.length; return e; }'),
];

function blockOf(from: number, rows: number, event: string): RowBlock {
  const made = Array.from({ length: rows }, (_, index) => {
    const n = from + index;
    return [
      `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`,
      n % 5 === 0 ? 'dropped' : event,
      n % 9 === 0 ? null : `{"n": ${n}, "big": 9007199254740993, "title": "Größe “${n}” 😀"}`,
      n % 3 === 0 ? null : n,
      BigInt(n) * 1_000_000n,
    ];
  });
  return rowBlock(columns, made);
}

/** Of very different lengths, one of them without a row for the processes. */
const blocks = () => [
  blockOf(1, 600, 'kept'),
  blockOf(1_000, 3, 'dropped'),
  blockOf(2_001, 1, 'kept'),
  blockOf(3_000, 40, 'é'),
  blockOf(4_001, 2, 'kept'),
];

/** What a chain makes of blocks whose memory their source uses again. */
async function through(open: (rows: RowTransformer) => BlockTransformer) {
  const { signal } = new AbortController();
  const log: string[] = [];
  const options = { intervalEndMs, signal, log: (_: string, line: string) => log.push(line) };
  return withOpenSteps(chain, options, async (steps) => {
    const transformer = open(new RowTransformer(steps, shape));
    const fields: string[] = [];
    const take = (made: Awaited<ReturnType<BlockTransformer['finish']>>) => {
      for (const { block, dropped } of made) {
        fields.push(`${dropped} dropped`);
        for (const [at, offset] of block.offsets.entries()) {
          const length = block.lengths[at] ?? -1;
          fields.push(length < 0 ? 'null' : block.bytes.toString('utf8', offset, offset + length));
        }
      }
    };
    const counts: number[] = [];
    for (const block of blocks()) {
      const written = await transformer.write(block);
      counts.push(written.length);
      take(written);
      block.bytes.fill(0);
      block.lengths.fill(0);
    }
    take(await transformer.finish());
    const tallies = transformer.steps.map(({ counters, errors }) => ({ ...counters, errors }));
    return { counts, made: { fields, tallies, log } };
  });
}

describe('blocks in flight', () => {
  test('come out as they do one after the other: rows, counters, first errors and the log', async () => {
    const { counts, made: inFlight } = await through(withBlocksInFlight);
    const { made: alone } = await through(blockByBlock);
    expect(inFlight.fields.filter((field) => field.includes('"last"')).length).toBeGreaterThan(300);
    expect(inFlight).toEqual(alone);
    expect(alone.tallies.map(({ errored }) => errored > 0)).toEqual([false, true, true, true]);
    // Two of them, so that the processes work while the caller does.
    expect(counts).toEqual([0, 0, 1, 1, 1]);
  });

  test('are judged one after the other, however long the rows of one take', async () => {
    const facts = { name: 'Mine', onError: 'keep', maxErrorShare: 1 } as const;
    const elsewhere: BatchStep = {
      ...facts,
      id: 1,
      kind: 'batch',
      applyBatch: async (rows) => [...rows].map(({ row }) => row),
    };
    const order: string[] = [];
    const slow: RowStep = {
      ...facts,
      id: 2,
      kind: 'row',
      apply: (row) => {
        order.push(textOf(row.get('uuid') ?? jsonNull));
        const end = performance.now() + 4;
        while (performance.now() < end);
        return row;
      },
    };
    const transformer = new RowTransformer([elsewhere, slow], shape);
    const made = [blockOf(1, 10, 'kept'), blockOf(101, 10, 'kept')];
    await Promise.all(made.map((block) => transformer.apply(block)));
    expect(order).toHaveLength(20);
    expect(order).toEqual(order.toSorted());
  });
});

describe('batches of one sandbox', () => {
  const batch = (n: number) => [{ key: String(n), row: rowOf({ ...someEvent, n }) }];

  test('are answered in their order', async () => {
    const source = `export function processEvent(e) {
      if (e.n === 0) for (let at = 0; at < 1e6; at += 1);
      return { ...e, seen: e.n };
    }`;
    const order: number[] = [];
    const results = await withPlugin(source, (sandbox) =>
      Promise.all(
        [0, 1, 2].map(async (n) => {
          const [after] = await applyRows(sandbox, batch(n));
          order.push(n);
          return shown(after);
        }),
      ),
    );
    expect(order).toEqual([0, 1, 2]);
    expect(results).toMatchObject([{ seen: 0 }, { seen: 1 }, { seen: 2 }]);
  });

  atNight('have no result if a limit ends the one before, and no time of it', async () => {
    const slow = `export function processEvent(e) {
      if (e.n < 0) for (;;);
      const end = 4e6;
      for (let at = 0; at < end; at += 1);
      return e;
    }`;
    const source = { source: slow, limits: { rowMs: 800, batchMs: 800 } };
    await withPlugin(source, async (sandbox) => {
      // Together they take longer than one may.
      const many = Array.from({ length: 12 }, (_, n) => applyRows(sandbox, batch(n)));
      expect(await Promise.all(many)).toHaveLength(12);
      const ends = await Promise.allSettled([
        applyRows(sandbox, batch(-1)),
        applyRows(sandbox, batch(1)),
      ]);
      const fault = { status: 'rejected', reason: { fault: 'time' } };
      expect(ends).toMatchObject([fault, fault]);
    });
  });
});

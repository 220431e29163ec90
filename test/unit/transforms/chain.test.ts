import { describe, expect, test } from 'vitest';
import { findExcess } from '../../../src/rows/transforms/chain-step.ts';
import { jsonNull, toJson } from '../../../src/rows/transforms/json.ts';
import { RowError } from '../../../src/rows/transforms/effort.ts';
import type { BatchStep, RowStep, Step, StepResult } from '../../../src/rows/transforms/step.ts';
import type { Apply, Row } from '../../../src/rows/transforms/transform.ts';
import { applyBlock, chainFor, rowOf, stepOf } from '../../support/transforms/rows.ts';

const row = rowOf({
  uuid: 'u1',
  team_id: 7,
  event: 'paid',
  properties: { n: 1 },
  inserted_at: '2024-01-01T00:00:00Z',
});

const append =
  (letter: string): Apply =>
  (given) =>
    given.with([['event', toJson(`${JSON.parse(String(given.get('event')))}${letter}`)]]);
const drop: Apply = () => null;
const fail: Apply = () => {
  throw new RowError('It cannot be done.');
};
const set =
  (column: string, value: string | null): Apply =>
  (given) =>
    given.with([[column, toJson(value)]]);

/** What one step makes of the row, and why it could not. */
function run(apply: Apply, given: Partial<RowStep> = {}) {
  const chain = chainFor(row, [stepOf(apply, given)]);
  return { outcome: chain.apply(row), step: chain.steps[0] };
}

describe('a chain', () => {
  test('gives each step the row of the step before it', () => {
    const chain = chainFor(row, [stepOf(append('1')), stepOf(append('2')), stepOf(append('3'))]);
    const outcome = chain.apply(row);
    expect(outcome).toMatchObject({ kind: 'kept' });
    expect(outcome.kind === 'kept' && outcome.row.get('event')).toBe('"paid123"');
    expect(row.get('event')).toBe('"paid"');
  });

  test('ends with the step that drops the row, and says which', () => {
    const steps = [
      stepOf(append('1'), { id: 3 }),
      stepOf(drop, { id: 5 }),
      stepOf(fail, { id: 4 }),
    ];
    const chain = chainFor(row, steps);
    expect(chain.apply(row)).toEqual({ kind: 'dropped', step: 5 });
    expect(chain.steps.map(({ counters }) => counters)).toEqual([
      { in: 1, out: 1, dropped: 0, errored: 0 },
      { in: 1, out: 0, dropped: 1, errored: 0 },
      { in: 0, out: 0, dropped: 0, errored: 0 },
    ]);
  });

  test('without steps gives the row itself', () => {
    expect(chainFor(row, []).apply(row)).toEqual({ kind: 'kept', row });
  });

  test('keeps the last good row of a step with an error, and goes on', () => {
    const steps = [stepOf(append('1')), stepOf(fail), stepOf(append('3'))];
    const chain = chainFor(row, steps);
    const outcome = chain.apply(row);
    expect(outcome.kind === 'kept' && outcome.row.get('event')).toBe('"paid13"');
    expect(chain.steps[1]?.counters).toEqual({ in: 1, out: 1, dropped: 0, errored: 1 });
  });

  test('rejects the row of a step that asks for it, and leaves only its key and the reason', () => {
    const steps = [stepOf(append('1')), stepOf(fail, { id: 9, onError: 'reject' }), stepOf(drop)];
    const chain = chainFor(row, steps);
    expect(chain.apply(row)).toEqual({
      kind: 'rejected',
      step: 9,
      reason: 'It cannot be done.',
      key: { uuid: '"u1"' },
    });
    expect(chain.steps[1]?.counters).toEqual({ in: 1, out: 0, dropped: 0, errored: 1 });
    expect(chain.steps[2]?.counters.in).toBe(0);
  });
});

describe('a step that changes what it may not', () => {
  test.each(['uuid', 'team_id', 'inserted_at'])('has an error: %s', (column) => {
    const { outcome, step } = run(set(column, 'other'));
    expect(outcome).toEqual({ kind: 'kept', row });
    expect(step?.errors[0]?.reason).toBe(`The column ${column} must not change.`);
  });

  test('has an error if it takes a protected column away', () => {
    const { step } = run((given) => given.with([['uuid', jsonNull]]));
    expect(step?.counters.errored).toBe(1);
  });

  test('may write the same value again', () => {
    expect(run(set('uuid', 'u1')).step?.counters.errored).toBe(0);
  });

  test('has an error if it adds a column', () => {
    expect(run(set('colour', 'red')).step?.errors[0]?.reason).toBe(
      'There is no column colour to write to.',
    );
  });

  test('has an error if a column cannot hold its value, which is not quoted', () => {
    const misfit = (column: string) => (column === 'event' ? 'Write a text.' : null);
    const chain = chainFor(row, [stepOf(set('event', null), { onError: 'reject' })], misfit);
    expect(chain.apply(row)).toMatchObject({
      reason: 'The column event does not accept the new value: Write a text.',
    });
    // What a column holds from the start is not asked about.
    const other = chainFor(row, [stepOf(set('properties', null))], misfit);
    other.apply(row);
    expect(other.steps[0]?.counters.errored).toBe(0);
  });
});

test('a column that a step takes away is null', () => {
  const without = (given: Row) => {
    const rest = [...given.members].filter(([name]) => name !== 'properties');
    return rowOf({}).with(rest);
  };
  const { outcome } = run(without);
  expect(outcome.kind === 'kept' && outcome.row.get('properties')).toBe('null');
});

describe('the errors of a step', () => {
  const failFor = (reason: (given: Row) => string): Apply => {
    return (given) => {
      throw new RowError(reason(given));
    };
  };
  const rows = Array.from({ length: 100 }, (_, index) =>
    rowOf({ uuid: `u${index}`, event: 'secret', properties: null }),
  );

  test('are counted by kind, with the key of the first row', () => {
    const apply = failFor((given) => (given.get('uuid') === '"u0"' ? 'One.' : 'Another.'));
    const chain = chainFor(row, [stepOf(apply)]);
    for (const given of rows) chain.apply(given);
    expect(chain.steps[0]?.errors).toEqual([
      { reason: 'One.', rows: 1, firstKey: { uuid: '"u0"' } },
      { reason: 'Another.', rows: 99, firstKey: { uuid: '"u1"' } },
    ]);
  });

  test('of very many kinds are kept in little memory', () => {
    const chain = chainFor(row, [stepOf(failFor((given) => `Kind ${given.get('uuid')}.`))]);
    for (const given of rows) chain.apply(given);
    const errors = chain.steps[0]?.errors ?? [];
    expect(errors).toHaveLength(20);
    expect(errors.at(-1)).toEqual({
      reason: 'Other errors.',
      rows: 81,
      firstKey: { uuid: '"u19"' },
    });
  });

  test('quote nothing of the row if the step did not mean to throw them', () => {
    const { step } = run((given) => {
      throw new TypeError(`${given.get('event')} is not a function`);
    });
    expect(step?.errors[0]?.reason).toBe('The step failed with a TypeError.');
  });

  test.each([
    ['a text', 'paid'],
    ['nothing', undefined],
    ['null', null],
  ])('are errors if a step throws %s', (_, thrown) => {
    const { outcome, step } = run(() => {
      throw thrown;
    });
    expect(outcome).toEqual({ kind: 'kept', row });
    expect(step?.errors[0]?.reason).toMatch(/^The step failed with a (string|undefined|object)\.$/);
  });

  test.each([
    [1, 3, null],
    [0.34, 1, null],
    [0.33, 1, 'had errors in 1 of 3 rows, more than max_error_share 0.33 allows'],
    [0, 1, 'had errors in 1 of 3 rows, more than max_error_share 0 allows'],
    [0, 0, null],
  ])('of a step that allows a share of %s, in %s of 3 rows', (maxErrorShare, failing, expected) => {
    const apply: Apply = (given) => (rows.indexOf(given) < failing ? fail(given) : given);
    const chain = chainFor(row, [stepOf((given) => given), stepOf(apply, { maxErrorShare })]);
    for (const given of rows.slice(0, 3)) chain.apply(given);
    const described = findExcess(chain.steps)?.reason ?? null;
    if (expected === null) expect(described).toBeNull();
    else expect(described).toContain(`Step 1 (Test) ${expected}. The first: It cannot be done.`);
  });

  test('are no excess if no row reached the step', () => {
    expect(findExcess(chainFor(row, [stepOf(fail, { maxErrorShare: 0 })]).steps)).toBeNull();
  });
});

describe('a chain over the rows of a block', () => {
  const rows = [0, 1, 2, 3, 4, 5, 6, 7].map((n) =>
    rowOf({ uuid: `u${n}`, team_id: 7, event: `e${n}`, inserted_at: '2024-01-01T00:00:00Z' }),
  );
  const [first = row] = rows;
  const numberOf = (given: Row) => Number(JSON.parse(String(given.get('uuid'))).slice(1));
  /** A step that does its work for every row whose number the divisor divides. */
  const every =
    (divisor: number, apply: Apply): Apply =>
    (given) =>
      numberOf(given) % divisor === 0 ? apply(given) : given;
  const handle = (apply: Apply, given: Row): StepResult => {
    try {
      return apply(given);
    } catch (error) {
      if (error instanceof RowError) return error;
      throw error;
    }
  };
  /** The same step, working elsewhere. */
  const elsewhere = (step: RowStep, seen: string[][] = []): BatchStep => ({
    ...step,
    kind: 'batch',
    async applyBatch(given) {
      const all = [...given];
      seen.push(all.map(({ key }) => key));
      return all.map((each) => handle(step.apply, each.row));
    },
  });
  const steps = [
    stepOf(append('a'), { id: 1 }),
    stepOf(every(3, drop), { id: 2 }),
    stepOf(every(5, fail), { id: 3, onError: 'reject' }),
    stepOf(every(2, fail), { id: 4 }),
    stepOf(append('b'), { id: 5 }),
  ];
  const eachAlone = () => {
    const chain = chainFor(first, steps);
    return { outcomes: rows.map((each) => chain.apply(each)), chain };
  };

  test.each([
    ['none', []],
    ['the first', [1]],
    ['the one that drops', [2]],
    ['the one that rejects', [3]],
    ['two after each other', [3, 4]],
    ['the first and the last', [1, 5]],
    ['all', [1, 2, 3, 4, 5]],
  ])(
    'gives the same outcomes, counters and errors if %s of its steps work elsewhere',
    async (_, ids) => {
      const mixed = steps.map((step): Step => (ids.includes(step.id) ? elsewhere(step) : step));
      const chain = chainFor(first, mixed);
      const outcomes = await applyBlock(chain, rows);
      const alone = eachAlone();
      expect(outcomes.map(shown)).toEqual(alone.outcomes.map(shown));
      expect(outcomes.map(({ kind }) => kind)).toContain('dropped');
      expect(outcomes.map(({ kind }) => kind)).toContain('rejected');
      const factsOf = ({ steps: all }: typeof chain) =>
        all.map(({ counters, errors }) => ({ ...counters, errors }));
      expect(factsOf(chain)).toEqual(factsOf(alone.chain));
      const inTurns = chainFor(first, mixed);
      const again = await applyBlock(inTurns, rows, () => Promise.resolve());
      expect(again.map(shown)).toEqual(outcomes.map(shown));
      expect(factsOf(inTurns)).toEqual(factsOf(chain));
    },
  );

  const shown = (outcome: ReturnType<ReturnType<typeof chainFor>['apply']>) =>
    outcome.kind === 'kept' ? outcome.row.text : outcome;

  test('gives a step only the rows that are left, each under its key', async () => {
    const seen: string[][] = [];
    const last = elsewhere(stepOf(append('b')), seen);
    const chain = chainFor(first, [stepOf(every(2, drop)), last]);
    await applyBlock(chain, rows);
    expect(seen).toEqual([[1, 3, 5, 7].map((n) => JSON.stringify({ uuid: `"u${n}"` }))]);
    await applyBlock(chain, [first]);
    expect(seen, 'a step without rows is not called').toHaveLength(1);
  });

  test('has no outcome if a step that works elsewhere fails, or loses a row', async () => {
    const broken = new Error('its process has ended');
    const failing = { ...elsewhere(stepOf(drop)), applyBatch: () => Promise.reject(broken) };
    await expect(applyBlock(chainFor(first, [failing]), rows)).rejects.toBe(broken);
    const losing = { ...elsewhere(stepOf(drop)), applyBatch: async () => [null] };
    await expect(applyBlock(chainFor(first, [losing]), rows)).rejects.toThrow(
      '1 results for 8 rows',
    );
  });

  test('hands blocks on in their order, though one has no rows for a step that works elsewhere', async () => {
    let open = () => {};
    const slow = { ...elsewhere(stepOf(append('b'))), id: 2 };
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const waiting: BatchStep = {
      ...slow,
      applyBatch: (given) => {
        const all = [...given];
        return gate.then(() => slow.applyBatch(all));
      },
    };
    const chain = chainFor(first, [stepOf(every(2, drop)), waiting]);
    const ended: string[] = [];
    const one = applyBlock(chain, rows).then(() => ended.push('one'));
    const two = applyBlock(chain, [first]).then(() => ended.push('two'));
    await applyBlock(chainFor(first, [elsewhere(stepOf(drop))]), rows);
    expect(ended).toEqual([]);
    open();
    await Promise.all([one, two]);
    expect(ended).toEqual(['one', 'two']);
  });
});

describe('the time of a step', () => {
  const busy = (ms: number): Apply => {
    return (given) => {
      const end = performance.now() + ms;
      while (performance.now() < end);
      return given;
    };
  };

  test('is that of all its rows, by a sample of them', () => {
    const chain = chainFor(row, [stepOf(busy(0), { id: 1 }), stepOf(busy(2), { id: 2 })]);
    for (let n = 0; n < 40; n += 1) chain.apply(row);
    const [quick, slow] = chain.steps.map(({ timeMs }) => timeMs);
    expect(slow).toBeGreaterThanOrEqual(80);
    expect(quick).toBeGreaterThan(0);
    expect(quick).toBeLessThan(slow ?? 0);
  });

  test('holds no wait for the block before', async () => {
    let last = Promise.resolve();
    const step: BatchStep = {
      ...stepOf(drop),
      kind: 'batch',
      applyBatch: async (given) => {
        const all = [...given];
        last = last.then(() => new Promise((resolve) => setTimeout(resolve, 20)));
        await last;
        return all.map(() => null);
      },
    };
    const chain = chainFor(row, [step]);
    const startedAt = performance.now();
    await Promise.all(Array.from({ length: 4 }, () => applyBlock(chain, [row])));
    const tookMs = performance.now() - startedAt;
    const [timeMs = 0] = chain.steps.map((each) => each.timeMs);
    expect(timeMs).toBeGreaterThan(tookMs / 2);
    expect(timeMs).toBeLessThanOrEqual(tookMs);
  });

  test('is none without rows', () => {
    expect(chainFor(row, [stepOf(drop)]).steps[0]?.timeMs).toBe(0);
  });
});

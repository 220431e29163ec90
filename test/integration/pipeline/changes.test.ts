import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPostgresSource, planModels } from '../../../src/rows/sources/index.ts';
import {
  changingModel,
  comparedModel,
  createChangingTable,
  Writers,
  type WriterStep,
  withConnection,
  writerSteps,
} from '../../support/changing-table.ts';
import { openedBy } from '../../support/interval-bench.ts';
import { casesOf, isNightly } from '../../support/nightly.ts';
import { type OwnPostgres, startOwnPostgres } from '../../support/postgres-server.ts';
import { type AttemptFate, SequenceReader, SequenceSide } from '../../support/sequence-side.ts';
import { choosePrograms } from '../../support/stock-postgres.ts';

const fates = [
  'recorded',
  'recorded',
  'dies before manifest',
  'dies after manifest',
  'dies reading',
] as const;

type Step = WriterStep | { readonly attempt: AttemptFate; readonly givesUp: boolean } | 'read';

const anyWrite = fc.record({
  session: fc.nat(3),
  does: fc.constantFrom(...writerSteps, 'begin', 'insert', 'update', 'commit'),
  id: fc.nat(11),
  value: fc.nat(999),
});
const anyAttempt = fc.record({ attempt: fc.constantFrom(...fates), givesUp: fc.boolean() });
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  { weight: 12, arbitrary: anyWrite },
  { weight: 3, arbitrary: anyAttempt },
  { weight: 1, arbitrary: fc.constant('read' as const) },
);

const servers = casesOf<readonly [string, string | null]>(
  [['the usual server', choosePrograms()]],
  [['the embedded server', null]],
);
const numRuns = isNightly ? 8 : 4;

describe.each(servers)('elements of a changing table on %s', (_, bin) => {
  let server: OwnPostgres;

  beforeAll(async () => {
    server = await startOwnPostgres({ max_prepared_transactions: '40' }, bin);
    await createChangingTable(server.adminUrl);
  }, 120_000);
  afterAll(() => server?.stop());

  it('replayed by number equal the source at each snapshot, whatever is written and whichever worker dies', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyStep, { minLength: 30, maxLength: 120 }), (steps) =>
        replay(server.adminUrl, steps),
      ),
      { numRuns, endOnFailure: true },
    );
  }, 600_000);

  it('whose keys are compared have each row at once, and nothing else after a comparison', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(anyStep, { minLength: 30, maxLength: 120 }), (steps) =>
        replay(server.adminUrl, steps, comparedModel(3)),
      ),
      { numRuns, endOnFailure: true },
    );
  }, 600_000);
});

async function replay(url: string, steps: readonly Step[], model = changingModel): Promise<void> {
  await withConnection(url, (client) => client.query('truncate things, gone'));
  const opened = await openedBy.File();
  const writers = await Writers.open(url, 4);
  const source = createPostgresSource({
    connectionString: url,
    plan: planModels([model]),
    keepConnectionMs: 10_000,
  });
  const side = new SequenceSide(source, opened.destination);
  const [early, late] = [new SequenceReader(), new SequenceReader()];
  const check = async (reader: SequenceReader) => {
    await reader.catchUp(opened.destination);
    if (reader.applied < 0) return;
    const truth = side.truth.get(reader.applied) ?? new Map();
    const mayLinger = ([key]: [string, string]) => !reader.isComplete && !truth.has(key);
    expect(sorted(reader.rows).filter((row) => !mayLinger(row))).toEqual(sorted(truth));
  };
  try {
    for (const step of steps) {
      if (step === 'read') await check(early);
      else if ('does' in step) await writers.do(step);
      else {
        await side.attempt(step.attempt);
        if (step.givesUp) side.giveUp();
      }
    }
    await side.attempt('recorded');
    await check(early);
    await check(late);
    expect(late.applied).toBe(side.last?.number);
  } finally {
    await writers.close();
    await opened.close();
  }
}

const sorted = (rows: ReadonlyMap<string, string>) => [...rows].toSorted();

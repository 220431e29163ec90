import { EventEmitter, once } from 'node:events';
import { afterEach, beforeEach, expect, it } from 'vitest';
import type { Model } from '../../../src/foundation/domain/model.ts';
import { fileDefinition } from '../../../src/rows/destinations/file/definition.ts';
import { armFailpoints, type FailpointName } from '../../../src/foundation/failpoints/failpoint.ts';
import { joinConnectors } from '../../../src/main/connectors.ts';
import { createPostgresSource, planModels } from '../../../src/rows/sources/index.ts';
import type { Source } from '../../../src/rows/sources/source.ts';
import { Attempt } from '../../../src/service/worker/attempt.ts';
import { insertBackfill } from '../../../src/state/store/exports/backfills.ts';
import { lockExport } from '../../../src/state/store/exports/exports.ts';
import { RunStatements } from '../../../src/state/store/runs/run-statements.ts';
import { insertRuns } from '../../../src/state/store/runs/runs.ts';
import { contextWith, owner } from '../../conformance/destination-suite.ts';
import {
  changingModel,
  comparedModel,
  createChangingTable,
  runSql,
} from '../../support/changing-table.ts';
import { hourMs, openRunSide } from '../../support/run-side.ts';
import { firstByDay } from '../../support/nightly.ts';
import { startTcpProxy } from '../../support/tcp-proxy.ts';
import { readManifests, SequenceReader } from '../../support/sequence-side.ts';
import { folderOfTest } from '../../support/own-folder.ts';
import { inTest, useEach } from '../../support/use-stage.ts';

const side = useEach(openRunSide);
let root: string;
let model: Model;
let sourceUrl: string;
/** Keeps its connections from one attempt to the next. */
let source: Source | null;

beforeEach(async () => {
  model = changingModel;
  source = null;
  sourceUrl = side.adminUrl;
  root = folderOfTest();
  await createChangingTable(side.adminUrl);
});
afterEach(() => armFailpoints(async () => {}));

const config = { directory: 'acme', prefix: 'p' };
const open = () => fileDefinition.open(config, contextWith({ fileDestinationRoot: root }), owner);

const write = (...statements: readonly string[]) => runSql(side.adminUrl, ...statements);
const put = (id: number, note: string) =>
  `insert into things values (${id}, ${side.teamId}, 0, '${note}', 1) on conflict (id, kind) do update set note = excluded.note`;

async function createSequence() {
  const destination = { type: 'File', config, secrets: null };
  const made = await side.createExport({ mode: 'changes', destination });
  await side.sql`update batch_exports set model = 'things' where id = ${made.id}`;
  return made;
}

async function ask(exportId: string, hour: number): Promise<string> {
  const start = Date.UTC(2024, 2, 1) + hour * hourMs;
  const interval = { start, end: start + hourMs };
  const wanted = { exportId, teamId: side.teamId, interval, backfillId: null };
  const [runId] = await insertRuns(side.db, [wanted]);
  if (!runId) throw new Error('the interval has a run');
  return runId;
}

const dies = () => Promise.reject(new Error('dies'));

/** One attempt of a run. @param at the step at which it ends without a record, or does something else */
async function attempt(
  runId: string,
  at: FailpointName | null = null,
  does: () => Promise<unknown> = dies,
): Promise<string> {
  const { context, db } = side;
  armFailpoints(async (name) => {
    if (name === at) await does();
  });
  await db.query('update outbox set available_at = now(), ready = true where run_id = $1', [runId]);
  source ??= createPostgresSource({
    ...{ connectionString: sourceUrl, plan: planModels([model]), keepConnectionMs: 5_000 },
  });
  const opened = source;
  const destinations = contextWith({ fileDestinationRoot: root });
  const connectors = joinConnectors(() => opened, destinations, context.secrets);
  const statements = new RunStatements(db, context.policy.leaseMs);
  const parts = { context, statements, connectors, memoryBytes: 2 ** 30, onError() {} };
  const made = new Attempt(parts, await side.claim(runId), new AbortController().signal, null);
  return (await made.execute()).end;
}

const numbersOf = async () =>
  (await readManifests(open()))
    .map(({ element }) => element?.number)
    .toSorted((a, b) => Number(a) - Number(b));

const deaths = [
  ['before_manifest', [0, 2, 3], changingModel],
  ['after_manifest', [0, 1, 2], comparedModel(1)],
  ['after_manifest', [0, 1, 2], changingModel],
  ['before_manifest', [0, 2, 3], comparedModel(1)],
] as const;

it.each(firstByDay(2, deaths))(
  'after a death at %s each reader has the rows of the source',
  async (at, numbers, used) => {
    model = used;
    const { id } = await createSequence();
    const [early, late] = [new SequenceReader(), new SequenceReader()];
    await write(put(1, 'one'), put(2, 'two'));
    expect(await attempt(await ask(id, 0))).toBe('completed');
    await early.catchUp(open());
    await write(put(3, 'three'), 'delete from things where id = 1');
    const second = await ask(id, 1);
    expect(await attempt(second, at)).toBe('failed');
    await early.catchUp(open());
    await write(put(2, 'zwei'), 'delete from things where id = 3');
    expect(await attempt(second)).toBe('completed');
    expect(await attempt(await ask(id, 2))).toBe('completed');
    for (const reader of [early, late]) {
      await reader.catchUp(open());
      expect(notesOf(reader)).toEqual(['zwei']);
    }
    expect(await numbersOf()).toEqual(numbers);
    const recorded = await side.sql.values`
      select (element->>'number')::int from receipts where export_id = ${id} order by data_interval_start`;
    expect(recorded).toEqual(numbers);
  },
);

/** Who reads only now. */
async function lateReader() {
  const reader = new SequenceReader();
  await reader.catchUp(open());
  return reader;
}

const notesOf = (reader: SequenceReader) =>
  [...reader.rows.values()].map((row) => JSON.parse(row).note).toSorted();

it.each(
  firstByDay<FailpointName>(1, [
    'before_manifest',
    'before_open',
    'before_complete',
    'after_complete',
    'after_manifest',
    'before_record',
  ]).flatMap((at) =>
    firstByDay(1, [changingModel, comparedModel(1)]).map((used) => [at, used] as const),
  ),
)(
  'a worker that freezes at %s and goes on after the next element changes nothing',
  async (at, used) => {
    model = used;
    const { id } = await createSequence();
    await write(put(1, 'one'), put(2, 'two'));
    await attempt(await ask(id, 0));
    await write(put(3, 'three'), 'delete from things where id = 1');
    const second = await ask(id, 1);
    const steps = new EventEmitter();
    const [reached, thawed] = [once(steps, 'reached'), once(steps, 'thawed')];
    const frozen = attempt(second, at, () => {
      steps.emit('reached');
      return thawed;
    });
    await reached;
    await side.sql`update runs set lease_expires_at = now() where id = ${second}`;
    await write(put(2, 'zwei'), 'delete from things where id = 3');
    expect(await attempt(second)).toBe('completed');
    await write(put(4, 'four'));
    expect(await attempt(await ask(id, 2))).toBe('completed');
    const before = await readManifests(open());
    steps.emit('thawed');
    expect(await frozen).not.toBe('completed');
    expect(await readManifests(open())).toEqual(before);
    expect(notesOf(await lateReader())).toEqual(['four', 'zwei']);
  },
);

it('a source that ends in the middle delivers nothing, and one that is slow all', async () => {
  const url = new URL(side.adminUrl);
  const target = { host: url.hostname, port: Number(url.port) };
  const proxy = await inTest(startTcpProxy({ target }));
  url.port = String(proxy.port);
  sourceUrl = url.href;
  const { id } = await createSequence();
  await write(put(1, 'one'));
  await attempt(await ask(id, 0));
  await write(
    `insert into things select n, ${side.teamId}, 0, repeat('x', 1000), 1 from generate_series(2, 3000) n`,
    'delete from things where id = 1',
  );
  const run = await ask(id, 1);
  expect(await attempt(run, 'before_open', async () => proxy.resetAfterBytes(1_000_000))).toBe(
    'failed',
  );
  expect([proxy.resets, await numbersOf()]).toEqual([1, [0]]);
  proxy.delay(5);
  expect(await attempt(run)).toBe('completed');
  expect((await lateReader()).rows.size).toBe(2_999);
});

it('no element is made again, and new_base that is raised while one runs, and again, makes a base each time', async () => {
  const { id } = await createSequence();
  const raise = () => side.sql`update batch_exports set new_base = new_base + 1 where id = ${id}`;
  await write(put(1, 'one'));
  const runId = await ask(id, 0);
  await attempt(runId);
  expect(await side.firstRun(id)).toMatchObject({ status: 'Completed' });
  await expect(side.retry({ exportId: id, runId })).rejects.toThrow(/new_base/);
  await write(put(2, 'two'));
  await attempt(await ask(id, 1), 'before_manifest', raise);
  await write(put(3, 'three'));
  await attempt(await ask(id, 2), 'before_manifest', raise);
  await raise();
  await attempt(await ask(id, 3));
  await attempt(await ask(id, 4));
  const all = await readManifests(open());
  const follows = all.toSorted((a, b) => Number(a.element?.number) - Number(b.element?.number));
  expect(follows.map(({ element }) => element?.follows)).toEqual([null, 0, null, null, 3]);
  expect(follows[2]?.element?.base).toBe('new_base of the export was raised');
  expect(notesOf(await lateReader())).toEqual(['one', 'three', 'two']);
});

it('a run that never ends its commit leaves its number to no other', async () => {
  const { id } = await createSequence();
  await write(put(1, 'one'));
  await attempt(await ask(id, 0));
  const lost = await ask(id, 1);
  await attempt(lost, 'after_manifest');
  // The next tick is not held up by what failed.
  await side.sql`update batch_exports set heal_for_hours = 0 where id = ${id}`;
  await side.sql`
    update runs set status = 'FailedRetryable', finished_at = now() where id = ${lost}`;
  await write(put(1, 'eins'));
  expect([await attempt(await ask(id, 2)), await numbersOf()]).toEqual(['completed', [0, 1, 2]]);
  const follows = (await readManifests(open())).map(({ element }) => element?.follows);
  expect(follows.toSorted()).toEqual([0, 0, null]);
});

it('elements are made in the order of their intervals, also if Run now meets the schedule', async () => {
  const { id } = await createSequence();
  await write(put(1, 'one'));
  await attempt(await ask(id, 1));
  // An earlier interval would be a newer element.
  await expect(ask(id, 0)).rejects.toThrow('the interval has a run');
  const start = Date.UTC(2024, 2, 1) + 2 * hourMs;
  const range = { start, end: start + hourMs };
  const ofExport = { exportId: id, teamId: side.teamId };
  const backfillId = await insertBackfill(side.db, {
    ...{ ...ofExport, range, order: 'oldest_first', reprocess: 'failed' },
    ...{ dropsMissing: false, concurrency: 1, totalRuns: 1 },
  });
  const page = {
    ...{ backfillId, after: null, plannedTo: start, intervals: 1 },
    runs: [{ ...ofExport, interval: range, backfillId }],
  };
  const statements = new RunStatements(side.db, side.context.policy.leaseMs);
  let planned = Promise.resolve<number | null>(null);
  await side.db.transaction(async (tx) => {
    await lockExport(tx, id);
    planned = statements.planPage(page);
    await side.untilLocked();
    const interval = { start: range.end, end: range.end + hourMs };
    expect(await insertRuns(tx, [{ ...ofExport, interval, backfillId: null }])).toHaveLength(1);
  });
  expect(await planned).toBe(0);
});

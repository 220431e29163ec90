import { EventEmitter, once } from 'node:events';
import { chmod, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { armFailpoints, type FailpointName } from '../../../src/foundation/failpoints/failpoint.ts';
import { findHead } from '../../../src/state/store/intervals/statements.ts';
import { stateExports } from '../../../src/service/worker/sweep.ts';
import { checkers, runChecker } from '../../support/run-checker.ts';
import { useStatementBench } from '../../support/statement-bench.ts';
import { until } from '../../support/until.ts';
import { atNight, casesOf } from '../../support/nightly.ts';

const bench = useStatementBench();
const { due, exportOfHours, folder, make, put, readStatement, root } = bench;
const { runAll, side, stated, sweep } = bench;

const place = (...parts: readonly string[]) => join(root(), 'acme/events', ...parts);

/** Makes the statement of the schedule. @returns what it says of the list */
async function reconciled(exportId: string) {
  await due(exportId);
  await sweep();
  const { number, putNumber } = await findHead(side.db, exportId);
  expect(putNumber).toBe(number);
  return (await readStatement(number)).statement.reconciliation;
}

const nothing = { missing: [], changed: [], stray: [], more: 0 };

describe('a statement of the schedule', () => {
  it('says what the list of its place found, and the checkers say so too', async () => {
    const id = await stated(3);
    expect(await reconciled(id)).toEqual({
      ...{ state: 'listed', at: expect.stringMatching(/^\d{4}-.*Z$/), reason: null },
      ...nothing,
    });
    const names = (await readdir(place(), { recursive: true })).filter((name) =>
      name.endsWith('_manifest.json'),
    );
    const [lost = '', other = ''] = names.map((name) => `events/${name}`);
    const kept = await readFile(place(lost.slice('events/'.length)));
    await rm(place(lost.slice('events/'.length)));
    await writeFile(place('mine.csv'), 'a stray');
    const found = await reconciled(id);
    expect(found).toMatchObject({ ...nothing, missing: [lost], stray: ['events/mine.csv'] });
    expect(other).not.toBe(lost);
    for (const checker of checkers) expect(await runChecker(checker, place())).toMatch(/^1: WRONG/);
    await writeFile(place(lost.slice('events/'.length)), kept);
    await rm(place('mine.csv'));
    for (const checker of checkers) expect(await runChecker(checker, place())).toMatch(/^0: Right/);
  });

  atNight('names no value of a folder, which may be a person who is erased', async () => {
    const id = await exportOfHours(1, bench.usual({ partition_by: ['event'] }));
    await bench.backfill(id, Date.UTC(2024, 2, 1));
    await runAll(id);
    await put(id);
    const names = await readdir(place(), { recursive: true });
    const lost = names.find((name) => /event=.*jsonl$/.test(name)) ?? '';
    await rm(place(lost));
    const { missing } = await reconciled(id);
    expect(missing).toEqual([`events/${lost.replace(/event=[^/]*/, 'event=…')}`]);
  });

  atNight('goes on where the one before has ended, if there are too many objects', async () => {
    const id = await stated(3);
    await sweep();
    await mkdir(place('2000/name=Jane Doe'), { recursive: true });
    const nameOf = (_: unknown, n: number) => `2000/name=Jane Doe/${String(n).padStart(5, '0')}`;
    const strays = Array.from({ length: 10_003 }, nameOf);
    for (const name of strays) await writeFile(place(name), '');
    const names = await readdir(place(), { recursive: true });
    const lost = `events/${names.find((name) => name.endsWith('_manifest.json'))}`;
    await rm(place(lost.slice('events/'.length)));
    const first = await reconciled(id);
    // No statement names the value of a folder: it may be a person who is erased.
    const shown = (name: string | undefined) => `events/${name?.replace('Jane Doe', '…')}`;
    const to = shown(strays[9_999]);
    expect(first).toMatchObject({ state: 'listed', missing: [], changed: [], more: 9_900 });
    expect(first).toMatchObject({ part: { from: null, to } });
    const second = await reconciled(id);
    const rest = strays.slice(10_000).map(shown);
    expect(second).toMatchObject({ ...nothing, missing: [lost], stray: rest });
    expect(second.part).toEqual({ from: to, to: null });
    // The next one begins at the start again.
    await rm(place('2000'), { recursive: true });
    const whole = await reconciled(id);
    expect(whole).toMatchObject({ ...nothing, missing: [lost] });
    expect(whole).not.toHaveProperty('part');
  });

  it('names what has another size', async () => {
    const id = await stated(1);
    await sweep();
    const [name = ''] = await readdir(join(folder(), 'statements'));
    await writeFile(join(folder(), 'statements', name), 'cut');
    expect(await reconciled(id)).toMatchObject({
      changed: ['events/_sluice/statements/1.json'],
      missing: [],
    });
  });

  it('puts statements again that were put and are gone', async () => {
    const id = await stated(1);
    await put(id);
    const first = await readStatement(1);
    await rm(join(folder(), 'statements/1.json'));
    expect((await reconciled(id)).missing).toEqual(['events/_sluice/statements/1.json']);
    expect((await readStatement(1)).bytes).toEqual(first.bytes);
    for (const checker of checkers) expect(await runChecker(checker, place())).toMatch(/^0: Right/);
  });

  atNight('is made all the same if the place cannot be listed, and says why', async () => {
    const id = await stated(1);
    await sweep();
    // Its objects can be read, but not be listed.
    await chmod(place(), 0o300);
    const isRoot = process.getuid?.() === 0;
    const found = await reconciled(id);
    await chmod(place(), 0o700);
    if (!isRoot) expect(found).toMatchObject({ state: 'not_listed', at: null, ...nothing });
    const noPlace = await exportOfHours(1, { type: 'NoOp', config: {}, secrets: null });
    await due(noPlace);
    await sweep();
    const body = await side.sql.value`select body from statements where export_id = ${noPlace}`;
    expect(JSON.parse(String(body)).reconciliation).toEqual({
      ...{ state: 'not_listed', at: null, reason: 'the destination keeps no objects' },
      ...nothing,
    });
  });

  atNight('on demand is not reconciled, and an export gives ten an hour', async () => {
    const id = await exportOfHours(1);
    for (let number = 1; number <= 10; number += 1)
      expect(await make(id)).toMatchObject({ number });
    await expect(make(id)).rejects.toMatchObject({ retryAfterMs: expect.any(Number) });
    await side.sql`
      update statements set made_at = made_at - interval '1 hour' where export_id = ${id} and number = 1`;
    await put(id);
    expect((await readStatement(11)).statement.reconciliation).toMatchObject({
      state: 'not_listed',
      reason: 'only statements of the schedule are reconciled',
    });
  });
});

describe('a worker that is frozen for an hour, and goes on', () => {
  afterEach(() => armFailpoints(async () => {}));

  /** A process begins to state, and waits at the step. @returns what lets it go on to its end */
  async function freezeAt(step: FailpointName) {
    const steps = new EventEmitter();
    const [frozen, thawed] = [once(steps, 'frozen'), once(steps, 'thawed')];
    let isFirst = true;
    armFailpoints(async (name) => {
      if (name !== step || !isFirst) return;
      isFirst = false;
      steps.emit('frozen');
      await thawed;
    });
    const late = stateExports(bench.options());
    await frozen;
    return async () => {
      steps.emit('thawed');
      await late;
    };
  }

  it.each(
    casesOf<FailpointName>(['before_put_statement'], ['before_statement', 'after_put_statement']),
  )('at %s, changes nothing that others have done since', async (step) => {
    const id = await stated(2);
    await due(id);
    const thaw = await freezeAt(step);
    await sweep();
    await due(id);
    await sweep();
    // The export moves, and all statements go to the new place.
    await side.sql`
        update batch_exports set destination_config = destination_config || '{"prefix": "new"}' where id = ${id}`;
    await due(id);
    await sweep();
    await thaw();
    for (let more = 0; more < 3; more += 1) await sweep();
    const { number, putNumber, putFault } = await findHead(side.db, id);
    expect([putNumber, putFault]).toEqual([number, null]);
    expect(await readdir(join(root(), 'acme/new/_sluice/statements'))).toHaveLength(number);
    for (const checker of checkers) {
      expect(await runChecker(checker, join(root(), 'acme/new'))).toContain(
        `Right. The head is ${number}:`,
      );
    }
  });

  atNight('before it begins a chain, begins none if another has', async () => {
    const id = await stated(1);
    await sweep();
    await writeFile(join(folder(), 'statements/2.json'), 'mine');
    await make(id);
    const thaw = await freezeAt('before_chain');
    await sweep();
    await sweep();
    await put(id);
    await thaw();
    await sweep();
    const { number } = await findHead(side.db, id);
    const begun = [];
    for (let one = 3; one <= number; one += 1) {
      begun.push((await readStatement(one)).statement.begins);
    }
    expect(begun).toEqual(['replaced', ...begun.slice(1).map(() => null)]);
  });

  atNight('keeps no other team from its statements', async () => {
    await stated(1);
    const thaw = await freezeAt('before_put_statement');
    const other = await exportOfHours(1, bench.usual({ prefix: 'other' }));
    await put(other);
    await until(async () => (await findHead(side.db, other)).putNumber === 1);
    await thaw();
  });
});
